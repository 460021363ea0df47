"""Assets of memories: a row that says what it is, and its bytes apart, in pieces of one size."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.domain import MemoryId, WorkspaceId
from recollect.store.pool import Db

# An upload that has not ended by then never will.
_ABANDONED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Asset:
    """Something attached to a memory."""

    id: UUID
    memory_id: MemoryId
    filename: str
    media_type: str
    size: int
    digest: bytes
    created_at: datetime


_COLUMNS = "id, memory_id, filename, media_type, size, digest, created_at"

_BEGIN = """
    INSERT INTO asset (workspace_id, id, memory_id, filename, media_type, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(memory_id)s, %(filename)s, %(media_type)s, %(now)s)
"""


async def begin(
    db: Db,
    workspace_id: WorkspaceId,
    memory_id: MemoryId,
    *,
    filename: str,
    media_type: str,
    now: datetime,
) -> UUID:
    """Begin an asset that is not there until it is finished."""
    asset_id = uuid4()
    values = {
        "workspace_id": workspace_id,
        "id": asset_id,
        "memory_id": memory_id,
        "filename": filename,
        "media_type": media_type,
        "now": now,
    }
    await db.execute(_BEGIN, values)
    return asset_id


_ADD_PIECE = """
    INSERT INTO asset_piece (workspace_id, asset_id, number, bytes)
    VALUES (%(workspace_id)s, %(asset_id)s, %(number)s, %(bytes)s)
"""


async def add_piece(
    db: Db, workspace_id: WorkspaceId, asset_id: UUID, number: int, data: bytes
) -> None:
    """Store the next piece; all but the last are full."""
    values = {"workspace_id": workspace_id, "asset_id": asset_id, "number": number, "bytes": data}
    await db.execute(_ADD_PIECE, values)


_FINISH = f"""
    UPDATE asset SET size = %(size)s, digest = %(digest)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND digest IS NULL
    RETURNING {_COLUMNS}
"""


async def finish(
    db: Db, workspace_id: WorkspaceId, asset_id: UUID, *, size: int, digest: bytes
) -> Asset | None:
    """From now on it is there; None when its memory went in the meantime."""
    values = {"workspace_id": workspace_id, "id": asset_id, "size": size, "digest": digest}
    async with db.cursor(row_factory=class_row(Asset)) as cursor:
        await cursor.execute(_FINISH, values)
        return await cursor.fetchone()


_OF_MEMORY = f"""
    SELECT {_COLUMNS} FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s AND digest IS NOT NULL
    ORDER BY created_at, id
"""
_FIND = f"""
    SELECT {_COLUMNS} FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s AND id = %(id)s
        AND digest IS NOT NULL
"""


async def of_memory(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> list[Asset]:
    """What is attached to a memory, oldest first."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    async with db.cursor(row_factory=class_row(Asset)) as cursor:
        await cursor.execute(_OF_MEMORY, values)
        return await cursor.fetchall()


async def find(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, asset_id: UUID
) -> Asset | None:
    """One asset of a memory."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "id": asset_id}
    async with db.cursor(row_factory=class_row(Asset)) as cursor:
        await cursor.execute(_FIND, values)
        return await cursor.fetchone()


_PIECE = """
    SELECT bytes FROM asset_piece
    WHERE workspace_id = %(workspace_id)s AND asset_id = %(asset_id)s AND number = %(number)s
"""


async def piece(db: Db, workspace_id: WorkspaceId, asset_id: UUID, number: int) -> bytes | None:
    """One piece; None when there is none of that number."""
    values = {"workspace_id": workspace_id, "asset_id": asset_id, "number": number}
    row = await (await db.execute(_PIECE, values)).fetchone()
    return bytes(row[0]) if row else None


_REMOVE = """
    DELETE FROM asset
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
        AND (%(id)s::uuid IS NULL OR id = %(id)s)
"""


async def remove(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, asset_id: UUID | None = None
) -> bool:
    """Delete one asset of a memory, or with None all of them; False when there was none."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "id": asset_id}
    return (await db.execute(_REMOVE, values)).rowcount > 0


# everywhere: one sweep drops the uploads that broke off, whosever they were.
_SWEEP = "DELETE FROM asset WHERE digest IS NULL AND created_at < %(before)s"


async def sweep(db: Db, now: datetime) -> int:
    """Drop uploads that broke off, in every workspace."""
    return (await db.execute(_SWEEP, {"before": now - _ABANDONED})).rowcount
