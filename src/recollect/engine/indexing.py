"""Vector indexes for large workspaces, built in the background when the exact scan gets slow."""

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.spaces import Heartbeat
from recollect.store import jobs, vector_indexes
from recollect.store.jobs import NewJob

INDEX = NewJob("index_vectors")

# Where the exact scan stops being fast: about 20 ms at 10,000 memories on a busy two-core machine,
# and it grows with their number. `python -m bench.load` shows both sides.
LEAST_MEMORIES = 20_000


async def plan_indexes(engine: Engine, least: int = LEAST_MEMORIES) -> None:
    """Queue an index for every large workspace that has none, or too sparse a one."""
    async with engine.pool.everywhere() as db:
        wanted = await vector_indexes.wanted(db, least)
    for each in wanted:
        async with engine.pool.writing(each.workspace_id) as db:
            await jobs.enqueue(db, each.workspace_id, [INDEX], engine.now())


async def index_vectors(
    engine: Engine, workspace_id: WorkspaceId, _: Heartbeat, least: int = LEAST_MEMORIES
) -> None:
    """Build what `plan_indexes` found missing in this workspace; searches use it from then on."""
    async with engine.pool.everywhere() as db:
        wanted = [
            each
            for each in await vector_indexes.wanted(db, least)
            if each.workspace_id == workspace_id
        ]
    for each in wanted:
        async with engine.pool.reading(workspace_id) as db:
            table = await vector_indexes.partition(db, workspace_id)
        if table:
            await vector_indexes.build(engine.pool, each, table)
            async with engine.pool.writing(workspace_id) as db:
                await vector_indexes.note(db, each)
            engine.spaces.drop(workspace_id)
