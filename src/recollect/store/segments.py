"""Which messages a memory was made of, and what became of a thread's stretches."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from recollect.domain import (
    Caller,
    Memory,
    MemoryId,
    Message,
    MessageId,
    Place,
    Ref,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.store.memories import COLUMNS, memory_from_row
from recollect.store.pool import Db
from recollect.store.visible import THREAD_IN_SIGHT, VISIBLE, in_sight_of, visible_to

# The stretch of the message directly before, or behind, one that arrived late.
_JOIN_BEFORE = """
    INSERT INTO memory_message (workspace_id, memory_id, message_id)
    SELECT s.workspace_id, s.memory_id, %(message_id)s
    FROM (
        SELECT m.id FROM message m
        WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
            AND (m.created_at, m.position) < (%(at)s, %(position)s::bigint)
        ORDER BY m.created_at DESC, m.position DESC
        LIMIT 1
    ) AS next_to
    JOIN memory_message l ON l.workspace_id = %(workspace_id)s AND l.message_id = next_to.id
    JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id AND s.is_cut
    LIMIT 1
    RETURNING memory_id
"""
_JOIN_BEHIND = """
    INSERT INTO memory_message (workspace_id, memory_id, message_id)
    SELECT s.workspace_id, s.memory_id, %(message_id)s
    FROM (
        SELECT m.id FROM message m
        WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
            AND (m.created_at, m.position) > (%(at)s, %(position)s::bigint)
        ORDER BY m.created_at, m.position
        LIMIT 1
    ) AS next_to
    JOIN memory_message l ON l.workspace_id = %(workspace_id)s AND l.message_id = next_to.id
    JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id AND s.is_cut
    LIMIT 1
    RETURNING memory_id
"""


async def join_neighbour(db: Db, workspace_id: WorkspaceId, message: Message) -> None:
    """Put a late message into the closed stretch it was said in, which becomes stale.

    Where that stretch's memory was deleted by hand, the message belongs to none.
    """
    values = {
        "workspace_id": workspace_id,
        "thread_id": message.thread_id,
        "message_id": message.id,
        "at": message.created_at,
        "position": message.position,
    }
    for query in (_JOIN_BEFORE, _JOIN_BEHIND):
        row = await (await db.execute(query, values)).fetchone()
        if row:
            await mark_stale(db, workspace_id, [message.id])
            return


_MARK_STALE = """
    UPDATE segment
    SET is_stale = true
    FROM memory_message l
    WHERE segment.workspace_id = %(workspace_id)s AND l.workspace_id = %(workspace_id)s
        AND l.memory_id = segment.memory_id AND l.message_id = ANY(%(ids)s) AND segment.is_cut
    RETURNING segment.memory_id
"""


async def mark_stale(db: Db, workspace_id: WorkspaceId, ids: Sequence[MessageId]) -> list[MemoryId]:
    """Have the stretches that hold these messages summarised anew; those made by hand are left."""
    cursor = await db.execute(_MARK_STALE, {"workspace_id": workspace_id, "ids": list(ids)})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


_EMPTIED = """
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s)
        AND NOT EXISTS (
            SELECT FROM memory_message l
            WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = m.id)
    FOR UPDATE OF m
"""


async def emptied(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[MemoryId]:
    """Those of these memories of which no message is left, held until the transaction ends."""
    cursor = await db.execute(_EMPTIED, {"workspace_id": workspace_id, "ids": list(ids)})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


_LINK = """
    INSERT INTO memory_message (workspace_id, memory_id, message_id)
    SELECT %(workspace_id)s, %(memory_id)s, unnest(%(ids)s::uuid[])
"""


async def link(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, ids: Sequence[MessageId]
) -> None:
    """Note what a new memory was made of."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "ids": list(ids)}
    await db.execute(_LINK, values)


@dataclass(frozen=True, slots=True)
class Segment:
    """A memory made of messages: who wrote its summary, and why not the model."""

    memory_id: MemoryId
    thread_id: ThreadId
    is_cut: bool
    summarised_by: str
    fallback_reason: str | None


_INSERT = """
    INSERT INTO segment (
        workspace_id, memory_id, thread_id, is_cut, summarised_by, fallback_reason
    ) VALUES (
        %(workspace_id)s, %(memory_id)s, %(thread_id)s, %(is_cut)s, %(summarised_by)s,
        %(fallback_reason)s
    )
"""


async def put(db: Db, workspace_id: WorkspaceId, segment: Segment) -> None:
    """Note that a memory was made of messages, and who summarised them."""
    await db.execute(_INSERT, {"workspace_id": workspace_id, **asdict(segment)})


_CLOSE = """
    UPDATE thread
    SET segmented_at = %(at)s, segmented_position = %(position)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""


async def close_until(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, place: Place | None
) -> None:
    """Move a held thread's frontier; None opens the whole thread again."""
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        "at": place and place.at,
        "position": place and place.position,
    }
    await db.execute(_CLOSE, values)


_DUE = """
    SELECT t.id AS thread_id, t.user_id AS owner, t.segment_due_at AS due_at FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.segment_due_at <= %(now)s
        AND (t.segment_due_at, t.id) > (%(after_at)s::timestamptz, %(after_id)s::uuid)
    ORDER BY t.segment_due_at, t.id
    LIMIT %(limit)s
"""
_LATER = """
    SELECT min(t.segment_due_at) FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
"""
_SCHEDULE = """
    UPDATE thread
    SET segment_due_at = %(due_at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""


@dataclass(frozen=True, slots=True)
class Due:
    """A thread that the segmenter should look at, whose it is, and since when it waits."""

    thread_id: ThreadId
    owner: UserId | None
    due_at: datetime


async def due(
    db: Db, workspace_id: WorkspaceId, now: datetime, *, after: Due | None, limit: int
) -> list[Due]:
    """Threads to look at, the longest waiting first, from just behind one that was looked at."""
    values = {
        "workspace_id": workspace_id,
        "now": now,
        "after_at": after.due_at if after else "-infinity",
        "after_id": after.thread_id if after else UUID(int=0),
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(Due)) as cursor:
        await cursor.execute(_DUE, values)
        return await cursor.fetchall()


async def next_due(db: Db, workspace_id: WorkspaceId) -> datetime | None:
    """When the next thread is to be looked at."""
    row = await (await db.execute(_LATER, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


async def schedule(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, due_at: datetime | None
) -> None:
    """Say when to look at a held thread next; None when nothing in it is open."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id, "due_at": due_at}
    await db.execute(_SCHEDULE, values)


_STALE = """
    SELECT s.memory_id, t.user_id FROM segment s
    LEFT JOIN thread t ON t.workspace_id = s.workspace_id AND t.id = s.thread_id
    WHERE s.workspace_id = %(workspace_id)s AND s.is_stale
    ORDER BY s.memory_id
    LIMIT %(limit)s
"""


async def stale(
    db: Db, workspace_id: WorkspaceId, limit: int
) -> list[tuple[MemoryId, UserId | None]]:
    """Memories whose messages have changed since, and whose thread they are of."""
    cursor = await db.execute(_STALE, {"workspace_id": workspace_id, "limit": limit})
    return [(MemoryId(row[0]), row[1]) for row in await cursor.fetchall()]


_SUMMARISED_BY = """
    SELECT s.summarised_by FROM segment s
    WHERE s.workspace_id = %(workspace_id)s AND s.memory_id = %(memory_id)s
"""
_REWRITTEN = """
    UPDATE segment
    SET summarised_by = %(by)s, fallback_reason = %(fallback_reason)s
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
"""


async def summarised_by(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> str | None:
    """Who summarised a memory's messages; None for one that was not made of messages."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    row = await (await db.execute(_SUMMARISED_BY, values)).fetchone()
    return row[0] if row else None


async def rewritten(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, by: str, fallback_reason: str | None
) -> None:
    """Note who summarised a memory's messages anew, if it was made of any."""
    values = {
        "workspace_id": workspace_id,
        "memory_id": memory_id,
        "by": by,
        "fallback_reason": fallback_reason,
    }
    await db.execute(_REWRITTEN, values)


# First which ones, then what they are: what is passed over on the way to a late page is neither
# fetched whole nor asked for its vector. (100 from the 5,000th of 10,000 on, on a busy machine:
# 18 ms; both at once 62.)
_LISTED = f"""
    WITH page AS MATERIALIZED (
        SELECT m.id
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s AND {VISIBLE}
        ORDER BY m.created_at, m.id
        LIMIT %(limit)s OFFSET %(offset)s
    )
    SELECT {COLUMNS}
    FROM page
    JOIN memory m ON m.workspace_id = %(workspace_id)s AND m.id = page.id
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    ORDER BY m.created_at, m.id
"""


async def listed(
    db: Db,
    caller: Caller,
    thread_id: ThreadId,
    *,
    offset: int,
    limit: int | None,
    now: datetime,
) -> list[Memory]:
    """A thread's live memories, oldest first; all from there on without a limit."""
    values = {
        **visible_to(caller, now),
        "thread_id": thread_id,
        "offset": offset,
        "limit": limit,
    }
    async with db.cursor(row_factory=kwargs_row(memory_from_row)) as cursor:
        await cursor.execute(_LISTED, values)
        return await cursor.fetchall()


_REFRESHED = """
    UPDATE segment
    SET is_stale = false
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
"""


async def mark_fresh(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> None:
    """Nothing is left to summarise anew."""
    await db.execute(_REFRESHED, {"workspace_id": workspace_id, "memory_id": memory_id})


_CUT_OF_THREAD = """
    SELECT s.memory_id FROM segment s
    WHERE s.workspace_id = %(workspace_id)s AND s.thread_id = %(thread_id)s AND s.is_cut
"""


async def cut_memories(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> list[MemoryId]:
    """Every memory that the segmenter made of a thread."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id}
    return [MemoryId(row[0]) for row in await (await db.execute(_CUT_OF_THREAD, values)).fetchall()]


_MADE_OF = """
    SELECT l.memory_id, l.message_id FROM memory_message l
    WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = ANY(%(ids)s)
"""


async def made_of(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> dict[MemoryId, set[MessageId]]:
    """The messages that each of these memories was made of, where it was made of any."""
    found: dict[MemoryId, set[MessageId]] = {}
    cursor = await db.execute(_MADE_OF, {"workspace_id": workspace_id, "ids": list(ids)})
    for memory_id, message_id in await cursor.fetchall():
        found.setdefault(MemoryId(memory_id), set()).add(MessageId(message_id))
    return found


_COUNTS = """
    SELECT l.memory_id, count(*) FROM memory_message l
    WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = ANY(%(ids)s)
    GROUP BY l.memory_id
"""


async def message_counts(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> dict[MemoryId, int]:
    """How many messages each memory was made of; those of none are missing."""
    cursor = await db.execute(_COUNTS, {"workspace_id": workspace_id, "ids": list(ids)})
    return {MemoryId(row[0]): row[1] for row in await cursor.fetchall()}


# A memory of a thread is for those who may see the thread; one whose thread is gone, or that has
# none, is for those it says itself.
_THREAD_OF = f"""
    SELECT t.id FROM memory m
    JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    WHERE m.workspace_id = %(workspace_id)s
        AND (m.id = %(id)s
             OR (m.short_code = left(%(code)s, 12) AND starts_with(m.code, %(code)s)))
        AND {THREAD_IN_SIGHT}
"""


async def thread_of(db: Db, caller: Caller, ref: Ref) -> ThreadId | None:
    """The thread that a memory is of, if the caller may see that thread."""
    values = {**in_sight_of(caller), "id": ref.id, "code": ref.code}
    row = await (await db.execute(_THREAD_OF, values)).fetchone()
    return ThreadId(row[0]) if row else None
