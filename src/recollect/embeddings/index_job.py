"""The job that builds vector indexes where exact scans are slow: large workspaces and threads."""

import asyncio

from recollect.core.domain import WorkspaceId
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.embeddings.generations import Heartbeat
from recollect.embeddings.queries import vector_indexes
from recollect.embeddings.queries.vector_indexes import WantedIndex
from recollect.engine import Engine

INDEX_JOB = NewJob("index_vectors")

# Where the exact scan stops being fast: about 20 ms at 10,000 memories on a busy two-core machine,
# growing with their number. `python -m bench.load` measures both sides.
MIN_MEMORIES = 20_000
# In a thread, the index pays off once the exact scan takes longer. The index takes about the same
# at any size: for 10,000 memories 8 ms instead of 24, both on a busy two-core machine. PostgreSQL
# chooses the one it estimates to be faster. A lower minimum would mean too many indexes: each costs
# 0.01 ms per save into its partition, and 0.03 ms per search there whose plan is not cached.
MIN_IN_THREAD = 5_000

# A drop waits for readers of the table, and maintenance waits for the drop. Maintenance tries again
# in its next run.
_DROP_SECONDS = 10


async def plan_indexes(
    engine: Engine, min_memories: int = MIN_MEMORIES, min_in_thread: int = MIN_IN_THREAD
) -> None:
    """Queue the index job where a large workspace or thread has no index, or too sparse a one."""
    async with engine.pool.everywhere() as db:
        wanted = await vector_indexes.wanted_indexes(
            db, min_memories=min_memories, min_in_thread=min_in_thread
        )
    for workspace_id in {each.workspace_id for each in wanted}:
        async with engine.pool.writing(workspace_id) as db:
            await job_queue.enqueue(db, workspace_id, [INDEX_JOB], engine.now())


async def build_indexes(
    engine: Engine,
    workspace_id: WorkspaceId,
    _: Heartbeat,
    min_memories: int = MIN_MEMORIES,
    min_in_thread: int = MIN_IN_THREAD,
) -> None:
    """Build the indexes that `plan_indexes` found missing in this workspace."""
    async with engine.pool.everywhere() as db:
        wanted = await vector_indexes.wanted_indexes(
            db, min_memories=min_memories, min_in_thread=min_in_thread
        )
    for each in wanted:
        if each.workspace_id == workspace_id:
            await _build(engine, each)


async def _build(engine: Engine, wanted: WantedIndex) -> None:
    async with engine.pool.writing(wanted.workspace_id) as db:
        table = await vector_indexes.partition(db, wanted.workspace_id)
        if table is None:
            return
        await vector_indexes.insert_pending(db, wanted)
    await vector_indexes.build(engine.pool, wanted, table)
    async with engine.pool.writing(wanted.workspace_id) as db:
        await vector_indexes.mark_ready(db, wanted)
    engine.generation_cache.drop(wanted.workspace_id)


async def drop_unused_indexes(engine: Engine) -> None:
    """Drop the indexes of deleted threads and workspaces."""
    async with engine.pool.everywhere() as db:
        names = await vector_indexes.unused_indexes(db)
    for name in names:
        try:
            async with asyncio.timeout(_DROP_SECONDS):
                await vector_indexes.drop(engine.pool, name)
        except TimeoutError:
            return
