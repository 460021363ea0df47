"""What memories said before they were changed."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from recollect.domain import Memory, MemoryId, WorkspaceId
from recollect.store.pool import Db

# So many are kept of a memory: one that a program rewrites every minute shall not grow for ever.
MOST = 20


@dataclass(frozen=True, slots=True)
class Text:
    """What a memory said, and up to which version."""

    version: int
    content: str


_PUT = """
    INSERT INTO memory_text (workspace_id, memory_id, version, content, replaced_at)
    VALUES (%(workspace_id)s, %(memory_id)s, %(version)s, %(content)s, %(now)s)
"""
_CUT = """
    DELETE FROM memory_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
        AND version <= (
            SELECT older.version FROM memory_text older
            WHERE older.workspace_id = %(workspace_id)s AND older.memory_id = %(memory_id)s
            ORDER BY older.version DESC
            OFFSET %(most)s LIMIT 1)
"""


async def put(db: Db, memory: Memory, now: datetime) -> None:
    """Keep what a memory says that is about to say something else."""
    values = {
        "workspace_id": memory.workspace_id,
        "memory_id": memory.id,
        "version": memory.version,
        "content": memory.content,
        "now": now,
        "most": MOST,
    }
    await db.execute(_PUT, values)
    await db.execute(_CUT, values)


_OF = """
    SELECT version, content FROM memory_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
    ORDER BY version
"""


async def of(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> list[Text]:
    """What a memory said before, oldest first."""
    async with db.cursor(row_factory=class_row(Text)) as cursor:
        await cursor.execute(_OF, {"workspace_id": workspace_id, "memory_id": memory_id})
        return await cursor.fetchall()


_AT = """
    SELECT DISTINCT ON (memory_id) memory_id, content FROM memory_text
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(ids)s) AND replaced_at > %(at)s
    ORDER BY memory_id, version
"""


async def at(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId], at: datetime
) -> dict[MemoryId, str]:
    """What those of these memories said at a time that say something else now."""
    values = {"workspace_id": workspace_id, "ids": list(ids), "at": at}
    rows = await (await db.execute(_AT, values)).fetchall()
    return {MemoryId(row[0]): row[1] for row in rows}
