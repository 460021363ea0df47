"""A cached plan serves all workspaces of a database, small and large."""

from collections.abc import AsyncGenerator
from typing import Any, LiteralString
from uuid import uuid4

import pytest

from recollect.core.domain import Caller, Filter, WorkspaceId
from recollect.db.pool import Db, PreparedQuery
from recollect.embeddings.queries import vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.memories.queries import memories
from recollect.memories.save import Save, save
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import new_caller, open_engine, single_embedder
from tests.support.plans import record_plans

pytestmark = pytest.mark.anyio

# Makes the planner prefer parallel workers, as it would for a very large table.
FAVOUR_PARALLEL = """
    SET LOCAL parallel_setup_cost = 0; SET LOCAL parallel_tuple_cost = 0;
    SET LOCAL min_parallel_table_scan_size = 0; SET LOCAL min_parallel_index_scan_size = 0;
    SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off
"""


@pytest.mark.parametrize("is_filtered", [False, True])
async def test_a_cached_plan_starts_no_parallel_workers(
    engine: Engine, caller: Caller, *, is_filtered: bool
) -> None:
    await save(engine, caller, Save("Ada drinks tea"))

    async with engine.searching(caller, is_filtered=is_filtered) as db:
        await db.execute(FAVOUR_PARALLEL)
        with record_plans() as plans:
            point = QueryVector(1, at_cosine(1.0))
            await vectors.candidates(db, caller, point, Filter(), limit=10, now=engine.now())

    assert ("Gather" in plans[0].text) == is_filtered


# Inserted in bulk: saving them one by one would take minutes.
_SMALL_WORKSPACES = """
    INSERT INTO workspace (org_id, id, name, created_at)
    SELECT %(org_id)s, gen_random_uuid(), 'small ' || number, %(now)s
    FROM generate_series(1, 200) AS number
"""
_MEMORIES = """
    WITH made AS (
        INSERT INTO memory (
            workspace_id, id, code, org_id, user_id, content, content_digest, importance,
            importance_base, lifecycle, scope, origin, created_at, updated_at
        )
        SELECT w.id, gen_random_uuid(), left(replace(gen_random_uuid()::text, '-', ''), 24),
            %(org_id)s, %(user_id)s, 'one', '', 0.5, 0.5, 'permanent', 'workspace', 'user',
            %(now)s, %(now)s
        FROM workspace w
        CROSS JOIN generate_series(1, CASE WHEN w.id = %(workspace_id)s THEN 5000 ELSE 3 END)
        RETURNING *
    )
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, tags, pinned, created_at,
        scope, user_id
    )
    SELECT workspace_id, id, 1, 1, array_fill(0.05::real, ARRAY[384])::halfvec(384), tags, pinned,
        created_at, scope, user_id
    FROM made
"""


@pytest.fixture
async def uneven_engine(databases: TestDatabases, clock: Clock) -> AsyncGenerator[Engine]:
    """A database with one large workspace and many small ones."""
    async with open_engine(databases.clone(), single_embedder(StubEmbedder()), clock) as engine:
        large = await new_caller(engine)
        values = {
            "workspace_id": large.workspace_id,
            "org_id": large.org_id,
            "user_id": large.user_id,
            "now": engine.now(),
        }
        async with engine.pool.everywhere() as db:
            await db.execute(_SMALL_WORKSPACES, values)
            await db.execute(_MEMORIES, values)
            await db.execute("ANALYZE memory, memory_vector")
        yield engine


async def generic_plan(db: Db, query: LiteralString) -> str:
    """The generic plan of a statement."""
    explain: Any = f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {PreparedQuery(query)._query}"
    cursor = await db.execute(explain)
    return "\n".join(row[0] for row in await cursor.fetchall())


_PREPARED = "SELECT statement FROM pg_prepared_statements WHERE statement LIKE '%importance%'"


async def test_lists_are_planned_for_the_current_workspace(engine: Engine, caller: Caller) -> None:
    now = engine.now()
    async with engine.reading(caller) as db:
        before = await (await db.execute(_PREPARED)).fetchall()
        for _ in range(8):
            await memories.page(db, caller, Filter(), after=None, limit=9, now=now)
            await memories.browse(db, caller, Filter(), order="importance", limit=9, now=now)
        after = await (await db.execute(_PREPARED)).fetchall()

    assert before == after


async def test_the_vector_sample_is_read_in_index_order_without_a_sort(
    uneven_engine: Engine,
) -> None:
    async with uneven_engine.pool.reading(WorkspaceId(uuid4()), keeps_plans=True) as db:
        plan = await generic_plan(db, f"SELECT {vectors.TYPICAL_COSINE}")

    assert "Merge Append" in plan
    assert "->  Sort" not in plan
