"""Requests generated from each OpenAPI document: nothing breaks, every response is documented."""

import re
from collections.abc import Generator, Iterator
from typing import Any, cast

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server

DISABLED = {"enabled": False}


@pytest.fixture
def live(database_url: str) -> Generator[LiveServer]:
    with live_server(database_url, single_embedder(StubEmbedder()), Clock()) as found:
        yield found


def configuration(live: LiveServer, interface: str) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": 20260301,
            "base-url": live.url,
            "headers": {"X-API-Key": live.key, "Authorization": f"Bearer {live.key}"},
            "auth": {"openapi": {"cookie": {"api_key": live.cookie}}}
            if interface == "dashboard"
            else {},
            "generation": {
                "deterministic": True,
                "max-examples": 3,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {"stateful": DISABLED},
            "checks": {
                # The document cannot say which ids, cursors and versions exist.
                "positive_data_acceptance": DISABLED,
                # `/v1/memory/search` also matches `/v1/memory/{memory_id}`. `Allow` has its own test.
                "allow_header_conformance": DISABLED,
            },
        }
    )


_WRONG_TYPE = re.compile(r"in body - (\w+): Incorrect type")


# These accept null for an absent field, although their documents do not offer it.
NULL_IS_ABSENT = {"tools", "agents"}


def is_only_null(body: Any, message: str) -> bool:
    """Whether the only fault of a body is that some fields are null."""
    named = _WRONG_TYPE.findall(message)
    if not named or not isinstance(body, dict):
        return False
    body_fields = cast("dict[str, Any]", body)
    return all(name in body_fields and body_fields[name] is None for name in named)


def failures(event: events.EngineEvent, interface: str) -> Iterator[str]:
    """The failed checks of schemathesis, each with a command that repeats the request."""
    match event:
        case events.ScenarioFinished():
            for case_id, checks in event.recorder.checks.items():
                for check in checks:
                    if check.status is Status.FAILURE and check.failure_info:
                        failure = check.failure_info.failure
                        case = cast("Any", event.recorder.cases[case_id].value)
                        if interface in NULL_IS_ABSENT and is_only_null(case.body, failure.message):
                            continue
                        if _was_header_too_large(event, case_id):
                            continue
                        command = case.as_curl_command()
                        yield f"{check.name}: {failure.title}: {failure.message}\n{command}"
        case events.NonFatalError() | events.FatalError():
            yield repr(event)
        case _:
            pass


def _was_header_too_large(event: events.ScenarioFinished, case_id: str) -> bool:
    """Whether the server refused the connection (431) before an interface saw the request."""
    interaction = event.recorder.interactions.get(case_id)
    response = interaction.response if interaction else None
    return response is not None and response.status_code == 431


@pytest.mark.slow
@pytest.mark.parametrize(
    ("interface", "routes"),
    [
        ("statebase", 32),
        ("tools", 4),
        ("agents", 10),
        ("alumia", 24),
        ("administration", 33),
        ("dashboard", 52),
    ],
)
def test_S61_generated_requests_get_documented_responses(
    live: LiveServer, interface: str, routes: int
) -> None:
    schema = schemathesis.openapi.from_url(
        f"{live.url}/openapi/{interface}.json", config=configuration(live, interface)
    ).exclude(path_regex="^/log(in|out)$")  # would sign out the session of the other requests
    counts: dict[str, int] = {}
    found: list[str] = []

    for event in from_schema(schema).execute():
        found += failures(event, interface)
        if isinstance(event, events.ScenarioFinished) and event.label:
            counts[event.label] = counts.get(event.label, 0) + len(event.recorder.cases)

    assert found == [], "\n\n".join(found)
    assert len(counts) == routes
    assert min(counts.values()) > 2
