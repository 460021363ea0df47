"""The previous texts of edited memories."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from recollect.core.domain import Memory, MemoryId, WorkspaceId
from recollect.db.pool import Db

# Per memory. A program may rewrite one every minute, and its history must not grow forever.
MAX_TEXTS = 20


@dataclass(frozen=True, slots=True)
class PastText:
    """A previous text of a memory, and the last version that had it."""

    version: int
    content: str


_INSERT = """
    INSERT INTO memory_past_text (workspace_id, memory_id, version, content, replaced_at)
    VALUES (%(workspace_id)s, %(memory_id)s, %(version)s, %(content)s, %(now)s)
"""
_DELETE_OLDEST = """
    DELETE FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
        AND version <= (
            SELECT older.version FROM memory_past_text older
            WHERE older.workspace_id = %(workspace_id)s AND older.memory_id = %(memory_id)s
            ORDER BY older.version DESC
            OFFSET %(max_texts)s LIMIT 1)
"""


async def insert(db: Db, memory: Memory, now: datetime) -> None:
    """Store the current text of a memory before it changes."""
    values = {
        "workspace_id": memory.workspace_id,
        "memory_id": memory.id,
        "version": memory.version,
        "content": memory.content,
        "now": now,
        "max_texts": MAX_TEXTS,
    }
    await db.execute(_INSERT, values)
    await db.execute(_DELETE_OLDEST, values)


_TEXTS_OF = """
    SELECT version, content FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
    ORDER BY version
"""


async def texts_of(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> list[PastText]:
    """Return the previous texts of a memory, oldest first."""
    async with db.cursor(row_factory=class_row(PastText)) as cursor:
        await cursor.execute(_TEXTS_OF, {"workspace_id": workspace_id, "memory_id": memory_id})
        return await cursor.fetchall()


_TEXT_AT = """
    SELECT DISTINCT ON (memory_id) memory_id, content FROM memory_past_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(ids)s) AND replaced_at > %(at)s
    ORDER BY memory_id, version
"""


async def text_at(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId], at: datetime
) -> dict[MemoryId, str]:
    """Return the text at a given time of those memories whose text has changed since."""
    values = {"workspace_id": workspace_id, "ids": list(ids), "at": at}
    rows = await (await db.execute(_TEXT_AT, values)).fetchall()
    return {MemoryId(row[0]): row[1] for row in rows}
