"""Learning in the background: lessons drained, gated, kept once, and paid for once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from recollect.domain import Caller, ProjectId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.distiller import Candidate
from recollect.engine.learn import accept, list_waiting, reject
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.ledger import OverBudget, cost_of, open_entry
from recollect.engine.threads import OpenThread, open_thread
from recollect.errors import NotFound, Unavailable
from recollect.models.chat import Usage
from recollect.models.chats import Chats
from recollect.settings import Price
from recollect.store import ledger, projects
from recollect.store.lessons import Lesson
from recollect.worker import Worker
from tests.support.alumia import colleague, new_project
from tests.support.clock import Clock
from tests.support.house import open_house
from tests.support.live import on_a_port
from tests.support.tools import rows
from tests.support.upstream import Endpoint, Raw, Say, chats_of

pytestmark = pytest.mark.anyio


class Stub:
    """Finds what it is told to find, and remembers what it was asked."""

    def __init__(self, *found: Candidate) -> None:
        self.found: Sequence[Candidate] = found
        self.asked: list[str] = []
        self.is_down = False

    async def distil(
        self, engine: Engine, workspace_id: WorkspaceId, lesson: Lesson
    ) -> list[Candidate]:
        self.asked.append(lesson.text)
        if self.is_down:
            raise Unavailable("chat model")
        return list(self.found)


async def say(engine: Engine, caller: Caller, text: str, **options: Any) -> None:
    said = Said(text, options.pop("source", "turn"), engine.now(), **options)
    async with engine.writing(caller) as db:
        await learn_from(engine, db, caller, lesson_of(caller, said))


async def drain(engine: Engine) -> None:
    await Worker(engine, slots=1).run_until_empty()


async def stored(engine: Engine, caller: Caller) -> list[Any]:
    query = "SELECT to_jsonb(m) FROM memory m WHERE workspace_id = %s ORDER BY created_at, id"
    return [row[0] for row in await rows(engine, query, caller.workspace_id)]


async def test_R032_R033_R039_the_worker_drains_and_keeps(engine: Engine, caller: Caller) -> None:
    await say(engine, caller, "I live in Oslo.")
    assert await stored(engine, caller) == []

    await drain(engine)

    [row] = await stored(engine, caller)
    assert row["content"] == "The user lives in Oslo."
    assert (row["origin"], row["quote"]) == ("model", "I live in Oslo.")
    assert row["summary"]
    left = await rows(
        engine, "SELECT state, text FROM lesson WHERE workspace_id = %s", caller.workspace_id
    )
    assert [tuple(each) for each in left] == [("done", None)]


async def test_R034_nothing_worth_it_leaves_nothing(engine: Engine, caller: Caller) -> None:
    house = replace(engine, distiller=Stub())
    await say(house, caller, "I live in Oslo.")

    await drain(house)

    assert await stored(house, caller) == []


@pytest.mark.parametrize("kind", ["auto_deep_think", "auto_research", "auto_compaction"])
async def test_R036_R037_distilled_rows_carry_their_tag(
    engine: Engine, caller: Caller, kind: str
) -> None:
    house = replace(engine, distiller=Stub(Candidate("A.", "fact", "said")))
    await say(house, caller, "said", source=kind)

    await drain(house)

    [row] = await stored(house, caller)
    assert (row["origin"], row["origin_label"]) == ("auto", kind)


async def test_R038_R112_content_is_cut_and_summaries_are_not(
    engine: Engine, caller: Caller
) -> None:
    long = Candidate("é" * 2_500, "fact", "said", None, "s" * 5_000)
    house = replace(engine, distiller=Stub(long))
    await say(house, caller, "said")

    await drain(house)

    [row] = await stored(house, caller)
    assert row["content"] == "é" * 2_000
    assert row["summary"] == "s" * 5_000


async def test_the_same_conversation_forty_times_is_learnt_once(
    engine: Engine, caller: Caller
) -> None:
    for _ in range(40):
        await say(engine, caller, "I live in Oslo. I like tea.")
        await drain(engine)

    assert len(await stored(engine, caller)) == 2


async def test_two_people_who_say_the_same_are_two(engine: Engine, caller: Caller) -> None:
    await say(engine, caller, "I live in Oslo.", subject="ana")
    await say(engine, caller, "I live in Oslo.", subject="ben")

    await drain(engine)

    assert sorted(row["subject"] for row in await stored(engine, caller)) == ["ana", "ben"]


async def test_a_correction_ends_the_older_fact(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await say(engine, caller, "I live in Oslo.")
    await drain(engine)
    clock.advance(timedelta(days=1))
    await say(engine, caller, "I moved to Bergen.")
    await drain(engine)

    old, new = await stored(engine, caller)
    assert old["valid_until"] is not None
    assert old["superseded_by"] == new["id"]
    assert new["valid_until"] is None


async def test_what_is_said_in_a_project_ends_nothing_that_everybody_knows(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    project = ProjectId(UUID(await new_project(engine, caller)))
    thread = await open_thread(
        engine, replace(caller, project_id=project), OpenThread(agent=None, lives_for=None)
    )
    await say(engine, caller, "I live in Oslo.")
    await drain(engine)
    for said in ("I moved to Bergen.", "I moved to Tromsø."):
        clock.advance(timedelta(days=1))
        await say(engine, caller, said, thread_id=thread.id)
        await drain(engine)

    known, first, second = await stored(engine, caller)
    assert (known["superseded_by"], known["valid_until"]) == (None, None)
    assert first["superseded_by"] == second["id"]


async def test_S72_our_own_fence_is_never_learnt_from(engine: Engine, caller: Caller) -> None:
    fence = "<recollect-memory-ab>\nI live in Rome.\n</recollect-memory-ab>"
    for number in range(50):
        await say(engine, caller, f"Hello number {number}. {fence}")

    await drain(engine)

    assert await stored(engine, caller) == []


async def test_a_distiller_that_is_down_is_asked_again_and_paid_once(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    stub = Stub(Candidate("A.", "fact", "said"))
    house = replace(engine, distiller=stub)
    stub.is_down = True
    await say(house, caller, "said when it was down")
    await drain(house)
    assert await stored(house, caller) == []

    stub.is_down = False
    clock.advance(timedelta(minutes=1))
    await drain(house)
    await drain(house)

    assert len(await stored(house, caller)) == 1
    # The queue is everybody's: other tests' lessons may be among them.
    assert stub.asked.count("said when it was down") == 2


async def test_with_review_on_a_person_decides(engine: Engine, caller: Caller) -> None:
    house = replace(engine, is_reviewed=True)
    await say(house, caller, "I live in Oslo. I like tea.")
    await drain(house)
    assert await stored(house, caller) == []

    home, tea = await list_waiting(house, caller, limit=10)
    kept = await accept(house, caller, home.id)
    await reject(house, caller, tea.id)

    assert [row["content"] for row in await stored(house, caller)] == [kept.content]
    assert await list_waiting(house, caller, limit=10) == []
    with pytest.raises(NotFound):
        await accept(house, caller, tea.id)


@pytest.fixture
async def model(engine: Engine) -> AsyncGenerator[tuple[Engine, Endpoint]]:
    endpoint = Endpoint()
    with on_a_port(endpoint) as url:
        chats: Chats = chats_of(url, model="m1")
        yield replace(engine, chats=chats), endpoint
        await chats.aclose()


async def test_a_model_distils_and_is_in_the_ledger(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    house, endpoint = model
    endpoint.script = [Say('[{"content": "The user likes tea.", "quote": "tea for me"}]')]
    await say(house, caller, "Always tea for me!")

    await drain(house)

    [row] = await stored(house, caller)
    assert row["content"] == "The user likes tea."
    bill = await rows(
        house,
        "SELECT purpose, state, input_tokens, output_tokens FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert [tuple(each) for each in bill] == [("distil", "done", 10, 5)]


async def test_a_call_costs_what_the_longest_name_that_fits_says(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    house, endpoint = model
    prices = {"m": Price(1.0, 1.0), "m1": Price(2.0, 10.0), "m10": Price(9.0, 9.0)}
    house = replace(house, prices=prices)
    endpoint.script = [Say("[]", usage={"prompt_tokens": 1_000, "completion_tokens": 100})]
    await say(house, caller, "Always tea for me, at a price!")

    await drain(house)

    async with house.pool.everywhere() as db:
        lines = await ledger.bill(db, house.now() - timedelta(days=1))
    assert [line.cost for line in lines if line.cost is not None] == [0.003]
    assert cost_of(prices, "other", Usage(1, 1)) is None


async def test_a_failed_call_is_in_the_ledger_too(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    house, endpoint = model
    endpoint.script = [Raw([b"{}"], 500, "application/json")]
    await say(house, caller, "I live in Oslo.")

    await drain(house)

    bill = await rows(
        house, "SELECT state FROM model_call WHERE workspace_id = %s", caller.workspace_id
    )
    assert [tuple(each) for each in bill] == [("failed",)]


async def test_S51_two_processes_share_one_budget_to_the_token(
    engine: Engine, caller: Caller, database_url: str, clock: Clock
) -> None:
    """Twenty calls at once in each of two processes, where a day's budget is for eight of them."""

    async def asks(house: Engine) -> bool:
        try:
            async with house.pool.writing(caller.workspace_id) as db:
                await open_entry(
                    house, db, caller.workspace_id, purpose="distil", model="m", reserved=100
                )
        except OverBudget:
            return False
        return True

    async with open_house(database_url, engine.embedders, clock) as other:
        both = [replace(each, daily_tokens=1_000) for each in (engine, other)]
        allowed = await asyncio.gather(*(asks(each) for each in both * 20))

    assert sum(allowed) == 8


async def test_S51_S54_a_budget_stops_background_work_before_it_is_exceeded(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    house, endpoint = model
    house = replace(house, daily_tokens=5_000)
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    endpoint.otherwise = Say("[]", usage=usage)
    for number in range(50):
        await say(house, caller, f"I own {number} cats.")

    await drain(house)

    [[spent]] = await rows(
        house,
        "SELECT sum(input_tokens + output_tokens) FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert 0 < spent <= 4_000
    [[waiting]] = await rows(
        house,
        "SELECT count(*) FROM lesson WHERE workspace_id = %s AND state = 'pending'",
        caller.workspace_id,
    )
    own = [each for each in endpoint.asked if "cats" in each.prompt]
    assert waiting == 50 - len(own)


@pytest.mark.parametrize("what", ["expired", "left"])
async def test_what_was_said_in_a_project_stays_there_though_its_thread_or_speaker_is_gone(
    engine: Engine, caller: Caller, clock: Clock, what: str
) -> None:
    project = ProjectId(UUID(await new_project(engine, caller)))
    owner = await colleague(engine, caller)
    thread = await open_thread(
        engine,
        replace(owner, project_id=project),
        OpenThread(agent=None, lives_for=timedelta(hours=1)),
    )
    secret = "The merger is with Initech."
    house = replace(engine, distiller=Stub(Candidate(secret, "fact", secret)))
    await say(house, caller, secret, thread_id=thread.id)
    if what == "expired":
        clock.advance(timedelta(hours=2))
    else:
        async with engine.pool.writing(caller.workspace_id) as db:
            await projects.remove_member(db, caller.workspace_id, project, caller.user_id)

    await drain(house)

    [kept] = await stored(house, caller)
    assert (kept["scope"], kept["project_id"]) == ("project", str(project))

    # Whoever says the same elsewhere must not be able to tell that it was said there.
    await say(house, await colleague(engine, caller), secret)
    await drain(house)

    assert sorted(row["scope"] for row in await stored(house, caller)) == ["project", "workspace"]
