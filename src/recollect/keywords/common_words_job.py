"""The job that counts the common words of large workspaces, whose postings searches do not read."""

from recollect.core.domain import WorkspaceId
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine
from recollect.keywords.queries import common_words

COUNT_JOB = NewJob("count_words")

# In a smaller workspace, a search can read all postings of any word.
MIN_MEMORIES = 20_000


async def plan_counts(engine: Engine, min_memories: int = MIN_MEMORIES) -> None:
    """Queue a count for every large workspace that has changed by a tenth since the last one.

    Delete the counts of workspaces that are no longer large: otherwise a word that was common there
    would keep its low weight forever.
    """
    async with engine.pool.everywhere() as db:
        wanted = await common_words.workspaces_to_count(db, min_memories)
        shrunken = await common_words.shrunken_workspaces(db, min_memories)
    for workspace_id in wanted:
        async with engine.pool.writing(workspace_id) as db:
            await job_queue.enqueue(db, workspace_id, [COUNT_JOB], engine.now())
    for workspace_id in shrunken:
        async with engine.pool.writing(workspace_id) as db:
            await common_words.forget_counts(db, workspace_id)


async def count_words(engine: Engine, workspace_id: WorkspaceId, _: Heartbeat) -> None:
    """Count the common words of a workspace. Searches use the new counts at once."""
    async with engine.pool.writing(workspace_id) as db:
        await common_words.count_common(db, workspace_id)
