"""With an upstream that refuses, hangs or is down, all messages are learnt and failures visible."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from recollect.compose import Database, open_engine
from recollect.conversations.summaries import summarise
from recollect.core.domain import Caller
from recollect.core.errors import Invalid
from recollect.core.settings import Settings, read_settings
from recollect.learning.remember_message import synthesise
from recollect.worker import Worker
from tests.support.conversations import add_messages, new_chat
from tests.support.database import TestDatabases
from tests.support.live_server import serve_app
from tests.support.scenario import HANGS, Scenario, status_answer
from tests.support.tools import fetch_rows
from tests.support.upstream import Answer, Endpoint, RawAnswer, Reply, chat_models_at

pytestmark = pytest.mark.anyio


@pytest.fixture
def database_url(databases: TestDatabases) -> str:
    """A separate database for each test, because the backlog covers all workspaces."""
    return databases.clone()


TOO_LONG = (
    b'{"error": {"code": "context_length_exceeded", "message": "I live in Oslo is too long"}}'
)


# The upstream refuses a message.


@pytest.mark.parametrize(
    ("refusal", "reason", "outcome"),
    [
        (
            status_answer(400, TOO_LONG),
            "The chat model refused the request with status 400 (context_length_exceeded).",
            "refused",
        ),
        (status_answer(413), "The chat model refused the request with status 413.", "refused"),
        (status_answer(422), "The chat model refused the request with status 422.", "refused"),
        (status_answer(302), "The chat model failed with status 302.", "misconfigured"),
        (status_answer(401), "The chat model rejected this server's API key.", "misconfigured"),
        (status_answer(403), "The chat model rejected this server's API key.", "misconfigured"),
        (
            status_answer(404),
            "The chat model refused the request with status 404.",
            "misconfigured",
        ),
    ],
    ids=["too long", "413", "422", "302", "401", "403", "404"],
)
async def test_a_refused_message_is_distilled_by_rule_and_keeps_its_reason(
    scenario: Scenario,
    ada: Caller,
    ben: Caller,
    cid: Caller,
    refusal: RawAnswer,
    reason: str,
    outcome: str,
) -> None:
    scenario.replies["Oslo"] = refusal
    for caller, text in (
        (ada, "I live in Oslo."),
        (ben, "I live in Rome."),
        (cid, "I live in Bern."),
    ):
        await scenario.turn(caller, text)

    await scenario.drain()
    await scenario.drain(after=timedelta(hours=1))

    assert len(scenario.learning_requests()) == 3
    assert await scenario.learnt(ada) == ["The user lives in Oslo."]
    assert await scenario.learnt(ben) == ["By the model: I live in Rome."]
    assert await scenario.learnt(cid) == ["By the model: I live in Bern."]
    assert await scenario.inbox_item(ada) == ("done", 1, reason)
    assert await scenario.inbox_item(ben) == ("done", 1, None)
    assert await scenario.background_calls(outcome) == 1
    assert await scenario.background_calls("answered") == 2
    [failed] = scenario.logged("background.failed")
    assert (failed["purpose"], failed["outcome"]) == ("distil", outcome)
    assert failed["status"] == refusal.status
    [by_rules] = scenario.logged("learning.by_rules")
    assert (by_rules["why"], by_rules["log_level"]) == (outcome, "warning")
    assert "Oslo" not in str(scenario.log)


async def test_an_unreadable_answer_is_replaced_by_rules_and_counted(
    scenario: Scenario, ada: Caller
) -> None:
    scenario.replies["Oslo"] = Answer("I am only a model.")
    await scenario.turn(ada, "I live in Oslo.")

    await scenario.drain()

    assert await scenario.learnt(ada) == ["The user lives in Oslo."]
    state, _, reason = await scenario.inbox_item(ada)
    assert (state, reason) == ("done", "The chat model sent an invalid or incomplete answer.")
    assert await scenario.background_calls("unreadable") == 1
    assert len(scenario.logged("background.failed")) == 1


# The upstream hangs on a message.


async def test_a_message_that_makes_the_upstream_hang_does_not_delay_others(
    scenario: Scenario, ada: Caller, ben: Caller, cid: Caller
) -> None:
    scenario.replies["Oslo"] = HANGS
    for caller, text in (
        (ada, "I live in Oslo."),
        (ben, "I live in Rome."),
        (cid, "I live in Bern."),
    ):
        await scenario.turn(caller, text)

    await scenario.drain()

    assert await scenario.learnt(ben) == ["By the model: I live in Rome."]
    assert await scenario.learnt(cid) == ["By the model: I live in Bern."]
    assert len(scenario.learning_requests()) == 3
    assert await scenario.inbox_item(ada) == (
        "pending",
        1,
        "The chat model did not answer in time.",
    )
    assert await scenario.background_calls("slow") == 1
    [deferred] = scenario.logged("learning.deferred")
    assert (deferred["why"], deferred["attempts"]) == ("slow", 1)
    assert deferred["seconds"] > 0


async def test_after_five_timeouts_the_rules_distil_the_message(
    scenario: Scenario, ada: Caller, ben: Caller
) -> None:
    scenario.replies["Oslo"] = HANGS
    await scenario.turn(ada, "I live in Oslo.")
    for minute in range(30):
        await scenario.queue(ben, f"I live in house {minute}.")
        await scenario.drain(after=timedelta(minutes=1))

    assert len(scenario.learning_requests("Oslo")) == 5
    assert len(scenario.learning_requests("house")) == 30
    assert await scenario.learnt(ada) == ["The user lives in Oslo."]
    assert await scenario.inbox_item(ada) == ("done", 5, "The chat model did not answer in time.")
    pauses = [each["seconds"] for each in scenario.logged("learning.deferred")]
    assert len(pauses) == 4
    assert all(longer > pause for pause, longer in pairwise(pauses))


async def test_a_single_hanging_message_is_not_retried_forever(
    scenario: Scenario, ada: Caller
) -> None:
    scenario.replies["Oslo"] = HANGS
    await scenario.turn(ada, "I live in Oslo.")
    for _ in range(60):
        await scenario.drain(after=timedelta(minutes=1))

    assert len(scenario.learning_requests("Oslo")) == 5
    assert await scenario.learnt(ada) == ["The user lives in Oslo."]


async def test_a_message_that_makes_the_upstream_fail_is_not_retried_forever(
    scenario: Scenario, ada: Caller, ben: Caller
) -> None:
    scenario.replies["Oslo"] = status_answer(500)
    await scenario.turn(ada, "I live in Oslo.")
    for minute in range(30):
        await scenario.queue(ben, f"I live in house {minute}.")
        await scenario.drain(after=timedelta(minutes=1))

    assert len(scenario.learning_requests("Oslo")) == 5
    assert len(scenario.learning_requests("house")) == 30
    assert await scenario.learnt(ada) == ["The user lives in Oslo."]


@pytest.mark.parametrize("reply", [HANGS, status_answer(500)], ids=["hangs", "500"])
async def test_an_often_retried_message_does_not_come_before_new_ones(
    scenario: Scenario, ada: Caller, ben: Caller, cid: Caller, reply: Reply
) -> None:
    scenario.replies["Oslo"] = reply
    await scenario.queue(ada, "I live in Oslo.")
    for _ in range(4):
        await scenario.drain(after=timedelta(minutes=1))
    await scenario.queue(ben, "I live in Rome.")
    await scenario.queue(cid, "I live in Bern.")
    for _ in range(30):
        await scenario.drain(after=timedelta(minutes=1))

    assert await scenario.learnt(ben) == ["By the model: I live in Rome."]
    assert await scenario.learnt(cid) == ["By the model: I live in Bern."]
    assert len(scenario.learning_requests()) <= 25


# The upstream is down.


async def test_a_long_outage_uses_up_no_attempts_and_few_calls(
    scenario: Scenario, ada: Caller, ben: Caller, cid: Caller
) -> None:
    for caller, text in (
        (ada, "I live in Oslo."),
        (ben, "I live in Rome."),
        (cid, "I live in Bern."),
    ):
        await scenario.turn(caller, text)
    scenario.outage = status_answer(503)
    for _ in range(3 * 60):
        await scenario.drain(after=timedelta(minutes=1))

    # One call every five minutes at the longest pause, and a few before that.
    assert 25 <= len(scenario.learning_requests()) <= 3 * 12 + 12
    assert await scenario.background_calls("unavailable") == len(scenario.learning_requests())
    for caller in (ada, ben, cid):
        state, attempts, reason = await scenario.inbox_item(caller)
        assert state == "pending"
        assert attempts <= 1
        assert reason == "The chat model failed with status 503."

    scenario.outage = None
    await scenario.drain(after=timedelta(minutes=7))

    for caller, place in ((ada, "Oslo"), (ben, "Rome"), (cid, "Bern")):
        assert await scenario.learnt(caller) == [f"By the model: I live in {place}."]
        assert (await scenario.inbox_item(caller))[2] is None


async def test_requests_to_an_unreachable_upstream_are_paused(
    scenario: Scenario, ada: Caller
) -> None:
    chats = chat_models_at("http://127.0.0.1:9", model="m1")
    scenario.engine = replace(scenario.engine, chat_models=chats)
    for number in range(3):
        await scenario.queue(ada, f"I live in house {number}.")

    await scenario.drain()
    await scenario.drain()

    assert await scenario.background_calls("unavailable") == 2
    assert await scenario.background_calls("postponed") == 1
    assert await scenario.learnt(ada) == []
    await chats.aclose()


async def test_after_a_day_of_failures_the_rules_distil_the_message(
    scenario: Scenario, ada: Caller
) -> None:
    await scenario.turn(ada, "I live in Oslo.")
    scenario.outage = status_answer(503)
    for _ in range(26):
        await scenario.drain(after=timedelta(hours=1))

    assert await scenario.learnt(ada) == ["The user lives in Oslo."]


@pytest.mark.parametrize("number", [429, 503])
async def test_the_upstreams_retry_after_header_is_honoured(
    scenario: Scenario, ada: Caller, ben: Caller, number: int
) -> None:
    await scenario.turn(ada, "I live in Oslo.")
    await scenario.turn(ben, "I live in Rome.")
    scenario.outage = status_answer(number, hint="1000")
    await scenario.drain()
    assert len(scenario.learning_requests()) == 1

    await scenario.drain(after=timedelta(seconds=990))
    assert len(scenario.learning_requests()) == 1

    scenario.outage = None
    await scenario.drain(after=timedelta(seconds=300))
    assert await scenario.learnt(ada) == ["By the model: I live in Oslo."]
    assert await scenario.learnt(ben) == ["By the model: I live in Rome."]
    assert (await scenario.inbox_item(ada))[1] == (await scenario.inbox_item(ben))[1] == 1


async def test_an_outage_of_one_upstream_does_not_stop_another(
    scenario: Scenario, ada: Caller
) -> None:
    scenario.outage = status_answer(503)
    for number in range(3):
        await scenario.queue(ada, f"I live in house {number}.")
        await scenario.drain(after=timedelta(minutes=1))
    other = Endpoint()
    other.default = Answer('[{"content": "By the other.", "quote": "I live in"}]')
    with serve_app(other) as url:
        chats = chat_models_at(url, model="m1")
        instance = replace(scenario.engine, chat_models=chats)
        await scenario.queue(ada, "I live in Rome.")
        await Worker(instance, slots=1).run_until_empty()
        await chats.aclose()

    assert "By the other." in await scenario.learnt(ada)


# Fairness between users.


async def test_a_long_queue_of_one_user_does_not_delay_others(
    scenario: Scenario, ada: Caller, ben: Caller, cid: Caller
) -> None:
    for number in range(60):
        await scenario.queue(ada, f"I live in house {number}.")
    scenario.clock.advance(timedelta(minutes=1))
    await scenario.queue(ben, "I live in Rome.")
    await scenario.queue(cid, "I live in Bern.")

    await scenario.drain(after=timedelta(seconds=1))

    order = [each.prompt for each in scenario.learning_requests()]
    assert len(order) == 62
    [rome] = [at for at, prompt in enumerate(order) if "Rome" in prompt]
    [bern] = [at for at, prompt in enumerate(order) if "Bern" in prompt]
    assert rome <= 2
    assert bern <= 25


async def test_a_job_stops_at_its_time_limit_and_another_continues(
    scenario: Scenario, ada: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.learning.distil_job._JOB_SECONDS", 0.0)
    for number in range(3):
        await scenario.queue(ada, f"I live in house {number}.")

    with capture_logs():
        jobs_done = await Worker(scenario.engine, slots=1).run_until_empty()

    assert len(await scenario.learnt(ada)) == 3
    assert jobs_done >= 3


async def test_people_who_share_a_key_are_served_separately(
    scenario: Scenario, ada: Caller
) -> None:
    for number in range(30):
        await scenario.queue(ada, f"I live in house {number}.", subject="ana")
    scenario.clock.advance(timedelta(minutes=1))
    await scenario.queue(ada, "I live in Rome.", subject="ben")

    await scenario.drain()

    [rome] = [at for at, each in enumerate(scenario.learning_requests()) if "Rome" in each.prompt]
    assert rome <= 2


async def test_a_late_distilled_older_statement_does_not_supersede_a_newer_one(
    scenario: Scenario, ada: Caller
) -> None:
    scenario.replies |= {"Oslo": HANGS, "Rome": status_answer(400)}
    await scenario.queue(ada, "I live in Oslo.")
    scenario.clock.advance(timedelta(minutes=1))
    await scenario.queue(ada, "I moved to Rome.")
    for _ in range(30):
        await scenario.drain(after=timedelta(minutes=1))

    found = await fetch_rows(
        scenario.engine,
        "SELECT content, valid_until IS NULL FROM memory WHERE workspace_id = %s",
        ada.workspace_id,
    )
    assert {each[0]: each[1] for each in found} == {
        "The user lives in Oslo.": False,
        "The user moved to Rome.": True,
    }


# Summaries and syntheses.


async def test_a_refused_summary_is_written_locally_at_once(
    scenario: Scenario, ada: Caller
) -> None:
    messages = await add_messages(
        scenario.engine, ada, await new_chat(scenario.engine, ada), "Good morning."
    )
    scenario.outage = status_answer(400, TOO_LONG)

    with capture_logs() as logged:
        found = await summarise(scenario.engine, ada.workspace_id, messages)

    assert (found.text, found.by) == ("User says: Good morning.", "local")
    assert found.fallback_reason == (
        "Refused: The chat model refused the request with status 400 (context_length_exceeded)."
    )
    assert len(scenario.upstream.requests) == 1
    assert await scenario.background_calls("refused", "summary") == 1
    assert [each["purpose"] for each in logged if each["event"] == "background.failed"] == [
        "summary"
    ]


async def test_a_hanging_upstream_is_not_asked_for_every_summary(
    scenario: Scenario, ada: Caller
) -> None:
    messages = await add_messages(
        scenario.engine, ada, await new_chat(scenario.engine, ada), "Good morning."
    )
    scenario.outage = HANGS

    found = [await summarise(scenario.engine, ada.workspace_id, messages) for _ in range(10)]

    assert {each.by for each in found} == {"local"}
    assert len(scenario.upstream.requests) == 2
    assert await scenario.background_calls("slow", "summary") == 2
    assert await scenario.background_calls("postponed", "summary") == 8


@pytest.mark.parametrize(
    "reply", [status_answer(400), status_answer(500), HANGS, Answer("Nothing.")]
)
async def test_a_failed_synthesis_is_written_by_rule_at_once(
    scenario: Scenario, ada: Caller, reply: Reply
) -> None:
    scenario.outage = reply

    with capture_logs() as logged:
        found = await synthesise(scenario.engine, ada, "I live in Oslo.")

    assert found.content == "The user lives in Oslo."
    assert len(scenario.upstream.requests) == 1
    [failed] = [each for each in logged if each["event"] == "background.failed"]
    assert failed["purpose"] == "synthesise"
    assert await scenario.background_calls(failed["outcome"], "synthesise") == 1


# Health, metrics and logs.


async def test_health_and_metrics_report_that_learning_is_behind(
    scenario: Scenario, ada: Caller, cid: Caller
) -> None:
    await scenario.turn(ada, "I live in Oslo.")
    await scenario.turn(cid, "I live in Rome.")
    scenario.outage = status_answer(503)
    await scenario.drain(after=timedelta(minutes=9))

    early = await scenario.health()
    assert (early["status"], early["services"]["learning"]) == ("healthy", "ok")
    assert "notice" not in early

    await scenario.drain(after=timedelta(minutes=2))
    late = await scenario.health()

    assert (late["status"], late["services"]["learning"]) == ("degraded", "behind")
    assert late["notice"] == "Learning is behind by 2 messages since 2026-03-01T12:00:00Z."
    assert await scenario.metric("recollect_learning_pending") == 2
    assert await scenario.metric("recollect_learning_oldest_seconds") == 11 * 60

    scenario.outage = None
    await scenario.drain(after=timedelta(minutes=7))

    assert (await scenario.health())["services"]["learning"] == "ok"
    assert await scenario.metric("recollect_learning_pending") == 0
    assert await scenario.metric("recollect_learning_oldest_seconds") == 0


async def test_a_deferred_job_is_logged(scenario: Scenario, ada: Caller) -> None:
    await scenario.queue(ada, "I live in Oslo.")
    await scenario.queue(ada, "I live in Rome.")
    await scenario.queue(ada, "I live in Bern.")
    scenario.outage = status_answer(503)

    await scenario.drain()

    [deferred] = scenario.logged("job.deferred")
    assert (deferred["kind"], deferred["seconds"] > 0) == ("distil", True)


# Deadlines.


async def test_each_purpose_has_its_own_deadline(database_url: str, tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, learning_seconds=7, summary_seconds=8, synthesis_seconds=9
    )

    async with open_engine(settings, Database(database_url)) as engine:
        found = (engine.learning_deadline, engine.summary_deadline, engine.synthesis_deadline)

    assert [each.total_seconds() for each in found] == [7, 8, 9]


@pytest.mark.parametrize("name", ["learning_seconds", "summary_seconds", "synthesis_seconds"])
def test_a_deadline_is_at_least_one_second(name: str) -> None:
    with pytest.raises(Invalid, match=f"`{name}` must be at least 1"):
        read_settings({}, overrides={name: 0})
