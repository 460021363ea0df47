"""A large workspace gets its own vector index, which finds the same as the exact scan."""

from datetime import timedelta

import pytest

from recollect.core.domain import Caller, Filter, Ref, VectorIndexInfo
from recollect.embeddings.generations import current_generations, drop_retired_vectors
from recollect.embeddings.index_job import build_indexes, plan_indexes
from recollect.embeddings.queries import vector_indexes, vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.memories.forget import forget
from recollect.memories.queries import links
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.instance import new_caller, open_engine
from tests.support.plans import record_plans

pytestmark = pytest.mark.anyio

DIMENSION = 64
MANY = 300
MINIMUM = 200


async def no_heartbeat() -> None:
    pass


async def fill(engine: Engine, caller: Caller, count: int) -> list[Ref]:
    saved = [await save(engine, caller, Save(f"statement {number}")) for number in range(count)]
    return [Ref(id=each.memory.id) for each in saved]


async def find_nearest(
    engine: Engine, caller: Caller, text: str, wanted: Filter, *, is_indexed: bool
) -> list[str]:
    point = QueryVector(
        1, pseudo_random(text, DIMENSION), {None: VectorIndexInfo(1)} if is_indexed else {}
    )
    async with engine.reading(caller) as db:
        found = await vectors.candidates(db, caller, point, wanted, limit=10, now=engine.now())
    return [str(each.id) for each in found]


def test_search_effort_grows_with_the_workspace_and_the_limit() -> None:
    assert vectors.effort(VectorIndexInfo(5_000), limit=10) == 150
    assert vectors.effort(VectorIndexInfo(20_000), limit=10) == 150
    assert vectors.effort(VectorIndexInfo(400_000), limit=10) == 2 * vectors.effort(
        VectorIndexInfo(100_000), 10
    )
    assert vectors.effort(VectorIndexInfo(20_000), limit=300) == 600
    assert vectors.effort(VectorIndexInfo(10**9), limit=10) == 1_000
    assert vectors.effort(VectorIndexInfo(20_000, shared=0.5), limit=10) == 300


async def test_the_index_of_a_large_workspace_finds_what_the_scan_finds(
    databases: TestDatabases, clock: Clock
) -> None:
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        large, small = await new_caller(engine), await new_caller(engine)
        refs = await fill(engine, large, MANY)
        await fill(engine, small, 20)
        for ref in refs[:20]:
            await forget(engine, large, ref)

        await plan_indexes(engine, MINIMUM)
        await build_indexes(engine, large.workspace_id, no_heartbeat, MINIMUM)
        clock.advance(timedelta(seconds=3))

        assert (await current_generations(engine, large.workspace_id)).indexed == {
            None: VectorIndexInfo(MANY - 20)
        }
        assert not (await current_generations(engine, small.workspace_id)).indexed
        forgotten = {str(ref.id) for ref in refs[:20]}
        for number in range(20):
            text = f"statement {number}"
            exact = await find_nearest(engine, large, text, Filter(), is_indexed=False)
            by_index = await find_nearest(engine, large, text, Filter(), is_indexed=True)
            assert len(set(exact) & set(by_index)) >= 9
            assert not forgotten & set(by_index)


async def test_a_very_large_workspace_gets_a_denser_index_instead(
    databases: TestDatabases, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_indexes, "_MIN_DENSE", MANY)
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)

        async def options() -> list[str]:
            await build_indexes(engine, caller.workspace_id, no_heartbeat, MINIMUM)
            async with engine.pool.everywhere() as db:
                assert not await vector_indexes.wanted_indexes(
                    db, min_memories=MINIMUM, min_in_thread=MINIMUM
                )
                cursor = await db.execute(
                    "SELECT unnest(reloptions) FROM pg_class WHERE relname LIKE 'near_%'"
                )
                return sorted(row[0] for row in await cursor.fetchall())

        await fill(engine, caller, MINIMUM)
        assert await options() == ["ef_construction=128", "m=16"]
        for number in range(MINIMUM, MANY):
            await save(engine, caller, Save(f"statement {number}"))
        assert await options() == ["ef_construction=256", "m=32"]

        found = await find_nearest(engine, caller, "statement 1", Filter(), is_indexed=True)
    assert len(found) == 10


async def test_an_index_is_built_even_if_shared_memory_is_too_small(
    databases: TestDatabases, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    excessive_memory = """
        SET maintenance_work_mem = '1TB'; SET max_parallel_maintenance_workers = 2;
        SET min_parallel_table_scan_size = 0
    """
    monkeypatch.setattr(vector_indexes, "_SET_MEMORY", excessive_memory)
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)

        await build_indexes(engine, caller.workspace_id, no_heartbeat, MINIMUM)

        assert (await current_generations(engine, caller.workspace_id)).indexed
        found = await find_nearest(engine, caller, "statement 1", Filter(), is_indexed=True)
    assert len(found) == 10


async def test_results_behind_many_forgotten_neighbours_are_found(
    databases: TestDatabases, clock: Clock
) -> None:
    query = pseudo_random("question", DIMENSION)
    forgotten_vectors = {
        text: query + query + pseudo_random(text, DIMENSION)
        for text in (f"forgotten {number}" for number in range(MANY))
    }
    embedder = StubEmbedder(forgotten_vectors, dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        live = [(await save(engine, caller, Save(f"live {n}"))).memory.id for n in range(20)]
        for text in forgotten_vectors:
            saved = await save(engine, caller, Save(text))
            await forget(engine, caller, Ref(id=saved.memory.id))
        await build_indexes(engine, caller.workspace_id, no_heartbeat, 1)

        exact, by_index = QueryVector(1, query), QueryVector(1, query, {None: VectorIndexInfo(1)})
        opposite = QueryVector(1, -query, {None: VectorIndexInfo(1)})
        async with engine.searching(caller) as db:
            await db.execute("SET LOCAL enable_sort = off; SET LOCAL hnsw.max_scan_tuples = 1")
            with record_plans("ANALYZE, COSTS OFF, TIMING OFF") as plans:
                found = await vectors.candidates(
                    db, caller, by_index, Filter(), limit=15, now=engine.now()
                )
                await vectors.candidates(db, caller, opposite, Filter(), limit=15, now=engine.now())
            expected = await vectors.candidates(
                db, caller, exact, Filter(), limit=15, now=engine.now()
            )

    assert f"using near_{caller.workspace_id.hex}" in plans[0].text
    assert [each.id for each in found] == [each.id for each in expected]
    assert {each.id for each in found} < set(live)
    # If the index finds enough, nothing else is read.
    assert ["m_1 (never executed)" in each.text for each in plans] == [False, True]


async def test_a_search_with_a_filter_is_exact_despite_an_index(
    databases: TestDatabases, clock: Clock
) -> None:
    embedder = StubEmbedder(dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        rare = [
            (await save(engine, caller, Save(f"rare {number}", tags=["rare"]))).memory.id
            for number in range(3)
        ]
        await build_indexes(engine, caller.workspace_id, no_heartbeat, MINIMUM)

        found = await find_nearest(
            engine, caller, "statement 1", Filter(tags=["rare"]), is_indexed=True
        )

    assert set(found) == {str(each) for each in rare}


async def test_the_index_is_dropped_with_its_generation(
    databases: TestDatabases, clock: Clock
) -> None:
    old = StubEmbedder(dimension=DIMENSION, model="old")
    url = databases.clone()
    async with open_engine(url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        await build_indexes(engine, caller.workspace_id, no_heartbeat, MINIMUM)
        assert await index_names(engine) == [f"near_{caller.workspace_id.hex}_1"]

    new = StubEmbedder(dimension=32, model="new")
    async with open_engine(url, Embedders(new, {"old": old}), clock) as engine:
        await plan_indexes(engine, MINIMUM)
        async with engine.pool.writing(caller.workspace_id) as db:
            await db.execute(
                "INSERT INTO job (workspace_id, id, kind, dedupe_key, status, run_after, created_at)"
                " VALUES (%(w)s, gen_random_uuid(), 'fill_vectors', '', 'pending', %(t)s, %(t)s)",
                {"w": caller.workspace_id, "t": clock.at},
            )
        await Worker(engine, slots=1).run_until_empty()
        await drop_retired_vectors(engine, caller.workspace_id, no_heartbeat)

        assert await index_names(engine) == []
        assert not (await current_generations(engine, caller.workspace_id)).indexed


async def index_names(engine: Engine) -> list[str]:
    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indisvalid "
            "AND indexrelid::regclass::text LIKE 'near_%'"
        )
        return [row[0] for row in await cursor.fetchall()]


async def test_a_save_finds_duplicates_and_similar_memories_by_index(
    databases: TestDatabases, clock: Clock
) -> None:
    text, again = "Ada drinks tea", "Ada drinks tea!"
    same = pseudo_random(text, DIMENSION)
    embedder = StubEmbedder({text: same, again: same}, dimension=DIMENSION)
    async with open_engine(databases.clone(), Embedders(embedder), clock) as engine:
        caller = await new_caller(engine)
        await fill(engine, caller, MANY)
        await plan_indexes(engine, MINIMUM)
        await build_indexes(engine, caller.workspace_id, no_heartbeat, MINIMUM)
        clock.advance(timedelta(seconds=3))
        old = await save(engine, caller, Save(text))

        duplicate = await save(engine, caller, Save(again, returns_duplicate=True))
        linked = await save(engine, caller, Save(again, links_similar=True))

        assert (await current_generations(engine, caller.workspace_id)).indexed
        assert duplicate.memory.id == old.memory.id
        async with engine.reading(caller) as db:
            created = await links.links_of(
                db, caller, [linked.memory.id], limit=10, now=engine.now()
            )
        assert [each.target_id for each in created] == [old.memory.id]
