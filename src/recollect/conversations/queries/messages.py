"""SQL for messages: append, read by page, edit and delete."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.conversations.queries.segments import MessageRange
from recollect.core.domain import (
    AgentId,
    Caller,
    MemoryId,
    Message,
    MessageId,
    MessagePosition,
    ProjectId,
    Ref,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.db.pool import Db
from recollect.db.visibility import THREAD_VISIBLE, scope_values

# The columns of a `Message`; the statement must bind workspace and user as `in_sight_of` does. The
# memory is included only if everyone who can see the thread can see it: a memory of the workspace,
# of the thread, of the thread's project, or of the user.
COLUMNS = """
    m.id, m.code, m.thread_id, t.code AS thread_code, m.position, m.role, m.content, m.created_at,
    m.author, m.parts, m.metadata, m.client_id, m.edited_at,
    (SELECT made.code
     FROM memory_message l
     JOIN segment s ON s.workspace_id = l.workspace_id AND s.memory_id = l.memory_id
     JOIN memory made ON made.workspace_id = l.workspace_id AND made.id = l.memory_id
     WHERE l.workspace_id = %(workspace_id)s AND l.message_id = m.id AND made.deleted_at IS NULL
        AND (made.expires_at IS NULL OR made.expires_at > now())
        AND CASE made.scope
            WHEN 'workspace' THEN true
            WHEN 'thread' THEN made.thread_id = t.id
            WHEN 'project' THEN made.project_id = t.project_id
            WHEN 'global' THEN made.user_id = %(user_id)s
            ELSE false END
     ORDER BY s.is_cut, made.created_at DESC, made.id DESC
     LIMIT 1
    ) AS memory_code
"""
_WITH_THREAD = """
    FROM message m
    JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
"""
# Messages are visible if their thread is visible and has not expired.
_THREAD_OPEN = f"(t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_VISIBLE}"


@dataclass(frozen=True, slots=True)
class LockedThread:
    """A thread with a row lock: no other transaction appends to it."""

    id: ThreadId
    code: str
    subject: str | None
    last_position: int
    last_at: datetime | None
    segmented_at: datetime | None
    segmented_position: int | None
    segment_due_at: datetime | None
    heard_at: datetime | None
    user_id: UserId | None
    project_id: ProjectId | None
    agent_id: AgentId | None
    # Imported from another system, and whether its memories are for the whole workspace.
    is_imported: bool
    is_for_all: bool

    @property
    def frontier(self) -> MessagePosition | None:
        """Return the position of the last message in a closed segment."""
        if self.segmented_at is None or self.segmented_position is None:
            return None
        return MessagePosition(self.segmented_at, self.segmented_position)

    def is_due(self, now: datetime) -> bool:
        """Whether messages have arrived since the segmenter last ran."""
        return self.segment_due_at is not None and self.segment_due_at <= now


_HOLD = f"""
    SELECT t.id, t.code, t.subject, t.last_position, t.segmented_at, t.segmented_position,
        t.segment_due_at, t.heard_at, t.user_id, t.project_id, t.agent_id,
        t.metadata ? 'imported_from' AS is_imported,
        t.metadata @> '{{"scope": "workspace"}}' AS is_for_all,
        (SELECT m.created_at FROM message m
         WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = t.id
         ORDER BY m.created_at DESC, m.position DESC
         LIMIT 1
        ) AS last_at
    FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND t.id = %(id)s AND {_THREAD_OPEN}
"""
_LOCK = f"""
    SELECT t.id FROM thread t
    WHERE t.workspace_id = %(workspace_id)s
        AND (t.id = %(id)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
        AND {THREAD_VISIBLE}
    FOR NO KEY UPDATE OF t
"""


async def lock_thread(db: Db, caller: Caller, ref: Ref, now: datetime) -> LockedThread | None:
    """Lock a live thread. New messages wait for the lock; memories can still be saved.

    The thread is read under the lock, so the last message of another server is included.
    """
    values = {**scope_values(caller), "id": ref.id, "code": ref.code, "now": now}
    row = await (await db.execute(_LOCK, values)).fetchone()
    if row is None:
        return None
    async with db.cursor(row_factory=class_row(LockedThread)) as cursor:
        await cursor.execute(_HOLD, values | {"id": row[0]})
        return await cursor.fetchone()


_LOCATE = f"""
    SELECT t.id, t.code, t.message_count FROM thread t
    WHERE t.workspace_id = %(workspace_id)s AND {_THREAD_OPEN}
        AND (t.id = %(id)s
             OR (t.short_code = left(%(code)s, 12) AND starts_with(t.code, %(code)s)))
"""


@dataclass(frozen=True, slots=True)
class LocatedThread:
    """A live thread, found without counting its memories."""

    id: ThreadId
    code: str
    message_count: int


async def locate_thread(db: Db, caller: Caller, ref: Ref, now: datetime) -> LocatedThread | None:
    """Return the thread for any form of its id, unless it has expired."""
    values = {**scope_values(caller), "id": ref.id, "code": ref.code, "now": now}
    async with db.cursor(row_factory=class_row(LocatedThread)) as cursor:
        await cursor.execute(_LOCATE, values)
        return await cursor.fetchone()


_INSERT = """
    INSERT INTO message (
        workspace_id, id, code, thread_id, position, client_id, role, author, content, parts,
        metadata, created_at, user_id
    ) VALUES (
        %(workspace_id)s, %(id)s, %(code)s, %(thread_id)s, %(position)s, %(client_id)s, %(role)s,
        %(author)s, %(content)s, %(parts)s, %(metadata)s, %(created_at)s, %(user_id)s
    )
"""
_ADVANCE = """
    UPDATE thread
    SET last_position = last_position + %(count)s, message_count = message_count + %(count)s,
        heard_at = %(now)s, segment_due_at = %(now)s,
        updated_at = greatest(updated_at, %(now)s)
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""

_FIELDS = [each.name for each in fields(Message)]


async def insert(
    db: Db, caller: Caller, thread_id: ThreadId, new: Sequence[Message], now: datetime
) -> None:
    """Store messages in a locked thread; their positions follow its last one."""
    workspace_id = caller.workspace_id
    said = [_parameters(workspace_id, each) | {"user_id": caller.user_id} for each in new]
    async with db.cursor() as cursor:
        await cursor.executemany(_INSERT, said)
    values = {"workspace_id": workspace_id, "thread_id": thread_id, "count": len(new), "now": now}
    await db.execute(_ADVANCE, values)


def _parameters(workspace_id: WorkspaceId, message: Message) -> dict[str, Any]:
    return {name: getattr(message, name) for name in _FIELDS} | {
        "workspace_id": workspace_id,
        "parts": None if message.parts is None else Jsonb(list(message.parts)),
        "metadata": Jsonb(dict(message.metadata)),
    }


_BY_CLIENT_ID = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
        AND m.client_id = ANY(%(client_ids)s)
"""


async def by_client_id(
    db: Db, caller: Caller, thread_id: ThreadId, client_ids: Sequence[str]
) -> dict[str, Message]:
    """Return the thread's messages with these sender ids."""
    values = {
        **scope_values(caller),
        "thread_id": thread_id,
        "client_ids": list(client_ids),
    }
    found = await _fetch(db, _BY_CLIENT_ID, values)
    return {each.client_id: each for each in found if each.client_id is not None}


_FIND = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {_THREAD_OPEN}
        AND (m.id = %(id)s
             OR (m.short_code = left(%(code)s, 12) AND starts_with(m.code, %(code)s)))
"""


async def find(db: Db, caller: Caller, ref: Ref, now: datetime) -> Message | None:
    """Return the message for any form of its id, unless its thread has expired."""
    values = {**scope_values(caller), "id": ref.id, "code": ref.code, "now": now}
    found = await _fetch(db, _FIND, values)
    return found[0] if found else None


_FIND_ALL = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s
        AND (m.id = ANY(%(ids)s) OR m.short_code = ANY(%(codes)s))
    ORDER BY m.created_at, m.position
"""


async def find_all(
    db: Db, caller: Caller, thread_id: ThreadId, refs: Sequence[Ref]
) -> list[Message]:
    """Return those of the given messages that are in this thread, each once, in order."""
    values = {
        **scope_values(caller),
        "thread_id": thread_id,
        "ids": [ref.id for ref in refs if ref.id],
        "codes": [ref.code[:12] for ref in refs if ref.code],
    }
    return await _fetch(db, _FIND_ALL, values)


# Skipped rows must not cost as much as returned ones, so their ids are selected first.
_FORWARD = f"""
    WITH part AS (
        SELECT p.id FROM message p
        WHERE p.workspace_id = %(workspace_id)s AND p.thread_id = %(thread_id)s
            AND (p.created_at, p.position) > (%(at)s::timestamptz, %(position)s::bigint)
        ORDER BY p.created_at, p.position
        LIMIT %(limit)s OFFSET %(offset)s
    )
    SELECT {COLUMNS} {_WITH_THREAD}
    JOIN part ON part.id = m.id
    WHERE m.workspace_id = %(workspace_id)s
    ORDER BY m.created_at, m.position
"""
_BACKWARD = f"""
    WITH part AS (
        SELECT p.id FROM message p
        WHERE p.workspace_id = %(workspace_id)s AND p.thread_id = %(thread_id)s
            AND (p.created_at, p.position) < (%(at)s::timestamptz, %(position)s::bigint)
        ORDER BY p.created_at DESC, p.position DESC
        LIMIT %(limit)s OFFSET %(offset)s
    )
    SELECT {COLUMNS} {_WITH_THREAD}
    JOIN part ON part.id = m.id
    WHERE m.workspace_id = %(workspace_id)s
    ORDER BY m.created_at DESC, m.position DESC
"""


# The later half of a thread is read from its end. The count is read in the same statement, so that
# messages arriving meanwhile do not shift the page.
_LATE = f"""
    WITH counted AS (
        SELECT t.message_count AS total FROM thread t
        WHERE t.workspace_id = %(workspace_id)s AND t.id = %(thread_id)s
    ), part AS (
        SELECT p.id FROM message p
        WHERE p.workspace_id = %(workspace_id)s AND p.thread_id = %(thread_id)s
        ORDER BY p.created_at DESC, p.position DESC
        LIMIT least(%(limit)s, greatest((SELECT total FROM counted) - %(offset)s, 0))
        OFFSET greatest((SELECT total FROM counted) - %(offset)s - %(limit)s, 0)
    )
    SELECT {COLUMNS} {_WITH_THREAD}
    JOIN part ON part.id = m.id
    WHERE m.workspace_id = %(workspace_id)s
    ORDER BY m.created_at, m.position
"""


async def late_page(
    db: Db, caller: Caller, thread_id: ThreadId, *, offset: int, limit: int
) -> list[Message]:
    """Like `page` in forward order, but faster for the later half of a long thread."""
    values = {**scope_values(caller), "thread_id": thread_id, "offset": offset, "limit": limit}
    return await _fetch(db, _LATE, values)


async def page(
    db: Db,
    caller: Caller,
    thread_id: ThreadId,
    *,
    beyond: MessagePosition | None = None,
    is_newest_first: bool = False,
    offset: int = 0,
    limit: int,
) -> list[Message]:
    """Return messages of a thread in order, or newest first, beginning after a position."""
    values = {
        **scope_values(caller),
        "thread_id": thread_id,
        "at": beyond.at if beyond else ("infinity" if is_newest_first else "-infinity"),
        "position": beyond.position if beyond else 0,
        "offset": offset,
        "limit": limit,
    }
    return await _fetch(db, _BACKWARD if is_newest_first else _FORWARD, values)


_MARKS = """
    SELECT p.id, p.edited_at FROM message p
    WHERE p.workspace_id = %(workspace_id)s AND p.thread_id = %(thread_id)s
        AND (p.created_at, p.position) > (%(at)s::timestamptz, %(position)s::bigint)
    ORDER BY p.created_at, p.position
    LIMIT %(limit)s
"""


async def marks(
    db: Db,
    workspace_id: WorkspaceId,
    thread_id: ThreadId,
    *,
    beyond: MessagePosition | None,
    limit: int,
) -> list[tuple[UUID, datetime | None]]:
    """Return the ids and edit times of a page of messages, which show whether they have changed."""
    values = {
        "workspace_id": workspace_id,
        "thread_id": thread_id,
        "at": beyond.at if beyond else "-infinity",
        "position": beyond.position if beyond else 0,
        "limit": limit,
    }
    return await (await db.execute(_MARKS, values)).fetchall()


_UPDATE = """
    UPDATE message
    SET content = %(content)s, parts = %(parts)s, metadata = %(metadata)s,
        edited_at = %(edited_at)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def update(db: Db, workspace_id: WorkspaceId, message: Message) -> None:
    """Store the changeable fields of a message in a locked thread."""
    await db.execute(_UPDATE, _parameters(workspace_id, message))


_REMOVE = "DELETE FROM message WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)"
_LOWER = """
    UPDATE thread SET message_count = message_count - %(count)s, updated_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""


async def remove(
    db: Db,
    workspace_id: WorkspaceId,
    thread_id: ThreadId,
    ids: Sequence[MessageId],
    now: datetime,
) -> int:
    """Delete messages of a locked thread with their files; memories lose the link and stay."""
    values: dict[str, Any] = {"workspace_id": workspace_id, "ids": list(ids)}
    count = (await db.execute(_REMOVE, values)).rowcount
    values |= {"thread_id": thread_id, "count": count, "now": now}
    await db.execute(_LOWER, values)
    return count


_CLEAR = "DELETE FROM message WHERE workspace_id = %(workspace_id)s AND thread_id = %(thread_id)s"
_RESET = """
    UPDATE thread
    SET message_count = 0, segmented_at = NULL, segmented_position = NULL,
        segment_due_at = NULL, updated_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(thread_id)s
"""


async def clear(db: Db, workspace_id: WorkspaceId, thread_id: ThreadId, now: datetime) -> int:
    """Delete all messages of a locked thread; positions keep counting up."""
    values = {"workspace_id": workspace_id, "thread_id": thread_id, "now": now}
    count = (await db.execute(_CLEAR, values)).rowcount
    await db.execute(_RESET, values)
    return count


async def _fetch(db: Db, query: Any, values: dict[str, Any]) -> list[Message]:
    async with db.cursor(row_factory=class_row(Message)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


# The maximum number of messages of a memory made by hand. Automatic segments have far fewer, unless
# very many late messages are waiting to be separated.
MAX_OF_MEMORY = 10_000

_OF_MEMORY = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    JOIN memory_message made ON made.workspace_id = m.workspace_id AND made.message_id = m.id
    WHERE m.workspace_id = %(workspace_id)s AND made.memory_id = %(memory_id)s
        AND {THREAD_VISIBLE}
    ORDER BY m.created_at, m.position
    LIMIT %(limit)s
"""
_OF_STRETCH = f"""
    WITH part AS (
        SELECT p.id FROM message p
        JOIN memory_message made ON made.workspace_id = p.workspace_id AND made.message_id = p.id
        WHERE p.workspace_id = %(workspace_id)s AND p.thread_id = %(thread_id)s
            AND made.memory_id = %(memory_id)s
            AND (p.created_at, p.position) > (%(beyond_at)s::timestamptz, %(beyond)s::bigint)
            AND (p.created_at, p.position) < (%(before_at)s::timestamptz, %(before)s::bigint)
        ORDER BY p.created_at, p.position
        LIMIT %(limit)s
    )
    SELECT {COLUMNS} {_WITH_THREAD}
    JOIN part ON part.id = m.id
    WHERE m.workspace_id = %(workspace_id)s
    ORDER BY m.created_at, m.position
"""


async def of_memory(
    db: Db, caller: Caller, memory_id: MemoryId, limit: int = MAX_OF_MEMORY
) -> list[Message]:
    """Return a memory's messages in order, without those in threads the caller cannot see."""
    values = {**scope_values(caller), "memory_id": memory_id, "limit": limit}
    return await _fetch(db, _OF_MEMORY, values)


async def messages_in_range(
    db: Db,
    caller: Caller,
    segment: MessageRange,
    *,
    beyond: MessagePosition | None = None,
    before: MessagePosition | None = None,
    limit: int,
) -> list[Message]:
    """Return a segment's messages between two positions, in order."""
    values = {
        **scope_values(caller),
        **asdict(segment),
        "beyond_at": beyond.at if beyond else "-infinity",
        "beyond": beyond.position if beyond else 0,
        "before_at": before.at if before else "infinity",
        "before": before.position if before else 0,
        "limit": limit,
    }
    return await _fetch(db, _OF_STRETCH, values)
