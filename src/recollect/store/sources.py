"""Where memories came from: links to threads, and to single messages or turns of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.domain import Caller, MemoryId
from recollect.store.pool import Db
from recollect.store.visible import THREAD_IN_SIGHT, in_sight_of


@dataclass(frozen=True, slots=True)
class Source:
    """One link, and what it leads to today: None where that is gone or not the caller's to see."""

    id: UUID
    memory_id: MemoryId
    kind: str
    target_id: UUID
    created_at: datetime
    thread_id: UUID | None
    text: str | None


# What a link may lead to: a thread of the caller's, or what was said in one.
_LOCATED = f"""
    LEFT JOIN LATERAL (
        SELECT t.id AS thread_id, NULL::text AS text FROM thread t
        WHERE t.workspace_id = %(workspace_id)s AND s.kind = 'session' AND t.id = s.target_id
            AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_IN_SIGHT}
        UNION ALL
        SELECT t.id, said.content FROM message said
        JOIN thread t ON t.workspace_id = said.workspace_id AND t.id = said.thread_id
        WHERE said.workspace_id = %(workspace_id)s AND s.kind = 'message'
            AND said.id = s.target_id
            AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_IN_SIGHT}
        UNION ALL
        SELECT t.id, spoken.input::text FROM turn spoken
        JOIN thread t ON t.workspace_id = spoken.workspace_id AND t.id = spoken.thread_id
        WHERE spoken.workspace_id = %(workspace_id)s AND s.kind = 'message'
            AND spoken.id = s.target_id
            AND (t.expires_at IS NULL OR t.expires_at > %(now)s) AND {THREAD_IN_SIGHT}
        LIMIT 1
    ) AS located ON true
"""

_OF_MEMORY = f"""
    SELECT s.id, s.memory_id, s.kind, s.target_id, s.created_at, located.thread_id, located.text
    FROM memory_source s
    {_LOCATED}
    WHERE s.workspace_id = %(workspace_id)s AND s.memory_id = %(memory_id)s
    ORDER BY s.created_at, s.id
"""


async def of_memory(db: Db, caller: Caller, memory_id: MemoryId, now: datetime) -> list[Source]:
    """The sources of a memory, oldest first, each with what it leads to."""
    values = in_sight_of(caller) | {"memory_id": memory_id, "now": now}
    async with db.cursor(row_factory=class_row(Source)) as cursor:
        await cursor.execute(_OF_MEMORY, values)
        return await cursor.fetchall()


_ADD = """
    INSERT INTO memory_source (workspace_id, id, memory_id, kind, target_id, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(memory_id)s, %(kind)s, %(target_id)s, %(now)s)
    ON CONFLICT (workspace_id, memory_id, kind, target_id) DO NOTHING
"""


async def add(
    db: Db, caller: Caller, memory_id: MemoryId, *, kind: str, target_id: UUID, now: datetime
) -> None:
    """Link a memory to where it came from; the same link again adds nothing."""
    values: dict[str, Any] = {
        "workspace_id": caller.workspace_id,
        "id": uuid4(),
        "memory_id": memory_id,
        "kind": kind,
        "target_id": target_id,
        "now": now,
    }
    await db.execute(_ADD, values)


_REMOVE = """
    DELETE FROM memory_source
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s AND id = %(id)s
"""


async def remove(db: Db, caller: Caller, memory_id: MemoryId, source_id: UUID) -> bool:
    """Take a link away; False when there was none."""
    values = {"workspace_id": caller.workspace_id, "memory_id": memory_id, "id": source_id}
    return (await db.execute(_REMOVE, values)).rowcount > 0
