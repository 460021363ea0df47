"""Learning in the background: inbox items are distilled, gated, saved once and paid for once."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from recollect.conversations.threads import OpenThread, open_thread
from recollect.core.domain import Caller, ProjectId, WorkspaceId
from recollect.core.errors import NotFound, Unavailable
from recollect.core.settings import Price
from recollect.engine import Engine
from recollect.learning.distil_job import accept, list_waiting, reject
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.learning.queries.inbox import InboxItem
from recollect.learning.rules import Candidate
from recollect.models.chat_model import TokenUsage
from recollect.models.chat_registry import ChatModels
from recollect.tenancy.queries import projects
from recollect.usage import queries
from recollect.usage.ledger import OverBudget, cost_of, open_entry
from recollect.worker import Worker
from tests.support.alumia import add_colleague, new_project
from tests.support.clock import Clock
from tests.support.instance import open_engine
from tests.support.live_server import serve_app
from tests.support.tools import fetch_rows
from tests.support.upstream import Answer, Endpoint, chat_models_at

pytestmark = pytest.mark.anyio


class StubDistiller:
    """A distiller that returns fixed candidates and records the texts it was asked about."""

    def __init__(self, *found: Candidate) -> None:
        self.found: Sequence[Candidate] = found
        self.asked: list[str] = []
        self.is_unavailable = False

    async def distil(
        self, engine: Engine, workspace_id: WorkspaceId, item: InboxItem
    ) -> list[Candidate]:
        self.asked.append(item.text)
        if self.is_unavailable:
            raise Unavailable("chat model")
        return list(self.found)


async def learn(engine: Engine, caller: Caller, text: str, **options: Any) -> None:
    source = LearningInput(text, options.pop("source", "turn"), engine.now(), **options)
    async with engine.writing(caller) as db:
        await learn_from(engine, db, caller, inbox_item_of(caller, source))


async def run_jobs(engine: Engine) -> None:
    await Worker(engine, slots=1).run_until_empty()


async def stored_memories(engine: Engine, caller: Caller) -> list[Any]:
    query = "SELECT to_jsonb(m) FROM memory m WHERE workspace_id = %s ORDER BY created_at, id"
    return [row[0] for row in await fetch_rows(engine, query, caller.workspace_id)]


async def test_R032_R033_R039_the_worker_distils_items_and_saves_memories(
    engine: Engine, caller: Caller
) -> None:
    await learn(engine, caller, "I live in Oslo.")
    assert await stored_memories(engine, caller) == []

    await run_jobs(engine)

    [row] = await stored_memories(engine, caller)
    assert row["content"] == "The user lives in Oslo."
    assert (row["origin"], row["quote"]) == ("model", "I live in Oslo.")
    assert row["summary"]
    left = await fetch_rows(
        engine, "SELECT state, text FROM inbox_item WHERE workspace_id = %s", caller.workspace_id
    )
    assert [tuple(each) for each in left] == [("done", None)]


async def test_R034_without_candidates_nothing_is_saved(engine: Engine, caller: Caller) -> None:
    instance = replace(engine, distiller=StubDistiller())
    await learn(instance, caller, "I live in Oslo.")

    await run_jobs(instance)

    assert await stored_memories(instance, caller) == []


async def test_the_same_conversation_is_learnt_once(engine: Engine, caller: Caller) -> None:
    for _ in range(40):
        await learn(engine, caller, "I live in Oslo. I like tea.")
        await run_jobs(engine)

    assert len(await stored_memories(engine, caller)) == 2


async def test_the_same_statement_of_two_people_gives_two_memories(
    engine: Engine, caller: Caller
) -> None:
    await learn(engine, caller, "I live in Oslo.", subject="ana")
    await learn(engine, caller, "I live in Oslo.", subject="ben")

    await run_jobs(engine)

    assert sorted(row["subject"] for row in await stored_memories(engine, caller)) == ["ana", "ben"]


async def test_a_correction_supersedes_the_older_fact(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await learn(engine, caller, "I live in Oslo.")
    await run_jobs(engine)
    clock.advance(timedelta(days=1))
    await learn(engine, caller, "I moved to Bergen.")
    await run_jobs(engine)

    old, new = await stored_memories(engine, caller)
    assert old["valid_until"] is not None
    assert old["superseded_by"] == new["id"]
    assert new["valid_until"] is None


async def test_a_project_statement_does_not_supersede_a_workspace_memory(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    project = ProjectId(UUID(await new_project(engine, caller)))
    thread = await open_thread(
        engine, replace(caller, project_id=project), OpenThread(agent=None, lives_for=None)
    )
    await learn(engine, caller, "I live in Oslo.")
    await run_jobs(engine)
    for statement in ("I moved to Bergen.", "I moved to Tromsø."):
        clock.advance(timedelta(days=1))
        await learn(engine, caller, statement, thread_id=thread.id)
        await run_jobs(engine)

    known, first, second = await stored_memories(engine, caller)
    assert (known["superseded_by"], known["valid_until"]) == (None, None)
    assert first["superseded_by"] == second["id"]


async def test_S72_injected_memories_are_never_learnt_again(engine: Engine, caller: Caller) -> None:
    fence = "<recollect-memory-ab>\nI live in Rome.\n</recollect-memory-ab>"
    for number in range(50):
        await learn(engine, caller, f"Hello number {number}. {fence}")

    await run_jobs(engine)

    assert await stored_memories(engine, caller) == []


async def test_an_unavailable_distiller_is_asked_again_later(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    stub = StubDistiller(Candidate("A.", "fact", "said"))
    instance = replace(engine, distiller=stub)
    stub.is_unavailable = True
    await learn(instance, caller, "said when it was down")
    await run_jobs(instance)
    assert await stored_memories(instance, caller) == []

    stub.is_unavailable = False
    clock.advance(timedelta(minutes=1))
    await run_jobs(instance)
    await run_jobs(instance)

    assert len(await stored_memories(instance, caller)) == 1
    # The queue is shared: items of other tests may be among them.
    assert stub.asked.count("said when it was down") == 2


async def test_with_review_on_candidates_wait_for_a_decision(
    engine: Engine, caller: Caller
) -> None:
    instance = replace(engine, needs_review=True)
    await learn(instance, caller, "I live in Oslo. I like tea.")
    await run_jobs(instance)
    assert await stored_memories(instance, caller) == []

    home, tea = await list_waiting(instance, caller, limit=10)
    kept = await accept(instance, caller, home.id)
    await reject(instance, caller, tea.id)

    assert [row["content"] for row in await stored_memories(instance, caller)] == [kept.content]
    assert await list_waiting(instance, caller, limit=10) == []
    with pytest.raises(NotFound):
        await accept(instance, caller, tea.id)


@pytest.fixture
async def model(engine: Engine) -> AsyncGenerator[tuple[Engine, Endpoint]]:
    endpoint = Endpoint()
    with serve_app(endpoint) as url:
        chats: ChatModels = chat_models_at(url, model="m1")
        yield replace(engine, chat_models=chats), endpoint
        await chats.aclose()


async def test_S54_a_distilling_model_call_is_in_the_ledger(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    instance, endpoint = model
    endpoint.script = [Answer('[{"content": "The user likes tea.", "quote": "tea for me"}]')]
    await learn(instance, caller, "Always tea for me!")

    await run_jobs(instance)

    [row] = await stored_memories(instance, caller)
    assert row["content"] == "The user likes tea."
    bill = await fetch_rows(
        instance,
        "SELECT purpose, state, input_tokens, output_tokens FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert [tuple(each) for each in bill] == [("distil", "done", 10, 5)]


async def test_the_price_with_the_longest_matching_name_applies(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    instance, endpoint = model
    prices = {"m": Price(1.0, 1.0), "m1": Price(2.0, 10.0), "m10": Price(9.0, 9.0)}
    instance = replace(instance, prices=prices)
    endpoint.script = [Answer("[]", usage={"prompt_tokens": 1_000, "completion_tokens": 100})]
    await learn(instance, caller, "Always tea for me, at a price!")

    await run_jobs(instance)

    async with instance.pool.everywhere() as db:
        lines = await queries.daily_usage(db, instance.now() - timedelta(days=1))
    assert [line.cost for line in lines if line.cost is not None] == [0.003]
    assert cost_of(prices, "other", TokenUsage(1, 1)) is None


async def test_S51_two_processes_share_one_budget_exactly(
    engine: Engine, caller: Caller, database_url: str, clock: Clock
) -> None:
    """Run twenty concurrent calls in each of two processes, with a daily budget for eight."""

    async def may_call(instance: Engine) -> bool:
        try:
            async with instance.pool.writing(caller.workspace_id) as db:
                await open_entry(
                    instance, db, caller.workspace_id, purpose="distil", model="m", reserved=100
                )
        except OverBudget:
            return False
        return True

    async with open_engine(database_url, engine.embedders, clock) as other:
        both = [replace(each, daily_tokens=1_000) for each in (engine, other)]
        allowed = await asyncio.gather(*(may_call(each) for each in both * 20))

    assert sum(allowed) == 8


async def test_S51_S54_a_budget_stops_background_work_before_it_is_exceeded(
    model: tuple[Engine, Endpoint], caller: Caller
) -> None:
    instance, endpoint = model
    instance = replace(instance, daily_tokens=5_000)
    usage = {"prompt_tokens": 400, "completion_tokens": 100}
    endpoint.default = Answer("[]", usage=usage)
    for number in range(50):
        await learn(instance, caller, f"I own {number} cats.")

    await run_jobs(instance)

    [[spent]] = await fetch_rows(
        instance,
        "SELECT sum(input_tokens + output_tokens) FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert 0 < spent <= 4_000
    [[waiting]] = await fetch_rows(
        instance,
        "SELECT count(*) FROM inbox_item WHERE workspace_id = %s AND state = 'pending'",
        caller.workspace_id,
    )
    own = [each for each in endpoint.requests if "cats" in each.prompt]
    assert waiting == 50 - len(own)


@pytest.mark.parametrize("event", ["expired", "left"])
async def test_a_project_statement_stays_in_the_project_without_thread_or_speaker(
    engine: Engine, caller: Caller, clock: Clock, event: str
) -> None:
    project = ProjectId(UUID(await new_project(engine, caller)))
    owner = await add_colleague(engine, caller)
    thread = await open_thread(
        engine,
        replace(owner, project_id=project),
        OpenThread(agent=None, lives_for=timedelta(hours=1)),
    )
    secret = "The merger is with Initech."
    instance = replace(engine, distiller=StubDistiller(Candidate(secret, "fact", secret)))
    await learn(instance, caller, secret, thread_id=thread.id)
    if event == "expired":
        clock.advance(timedelta(hours=2))
    else:
        async with engine.pool.writing(caller.workspace_id) as db:
            await projects.remove_member(db, caller.workspace_id, project, caller.user_id)

    await run_jobs(instance)

    [kept] = await stored_memories(instance, caller)
    assert (kept["scope"], kept["project_id"]) == ("project", str(project))

    # A user who says the same outside the project must not notice that it was said there.
    await learn(instance, await add_colleague(engine, caller), secret)
    await run_jobs(instance)

    assert sorted(row["scope"] for row in await stored_memories(instance, caller)) == [
        "project",
        "workspace",
    ]
