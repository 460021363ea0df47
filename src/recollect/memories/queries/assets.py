"""The rows of `asset`, and their bytes in `asset_piece`, in pieces of equal size."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.core.domain import MemoryId, WorkspaceId
from recollect.db.pool import Db

# An upload that takes longer than this is considered interrupted.
_UPLOAD_TIMEOUT = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file attached to a memory."""

    id: UUID
    memory_id: MemoryId
    filename: str
    media_type: str
    size: int
    digest: bytes
    created_at: datetime


_COLUMNS = "id, memory_id, filename, media_type, size, digest, created_at"

_INSERT_UNFINISHED = """
    INSERT INTO asset (workspace_id, id, memory_id, filename, media_type, created_at)
    VALUES (%(workspace_id)s, %(id)s, %(memory_id)s, %(filename)s, %(media_type)s, %(now)s)
"""


async def insert_unfinished(
    db: Db,
    workspace_id: WorkspaceId,
    memory_id: MemoryId,
    *,
    filename: str,
    media_type: str,
    now: datetime,
) -> UUID:
    """Insert an asset that is not visible until `finish` is called."""
    asset_id = uuid4()
    values = {
        "workspace_id": workspace_id,
        "id": asset_id,
        "memory_id": memory_id,
        "filename": filename,
        "media_type": media_type,
        "now": now,
    }
    await db.execute(_INSERT_UNFINISHED, values)
    return asset_id


_ADD_PIECE = """
    INSERT INTO asset_piece (workspace_id, asset_id, number, bytes)
    VALUES (%(workspace_id)s, %(asset_id)s, %(number)s, %(bytes)s)
"""


async def add_piece(
    db: Db, workspace_id: WorkspaceId, asset_id: UUID, number: int, data: bytes
) -> None:
    """Store the next piece. All pieces except the last have the full size."""
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
    """Make the asset visible; return None if its memory was deleted in the meantime."""
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
    """Return the assets of a memory, oldest first."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    async with db.cursor(row_factory=class_row(Asset)) as cursor:
        await cursor.execute(_OF_MEMORY, values)
        return await cursor.fetchall()


async def find(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, asset_id: UUID
) -> Asset | None:
    """Return one asset of a memory."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "id": asset_id}
    async with db.cursor(row_factory=class_row(Asset)) as cursor:
        await cursor.execute(_FIND, values)
        return await cursor.fetchone()


_PIECE = """
    SELECT bytes FROM asset_piece
    WHERE workspace_id = %(workspace_id)s AND asset_id = %(asset_id)s AND number = %(number)s
"""


async def piece(db: Db, workspace_id: WorkspaceId, asset_id: UUID, number: int) -> bytes | None:
    """Return one piece, or None if there is no piece with that number."""
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
    """Delete one asset of a memory, or all if `asset_id` is None; False if there was none."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id, "id": asset_id}
    return (await db.execute(_REMOVE, values)).rowcount > 0


# everywhere: one statement deletes the interrupted uploads of all workspaces.
_DELETE_UNFINISHED = "DELETE FROM asset WHERE digest IS NULL AND created_at < %(before)s"


async def sweep(db: Db, now: datetime) -> int:
    """Delete interrupted uploads in every workspace."""
    return (await db.execute(_DELETE_UNFINISHED, {"before": now - _UPLOAD_TIMEOUT})).rowcount
