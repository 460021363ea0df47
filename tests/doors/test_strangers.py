"""Requests made up from the door's own document: nothing breaks, and every answer is documented."""

import re
from collections.abc import Generator, Iterator
from typing import Any, cast

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import Live, live_server

OFF = {"enabled": False}


@pytest.fixture
def live(database_url: str) -> Generator[Live]:
    with live_server(database_url, only(StubEmbedder()), Clock()) as found:
        yield found


def configuration(live: Live, door: str) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": 20260301,
            "base-url": live.url,
            "headers": {"X-API-Key": live.key, "Authorization": f"Bearer {live.key}"},
            "auth": {"openapi": {"cookie": {"api_key": live.cookie}}}
            if door == "dashboard"
            else {},
            "generation": {
                "deterministic": True,
                "max-examples": 3,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {"stateful": OFF},
            "checks": {
                # No document can say which ids, cursors and versions there are.
                "positive_data_acceptance": OFF,
                # `/v1/memory/search` is also a `/v1/memory/{memory_id}`; `Allow` has its own test.
                "allow_header_conformance": OFF,
            },
        }
    )


_WRONG_TYPE = re.compile(r"in body - (\w+): Incorrect type")


# These take a null for absent, though they offer nobody any.
NULL_IS_ABSENT = {"tools", "agents"}


def is_only_null(body: Any, message: str) -> bool:
    """Whether all that is wrong with a body is that something in it is null."""
    named = _WRONG_TYPE.findall(message)
    if not named or not isinstance(body, dict):
        return False
    told = cast("dict[str, Any]", body)
    return all(name in told and told[name] is None for name in named)


def complaints(event: events.EngineEvent, door: str) -> Iterator[str]:
    """What schemathesis has against the answers it got, each with a command that repeats it."""
    match event:
        case events.ScenarioFinished():
            for case_id, checks in event.recorder.checks.items():
                for check in checks:
                    if check.status is Status.FAILURE and check.failure_info:
                        failure = check.failure_info.failure
                        asked = cast("Any", event.recorder.cases[case_id].value)
                        if door in NULL_IS_ABSENT and is_only_null(asked.body, failure.message):
                            continue
                        command = asked.as_curl_command()
                        yield f"{check.name}: {failure.title}: {failure.message}\n{command}"
        case events.NonFatalError() | events.FatalError():
            yield repr(event)
        case _:
            pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("door", "routes"),
    [
        ("statebase", 32),
        ("tools", 4),
        ("agents", 10),
        ("alumia", 24),
        ("administration", 33),
        ("dashboard", 52),
    ],
)
def test_made_up_requests_get_documented_answers(live: Live, door: str, routes: int) -> None:
    schema = schemathesis.openapi.from_url(
        f"{live.url}/openapi/{door}.json", config=configuration(live, door)
    ).exclude(path_regex="^/log(in|out)$")  # nobody would be signed in for the rest
    asked: dict[str, int] = {}
    found: list[str] = []

    for event in from_schema(schema).execute():
        found += complaints(event, door)
        if isinstance(event, events.ScenarioFinished) and event.label:
            asked[event.label] = asked.get(event.label, 0) + len(event.recorder.cases)

    assert found == [], "\n\n".join(found)
    assert len(asked) == routes
    assert min(asked.values()) > 2
