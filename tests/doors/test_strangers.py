"""Requests made up from the door's own document: nothing breaks, and every answer is documented."""

from collections.abc import Generator
from typing import Any

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder
from tests.support.house import only
from tests.support.live import Live, live_server


@pytest.fixture
def live(database_url: str) -> Generator[Live]:
    with live_server(database_url, only(StubEmbedder()), Clock()) as found:
        yield found


def configuration(live: Live) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": 20260301,
            "base-url": live.url,
            "headers": {"X-API-Key": live.key},
            "generation": {
                "deterministic": True,
                "max-examples": 12,
                "no-shrink": True,
                "database": "none",
            },
            "phases": {"stateful": {"enabled": False}},
        }
    )


@pytest.mark.slow
def test_made_up_requests_get_documented_answers(live: Live) -> None:
    schema = schemathesis.openapi.from_url(
        f"{live.url}/openapi/statebase.json", config=configuration(live)
    )

    complaints: dict[str, Any] = {}
    seen: dict[str, int] = {}
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished():
                seen[event.label or ""] = seen.get(event.label or "", 0) + len(event.recorder.cases)
                for case_id, checks in event.recorder.checks.items():
                    for check in checks:
                        if check.status is Status.FAILURE and check.failure_info:
                            failure = check.failure_info.failure
                            case = event.recorder.cases[case_id].value
                            key = f"{event.label} {check.name}"
                            complaints.setdefault(key, f"{failure.title}: {failure.message}\n{case.as_curl_command()}")
            case events.NonFatalError() | events.FatalError():
                complaints[str(event)] = event
            case _:
                pass

    import json; print(json.dumps(complaints, indent=1, default=str))
    assert complaints == {}
