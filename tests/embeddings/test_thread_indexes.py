"""A long thread gets its own vector index, which finds the same as the exact scan."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from recollect.conversations.segments import search_segments
from recollect.conversations.threads import close_thread
from recollect.core.domain import (
    CURRENT,
    HISTORY,
    Caller,
    Filter,
    MemoryId,
    Ref,
    Scope,
    ThreadId,
    VectorIndexInfo,
    View,
)
from recollect.db import job_queue
from recollect.embeddings.generations import EMBED_JOB, current_generations, drop_retired_vectors
from recollect.embeddings.index_job import build_indexes, drop_unused_indexes, plan_indexes
from recollect.embeddings.queries import vector_indexes, vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.memories.forget import forget
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.portability.erasure import erase
from recollect.portability.erasure_receipts import verify
from recollect.portability.erasure_targets import ErasureKind, ErasureTarget, target_thread
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.conversations import new_chat
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.instance import new_caller, open_engine
from tests.support.plans import record_plans
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

DIMENSION = 64
MANY = 150
FEW = 20
MINIMUM = 100
NEVER = 10**9
# With so few rows PostgreSQL prefers to sort; from some thousands on it uses the index by itself.
BY_INDEX = "SET LOCAL enable_sort = off"
# Twenty questions, each with ten results.
QUESTIONS = [f"question {number}" for number in range(20)]


@pytest.fixture
async def instance(databases: TestDatabases, clock: Clock) -> AsyncGenerator[Engine]:
    """A separate database, because the tests count its indexes."""
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        yield engine


async def no_heartbeat() -> None:
    pass


async def fill_thread(engine: Engine, caller: Caller, count: int) -> tuple[Caller, list[MemoryId]]:
    """Create a chat with so many memories; return a caller inside it and the memories."""
    thread = await new_chat(engine, caller)
    inside = replace(caller, thread_id=thread.id)
    return inside, [
        await save_in_thread(engine, inside, f"statement {number}") for number in range(count)
    ]


async def save_in_thread(engine: Engine, inside: Caller, text: str, **options: Any) -> MemoryId:
    ask = Save(text, thread=Ref(id=inside.thread_id), scope=Scope.THREAD, **options)
    return (await save(engine, inside, ask)).memory.id


async def update_indexes(engine: Engine, caller: Caller, *, min_memories: int = NEVER) -> None:
    """Plan and build indexes, as the workers do when a thread has grown."""
    await plan_indexes(engine, min_memories, MINIMUM)
    await build_indexes(engine, caller.workspace_id, no_heartbeat, min_memories, MINIMUM)


async def query_vector(
    engine: Engine, caller: Caller, text: str, *, is_indexed: bool
) -> QueryVector:
    state = await current_generations(engine, caller.workspace_id)
    assert state.serving
    indexed: Mapping[ThreadId | None, VectorIndexInfo] = state.indexed if is_indexed else {}
    return QueryVector(state.serving.number, pseudo_random(text, DIMENSION), indexed)


async def find_nearest(
    engine: Engine, inside: Caller, text: str, *, is_indexed: bool, **options: Any
) -> list[MemoryId]:
    query = await query_vector(engine, inside, text, is_indexed=is_indexed)
    wanted = Filter(thread_id=inside.thread_id, **options)
    async with engine.reading(inside) as db:
        await db.execute(BY_INDEX if is_indexed else "SELECT")
        found = await vectors.candidates(db, inside, query, wanted, limit=10, now=engine.now())
    return [each.id for each in found]


async def recall_of_index(engine: Engine, inside: Caller) -> float:
    """Return the share of the exact ten results that the index also finds."""
    matches = [
        len(
            set(await find_nearest(engine, inside, text, is_indexed=False))
            & set(await find_nearest(engine, inside, text, is_indexed=True))
        )
        for text in QUESTIONS
    ]
    return sum(matches) / (10 * len(QUESTIONS))


async def plan(engine: Engine, inside: Caller, wanted: Filter, view: View = CURRENT) -> str:
    """Return PostgreSQL's plan for a search."""
    query = await query_vector(engine, inside, "question", is_indexed=True)
    async with engine.reading(inside) as db:
        await db.execute(BY_INDEX)
        with record_plans() as plans:
            await vectors.candidates(
                db, inside, query, wanted, limit=10, now=engine.now(), view=view
            )
    [found] = plans
    return found.text


async def index_names(engine: Engine) -> list[str]:
    found = await fetch_rows(
        engine,
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid"
        " AND starts_with(indexrelid::regclass::text, 'near_') ORDER BY 1",
    )
    return [name for (name,) in found]


def name_of(inside: Caller, generation: int = 1) -> str:
    assert inside.thread_id
    return f"near_{inside.thread_id.hex}_{generation}"


async def test_only_a_long_thread_gets_an_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    long, _ = await fill_thread(instance, caller, MINIMUM)
    await fill_thread(instance, caller, FEW)
    for number in range(MINIMUM):
        await save(instance, caller, Save(f"of everybody {number}"))

    await plan_indexes(instance, NEVER, MINIMUM)
    queued = await fetch_rows(instance, "SELECT workspace_id FROM job WHERE kind = 'index_vectors'")
    await build_indexes(instance, caller.workspace_id, no_heartbeat, NEVER, MINIMUM)

    assert queued == [(caller.workspace_id,)]
    assert await index_names(instance) == [name_of(long)]
    assert (await current_generations(instance, caller.workspace_id)).indexed == {
        long.thread_id: VectorIndexInfo(MINIMUM)
    }


async def test_an_existing_index_is_not_built_again(instance: Engine) -> None:
    caller = await new_caller(instance)
    await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)
    await fetch_rows(instance, "DELETE FROM job WHERE kind = 'index_vectors' RETURNING id")

    await plan_indexes(instance, NEVER, MINIMUM)

    assert await fetch_rows(instance, "SELECT id FROM job WHERE kind = 'index_vectors'") == []


async def test_a_search_in_a_long_thread_uses_its_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    await update_indexes(instance, caller)

    assert name_of(inside) in await plan(instance, inside, Filter(thread_id=inside.thread_id))


async def test_a_search_uses_the_index_of_its_thread_or_workspace(
    instance: Engine,
) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    for number in range(MANY):
        await save(instance, caller, Save(f"of everybody {number}"))
    await update_indexes(instance, caller, min_memories=MANY)
    whole = f"near_{caller.workspace_id.hex}_1"

    assert await index_names(instance) == sorted([name_of(inside), whole])
    indexed = (await current_generations(instance, caller.workspace_id)).indexed
    assert indexed == {
        None: VectorIndexInfo(2 * MANY, shared=0.5),
        inside.thread_id: VectorIndexInfo(MANY),
    }
    of_thread = await plan(instance, inside, Filter(thread_id=inside.thread_id))
    of_all = await plan(instance, caller, Filter())
    assert name_of(inside) in of_thread
    assert whole not in of_thread
    assert whole in of_all
    assert name_of(inside) not in of_all


async def test_a_search_with_filter_or_history_in_a_thread_is_exact(
    instance: Engine,
) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    rare = [
        await save_in_thread(instance, inside, f"rare {number}", tags=["rare"])
        for number in range(3)
    ]
    await update_indexes(instance, caller)
    alone = Filter(thread_id=inside.thread_id)

    found = await find_nearest(instance, inside, "statement 1", is_indexed=True, tags=["rare"])
    plans = [
        await plan(instance, inside, replace(alone, tags=["rare"])),
        await plan(instance, inside, alone, HISTORY),
    ]

    assert set(found) == set(rare)
    assert not any("near_" in each for each in plans)


async def test_a_search_by_index_has_a_literal_limit_and_sets_its_effort(
    instance: Engine,
) -> None:
    """Without the literal limit, a cached plan expects a tenth of the thread and sorts all of it."""
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)
    query = await query_vector(instance, inside, "question", is_indexed=True)
    wanted = Filter(thread_id=inside.thread_id)

    async with instance.reading(inside) as db:
        await db.execute(BY_INDEX)
        with record_plans() as plans:
            found = await vectors.candidates(db, inside, query, wanted, limit=7, now=instance.now())
        settings = await db.execute(
            "SELECT current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan')"
        )
        assert await settings.fetchone() == ("150", "relaxed_order")

    assert len(found) == 7
    assert "LIMIT 7" in plans[0].query
    # The condition that sets it is above the index scan, so it is evaluated before the first row.
    assert plans[0].text.index("One-Time Filter") < plans[0].text.index("using near_")


async def test_the_index_of_a_thread_finds_what_the_exact_scan_finds(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, 3 * MINIMUM)
    await update_indexes(instance, caller)

    assert await recall_of_index(instance, inside) >= 0.98


async def test_memories_saved_after_the_build_are_found_by_the_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)

    later = [
        await save_in_thread(instance, inside, f"later {number}")
        for number in range(MANY - MINIMUM)
    ]

    for number, memory_id in enumerate(later):
        found = await find_nearest(instance, inside, f"later {number}", is_indexed=True)
        assert found[0] == memory_id
    assert await recall_of_index(instance, inside) >= 0.98


async def test_the_index_returns_no_foreign_or_forgotten_memories(
    instance: Engine,
) -> None:
    caller = await new_caller(instance)
    inside, own = await fill_thread(instance, caller, MANY)
    _, others = await fill_thread(instance, caller, MANY)
    public = [
        (await save(instance, caller, Save(f"of everybody {number}"))).memory.id
        for number in range(FEW)
    ]
    await update_indexes(instance, caller)
    for memory_id in own[:FEW]:
        await forget(instance, inside, Ref(id=memory_id))

    for number in range(FEW):
        found = await find_nearest(instance, inside, f"statement {number}", is_indexed=True)
        assert len(found) == 10
        assert not set(found) & {*others, *public, *own[:FEW]}
    assert await recall_of_index(instance, inside) >= 0.98


async def test_callers_outside_the_thread_find_nothing_by_its_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    outsider = await new_caller(instance)
    await update_indexes(instance, caller)
    query = await query_vector(instance, inside, "statement 1", is_indexed=True)
    wanted = Filter(thread_id=inside.thread_id)

    for other in (caller, outsider):
        async with instance.reading(other) as db:
            assert not await vectors.candidates(
                db, other, query, wanted, limit=10, now=instance.now()
            )


async def test_a_search_in_a_chat_finds_the_same_with_the_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    chat = Ref(id=inside.thread_id)

    before = [await search_segments(instance, caller, chat, text, 5) for text in QUESTIONS]
    await update_indexes(instance, caller)
    after = [await search_segments(instance, caller, chat, text, 5) for text in QUESTIONS]

    same = [
        {hit.memory.id for hit, _ in one} & {hit.memory.id for hit, _ in other}
        for one, other in zip(before, after, strict=True)
    ]
    assert sum(map(len, same)) >= 0.98 * 5 * len(QUESTIONS)
    assert all(len(each) == 5 for each in after)


async def test_an_index_is_dropped_with_its_thread_and_others_stay(instance: Engine) -> None:
    caller = await new_caller(instance)
    deleted, _ = await fill_thread(instance, caller, MINIMUM)
    remaining, _ = await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)
    await drop_unused_indexes(instance)
    assert len(await index_names(instance)) == 2

    await close_thread(instance, caller, Ref(id=deleted.thread_id))
    await drop_unused_indexes(instance)

    assert await index_names(instance) == [name_of(remaining)]
    assert await fetch_rows(instance, "SELECT thread_id FROM vector_index") == [
        (remaining.thread_id,)
    ]


async def test_an_erased_thread_leaves_no_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)
    target = await target_thread(
        instance, caller.workspace_id, caller.org_id, Ref(id=inside.thread_id), ""
    )

    erased = await erase(instance, target, by="test")

    assert erased.counts["vector_index"] == 1
    assert erased.receipt
    assert (await verify(instance, erased.receipt)).is_good
    await drop_unused_indexes(instance)
    assert await index_names(instance) == []


async def test_an_index_of_mostly_invisible_memories_is_not_used(instance: Engine) -> None:
    """Memories that the caller cannot see act as a filter, under which an index loses results."""
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MANY)
    for number in range(MANY):
        await save(instance, caller, Save(f"of everybody {number}"))
    await update_indexes(instance, caller, min_memories=MANY)
    whole = f"near_{caller.workspace_id.hex}_1"
    assert whole in await plan(instance, caller, Filter())
    assert whole not in await plan(instance, replace(caller, is_guest=True), Filter())
    assert whole not in await plan(instance, replace(caller, sees_only_own=True), Filter())
    of_thread = Filter(thread_id=inside.thread_id)
    assert name_of(inside) in await plan(instance, inside, of_thread)
    assert name_of(inside) not in await plan(instance, caller, of_thread)

    await save_in_thread(instance, inside, "one more of the thread's than of everybody's")
    instance.generation_cache.drop(caller.workspace_id)

    assert whole not in await plan(instance, caller, Filter())
    async with instance.pool.everywhere() as db:
        await db.execute("DELETE FROM vector_index")
        wanted = await vector_indexes.wanted_indexes(db, min_memories=MANY, min_in_thread=MANY)
    assert [each.thread_id for each in wanted] == [inside.thread_id]


async def test_an_erased_workspace_leaves_no_index(instance: Engine) -> None:
    caller = await new_caller(instance)
    await fill_thread(instance, caller, MINIMUM)
    for number in range(MINIMUM):
        await save(instance, caller, Save(f"of everybody {number}"))
    await update_indexes(instance, caller, min_memories=MINIMUM)
    assert len(await index_names(instance)) == 2
    workspace_id = caller.workspace_id

    target = ErasureTarget(ErasureKind.WORKSPACE, caller.org_id, [workspace_id], id=workspace_id)
    await erase(instance, target, by="test")
    await drop_unused_indexes(instance)

    assert await index_names(instance) == []


async def test_an_index_whose_thread_closed_during_the_build_is_dropped(
    instance: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MINIMUM)
    build = vector_indexes.build

    async def build_slowly(*arguments: Any) -> None:
        await drop_unused_indexes(instance)
        await build(*arguments)
        await drop_unused_indexes(instance)
        assert await index_names(instance) == [name_of(inside)]
        await close_thread(instance, caller, Ref(id=inside.thread_id))

    monkeypatch.setattr(vector_indexes, "build", build_slowly)
    await update_indexes(instance, caller)
    await drop_unused_indexes(instance)

    assert await index_names(instance) == []
    assert await fetch_rows(instance, "SELECT FROM vector_index") == []


async def test_a_denser_index_under_construction_is_not_dropped(
    instance: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexes, "_MIN_DENSE", MANY)
    caller = await new_caller(instance)
    inside, _ = await fill_thread(instance, caller, MINIMUM)
    await update_indexes(instance, caller)
    build = vector_indexes.build

    async def build_slowly(*arguments: Any) -> None:
        await build(*arguments)
        await drop_unused_indexes(instance)

    monkeypatch.setattr(vector_indexes, "build", build_slowly)
    for number in range(MINIMUM, MANY):
        await save_in_thread(instance, inside, f"statement {number}")
    await update_indexes(instance, caller)

    assert await index_names(instance) == [f"{name_of(inside)}_dense"]
    assert f"{name_of(inside)}_dense" in await plan(
        instance, inside, Filter(thread_id=inside.thread_id)
    )


async def test_the_index_of_a_thread_is_dropped_with_its_generation(
    databases: TestDatabases, clock: Clock
) -> None:
    old = StubEmbedder(dimension=DIMENSION, model="old")
    url = databases.clone()
    async with open_engine(url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        inside, _ = await fill_thread(engine, caller, MINIMUM)
        await update_indexes(engine, caller)
        assert await index_names(engine) == [name_of(inside)]

    new = StubEmbedder(dimension=32, model="new")
    async with open_engine(url, Embedders(new, {"old": old}), clock) as engine:
        async with engine.pool.writing(caller.workspace_id) as db:
            await job_queue.enqueue(db, caller.workspace_id, [EMBED_JOB], clock.at)
        await Worker(engine, slots=1).run_until_empty()
        await drop_retired_vectors(engine, caller.workspace_id, no_heartbeat)

        assert await index_names(engine) == []
        assert not (await current_generations(engine, caller.workspace_id)).indexed

        await update_indexes(engine, caller)
        assert await index_names(engine) == [name_of(inside, 2)]
