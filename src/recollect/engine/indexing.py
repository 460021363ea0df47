"""Vector indexes for what is large, built in the background when the exact scan gets slow."""

import asyncio

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.spaces import Heartbeat
from recollect.store import jobs, vector_indexes
from recollect.store.jobs import NewJob
from recollect.store.vector_indexes import Wanted

INDEX = NewJob("index_vectors")

# Where the exact scan stops being fast: about 20 ms at 10,000 memories on a busy two-core machine,
# and it grows with their number. `python -m bench.load` shows both sides.
LEAST_MEMORIES = 20_000
# In a thread, where the exact scan begins to take longer than the index does, which takes about
# the same whatever the size: of 10,000 memories 24 ms against 8, both on a busy two-core machine.
# PostgreSQL takes whichever looks quicker to it. Fewer would be too many indexes: each costs every
# save into its part of the table 0.01 ms, and every search there whose plan is not kept 0.03.
LEAST_IN_THREAD = 5_000

# A drop waits for whoever reads the table, and housekeeping for the drop: it is taken up again.
_DROP_SECONDS = 10


async def plan_indexes(
    engine: Engine, least: int = LEAST_MEMORIES, least_in_thread: int = LEAST_IN_THREAD
) -> None:
    """Queue an index for all that is large and has none, or too sparse a one."""
    async with engine.pool.everywhere() as db:
        wanted = await vector_indexes.wanted(db, least=least, least_in_thread=least_in_thread)
    for workspace_id in {each.workspace_id for each in wanted}:
        async with engine.pool.writing(workspace_id) as db:
            await jobs.enqueue(db, workspace_id, [INDEX], engine.now())


async def index_vectors(
    engine: Engine,
    workspace_id: WorkspaceId,
    _: Heartbeat,
    least: int = LEAST_MEMORIES,
    least_in_thread: int = LEAST_IN_THREAD,
) -> None:
    """Build what `plan_indexes` found missing in this workspace; searches use it from then on."""
    async with engine.pool.everywhere() as db:
        wanted = await vector_indexes.wanted(db, least=least, least_in_thread=least_in_thread)
    for each in wanted:
        if each.workspace_id == workspace_id:
            await _build(engine, each)


async def _build(engine: Engine, wanted: Wanted) -> None:
    async with engine.pool.writing(wanted.workspace_id) as db:
        table = await vector_indexes.partition(db, wanted.workspace_id)
        if table is None:
            return
        await vector_indexes.announce(db, wanted)
    await vector_indexes.build(engine.pool, wanted, table)
    async with engine.pool.writing(wanted.workspace_id) as db:
        await vector_indexes.note(db, wanted)
    engine.spaces.drop(wanted.workspace_id)


async def drop_strays(engine: Engine) -> None:
    """Drop the indexes of threads and workspaces that are gone."""
    async with engine.pool.everywhere() as db:
        names = await vector_indexes.strays(db)
    for name in names:
        try:
            async with asyncio.timeout(_DROP_SECONDS):
                await vector_indexes.drop(engine.pool, name)
        except TimeoutError:
            return
