"""The queue: jobs are written with what makes them necessary and claimed with a lease."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.domain import JobId, Json, WorkspaceId
from recollect.store.pool import Db

# The channel that wakes workers; whoever cannot listen polls.
CHANNEL = "recollect_jobs"

# How often in a row a twin may turn up while a job is put back.
_MOST_TWINS = 3


@dataclass(frozen=True, slots=True)
class NewJob:
    """Work to be done; while one with the same kind and key waits, a second adds nothing."""

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


# One that waits already is held, so that nobody claims it before what makes it necessary is there;
# many hold it at once. Workers are woken for a new one only: commits that notify wait for each
# other, and a worker that finds a job held looks again by itself.
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


# Whether a job of this kind is queued, running or buried in the workspace.
WAITING = """
    EXISTS (
        SELECT FROM job
        WHERE job.workspace_id = %(workspace_id)s AND job.kind = %(kind)s AND job.status <> 'done'
    )
"""
_WAITING = f"SELECT {WAITING}"


async def is_waiting(db: Db, workspace_id: WorkspaceId, kind: str) -> bool:
    """Whether a job of this kind is queued, running or buried in the workspace."""
    cursor = await db.execute(_WAITING, {"workspace_id": workspace_id, "kind": kind})
    row = await cursor.fetchone()
    return bool(row and row[0])


# everywhere: claiming is the one thing that looks at all workspaces; the job names its own. One
# queued while its twin runs waits for the end of that: two would stand in each other's way.
_CLAIM = """
    WITH due AS (
        SELECT workspace_id, id FROM job
        WHERE status = 'pending' AND run_after <= %(now)s AND kind = ANY(%(kinds)s)
            AND NOT EXISTS (
                SELECT FROM job twin
                WHERE twin.workspace_id = job.workspace_id AND twin.kind = job.kind
                    AND twin.dedupe_key = job.dedupe_key AND twin.status = 'running')
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
    """Take due jobs, of any workspace, that nobody else has."""
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


# A worker that lost its lease must not touch the job: another has it by now.
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
# Two may wait under one key only if the second was queued while the first ran: it stands for both.
_RETRY = """
    UPDATE job
    SET status = CASE WHEN EXISTS (
            SELECT FROM job twin
            WHERE twin.workspace_id = job.workspace_id AND twin.kind = job.kind
                AND twin.dedupe_key = job.dedupe_key AND twin.status = 'pending'
        ) THEN 'done' ELSE 'pending' END,
        attempts = attempts - %(forgiven)s, run_after = %(run_after)s, locked_until = NULL,
        last_error = %(error)s, finished_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""
_BURY = """
    UPDATE job
    SET status = 'buried', finished_at = %(now)s, locked_until = NULL, last_error = %(error)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND status = 'running'
        AND worker = %(worker)s AND attempts = %(attempts)s
"""


async def extend(db: Db, job: Job, *, worker: str, lease: timedelta, now: datetime) -> bool:
    """Heartbeat: keep a job; False when it was lost to another worker."""
    values = _held(job, worker) | {"locked_until": now + lease}
    return (await db.execute(_EXTEND, values)).rowcount > 0


async def finish(db: Db, job: Job, *, worker: str, now: datetime) -> bool:
    """Mark a job done; False when its lease was lost."""
    return (await db.execute(_FINISH, _held(job, worker) | {"now": now})).rowcount > 0


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
    """Put a job back for later; a try that `counts` uses one up."""
    values = {"error": error, "run_after": run_after, "forgiven": 0 if counts else 1, "now": now}
    await _put_back(db, _RETRY, _held(job, worker) | values)


async def _put_back(db: Db, query: LiteralString, values: Mapping[str, Any]) -> int:
    """Run a statement that lets jobs wait again; how many it changed.

    A twin that is queued at this moment shows only as a violation, once it is committed. The next
    try sees it waiting.
    """
    for _ in range(_MOST_TWINS):
        try:
            async with db.transaction():
                return (await db.execute(query, values)).rowcount
        except UniqueViolation:
            continue
    return (await db.execute(query, values)).rowcount


async def bury(db: Db, job: Job, *, worker: str, error: str, now: datetime) -> None:
    """Give a job up, visibly."""
    await db.execute(_BURY, _held(job, worker) | {"error": error, "now": now})


def _held(job: Job, worker: str) -> dict[str, Any]:
    return {
        "workspace_id": job.workspace_id,
        "id": job.id,
        "worker": worker,
        "attempts": job.attempts,
    }


# everywhere: whoever notices puts back the jobs of a worker that died, whosever they are.
_ABANDONED = """
    WITH lost AS (
        SELECT workspace_id, id, kind, dedupe_key FROM job
        WHERE status = 'running' AND locked_until < %(now)s
        FOR UPDATE SKIP LOCKED
    ), counted AS (
        SELECT workspace_id, id,
            row_number() OVER (PARTITION BY workspace_id, kind, dedupe_key ORDER BY id) AS turn
        FROM lost
    )
    UPDATE job
    SET status = CASE WHEN counted.turn > 1 OR EXISTS (
            SELECT FROM job twin
            WHERE twin.workspace_id = job.workspace_id AND twin.kind = job.kind
                AND twin.dedupe_key = job.dedupe_key AND twin.status = 'pending'
        ) THEN 'done' ELSE 'pending' END,
        locked_until = NULL, run_after = %(now)s, finished_at = %(now)s
    FROM counted
    WHERE job.workspace_id = counted.workspace_id AND job.id = counted.id
"""


async def release_abandoned(db: Db, now: datetime) -> int:
    """Put back jobs whose worker let the lease run out, in every workspace."""
    return await _put_back(db, _ABANDONED, {"now": now})


# everywhere: one sweep drops what was done long ago for all.
_SWEEP = """
    DELETE FROM job
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM job
        WHERE status = 'done' AND finished_at < %(before)s
        LIMIT %(limit)s
    )
"""


async def sweep(db: Db, before: datetime, limit: int) -> int:
    """Delete finished jobs of long ago, in every workspace."""
    return (await db.execute(_SWEEP, {"before": before, "limit": limit})).rowcount


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as an operator sees it."""

    workspace_id: WorkspaceId
    id: JobId
    kind: str
    status: str
    attempts: int
    run_after: datetime
    last_error: str | None
    created_at: datetime


# everywhere: the operator looks at the whole queue.
_LIST = """
    SELECT workspace_id, id, kind, status, attempts, run_after, last_error, created_at
    FROM job
    WHERE (%(status)s::text IS NULL OR status = %(status)s)
    ORDER BY created_at DESC, id
    LIMIT %(limit)s
"""


async def listed(db: Db, *, status: str | None, limit: int) -> list[Listed]:
    """Jobs of every workspace, newest first, for the operator."""
    async with db.cursor(row_factory=class_row(Listed)) as cursor:
        await cursor.execute(_LIST, {"status": status, "limit": limit})
        return await cursor.fetchall()


# everywhere: the operator revives what was buried, in any workspace.
_REVIVE = """
    UPDATE job
    SET status = 'pending', attempts = 0, run_after = %(now)s, finished_at = NULL
    WHERE (workspace_id, id) IN (
        SELECT DISTINCT ON (workspace_id, kind, dedupe_key) workspace_id, id
        FROM job buried
        WHERE status = 'buried' AND (%(id)s::uuid IS NULL OR id = %(id)s)
            AND NOT EXISTS (
                SELECT FROM job twin
                WHERE twin.workspace_id = buried.workspace_id AND twin.kind = buried.kind
                    AND twin.dedupe_key = buried.dedupe_key AND twin.status = 'pending'
            )
        ORDER BY workspace_id, kind, dedupe_key, created_at, id
    )
"""


async def revive(db: Db, job_id: JobId | None, now: datetime) -> int:
    """Let one buried job, or all of them, try again; of those with one key, one after the other."""
    revived = await _put_back(db, _REVIVE, {"id": job_id, "now": now})
    await db.execute(_WAKE, {"channel": CHANNEL})
    return revived


@dataclass(frozen=True, slots=True)
class Depth:
    """How many jobs are in a state, and since when the oldest of them has been due."""

    status: str
    count: int
    oldest: datetime | None


# everywhere: counts for the operator, by state and not by workspace.
_DEPTH = """
    SELECT status, count(*) AS count, min(run_after) AS oldest
    FROM job
    WHERE status <> 'done'
    GROUP BY status
"""


async def depth(db: Db) -> list[Depth]:
    """The queue of every workspace, counted by state."""
    async with db.cursor(row_factory=class_row(Depth)) as cursor:
        await cursor.execute(_DEPTH)
        return await cursor.fetchall()


# everywhere: somebody looks at the jobs of all the workspaces they may be in.
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
# everywhere: counted for the same.
_COUNT_IN = """
    SELECT status, count(*) FROM job
    WHERE workspace_id = ANY(%(workspace_ids)s) AND status <> 'done'
    GROUP BY status
"""


async def listed_in(
    db: Db,
    workspace_ids: Sequence[WorkspaceId],
    *,
    status: str | None = None,
    only: JobId | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int,
) -> list[Listed]:
    """Jobs of these workspaces that are not done, newest first."""
    after_at, after_id = after or (None, None)
    values: dict[str, Any] = {
        "workspace_ids": list(workspace_ids),
        "status": status,
        "id": only,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(Listed)) as cursor:
        await cursor.execute(_LIST_IN, values)
        return await cursor.fetchall()


async def counted_in(db: Db, workspace_ids: Sequence[WorkspaceId]) -> dict[str, int]:
    """How many jobs of these workspaces are in each state, done ones aside."""
    cursor = await db.execute(_COUNT_IN, {"workspace_ids": list(workspace_ids)})
    return {row[0]: row[1] for row in await cursor.fetchall()}
