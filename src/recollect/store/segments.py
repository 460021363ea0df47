"""Which messages a memory was made of, and what became of a thread's stretches."""

from collections.abc import Sequence

from recollect.domain import MemoryId, Message, MessageId, WorkspaceId
from recollect.store.pool import Db

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
"""


async def mark_stale(db: Db, workspace_id: WorkspaceId, ids: Sequence[MessageId]) -> None:
    """Have the stretches that hold these messages summarised anew; those made by hand are left."""
    await db.execute(_MARK_STALE, {"workspace_id": workspace_id, "ids": list(ids)})


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
