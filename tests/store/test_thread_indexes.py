"""A long conversation gets a vector index of its own, and finds by it what the exact scan finds."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from recollect.domain import CURRENT, HISTORY, Caller, Filter, MemoryId, Ref, Scope, ThreadId, View
from recollect.engine.core import Engine
from recollect.engine.erase import erase
from recollect.engine.erase_receipts import verify
from recollect.engine.erase_targets import Kind, Target, target_thread
from recollect.engine.forget import forget
from recollect.engine.indexing import drop_strays, index_vectors, plan_indexes
from recollect.engine.save import Save, save
from recollect.engine.segments import search_made
from recollect.engine.spaces import TEND, current_space, drop_vectors
from recollect.engine.threads import close_thread
from recollect.models.registry import Embedders
from recollect.store import jobs, vector_indexes, vectors
from recollect.store.generations import Indexed
from recollect.store.vectors import Point
from recollect.worker import Worker
from tests.support.chats import new_chat
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.house import new_caller, open_house
from tests.support.plans import explained
from tests.support.tools import rows

pytestmark = pytest.mark.anyio

DIMENSION = 64
MANY = 150
FEW = 20
LEAST = 100
NEVER = 10**9
# So few rows PostgreSQL would rather sort; from some thousands on it does so without being told.
BY_INDEX = "SET LOCAL enable_sort = off"
# Twenty questions for ten memories each.
QUESTIONS = [f"question {number}" for number in range(20)]


@pytest.fixture
async def house(databases: TestDatabases, clock: Clock) -> AsyncGenerator[Engine]:
    """A house of its own: its indexes are counted."""
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        yield engine


async def no_beat() -> None:
    pass


async def filled(engine: Engine, caller: Caller, count: int) -> tuple[Caller, list[MemoryId]]:
    """Somebody in a chat of so many memories, and these."""
    thread = await new_chat(engine, caller)
    inside = replace(caller, thread_id=thread.id)
    return inside, [await keep(engine, inside, f"statement {number}") for number in range(count)]


async def keep(engine: Engine, inside: Caller, text: str, **options: Any) -> MemoryId:
    ask = Save(text, thread=Ref(id=inside.thread_id), scope=Scope.THREAD, **options)
    return (await save(engine, inside, ask)).memory.id


async def look_after(engine: Engine, caller: Caller, *, least: int = NEVER) -> None:
    """What the workers do when they find that a thread has grown."""
    await plan_indexes(engine, least, LEAST)
    await index_vectors(engine, caller.workspace_id, no_beat, least, LEAST)


async def point(engine: Engine, caller: Caller, text: str, *, is_indexed: bool) -> Point:
    space = await current_space(engine, caller.workspace_id)
    assert space.serving
    indexed: Mapping[ThreadId | None, Indexed] = space.indexed if is_indexed else {}
    return Point(space.serving.number, pseudo_random(text, DIMENSION), indexed)


async def near(
    engine: Engine, inside: Caller, text: str, *, is_indexed: bool, **options: Any
) -> list[MemoryId]:
    asked = await point(engine, inside, text, is_indexed=is_indexed)
    wanted = Filter(thread_id=inside.thread_id, **options)
    async with engine.reading(inside) as db:
        await db.execute(BY_INDEX if is_indexed else "SELECT")
        found = await vectors.candidates(db, inside, asked, wanted, limit=10, now=engine.now())
    return [each.id for each in found]


async def share_found(engine: Engine, inside: Caller) -> float:
    """How many of the exact ten are among those by the index."""
    right = [
        len(
            set(await near(engine, inside, text, is_indexed=False))
            & set(await near(engine, inside, text, is_indexed=True))
        )
        for text in QUESTIONS
    ]
    return sum(right) / (10 * len(QUESTIONS))


async def plan(engine: Engine, inside: Caller, wanted: Filter, view: View = CURRENT) -> str:
    """How PostgreSQL goes about a search."""
    asked = await point(engine, inside, "question", is_indexed=True)
    async with engine.reading(inside) as db:
        await db.execute(BY_INDEX)
        with explained() as plans:
            await vectors.candidates(
                db, inside, asked, wanted, limit=10, now=engine.now(), view=view
            )
    [found] = plans
    return found.text


async def index_names(engine: Engine) -> list[str]:
    found = await rows(
        engine,
        "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid"
        " AND starts_with(indexrelid::regclass::text, 'near_') ORDER BY 1",
    )
    return [name for (name,) in found]


def name_of(inside: Caller, generation: int = 1) -> str:
    assert inside.thread_id
    return f"near_{inside.thread_id.hex}_{generation}"


async def test_a_long_thread_gets_an_index_and_a_short_one_none(house: Engine) -> None:
    caller = await new_caller(house)
    long, _ = await filled(house, caller, LEAST)
    await filled(house, caller, FEW)
    for number in range(LEAST):
        await save(house, caller, Save(f"of everybody {number}"))

    await plan_indexes(house, NEVER, LEAST)
    queued = await rows(house, "SELECT workspace_id FROM job WHERE kind = 'index_vectors'")
    await index_vectors(house, caller.workspace_id, no_beat, NEVER, LEAST)

    assert queued == [(caller.workspace_id,)]
    assert await index_names(house) == [name_of(long)]
    assert (await current_space(house, caller.workspace_id)).indexed == {
        long.thread_id: Indexed(LEAST)
    }


async def test_an_index_that_is_there_is_not_wanted_again(house: Engine) -> None:
    caller = await new_caller(house)
    await filled(house, caller, LEAST)
    await look_after(house, caller)
    await rows(house, "DELETE FROM job WHERE kind = 'index_vectors' RETURNING id")

    await plan_indexes(house, NEVER, LEAST)

    assert await rows(house, "SELECT id FROM job WHERE kind = 'index_vectors'") == []


async def test_a_search_in_a_long_thread_goes_by_its_index(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    await look_after(house, caller)

    assert name_of(inside) in await plan(house, inside, Filter(thread_id=inside.thread_id))


async def test_in_a_large_workspace_a_search_takes_the_index_of_what_it_is_in(
    house: Engine,
) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    for number in range(MANY):
        await save(house, caller, Save(f"of everybody {number}"))
    await look_after(house, caller, least=MANY)
    whole = f"near_{caller.workspace_id.hex}_1"

    assert await index_names(house) == sorted([name_of(inside), whole])
    indexed = (await current_space(house, caller.workspace_id)).indexed
    assert indexed == {None: Indexed(2 * MANY, shared=0.5), inside.thread_id: Indexed(MANY)}
    of_thread = await plan(house, inside, Filter(thread_id=inside.thread_id))
    of_all = await plan(house, caller, Filter())
    assert name_of(inside) in of_thread
    assert whole not in of_thread
    assert whole in of_all
    assert name_of(inside) not in of_all


async def test_a_filter_within_the_thread_or_another_time_is_answered_exactly(
    house: Engine,
) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    rare = [await keep(house, inside, f"rare {number}", tags=["rare"]) for number in range(3)]
    await look_after(house, caller)
    alone = Filter(thread_id=inside.thread_id)

    found = await near(house, inside, "statement 1", is_indexed=True, tags=["rare"])
    plans = [
        await plan(house, inside, replace(alone, tags=["rare"])),
        await plan(house, inside, alone, HISTORY),
    ]

    assert set(found) == set(rare)
    assert not any("near_" in each for each in plans)


async def test_a_search_by_index_names_its_limit_and_sets_its_effort_itself(
    house: Engine,
) -> None:
    """Without the limit a plan that is kept expects a tenth of the thread, and sorts all of it."""
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, LEAST)
    await look_after(house, caller)
    asked = await point(house, inside, "question", is_indexed=True)
    wanted = Filter(thread_id=inside.thread_id)

    async with house.reading(inside) as db:
        await db.execute(BY_INDEX)
        with explained() as plans:
            found = await vectors.candidates(db, inside, asked, wanted, limit=7, now=house.now())
        settings = await db.execute(
            "SELECT current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan')"
        )
        assert await settings.fetchone() == ("150", "relaxed_order")

    assert len(found) == 7
    assert "LIMIT 7" in plans[0].query
    # The condition that sets it stands above the index, so it is tried before the first row.
    assert plans[0].text.index("One-Time Filter") < plans[0].text.index("using near_")


async def test_the_index_of_a_thread_finds_what_the_exact_scan_finds(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, 3 * LEAST)
    await look_after(house, caller)

    assert await share_found(house, inside) >= 0.98


async def test_what_is_saved_after_the_index_was_built_is_found_by_it(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, LEAST)
    await look_after(house, caller)

    new = [await keep(house, inside, f"later {number}") for number in range(MANY - LEAST)]

    for number, memory_id in enumerate(new):
        found = await near(house, inside, f"later {number}", is_indexed=True)
        assert found[0] == memory_id
    assert await share_found(house, inside) >= 0.98


async def test_neither_other_threads_memories_nor_forgotten_ones_come_out_of_the_index(
    house: Engine,
) -> None:
    caller = await new_caller(house)
    inside, own = await filled(house, caller, MANY)
    _, others = await filled(house, caller, MANY)
    public = [
        (await save(house, caller, Save(f"of everybody {number}"))).memory.id
        for number in range(FEW)
    ]
    await look_after(house, caller)
    for memory_id in own[:FEW]:
        await forget(house, inside, Ref(id=memory_id))

    for number in range(FEW):
        found = await near(house, inside, f"statement {number}", is_indexed=True)
        assert len(found) == 10
        assert not set(found) & {*others, *public, *own[:FEW]}
    assert await share_found(house, inside) >= 0.98


async def test_who_is_not_in_the_thread_sees_nothing_of_it_by_the_index(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    stranger = await new_caller(house)
    await look_after(house, caller)
    asked = await point(house, inside, "statement 1", is_indexed=True)
    wanted = Filter(thread_id=inside.thread_id)

    for other in (caller, stranger):
        async with house.reading(other) as db:
            assert not await vectors.candidates(db, other, asked, wanted, limit=10, now=house.now())


async def test_a_search_in_a_chat_tells_the_same_with_the_index_as_without(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    chat = Ref(id=inside.thread_id)

    before = [await search_made(house, caller, chat, text, 5) for text in QUESTIONS]
    await look_after(house, caller)
    after = [await search_made(house, caller, chat, text, 5) for text in QUESTIONS]

    same = [
        {hit.memory.id for hit, _ in one} & {hit.memory.id for hit, _ in other}
        for one, other in zip(before, after, strict=True)
    ]
    assert sum(map(len, same)) >= 0.98 * 5 * len(QUESTIONS)
    assert all(len(each) == 5 for each in after)


async def test_the_index_goes_with_its_thread_and_others_stay(house: Engine) -> None:
    caller = await new_caller(house)
    gone, _ = await filled(house, caller, LEAST)
    kept, _ = await filled(house, caller, LEAST)
    await look_after(house, caller)
    await drop_strays(house)
    assert len(await index_names(house)) == 2

    await close_thread(house, caller, Ref(id=gone.thread_id))
    await drop_strays(house)

    assert await index_names(house) == [name_of(kept)]
    assert await rows(house, "SELECT thread_id FROM vector_index") == [(kept.thread_id,)]


async def test_an_erased_thread_leaves_no_index(house: Engine) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, LEAST)
    await look_after(house, caller)
    target = await target_thread(
        house, caller.workspace_id, caller.org_id, Ref(id=inside.thread_id), ""
    )

    erased = await erase(house, target, by="test")

    assert erased.counts["vector_index"] == 1
    assert erased.receipt
    assert (await verify(house, erased.receipt)).is_good
    await drop_strays(house)
    assert await index_names(house) == []


async def test_an_index_of_what_is_mostly_not_in_sight_is_left_aside(house: Engine) -> None:
    """What a caller does not see is a filter to an index, which would lose the right answers."""
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, MANY)
    for number in range(MANY):
        await save(house, caller, Save(f"of everybody {number}"))
    await look_after(house, caller, least=MANY)
    whole = f"near_{caller.workspace_id.hex}_1"
    assert whole in await plan(house, caller, Filter())
    assert whole not in await plan(house, replace(caller, is_visiting=True), Filter())
    of_thread = Filter(thread_id=inside.thread_id)
    assert name_of(inside) in await plan(house, inside, of_thread)
    assert name_of(inside) not in await plan(house, caller, of_thread)

    await keep(house, inside, "one more of the thread's than of everybody's")
    house.spaces.drop(caller.workspace_id)

    assert whole not in await plan(house, caller, Filter())
    async with house.pool.everywhere() as db:
        await db.execute("DELETE FROM vector_index")
        wanted = await vector_indexes.wanted(db, least=MANY, least_in_thread=MANY)
    assert [each.thread_id for each in wanted] == [inside.thread_id]


async def test_an_erased_workspace_leaves_no_index(house: Engine) -> None:
    caller = await new_caller(house)
    await filled(house, caller, LEAST)
    for number in range(LEAST):
        await save(house, caller, Save(f"of everybody {number}"))
    await look_after(house, caller, least=LEAST)
    assert len(await index_names(house)) == 2
    workspace_id = caller.workspace_id

    target = Target(Kind.WORKSPACE, caller.org_id, [workspace_id], id=workspace_id)
    await erase(house, target, by="test")
    await drop_strays(house)

    assert await index_names(house) == []


async def test_an_index_whose_thread_ended_while_it_was_built_is_dropped(
    house: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, LEAST)
    build = vector_indexes.build

    async def build_slowly(*given: Any) -> None:
        await drop_strays(house)
        await build(*given)
        await drop_strays(house)
        assert await index_names(house) == [name_of(inside)]
        await close_thread(house, caller, Ref(id=inside.thread_id))

    monkeypatch.setattr(vector_indexes, "build", build_slowly)
    await look_after(house, caller)
    await drop_strays(house)

    assert await index_names(house) == []
    assert await rows(house, "SELECT FROM vector_index") == []


async def test_a_denser_index_under_construction_is_no_stray(
    house: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexes, "_DENSE_FROM", MANY)
    caller = await new_caller(house)
    inside, _ = await filled(house, caller, LEAST)
    await look_after(house, caller)
    build = vector_indexes.build

    async def build_slowly(*given: Any) -> None:
        await build(*given)
        await drop_strays(house)

    monkeypatch.setattr(vector_indexes, "build", build_slowly)
    for number in range(LEAST, MANY):
        await keep(house, inside, f"statement {number}")
    await look_after(house, caller)

    assert await index_names(house) == [f"{name_of(inside)}_dense"]
    assert f"{name_of(inside)}_dense" in await plan(
        house, inside, Filter(thread_id=inside.thread_id)
    )


async def test_the_index_of_a_thread_goes_with_its_generation(
    databases: TestDatabases, clock: Clock
) -> None:
    old = StubEmbedder(dimension=DIMENSION, model="old")
    url = databases.clone()
    async with open_house(url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        inside, _ = await filled(engine, caller, LEAST)
        await look_after(engine, caller)
        assert await index_names(engine) == [name_of(inside)]

    new = StubEmbedder(dimension=32, model="new")
    async with open_house(url, Embedders(new, {"old": old}), clock) as engine:
        async with engine.pool.writing(caller.workspace_id) as db:
            await jobs.enqueue(db, caller.workspace_id, [TEND], clock.at)
        await Worker(engine, slots=1).run_until_empty()
        await drop_vectors(engine, caller.workspace_id, no_beat)

        assert await index_names(engine) == []
        assert not (await current_space(engine, caller.workspace_id)).indexed

        await look_after(engine, caller)
        assert await index_names(engine) == [name_of(inside, 2)]
