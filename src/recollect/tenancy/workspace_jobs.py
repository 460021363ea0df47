"""The jobs of the workspaces that a caller may enter: list them, and retry failed ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recollect.core.domain import Caller, JobId, Right
from recollect.core.errors import Conflict, NotFound
from recollect.db import job_queue
from recollect.db.job_queue import ListedJob
from recollect.engine import Engine
from recollect.tenancy.workspaces import list_own_workspaces


@dataclass(frozen=True, slots=True)
class JobPage:
    """A page of jobs, newest first, whether more follow, and the number of jobs by state."""

    jobs: list[ListedJob]
    has_more: bool
    counts: Mapping[str, int]


async def list_jobs(
    engine: Engine,
    caller: Caller,
    *,
    state: str | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> JobPage:
    """Return the unfinished jobs of every workspace that the caller may enter."""
    workspace_ids = [each.id for each in await list_own_workspaces(engine, caller)]
    async with engine.pool.everywhere() as db:
        found = await job_queue.list_jobs_in(
            db,
            workspace_ids,
            status=state,
            after=after,
            limit=limit + 1,  # one extra row shows whether a next page exists
        )
        counts = await job_queue.count_jobs_in(db, workspace_ids)
    return JobPage(found[:limit], len(found) > limit, counts)


async def retry_job(engine: Engine, caller: Caller, job_id: UUID) -> ListedJob:
    """Queue a failed job again."""
    caller.require(Right.WRITE)
    workspace_ids = [each.id for each in await list_own_workspaces(engine, caller)]
    async with engine.pool.everywhere() as db:
        found = await job_queue.list_jobs_in(db, workspace_ids, only=JobId(job_id), limit=1)
        if not found:
            raise NotFound("job")
        if found[0].status != "failed" or not await job_queue.retry_failed(
            db, JobId(job_id), engine.now()
        ):
            raise Conflict(
                "Only failed jobs can be retried, and only if no identical job is queued."
            )
        [retried] = await job_queue.list_jobs_in(db, workspace_ids, only=JobId(job_id), limit=1)
    return retried
