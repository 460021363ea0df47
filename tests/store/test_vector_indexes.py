"""A large workspace gets a vector index of its own, and finds by it what the exact scan finds."""

from datetime import timedelta

import pytest

from recollect.domain import Caller, Filter, Ref
from recollect.engine.core import Engine
from recollect.engine.forget import forget
from recollect.engine.indexing import index_vectors, plan_indexes
from recollect.engine.save import Save, save
from recollect.engine.spaces import current_space, drop_vectors
from recollect.models.registry import Embedders
from recollect.store import links, vector_indexes, vectors
from recollect.store.generations import Indexed
from recollect.store.vectors import Point
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.house import new_caller, open_house
from tests.support.plans import explained

pytestmark = pytest.mark.anyio

DIMENSION = 64
MANY = 300
LEAST = 200


async def no_beat() -> None:
    pass


async def fill(engine: Engine, caller: Caller, count: int) -> list[Ref]:
    saved = [await save(engine, caller, Save(f"statement {number}")) for number in range(count)]
    return [Ref(id=each.memory.id) for each in saved]


async def near(
    engine: Engine, caller: Caller, text: str, wanted: Filter, *, is_indexed: bool
) -> list[str]:
    point = Point(1, pseudo_random(text, DIMENSION), {None: Indexed(1)} if is_indexed else {})
    async with engine.reading(caller) as db:
        found = await vectors.candidates(db, caller, point, wanted, limit=10, now=engine.now())
    return [str(each.id) for each in found]


def test_a_search_considers_more_places_in_a_larger_workspace_and_for_a_deeper_list() -> None:
    assert vectors.effort(Indexed(5_000), limit=10) == 150
    assert vectors.effort(Indexed(20_000), limit=10) == 150
    assert vectors.effort(Indexed(400_000), limit=10) == 2 * vectors.effort(Indexed(100_000), 10)
    assert vectors.effort(Indexed(20_000), limit=300) == 600
    assert vectors.effort(Indexed(10**9), limit=10) == 1_000
    assert vectors.effort(Indexed(20_000, shared=0.5), limit=10) == 300


async def test_a_large_workspace_is_indexed_and_finds_what_the_exact_scan_finds(
    databases: TestDatabases, clock: Clock
) -> None:
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        large, small = await new_caller(engine), await new_caller(engine)
        refs = await fill(engine, large, MANY)
        await fill(engine, small, 20)
        for ref in refs[:20]:
            await forget(engine, large, ref)

        await plan_indexes(engine, LEAST)
        await index_vectors(engine, large.workspace_id, no_beat, LEAST)
        clock.advance(timedelta(seconds=3))

        assert (await current_space(engine, large.workspace_id)).indexed == {
            None: Indexed(MANY - 20)
        }
        assert not (await current_space(engine, small.workspace_id)).indexed
        forgotten = {str(ref.id) for ref in refs[:20]}
        for number in range(20):
            text = f"statement {number}"
            exact = await near(engine, large, text, Filter(), is_indexed=False)
            by_index = await near(engine, large, text, Filter(), is_indexed=True)
            assert len(set(exact) & set(by_index)) >= 9
            assert not forgotten & set(by_index)


async def test_a_workspace_that_has_grown_very_large_gets_a_denser_index_in_place_of_its_own(
    databases: TestDatabases, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexes, "_DENSE_FROM", MANY)
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)

        async def options() -> list[str]:
            await index_vectors(engine, caller.workspace_id, no_beat, LEAST)
            async with engine.pool.everywhere() as db:
                assert not await vector_indexes.wanted(db, least=LEAST, least_in_thread=LEAST)
                cursor = await db.execute(
                    "SELECT unnest(reloptions) FROM pg_class WHERE relname LIKE 'near_%'"
                )
                return sorted(row[0] for row in await cursor.fetchall())

        await fill(engine, caller, LEAST)
        assert await options() == ["ef_construction=128", "m=16"]
        for number in range(LEAST, MANY):
            await save(engine, caller, Save(f"statement {number}"))
        assert await options() == ["ef_construction=256", "m=32"]

        found = await near(engine, caller, "statement 1", Filter(), is_indexed=True)
    assert len(found) == 10


async def test_where_shared_memory_is_too_small_the_index_is_built_without_it(
    databases: TestDatabases, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    wasteful = """
        SET maintenance_work_mem = '1TB'; SET max_parallel_maintenance_workers = 2;
        SET min_parallel_table_scan_size = 0
    """
    monkeypatch.setattr(vector_indexes, "_ROOM", wasteful)
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)

        await index_vectors(engine, caller.workspace_id, no_beat, LEAST)

        assert (await current_space(engine, caller.workspace_id)).indexed
        found = await near(engine, caller, "statement 1", Filter(), is_indexed=True)
    assert len(found) == 10


async def test_what_stands_behind_more_dead_neighbours_than_the_index_reads_is_found_all_the_same(
    databases: TestDatabases, clock: Clock
) -> None:
    asked = pseudo_random("question", DIMENSION)
    dead = {
        text: asked + asked + pseudo_random(text, DIMENSION)
        for text in (f"dead {number}" for number in range(MANY))
    }
    embedder = StubEmbedder(dead, dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        alive = [(await save(engine, caller, Save(f"alive {n}"))).memory.id for n in range(20)]
        for text in dead:
            saved = await save(engine, caller, Save(text))
            await forget(engine, caller, Ref(id=saved.memory.id))
        await index_vectors(engine, caller.workspace_id, no_beat, 1)

        exact, by_index = Point(1, asked), Point(1, asked, {None: Indexed(1)})
        away = Point(1, -asked, {None: Indexed(1)})
        async with engine.searching(caller) as db:
            await db.execute("SET LOCAL enable_sort = off; SET LOCAL hnsw.max_scan_tuples = 1")
            with explained("ANALYZE, COSTS OFF, TIMING OFF") as plans:
                found = await vectors.candidates(
                    db, caller, by_index, Filter(), limit=15, now=engine.now()
                )
                await vectors.candidates(db, caller, away, Filter(), limit=15, now=engine.now())
            right = await vectors.candidates(
                db, caller, exact, Filter(), limit=15, now=engine.now()
            )

    assert f"using near_{caller.workspace_id.hex}" in plans[0].text
    assert [each.id for each in found] == [each.id for each in right]
    assert {each.id for each in found} < set(alive)
    # Where the index has enough, nothing else is read.
    assert ["m_1 (never executed)" in each.text for each in plans] == [False, True]


async def test_a_filter_is_answered_exactly_even_where_there_is_an_index(
    databases: TestDatabases, clock: Clock
) -> None:
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        rare = [
            (await save(engine, caller, Save(f"rare {number}", tags=["rare"]))).memory.id
            for number in range(3)
        ]
        await index_vectors(engine, caller.workspace_id, no_beat, LEAST)

        found = await near(engine, caller, "statement 1", Filter(tags=["rare"]), is_indexed=True)

    assert set(found) == {str(each) for each in rare}


async def test_the_index_goes_with_its_generation(databases: TestDatabases, clock: Clock) -> None:
    old = StubEmbedder(dimension=DIMENSION, model="old")
    url = databases.clone()
    async with open_house(url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        await index_vectors(engine, caller.workspace_id, no_beat, LEAST)
        assert await index_names(engine) == [f"near_{caller.workspace_id.hex}_1"]

    new = StubEmbedder(dimension=32, model="new")
    async with open_house(url, Embedders(new, {"old": old}), clock) as engine:
        await plan_indexes(engine, LEAST)
        async with engine.pool.writing(caller.workspace_id) as db:
            await db.execute(
                "INSERT INTO job (workspace_id, id, kind, dedupe_key, status, run_after, created_at)"
                " VALUES (%(w)s, gen_random_uuid(), 'tend_vectors', '', 'pending', %(t)s, %(t)s)",
                {"w": caller.workspace_id, "t": clock.at},
            )
        await Worker(engine, slots=1).run_until_empty()
        await drop_vectors(engine, caller.workspace_id, no_beat)

        assert await index_names(engine) == []
        assert not (await current_space(engine, caller.workspace_id)).indexed


async def index_names(engine: Engine) -> list[str]:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid "
            "AND indexrelid::regclass::text LIKE 'near_%'"
        )
        return [row[0] for row in await cursor.fetchall()]


async def test_a_save_finds_its_like_by_the_index_too(
    databases: TestDatabases, clock: Clock
) -> None:
    said, again = "Ada drinks tea", "Ada drinks tea!"
    same = pseudo_random(said, DIMENSION)
    embedder = StubEmbedder({said: same, again: same}, dimension=DIMENSION)
    async with open_house(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        await plan_indexes(engine, LEAST)
        await index_vectors(engine, caller.workspace_id, no_beat, LEAST)
        clock.advance(timedelta(seconds=3))
        old = await save(engine, caller, Save(said))

        twin = await save(engine, caller, Save(again, returns_twin=True))
        linked = await save(engine, caller, Save(again, links_alike=True))

        assert (await current_space(engine, caller.workspace_id)).indexed
        assert twin.memory.id == old.memory.id
        async with engine.reading(caller) as db:
            made = await links.touching(db, caller, [linked.memory.id], limit=10, now=engine.now())
        assert [each.target_id for each in made] == [old.memory.id]
