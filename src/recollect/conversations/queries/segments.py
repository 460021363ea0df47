"""SQL for segments: their messages, their summaries, and the threads due for segmentation."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from recollect.core.domain import (
    Caller,
    Memory,
    MemoryId,
    Message,
    MessageId,
    MessagePosition,
    Ref,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.db.pool import Db
from recollect.db.visibility import THREAD_VISIBLE, VISIBLE, scope_values, visibility_values
from recollect.memories.queries.memories import COLUMNS, memory_from_row

# How many messages to search before and after a late one for a message of a closed segment.
# Messages in between are from segments whose memories were deleted.
_REACH = 200

_NEAREST_SEGMENTS = """
    SELECT late.id, coalesce(before.memory_id, behind.memory_id)
    FROM unnest(%(ids)s::uuid[], %(ats)s::timestamptz[], %(positions)s::bigint[])
        AS late (id, at, position)
    LEFT JOIN LATERAL (
        SELECT s.memory_id
        FROM (
            SELECT m.id, m.created_at, m.position FROM message m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
                AND (m.created_at, m.position) < (late.at, late.position)
            ORDER BY m.created_at DESC, m.position DESC
            LIMIT %(reach)s
        ) AS near
        JOIN memory_message l ON l.workspace_id = %(workspace_id)s AND l.message_id = near.id
        JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id
            AND s.is_cut
        ORDER BY near.created_at DESC, near.position DESC
        LIMIT 1
    ) AS before ON true
    LEFT JOIN LATERAL (
        SELECT s.memory_id
        FROM (
            SELECT m.id, m.created_at, m.position FROM message m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
                AND (m.created_at, m.position) > (late.at, late.position)
                AND before.memory_id IS NULL
            ORDER BY m.created_at, m.position
            LIMIT %(reach)s
        ) AS near
        JOIN memory_message l ON l.workspace_id = %(workspace_id)s AND l.message_id = near.id
        JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id
            AND s.is_cut
        ORDER BY near.created_at, near.position
        LIMIT 1
    ) AS behind ON true
    WHERE coalesce(before.memory_id, behind.memory_id) IS NOT NULL
"""
_JOIN = """
    INSERT INTO memory_message (workspace_id, memory_id, message_id)
    SELECT %(workspace_id)s, pair.memory_id, pair.message_id
    FROM unnest(%(memory_ids)s::uuid[], %(message_ids)s::uuid[]) AS pair (memory_id, message_id)
"""


async def segments_of_messages(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, late: Sequence[Message]
) -> dict[MessageId, MemoryId]:
    """Return for each late message the closed segment before it, or else the one after it.

    Called before the messages are stored, so that the result does not depend on their order or
    number. Messages without a segment nearby are missing: the segments there were deleted by hand.
    """
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        "ids": [each.id for each in late],
        "ats": [each.created_at for each in late],
        "positions": [each.position for each in late],
        "reach": _REACH,
    }
    rows = await (await db.execute(_NEAREST_SEGMENTS, values)).fetchall()
    return {MessageId(row[0]): MemoryId(row[1]) for row in rows}


async def join(db: Db, workspace_id: WorkspaceId, found: Mapping[MessageId, MemoryId]) -> None:
    """Add messages to closed segments, which become stale."""
    values = {
        "workspace_id": workspace_id,
        "memory_ids": list(found.values()),
        "message_ids": list(found),
    }
    await db.execute(_JOIN, values)
    await mark_stale(db, workspace_id, list(found))


_MARK_STALE = """
    UPDATE segment
    SET is_stale = true
    FROM memory_message l
    WHERE segment.workspace_id = %(workspace_id)s AND l.workspace_id = %(workspace_id)s
        AND l.memory_id = segment.memory_id AND l.message_id = ANY(%(ids)s) AND segment.is_cut
    RETURNING segment.memory_id
"""


async def mark_stale(db: Db, workspace_id: WorkspaceId, ids: Sequence[MessageId]) -> list[MemoryId]:
    """Mark the automatic segments of these messages as stale, and return them."""
    cursor = await db.execute(_MARK_STALE, {"workspace_id": workspace_id, "ids": list(ids)})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


_EMPTIED = """
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s)
        AND NOT EXISTS (
            SELECT FROM memory_message l
            WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = m.id)
    ORDER BY m.id
    FOR UPDATE OF m
"""


async def emptied(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[MemoryId]:
    """Return those of these memories that have no messages left, and lock them."""
    cursor = await db.execute(_EMPTIED, {"workspace_id": workspace_id, "ids": list(ids)})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


_LINK = """
    INSERT INTO memory_message (workspace_id, memory_id, message_id)
    SELECT %(workspace_id)s, %(memory_id)s, unnest(%(ids)s::uuid[])
"""


_UNLINK = """
    DELETE FROM memory_message
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
        AND message_id = ANY(%(ids)s)
"""


async def link(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, ids: Sequence[MessageId]
) -> None:
    """Link a new memory to its messages."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "ids": list(ids)}
    await db.execute(_LINK, values)


async def unlink(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, ids: Sequence[MessageId]
) -> None:
    """Remove messages from a memory."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "ids": list(ids)}
    await db.execute(_UNLINK, values)


@dataclass(frozen=True, slots=True)
class MessageRange:
    """A closed segment of a thread, identified by its memory."""

    thread_id: ThreadId
    memory_id: MemoryId


@dataclass(frozen=True, slots=True)
class Segment:
    """A memory made of messages, the author of its summary, and the reason if no model wrote it."""

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
    """Store that a memory was made of messages, and who summarised them."""
    await db.execute(_INSERT, {"workspace_id": workspace_id, **asdict(segment)})


_CLOSE = """
    UPDATE thread
    SET segmented_at = %(at)s, segmented_position = %(position)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""


async def close_until(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, position: MessagePosition | None
) -> None:
    """Move the frontier of a locked thread; None reopens the whole thread."""
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        "at": position and position.at,
        "position": position and position.position,
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
class DueThread:
    """A thread due for segmentation, its owner, and the time since which it is due."""

    thread_id: ThreadId
    owner: UserId | None
    due_at: datetime


async def due_thread(
    db: Db, workspace_id: WorkspaceId, now: datetime, *, after: DueThread | None, limit: int
) -> list[DueThread]:
    """Return due threads, the longest waiting first, beginning after one already processed."""
    values = {
        "workspace_id": workspace_id,
        "now": now,
        "after_at": after.due_at if after else "-infinity",
        "after_id": after.thread_id if after else UUID(int=0),
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(DueThread)) as cursor:
        await cursor.execute(_DUE, values)
        return await cursor.fetchall()


async def next_due(db: Db, workspace_id: WorkspaceId) -> datetime | None:
    """Return the time when the next thread is due."""
    row = await (await db.execute(_LATER, {"workspace_id": workspace_id})).fetchone()
    return row[0] if row else None


async def schedule(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, due_at: datetime | None
) -> None:
    """Set when a locked thread is due next; None if it has no open messages."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id, "due_at": due_at}
    await db.execute(_SCHEDULE, values)


_STALE = """
    SELECT s.memory_id, s.thread_id, t.user_id AS owner FROM segment s
    LEFT JOIN thread t ON t.workspace_id = s.workspace_id AND t.id = s.thread_id
    WHERE s.workspace_id = %(workspace_id)s AND s.is_stale
        AND (t.segment_due_at IS NULL OR t.segment_due_at > %(now)s)
    ORDER BY s.memory_id
    LIMIT %(limit)s
"""
_STALE_IN = """
    SELECT s.thread_id, s.memory_id FROM segment s
    WHERE s.workspace_id = %(workspace_id)s AND s.thread_id = %(thread_id)s AND s.is_stale
    ORDER BY s.memory_id
"""


@dataclass(frozen=True, slots=True)
class StaleSegment:
    """A memory whose messages have changed, its thread, and the thread's owner."""

    memory_id: MemoryId
    thread_id: ThreadId
    owner: UserId | None


async def stale_segments(
    db: Db, workspace_id: WorkspaceId, now: datetime, limit: int
) -> list[StaleSegment]:
    """Return segments to summarise again, except in threads that must be segmented first."""
    values = {"workspace_id": workspace_id, "now": now, "limit": limit}
    async with db.cursor(row_factory=class_row(StaleSegment)) as cursor:
        await cursor.execute(_STALE, values)
        return await cursor.fetchall()


async def stale_in(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> list[MessageRange]:
    """Return the segments of a thread with late or changed messages."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id}
    async with db.cursor(row_factory=class_row(MessageRange)) as cursor:
        await cursor.execute(_STALE_IN, values)
        return await cursor.fetchall()


_FIRST_RECEIVED = """
    SELECT m.created_at AS at, m.position FROM memory_message l
    JOIN message m ON m.workspace_id = l.workspace_id AND m.id = l.message_id
    WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = %(memory_id)s
    ORDER BY m.position
    LIMIT 1
"""


async def first_received(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId
) -> MessagePosition | None:
    """Return the position of the segment's message that was received first."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    async with db.cursor(row_factory=class_row(MessagePosition)) as cursor:
        await cursor.execute(_FIRST_RECEIVED, values)
        return await cursor.fetchone()


_AROUND = """
    SELECT near.created_at AS at, near.position, cut.memory_id
    FROM (
        (SELECT m.id, m.created_at, m.position FROM message m
         WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
            AND (m.created_at, m.position) <= (%(at)s, %(position)s::bigint)
         ORDER BY m.created_at DESC, m.position DESC
         LIMIT %(reach)s)
        UNION ALL
        (SELECT m.id, m.created_at, m.position FROM message m
         WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
            AND (m.created_at, m.position) > (%(at)s, %(position)s::bigint)
         ORDER BY m.created_at, m.position
         LIMIT %(reach)s)
    ) AS near
    LEFT JOIN (
        SELECT l.message_id, s.memory_id FROM memory_message l
        JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id
        WHERE l.workspace_id = %(workspace_id)s AND s.is_cut
    ) AS cut ON cut.message_id = near.id
    ORDER BY near.created_at, near.position
"""


@dataclass(frozen=True, slots=True)
class LinkedSegment:
    """The position of a message, and the memory of its closed segment."""

    at: datetime
    position: int
    memory_id: MemoryId | None

    @property
    def thread_position(self) -> MessagePosition:
        """The position in its thread."""
        return MessagePosition(self.at, self.position)


async def around(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, position: MessagePosition, reach: int
) -> list[LinkedSegment]:
    """Return the messages around a position, in order, at most `reach` on each side."""
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        **asdict(position),
        "reach": reach,
    }
    async with db.cursor(row_factory=class_row(LinkedSegment)) as cursor:
        await cursor.execute(_AROUND, values)
        return await cursor.fetchall()


_OTHERS_WITHIN = """
    SELECT m.created_at AS at, m.position FROM message m
    JOIN memory_message l ON l.workspace_id = m.workspace_id AND l.message_id = m.id
    JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id AND s.is_cut
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
        AND l.memory_id <> %(memory_id)s
        AND (m.created_at, m.position) > (%(first_at)s, %(first_position)s::bigint)
        AND (m.created_at, m.position) < (%(last_at)s, %(last_position)s::bigint)
    ORDER BY m.created_at, m.position
    LIMIT 1
"""


async def others_within(
    db: Db,
    workspace_id: WorkspaceId,
    segment: MessageRange,
    first: MessagePosition,
    last: MessagePosition,
) -> MessagePosition | None:
    """Return the position of the first message of another closed segment between two positions."""
    values = {"workspace_id": workspace_id, **asdict(segment), **_between(first, last)}
    async with db.cursor(row_factory=class_row(MessagePosition)) as cursor:
        await cursor.execute(_OTHERS_WITHIN, values)
        return await cursor.fetchone()


_MARKS_WITHIN = """
    SELECT m.id, m.edited_at FROM message m
    JOIN memory_message l ON l.workspace_id = m.workspace_id AND l.message_id = m.id
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
        AND l.memory_id = %(memory_id)s
        AND (m.created_at, m.position) >= (%(first_at)s, %(first_position)s::bigint)
        AND (m.created_at, m.position) <= (%(last_at)s, %(last_position)s::bigint)
    ORDER BY m.created_at, m.position
    LIMIT %(limit)s
"""


async def marks_within(
    db: Db,
    workspace_id: WorkspaceId,
    segment: MessageRange,
    first: MessagePosition,
    last: MessagePosition,
    limit: int,
) -> list[tuple[UUID, datetime | None]]:
    """Return the ids and edit times of a segment's messages between two positions."""
    values = {
        "workspace_id": workspace_id,
        **asdict(segment),
        **_between(first, last),
        "limit": limit,
    }
    return await (await db.execute(_MARKS_WITHIN, values)).fetchall()


def _between(first: MessagePosition, last: MessagePosition) -> dict[str, Any]:
    return {
        "first_at": first.at,
        "first_position": first.position,
        "last_at": last.at,
        "last_position": last.position,
    }


_BEHIND = """
    SELECT near.memory_id, near.at, (
        SELECT count(*) FROM memory_message l
        WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = near.memory_id
        ) AS messages
    FROM (
        SELECT s.memory_id, m.created_at AS at FROM message m
        JOIN memory_message l ON l.workspace_id = m.workspace_id AND l.message_id = m.id
        JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id
            AND s.is_cut
        WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
            AND (m.created_at, m.position) > (%(at)s, %(position)s::bigint)
        ORDER BY m.created_at, m.position
        LIMIT 1
    ) AS near
"""


@dataclass(frozen=True, slots=True)
class LateMessages:
    """The next closed segment: the time of its first message after a position, and its size."""

    memory_id: MemoryId
    at: datetime
    messages: int


async def late_messages(
    db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, position: MessagePosition
) -> LateMessages | None:
    """Return the next closed segment after a position."""
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        "at": position.at,
        "position": position.position,
    }
    async with db.cursor(row_factory=class_row(LateMessages)) as cursor:
        await cursor.execute(_BEHIND, values)
        return await cursor.fetchone()


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
    """Return the author of a memory's summary; None for a memory not made of messages."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    row = await (await db.execute(_SUMMARISED_BY, values)).fetchone()
    return row[0] if row else None


async def rewritten(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, by: str, fallback_reason: str | None
) -> None:
    """Store the new author of a memory's summary, if it was made of messages."""
    values = {
        "workspace_id": workspace_id,
        "memory_id": memory_id,
        "by": by,
        "fallback_reason": fallback_reason,
    }
    await db.execute(_REWRITTEN, values)


# Select the ids first: skipped rows are then neither read whole nor joined to their vectors.
# Measured for rows 5,000 to 5,100 of 10,000 on a busy machine: 18 ms; in one step 62 ms.
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
    """Return a thread's live memories, oldest first, from an offset on; all if `limit` is None."""
    values = {
        **visibility_values(caller, now),
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
    """Mark a memory's summary as up to date."""
    await db.execute(_REFRESHED, {"workspace_id": workspace_id, "memory_id": memory_id})


_CUT_OF_THREAD = """
    SELECT s.memory_id FROM segment s
    WHERE s.workspace_id = %(workspace_id)s AND s.thread_id = %(thread_id)s AND s.is_cut
"""


async def cut_memories(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId) -> list[MemoryId]:
    """Return the memories of a thread's automatic segments."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id}
    return [MemoryId(row[0]) for row in await (await db.execute(_CUT_OF_THREAD, values)).fetchall()]


_MADE_OF = """
    SELECT l.memory_id, l.message_id FROM memory_message l
    WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = ANY(%(ids)s)
"""


async def made_of(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> dict[MemoryId, set[MessageId]]:
    """Return the source messages of each of these memories that has any."""
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
    """Return the number of messages of each memory; memories without messages are missing."""
    cursor = await db.execute(_COUNTS, {"workspace_id": workspace_id, "ids": list(ids)})
    return {MemoryId(row[0]): row[1] for row in await cursor.fetchall()}


# A memory in a thread is visible to those who see the thread. Without a thread, or after its
# deletion, the memory's own scope decides.
_THREAD_OF = f"""
    SELECT t.id FROM memory m
    JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    WHERE m.workspace_id = %(workspace_id)s
        AND (m.id = %(id)s
             OR (m.short_code = left(%(code)s, 12) AND starts_with(m.code, %(code)s)))
        AND {THREAD_VISIBLE}
"""


async def thread_of(db: Db, caller: Caller, ref: Ref) -> ThreadId | None:
    """Return the thread of a memory, if the caller can see that thread."""
    values = {**scope_values(caller), "id": ref.id, "code": ref.code}
    row = await (await db.execute(_THREAD_OF, values)).fetchone()
    return ThreadId(row[0]) if row else None
