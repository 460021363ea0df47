"""What waits to be learnt from, and what was made of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import Caller, MemoryId, OrgId, ProjectId, ThreadId, UserId, WorkspaceId
from recollect.store.pool import Db
from recollect.store.visible import THREAD_IN_SIGHT


@dataclass(frozen=True, slots=True)
class Lesson:
    """Something said, by whom and when; `source` says on which path it came."""

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
    # Somebody takes it at once, and nobody else until then.
    held_until: datetime | None = None


_ADD = """
    INSERT INTO lesson (
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


async def add(db: Db, workspace_id: WorkspaceId, lesson: Lesson, now: datetime) -> None:
    """Queue a lesson in the caller's transaction; one key, one lesson."""
    await db.execute(
        _ADD,
        {
            "workspace_id": workspace_id,
            "id": lesson.id,
            "dedupe_key": lesson.dedupe_key,
            "source": lesson.source,
            "org_id": lesson.org_id,
            "user_id": lesson.user_id,
            "subject": lesson.subject,
            "thread_id": lesson.thread_id,
            "text": lesson.text,
            "digest": lesson.digest,
            "said_at": lesson.said_at,
            "held_until": lesson.held_until,
            "now": now,
        },
    )


# Counted before it is tried: a lesson that takes the worker down with it is not tried for ever.
# Held while it is: two workers of one workspace do not both pay for it.
_NEXT = """
    UPDATE lesson
    SET attempts = attempts + 1, held_until = %(held_until)s
    WHERE workspace_id = %(workspace_id)s AND id = (
        SELECT waiting.id FROM lesson waiting
        WHERE waiting.workspace_id = %(workspace_id)s AND waiting.state = 'pending'
            AND (waiting.held_until IS NULL OR waiting.held_until <= %(now)s)
        ORDER BY waiting.created_at, waiting.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED
    )
    RETURNING id, dedupe_key, source, org_id, user_id, subject, thread_id, text, digest, said_at,
        attempts, held_until
"""


async def next_pending(
    db: Db, workspace_id: WorkspaceId, *, now: datetime, held_until: datetime
) -> Lesson | None:
    """The oldest lesson that waits, its attempt counted, held for whoever asks."""
    values = {"workspace_id": workspace_id, "now": now, "held_until": held_until}
    async with db.cursor(row_factory=class_row(Lesson)) as cursor:
        await cursor.execute(_NEXT, values)
        return await cursor.fetchone()


_HELD = """
    SELECT min(held_until) FROM lesson
    WHERE workspace_id = %(workspace_id)s AND state = 'pending'
"""


async def held_until(db: Db, workspace_id: WorkspaceId) -> datetime | None:
    """When the first lesson that somebody holds is anybody's again; None when none is held."""
    row = await (await db.execute(_HELD, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


_FORGIVE = """
    UPDATE lesson SET attempts = attempts - 1, held_until = NULL
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state = 'pending'
"""


async def forgive(db: Db, workspace_id: WorkspaceId, lesson_id: UUID) -> None:
    """An attempt that a dependency spoilt does not count."""
    await db.execute(_FORGIVE, {"workspace_id": workspace_id, "id": lesson_id})


_CLOSE = """
    UPDATE lesson SET state = %(state)s, text = NULL, done_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state = 'pending'
"""


async def close(
    db: Db, workspace_id: WorkspaceId, lesson_id: UUID, *, is_done: bool, now: datetime
) -> bool:
    """End a lesson and forget its text; False when it was over already, or erased."""
    values = {"workspace_id": workspace_id, "id": lesson_id, "now": now}
    state = "done" if is_done else "failed"
    return (await db.execute(_CLOSE, {**values, "state": state})).rowcount > 0


_LEARNT = """
    SELECT EXISTS (
        SELECT FROM lesson
        WHERE workspace_id = %(workspace_id)s AND digest = %(digest)s AND state = 'done'
            AND subject IS NOT DISTINCT FROM %(subject)s
            AND CASE WHEN project_id IS NULL THEN workspace_id ELSE project_id END = coalesce(
                (SELECT t.project_id FROM thread t
                 WHERE t.workspace_id = %(workspace_id)s AND t.id = %(thread_id)s),
                %(workspace_id)s)
    )
"""


async def is_learnt(db: Db, workspace_id: WorkspaceId, lesson: Lesson) -> bool:
    """Whether the same words of the same person were learnt from before, in the same project."""
    values = {
        "workspace_id": workspace_id,
        "digest": lesson.digest,
        "subject": lesson.subject,
        "thread_id": lesson.thread_id,
    }
    row = await (await db.execute(_LEARNT, values)).fetchone()
    return bool(row and row[0])


# everywhere: one sweep drops what was learnt long ago; its candidates go with it.
_SWEEP = """
    DELETE FROM lesson
    WHERE (workspace_id, id) IN (
        SELECT workspace_id, id FROM lesson
        WHERE state <> 'pending' AND done_at < %(before)s
            AND NOT EXISTS (
                SELECT FROM candidate
                WHERE candidate.workspace_id = lesson.workspace_id
                    AND candidate.lesson_id = lesson.id AND candidate.state IN ('ready', 'pending')
            )
        LIMIT %(limit)s
    )
"""


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Drop lessons of long ago, in every workspace; what still waits for a decision stays."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a distiller made of a lesson; `why` says what it waits for."""

    id: UUID
    lesson_id: UUID
    content: str
    summary: str | None
    category: str | None
    quote: str
    slot: str | None
    why: str | None
    state: str
    created_at: datetime
    # Of the lesson it was made from.
    source: str = ""
    org_id: OrgId | None = None
    user_id: UserId | None = None
    subject: str | None = None
    thread_id: ThreadId | None = None
    said_at: datetime | None = None


_INSERT = """
    INSERT INTO candidate (
        workspace_id, id, lesson_id, content, summary, category, quote, slot, why, state, created_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(lesson_id)s, %(content)s, %(summary)s, %(category)s, %(quote)s,
        %(slot)s, %(why)s, %(state)s, %(created_at)s
    )
"""


async def insert(db: Db, workspace_id: WorkspaceId, made: Sequence[Candidate]) -> None:
    """Keep what a distiller made, in the transaction that ends its lesson."""
    for each in made:
        await db.execute(
            _INSERT,
            {
                "workspace_id": workspace_id,
                "id": each.id,
                "lesson_id": each.lesson_id,
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


# Whoever looks at them sees what was said in threads that they see.
_OPEN = f"""
    SELECT c.id, c.lesson_id, c.content, c.summary, c.category, c.quote, c.slot, c.why, c.state,
        c.created_at, l.source, l.org_id, l.user_id, l.subject, l.thread_id, l.said_at
    FROM candidate c
    JOIN lesson l ON l.workspace_id = c.workspace_id AND l.id = c.lesson_id
    WHERE c.workspace_id = %(workspace_id)s AND c.state = %(state)s
        AND (%(id)s::uuid IS NULL OR c.id = %(id)s)
        AND (%(lesson_id)s::uuid IS NULL OR c.lesson_id = %(lesson_id)s)
        AND (%(beyond_at)s::timestamptz IS NULL
             OR (c.created_at, c.id) > (%(beyond_at)s, %(beyond_id)s::uuid))
        AND (%(user_id)s::uuid IS NULL OR NOT EXISTS (
            SELECT FROM thread t
            WHERE t.workspace_id = %(workspace_id)s AND t.id = l.thread_id
                AND ({THREAD_IN_SIGHT}) IS NOT TRUE))
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
    lesson_id: UUID | None = None,
    beyond: tuple[datetime, UUID] | None = None,
    seen_by: Caller | None = None,
) -> list[Candidate]:
    """Candidates in a state, oldest first; all of them, one, or those of one lesson.

    With `seen_by` those that this caller may look at.
    """
    beyond_at, beyond_id = beyond or (None, None)
    values = {
        "workspace_id": workspace_id,
        "state": state,
        "limit": limit,
        "id": only,
        "lesson_id": lesson_id,
        "beyond_at": beyond_at,
        "beyond_id": beyond_id,
        "user_id": seen_by and seen_by.user_id,
        "is_home": seen_by is None or not seen_by.is_visiting,
    }
    async with db.cursor(row_factory=class_row(Candidate)) as cursor:
        await cursor.execute(_OPEN, values)
        return await cursor.fetchall()


_HOLD = """
    SELECT c.id FROM candidate c
    WHERE c.workspace_id = %(workspace_id)s AND c.id = %(id)s AND c.state IN ('ready', 'pending')
    FOR UPDATE
"""


async def hold(db: Db, workspace_id: WorkspaceId, candidate_id: UUID) -> bool:
    """Keep an open candidate from being erased until the transaction ends; False when it is gone.

    Whoever keeps what it says asks this first: what was erased must not come back.
    """
    cursor = await db.execute(_HOLD, {"workspace_id": workspace_id, "id": candidate_id})
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
    """Settle what becomes of a candidate; False when that was done already."""
    values = {"workspace_id": workspace_id, "id": candidate_id, "state": state}
    values |= {"memory_id": memory_id, "now": now}
    return (await db.execute(_DECIDE, values)).rowcount > 0


_IN_SLOT = """
    SELECT m.id
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.metadata ->> 'slot' = %(slot)s
        AND m.metadata ? 'slot' AND m.deleted_at IS NULL AND m.valid_until IS NULL
        AND CASE WHEN %(project_id)s::uuid IS NULL THEN m.scope = 'workspace'
            ELSE m.scope = 'project' AND m.project_id = %(project_id)s END
        AND m.subject IS NOT DISTINCT FROM %(subject)s
    ORDER BY m.created_at DESC, m.id
    LIMIT 1
"""


async def in_slot(
    db: Db,
    workspace_id: WorkspaceId,
    slot: str,
    subject: str | None,
    project_id: ProjectId | None,
) -> MemoryId | None:
    """The current memory of a fact that has one value at a time, a project's or everybody's."""
    values = {
        "workspace_id": workspace_id,
        "slot": slot,
        "subject": subject,
        "project_id": project_id,
    }
    row = await (await db.execute(_IN_SLOT, values)).fetchone()
    return MemoryId(row[0]) if row else None
