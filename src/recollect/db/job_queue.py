"""The job queue. Jobs are queued in the transaction that needs them and claimed with a lease."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import JobId, Json, WorkspaceId
from recollect.db.pool import Db

# The channel that wakes workers. A worker that cannot listen polls.
CHANNEL = "recollect_jobs"

# How many times in a row an identical job may be queued while a job is returned to the queue.
_MAX_CONFLICTS = 3


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to queue. If one with the same kind and key is already queued, nothing is added."""

    kind: str
    dedupe_key: str = ""
    payload: Json = field(default_factory=dict[str, Any])
    run_after: datetime | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed job."""

    workspace_id: WorkspaceId
    id: JobId
    kind: str
    payload: Json
    attempts: int


# An identical queued job is locked, so that no worker claims it before this transaction commits.
# The lock is shared: many transactions can hold it at once. Only a new job wakes the workers:
# commits with a notification wait for each other, and a worker that finds a job locked tries again.
_ENQUEUE = """
    WITH waiting AS (
        SELECT FROM job
        WHERE workspace_id = %(workspace_id)s AND kind = %(kind)s AND dedupe_key = %(dedupe_key)s
            AND status = 'pending' AND run_after <= %(run_after)s
        FOR SHARE
    ), made AS (
        INSERT INTO job (
            workspace_id, id, kind, dedupe_key, payload, status, run_after, created_at
        )
        SELECT %(workspace_id)s, %(id)s, %(kind)s, %(dedupe_key)s, %(payload)s, 'pending',
            %(run_after)s, %(now)s
        WHERE NOT EXISTS (SELECT FROM waiting)
        ON CONFLICT (workspace_id, kind, dedupe_key) WHERE status = 'pending'
        DO UPDATE SET run_after = least(job.run_after, EXCLUDED.run_after)
        RETURNING id
    )
    SELECT pg_notify(%(channel)s, '') FROM made
"""
_WAKE = "SELECT pg_notify(%(channel)s, '')"


async def enqueue(db: Db, workspace_id: WorkspaceId, new: Sequence[NewJob], now: datetime) -> None:
    """Queue jobs in the caller's transaction: they exist exactly when it commits."""
    for job in new:
        await db.execute(
            _ENQUEUE,
            {
                "workspace_id": workspace_id,
                "id": uuid4(),
                "kind": job.kind,
                "dedupe_key": job.dedupe_key,
                "payload": Jsonb(dict(job.payload)),
                "run_after": job.run_after or now,
                "now": now,
                "channel": CHANNEL,
            },
        )


# Whether the workspace has a queued, running or failed job of this kind.
UNFINISHED = """
    EXISTS (
        SELECT FROM job
        WHERE job.workspace_id = %(workspace_id)s AND job.kind = %(kind)s AND job.status <> 'done'
    )
"""
_HAS_UNFINISHED = f"SELECT {UNFINISHED}"


async def has_unfinished(db: Db, workspace_id: WorkspaceId, kind: str) -> bool:
    """Whether the workspace has a queued, running or failed job of this kind."""
    cursor = await db.execute(_HAS_UNFINISHED, {"workspace_id": workspace_id, "kind": kind})
    row = await cursor.fetchone()
    return bool(row and row[0])


# everywhere: workers claim jobs of all workspaces; each job names its own. A job that was queued
# while an identical one runs waits until that one ends: two would block each other.
_CLAIM = """
    WITH due AS (
        SELECT workspace_id, id FROM job
        WHERE status = 'pending' AND run_after <= %(now)s AND kind = ANY(%(kinds)s)
            AND NOT EXISTS (
                SELECT FROM job duplicate
                WHERE duplicate.workspace_id = job.workspace_id AND duplicate.kind = job.kind
                    AND duplicate.dedupe_key = job.dedupe_key AND duplicate.status = 'running')
        ORDER BY run_after, id
        LIMIT %(limit)s
        FOR UPDATE SKIP LOCKED
    )
    UPDATE job
    SET status = 'running', attempts = attempts + 1, worker = %(worker)s,
        locked_until = %(locked_until)s
    FROM due
    WHERE job.workspace_id = due.workspace_id AND job.id = due.id
    RETURNING job.workspace_id, job.id, job.kind, job.payload, job.attempts
"""


async def claim(
    db: Db,
    kinds: Sequence[str],
    *,
    worker: str,
    limit: int,
    lease: timedelta,
    now: datetime,
) -> list[Job]:
    """Claim due jobs of any workspace that no other worker has claimed."""
    async with db.cursor(row_factory=class_row(Job)) as cursor:
        await cursor.execute(
            _CLAIM,
            {
                "kinds": list(kinds),
                "worker": worker,
                "limit": limit,
                "locked_until": now + lease,
                "now": now,
            },
        )
        return await cursor.fetchall()


# A worker that lost its lease must not change the job: another worker may have claimed it.
_EXTEND = """
    UPDATE job SET locked_until = %(locked_until)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""
_FINISH = """
    UPDATE job SET status = 'done', finished_at = %(now)s, locked_until = NULL, last_error = NULL
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""
# If an identical job was queued while this one ran, that job replaces this one.
_RETRY = """
    UPDATE job
    SET status = CASE WHEN EXISTS (
            SELECT FROM job duplicate
            WHERE duplicate.workspace_id = job.workspace_id AND duplicate.kind = job.kind
                AND duplicate.dedupe_key = job.dedupe_key AND duplicate.status = 'pending'
        ) THEN 'done' ELSE 'pending' END,
        attempts = attempts - %(forgiven)s, run_after = %(run_after)s, locked_until = NULL,
        last_error = %(error)s, finished_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""
_FAIL = """
    UPDATE job
    SET status = 'failed', finished_at = %(now)s, locked_until = NULL, last_error = %(error)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""


async def renew_lease(db: Db, job: Job, *, worker: str, lease: timedelta, now: datetime) -> bool:
    """Extend the lease of a claimed job. False if the claim was lost."""
    values = _claim_values(job, worker) | {"locked_until": now + lease}
    return (await db.execute(_EXTEND, values)).rowcount > 0


async def finish(db: Db, job: Job, *, worker: str, now: datetime) -> bool:
    """Mark a job as done. False if the claim was lost."""
    return (await db.execute(_FINISH, _claim_values(job, worker) | {"now": now})).rowcount > 0


async def retry(
    db: Db,
    job: Job,
    *,
    worker: str,
    error: str,
    run_after: datetime,
    counts: bool,
    now: datetime,
) -> None:
    """Return a job to the queue. If `counts` is false, this attempt is not counted."""
    values = {"error": error, "run_after": run_after, "forgiven": 0 if counts else 1, "now": now}
    await _requeue(db, _RETRY, _claim_values(job, worker) | values)


async def _requeue(db: Db, query: LiteralString, values: Mapping[str, Any]) -> int:
    """Run a statement that returns jobs to the queue; return how many it changed.

    An identical job that is queued concurrently causes a unique violation once it is committed.
    The next try sees it.
    """
    for _ in range(_MAX_CONFLICTS):
        try:
            async with db.transaction():
                return (await db.execute(query, values)).rowcount
        except UniqueViolation:
            continue
    return (await db.execute(query, values)).rowcount


async def fail(db: Db, job: Job, *, worker: str, error: str, now: datetime) -> None:
    """Mark a job as failed."""
    await db.execute(_FAIL, _claim_values(job, worker) | {"error": error, "now": now})


def _claim_values(job: Job, worker: str) -> dict[str, Any]:
    return {
        "workspace_id": job.workspace_id,
        "id": job.id,
        "worker": worker,
        "attempts": job.attempts,
    }


# everywhere: any worker returns the jobs of a dead worker to the queue, in all workspaces.
_ABANDONED = """
    WITH lost AS (
        SELECT workspace_id, id, kind, dedupe_key FROM job
        WHERE status = 'running' AND locked_until < %(now)s
        FOR UPDATE SKIP LOCKED
    ), counted AS (
        SELECT workspace_id, id,
            row_number() OVER (PARTITION BY workspace_id, kind, dedupe_key ORDER BY id) AS number
        FROM lost
    )
    UPDATE job
    SET status = CASE WHEN counted.number > 1 OR EXISTS (
            SELECT FROM job duplicate
            WHERE duplicate.workspace_id = job.workspace_id AND duplicate.kind = job.kind
                AND duplicate.dedupe_key = job.dedupe_key AND duplicate.status = 'pending'
        ) THEN 'done' ELSE 'pending' END,
        locked_until = NULL, run_after = %(now)s, finished_at = %(now)s
    FROM counted
    WHERE job.workspace_id = counted.workspace_id AND job.id = counted.id
"""


async def release_abandoned(db: Db, now: datetime) -> int:
    """Return jobs whose lease has expired to the queue, in every workspace."""
    return await _requeue(db, _ABANDONED, {"now": now})


# everywhere: one sweep deletes the old finished jobs of all workspaces.
_SWEEP = """
    DELETE FROM job
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM job
        WHERE status = 'done' AND finished_at < %(before)s
        LIMIT %(limit)s
    )
"""


async def sweep(db: Db, before: datetime, limit: int) -> int:
    """Delete jobs that finished before `before`, in every workspace."""
    return (await db.execute(_SWEEP, {"before": before, "limit": limit})).rowcount


@dataclass(frozen=True, slots=True)
class ListedJob:
    """A job as shown to operators and users."""

    workspace_id: WorkspaceId
    id: JobId
    kind: str
    status: str
    attempts: int
    run_after: datetime
    last_error: str | None
    created_at: datetime


# everywhere: the operator sees the whole queue.
_LIST = """
    SELECT workspace_id, id, kind, status, attempts, run_after, last_error, created_at
    FROM job
    WHERE (%(status)s::text IS NULL OR status = %(status)s)
    ORDER BY created_at DESC, id
    LIMIT %(limit)s
"""


async def list_jobs(db: Db, *, status: str | None, limit: int) -> list[ListedJob]:
    """Jobs of every workspace, newest first. For the operator."""
    async with db.cursor(row_factory=class_row(ListedJob)) as cursor:
        await cursor.execute(_LIST, {"status": status, "limit": limit})
        return await cursor.fetchall()


# everywhere: the operator retries failed jobs in any workspace.
_RETRY_FAILED = """
    UPDATE job
    SET status = 'pending', attempts = 0, run_after = %(now)s, finished_at = NULL
    WHERE (workspace_id, id) IN (
        SELECT DISTINCT ON (workspace_id, kind, dedupe_key) workspace_id, id
        FROM job failed
        WHERE status = 'failed' AND (%(id)s::uuid IS NULL OR id = %(id)s)
            AND NOT EXISTS (
                SELECT FROM job duplicate
                WHERE duplicate.workspace_id = failed.workspace_id AND duplicate.kind = failed.kind
                    AND duplicate.dedupe_key = failed.dedupe_key AND duplicate.status = 'pending'
            )
        ORDER BY workspace_id, kind, dedupe_key, created_at, id
    )
"""


async def retry_failed(db: Db, job_id: JobId | None, now: datetime) -> int:
    """Queue one failed job, or all of them, again. Of jobs with the same key, only the oldest."""
    retried = await _requeue(db, _RETRY_FAILED, {"id": job_id, "now": now})
    await db.execute(_WAKE, {"channel": CHANNEL})
    return retried


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The number of jobs in one state, and when the oldest of them became due."""

    status: str
    count: int
    oldest: datetime | None


# everywhere: counts for the operator, by state, over all workspaces.
_DEPTH = """
    SELECT status, count(*) AS count, min(run_after) AS oldest
    FROM job
    WHERE status <> 'done'
    GROUP BY status
"""


async def depth(db: Db) -> list[QueueDepth]:
    """The number of unfinished jobs in all workspaces, by state."""
    async with db.cursor(row_factory=class_row(QueueDepth)) as cursor:
        await cursor.execute(_DEPTH)
        return await cursor.fetchall()


# everywhere: a user sees the jobs of all workspaces they may enter.
_LIST_IN = """
    SELECT workspace_id, id, kind, status, attempts, run_after, last_error, created_at
    FROM job
    WHERE workspace_id = ANY(%(workspace_ids)s) AND status <> 'done'
        AND (%(status)s::text IS NULL OR status = %(status)s)
        AND (%(id)s::uuid IS NULL OR id = %(id)s)
        AND (%(after_at)s::timestamptz IS NULL
             OR (created_at, id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY created_at DESC, id DESC
    LIMIT %(limit)s
"""
# everywhere: a user counts the jobs of all workspaces they may enter.
_COUNT_IN = """
    SELECT status, count(*) FROM job
    WHERE workspace_id = ANY(%(workspace_ids)s) AND status <> 'done'
    GROUP BY status
"""


async def list_jobs_in(
    db: Db,
    workspace_ids: Sequence[WorkspaceId],
    *,
    status: str | None = None,
    only: JobId | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[ListedJob]:
    """Unfinished jobs of these workspaces, newest first."""
    after_at, after_id = after or (None, None)
    values: dict[str, Any] = {
        "workspace_ids": list(workspace_ids),
        "status": status,
        "id": only,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(ListedJob)) as cursor:
        await cursor.execute(_LIST_IN, values)
        return await cursor.fetchall()


async def count_jobs_in(db: Db, workspace_ids: Sequence[WorkspaceId]) -> dict[str, int]:
    """The number of unfinished jobs of these workspaces, by state."""
    cursor = await db.execute(_COUNT_IN, {"workspace_ids": list(workspace_ids)})
    return {row[0]: row[1] for row in await cursor.fetchall()}
