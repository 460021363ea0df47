"""Queries on inbox items, which wait to be distilled, and on the candidates made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import Caller, MemoryId, OrgId, ProjectId, ThreadId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import THREAD_VISIBLE


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A text to learn from, who said it and when; `source` names its path."""

    id: UUID
    dedupe_key: str
    source: str
    org_id: OrgId
    user_id: UserId
    subject: str | None
    thread_id: ThreadId | None
    text: str
    digest: bytes
    said_at: datetime
    attempts: int = 0
    # Until then, only the process that queued or claimed it may distil it.
    held_until: datetime | None = None
    # When it was queued; None before that.
    created_at: datetime | None = None


_ADD = """
    INSERT INTO inbox_item (
        workspace_id, id, dedupe_key, source, org_id, user_id, subject, thread_id, text, digest,
        said_at, state, held_until, created_at, project_id
    ) VALUES (
        %(workspace_id)s, %(id)s, %(dedupe_key)s, %(source)s, %(org_id)s, %(user_id)s, %(subject)s,
        %(thread_id)s, %(text)s, %(digest)s, %(said_at)s, 'pending', %(held_until)s,
        %(now)s,
        (SELECT t.project_id FROM thread t
         WHERE t.workspace_id = %(workspace_id)s AND t.id = %(thread_id)s)
    )
    ON CONFLICT (workspace_id, dedupe_key) DO NOTHING
"""


async def add(db: Db, workspace_id: WorkspaceId, item: InboxItem, now: datetime) -> None:
    """Queue an item in the caller's transaction, unless one with the same key exists."""
    await db.execute(
        _ADD,
        {
            "workspace_id": workspace_id,
            "id": item.id,
            "dedupe_key": item.dedupe_key,
            "source": item.source,
            "org_id": item.org_id,
            "user_id": item.user_id,
            "subject": item.subject,
            "thread_id": item.thread_id,
            "text": item.text,
            "digest": item.digest,
            "said_at": item.said_at,
            "held_until": item.held_until,
            "now": now,
        },
    )


# First the oldest item of each person, then the second of each, and so on: one person's long queue
# does not delay the others. A postponed item counts as queued when its pause ends.
_DUE = """
    SELECT due.id FROM (
        SELECT waiting.id, coalesce(waiting.held_until, waiting.created_at) AS since,
            waiting.said_at,
            row_number() OVER (
                PARTITION BY waiting.user_id, waiting.subject
                ORDER BY coalesce(waiting.held_until, waiting.created_at), waiting.said_at,
                    waiting.id
            ) AS turn
        FROM inbox_item waiting
        WHERE waiting.workspace_id = %(workspace_id)s AND waiting.state = 'pending'
            AND (waiting.held_until IS NULL OR waiting.held_until <= %(now)s)
    ) AS due
    ORDER BY due.turn, due.since, due.said_at, due.id
    LIMIT %(limit)s
"""


async def list_due(db: Db, workspace_id: WorkspaceId, *, now: datetime, limit: int) -> list[UUID]:
    """Return the items to distil now, alternating between people, each person's oldest first."""
    values = {"workspace_id": workspace_id, "now": now, "limit": limit}
    return [row[0] for row in await (await db.execute(_DUE, values)).fetchall()]


# The attempt is counted before it starts, so an item that crashes the worker is not retried for
# ever. The claim keeps two workers of one workspace from both paying for it.
_CLAIM = """
    UPDATE inbox_item
    SET attempts = attempts + 1, held_until = %(held_until)s
    WHERE workspace_id = %(workspace_id)s AND id = (
        SELECT waiting.id FROM inbox_item waiting
        WHERE waiting.workspace_id = %(workspace_id)s AND waiting.id = %(id)s
            AND waiting.state = 'pending'
            AND (waiting.held_until IS NULL OR waiting.held_until <= %(now)s)
        FOR UPDATE SKIP LOCKED
    )
    RETURNING id, dedupe_key, source, org_id, user_id, subject, thread_id, text, digest, said_at,
        attempts, held_until, created_at
"""


async def claim(
    db: Db, workspace_id: WorkspaceId, item_id: UUID, *, now: datetime, held_until: datetime
) -> InboxItem | None:
    """Claim a waiting item and count the attempt; None if it no longer waits."""
    values = {"workspace_id": workspace_id, "id": item_id, "now": now, "held_until": held_until}
    async with db.cursor(row_factory=class_row(InboxItem)) as cursor:
        await cursor.execute(_CLAIM, values)
        return await cursor.fetchone()


_NEXT_DUE = """
    SELECT min(coalesce(held_until, created_at)) FROM inbox_item
    WHERE workspace_id = %(workspace_id)s AND state = 'pending'
"""


async def next_due(db: Db, workspace_id: WorkspaceId) -> datetime | None:
    """Return when the next item may be claimed, now or later; None if none waits."""
    row = await (await db.execute(_NEXT_DUE, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


_POSTPONE = """
    UPDATE inbox_item
    SET attempts = %(attempts)s, held_until = %(until)s, failure = coalesce(%(failure)s, failure)
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state = 'pending'
"""


async def postpone(
    db: Db,
    workspace_id: WorkspaceId,
    item_id: UUID,
    *,
    attempts: int,
    until: datetime | None,
    failure: str | None,
) -> None:
    """Postpone an item until a time, or if None until the next job; store the reason."""
    values = {"workspace_id": workspace_id, "id": item_id, "attempts": attempts}
    await db.execute(_POSTPONE, {**values, "until": until, "failure": failure})


_CLOSE = """
    UPDATE inbox_item
    SET state = %(state)s, text = NULL, done_at = %(now)s, failure = %(failure)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state = 'pending'
"""


async def close(
    db: Db,
    workspace_id: WorkspaceId,
    item_id: UUID,
    *,
    is_done: bool,
    failure: str | None,
    now: datetime,
) -> bool:
    """Close an item and delete its text; False if it was already closed or erased.

    `failure` says why the rules distilled it, or why it was given up.
    """
    values = {"workspace_id": workspace_id, "id": item_id, "failure": failure, "now": now}
    state = "done" if is_done else "failed"
    return (await db.execute(_CLOSE, {**values, "state": state})).rowcount > 0


@dataclass(frozen=True, slots=True)
class Backlog:
    """The items that wait in all workspaces, and those the rules distilled recently."""

    pending: int
    since: datetime | None
    by_rules: int
    # Why the rules distilled the most recent one.
    reason: str | None


# everywhere: shows the operator whether learning keeps up in all workspaces together.
_BACKLOG = """
    SELECT waiting.pending, waiting.since, taken.by_rules, taken.reason
    FROM (
        SELECT count(*) AS pending, min(created_at) AS since FROM inbox_item WHERE state = 'pending'
    ) AS waiting, (
        SELECT count(*) AS by_rules, (array_agg(failure ORDER BY done_at DESC))[1] AS reason
        FROM inbox_item
        WHERE state <> 'pending' AND done_at > %(after)s AND failure IS NOT NULL
    ) AS taken
"""


async def read_backlog(db: Db, *, after: datetime) -> Backlog:
    """Count the items that wait, and those the rules distilled after a time."""
    async with db.cursor(row_factory=class_row(Backlog)) as cursor:
        await cursor.execute(_BACKLOG, {"after": after})
        found = await cursor.fetchone()
    assert found
    return found


_LEARNT = """
    SELECT EXISTS (
        SELECT FROM inbox_item
        WHERE workspace_id = %(workspace_id)s AND digest = %(digest)s AND state = 'done'
            AND subject IS NOT DISTINCT FROM %(subject)s
            AND CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END = coalesce(
                (SELECT t.project_id FROM thread t
                 WHERE t.workspace_id = %(workspace_id)s AND t.id = %(thread_id)s),
                %(workspace_id)s)
    )
"""


async def is_learnt(db: Db, workspace_id: WorkspaceId, item: InboxItem) -> bool:
    """Whether the same text of the same person was already distilled, in the same project."""
    values = {
        "workspace_id": workspace_id,
        "digest": item.digest,
        "subject": item.subject,
        "thread_id": item.thread_id,
    }
    row = await (await db.execute(_LEARNT, values)).fetchone()
    return bool(row and row[0])


# everywhere: one sweep deletes old closed items, and with them their candidates.
_SWEEP = """
    DELETE FROM inbox_item
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM inbox_item
        WHERE state <> 'pending' AND done_at < %(before)s
            AND NOT EXISTS (
                SELECT FROM candidate
                WHERE candidate.workspace_id = inbox_item.workspace_id
                    AND candidate.inbox_item_id = inbox_item.id
                    AND candidate.state IN ('ready', 'pending')
            )
        LIMIT %(limit)s
    )
"""


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Delete old closed items in every workspace, unless a candidate still waits for a decision."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})


@dataclass(frozen=True, slots=True)
class StoredCandidate:
    """A candidate from an inbox item; `why` says why it waits for review."""

    id: UUID
    inbox_item_id: UUID
    content: str
    summary: str | None
    category: str | None
    quote: str
    slot: str | None
    why: str | None
    state: str
    created_at: datetime
    # Copied from the inbox item.
    source: str = ""
    org_id: OrgId | None = None
    user_id: UserId | None = None
    subject: str | None = None
    thread_id: ThreadId | None = None
    said_at: datetime | None = None


_INSERT = """
    INSERT INTO candidate (
        workspace_id, id, inbox_item_id, content, summary, category, quote, slot, why, state,
        created_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(item_id)s, %(content)s, %(summary)s, %(category)s, %(quote)s,
        %(slot)s, %(why)s, %(state)s, %(created_at)s
    )
"""


async def insert(db: Db, workspace_id: WorkspaceId, made: Sequence[StoredCandidate]) -> None:
    """Insert the candidates of an item, in the transaction that closes it."""
    for each in made:
        await db.execute(
            _INSERT,
            {
                "workspace_id": workspace_id,
                "id": each.id,
                "item_id": each.inbox_item_id,
                "content": each.content,
                "summary": each.summary,
                "category": each.category,
                "quote": each.quote,
                "slot": each.slot,
                "why": each.why,
                "state": each.state,
                "created_at": each.created_at,
            },
        )


# A user sees only candidates from threads that are visible to them.
_CANDIDATES = f"""
    SELECT c.id, c.inbox_item_id, c.content, c.summary, c.category, c.quote, c.slot,
        c.why, c.state, c.created_at, l.source, l.org_id, l.user_id, l.subject, l.thread_id,
        l.said_at
    FROM candidate c
    JOIN inbox_item l ON l.workspace_id = c.workspace_id AND l.id = c.inbox_item_id
    WHERE c.workspace_id = %(workspace_id)s AND c.state = %(state)s
        AND (%(id)s::uuid IS NULL OR c.id = %(id)s)
        AND (%(item_id)s::uuid IS NULL OR c.inbox_item_id = %(item_id)s)
        AND (%(beyond_at)s::timestamptz IS NULL
             OR (c.created_at, c.id) > (%(beyond_at)s, %(beyond_id)s::uuid))
        AND (%(user_id)s::uuid IS NULL OR NOT EXISTS (
            SELECT FROM thread t
            WHERE t.workspace_id = %(workspace_id)s AND t.id = l.thread_id
                AND ({THREAD_VISIBLE}) IS NOT TRUE))
    ORDER BY c.created_at, c.id
    LIMIT %(limit)s
"""


async def candidates(
    db: Db,
    workspace_id: WorkspaceId,
    state: str,
    *,
    limit: int,
    only: UUID | None = None,
    item_id: UUID | None = None,
    beyond: tuple[datetime, UUID] | None = None,
    seen_by: Caller | None = None,
) -> list[StoredCandidate]:
    """Return candidates in a state, oldest first: all of them, one, or those of one item.

    With `seen_by`, only those visible to this caller.
    """
    beyond_at, beyond_id = beyond or (None, None)
    values = {
        "workspace_id": workspace_id,
        "state": state,
        "limit": limit,
        "id": only,
        "item_id": item_id,
        "beyond_at": beyond_at,
        "beyond_id": beyond_id,
        "user_id": seen_by and seen_by.user_id,
        "is_member": seen_by is None or not seen_by.is_guest,
    }
    async with db.cursor(row_factory=class_row(StoredCandidate)) as cursor:
        await cursor.execute(_CANDIDATES, values)
        return await cursor.fetchall()


_LOCK_CANDIDATE = """
    SELECT c.id FROM candidate c
    WHERE c.workspace_id = %(workspace_id)s AND c.id = %(id)s AND c.state IN ('ready', 'pending')
    FOR UPDATE
"""


async def lock_candidate(db: Db, workspace_id: WorkspaceId, candidate_id: UUID) -> bool:
    """Lock an open candidate against erasure until the transaction ends; False if it is gone.

    Call this before saving its content: erased content must not come back.
    """
    cursor = await db.execute(_LOCK_CANDIDATE, {"workspace_id": workspace_id, "id": candidate_id})
    return await cursor.fetchone() is not None


_DECIDE = """
    UPDATE candidate SET state = %(state)s, memory_id = %(memory_id)s, decided_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state IN ('ready', 'pending')
"""


async def decide(
    db: Db,
    workspace_id: WorkspaceId,
    candidate_id: UUID,
    state: str,
    *,
    memory_id: MemoryId | None,
    now: datetime,
) -> bool:
    """Mark a candidate as kept or rejected; False if it was already decided."""
    values = {"workspace_id": workspace_id, "id": candidate_id, "state": state}
    values |= {"memory_id": memory_id, "now": now}
    return (await db.execute(_DECIDE, values)).rowcount > 0


_IN_SLOT = """
    SELECT m.id, m.created_at
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.metadata ->> 'slot' = %(slot)s
        AND m.metadata ? 'slot' AND m.deleted_at IS NULL AND m.valid_until IS NULL
        AND CASE WHEN %(project_id)s::uuid IS NULL THEN m.scope = 'workspace'
            ELSE m.scope = 'project' AND m.project_id = %(project_id)s END
        AND m.subject IS NOT DISTINCT FROM %(subject)s
    ORDER BY m.created_at DESC, m.id
    LIMIT 1
"""


async def find_in_slot(
    db: Db,
    workspace_id: WorkspaceId,
    slot: str,
    subject: str | None,
    project_id: ProjectId | None,
) -> tuple[MemoryId, datetime] | None:
    """Return the current memory in a slot (a fact with one value at a time) and when it was said.

    Looks in the project, or in the workspace if `project_id` is None.
    """
    values = {
        "workspace_id": workspace_id,
        "slot": slot,
        "subject": subject,
        "project_id": project_id,
    }
    row = await (await db.execute(_IN_SLOT, values)).fetchone()
    return (MemoryId(row[0]), row[1]) if row else None
