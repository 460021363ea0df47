"""Counting the common words of large workspaces, which searches do not read through."""

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.spaces import Heartbeat
from recollect.store import jobs, words
from recollect.store.jobs import NewJob

COUNT = NewJob("count_words")

# In a smaller workspace even a word of every memory can be read through.
LEAST_MEMORIES = 20_000


async def plan_counts(engine: Engine, least: int = LEAST_MEMORIES) -> None:
    """Queue a count for every large workspace that has changed by a tenth since the last one.

    What was counted in a workspace that is no longer large is forgotten: a word that was common
    there would weigh nothing for good.
    """
    async with engine.pool.everywhere() as db:
        wanted = await words.uncounted(db, least)
        dwindled = await words.dwindled(db, least)
    for workspace_id in wanted:
        async with engine.pool.writing(workspace_id) as db:
            await jobs.enqueue(db, workspace_id, [COUNT], engine.now())
    for workspace_id in dwindled:
        async with engine.pool.writing(workspace_id) as db:
            await words.forget_counts(db, workspace_id)


async def count_words(engine: Engine, workspace_id: WorkspaceId, _: Heartbeat) -> None:
    """Count the common words of a workspace; searches go by the new counts from then on."""
    async with engine.pool.writing(workspace_id) as db:
        await words.count_common(db, workspace_id)
