"""SQL for files of messages: names in one table, bytes in pieces in another."""

from collections.abc import AsyncIterator, Sequence

from psycopg.rows import class_row

from recollect.core.domain import File, FileId, MessageId, Ref, WorkspaceId
from recollect.db.pool import Db

_COLUMNS = "f.id, f.code, f.message_id, f.filename, f.media_type, f.size, f.digest, f.created_at"
_INSERT = """
    INSERT INTO message_file (
        workspace_id, id, code, message_id, filename, media_type, size, digest, created_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(code)s, %(message_id)s, %(filename)s, %(media_type)s,
        %(size)s, %(digest)s, %(created_at)s
    )
"""
_INSERT_PIECE = """
    INSERT INTO message_file_piece (workspace_id, file_id, number, bytes)
    VALUES (%(workspace_id)s, %(file_id)s, %(number)s, %(bytes)s)
"""


async def insert(db: Db, workspace_id: WorkspaceId, file: File) -> None:
    """Store the description of a file; its pieces are stored separately."""
    values = {
        "workspace_id": workspace_id,
        "id": file.id,
        "code": file.code,
        "message_id": file.message_id,
        "filename": file.filename,
        "media_type": file.media_type,
        "size": file.size,
        "digest": file.digest,
        "created_at": file.created_at,
    }
    await db.execute(_INSERT, values)


async def add_piece(
    db: Db, workspace_id: WorkspaceId, file_id: FileId, number: int, data: bytes
) -> None:
    """Store one piece of a file."""
    values = {"workspace_id": workspace_id, "file_id": file_id, "number": number, "bytes": data}
    await db.execute(_INSERT_PIECE, values)


_OF_MESSAGES = f"""
    SELECT {_COLUMNS} FROM message_file f
    WHERE f.workspace_id = %(workspace_id)s AND f.message_id = ANY(%(ids)s)
    ORDER BY f.created_at, f.id
"""


async def of_messages(db: Db, workspace_id: WorkspaceId, ids: Sequence[MessageId]) -> list[File]:
    """Return the files of the given messages, oldest first."""
    async with db.cursor(row_factory=class_row(File)) as cursor:
        await cursor.execute(_OF_MESSAGES, {"workspace_id": workspace_id, "ids": list(ids)})
        return await cursor.fetchall()


_FIND = f"""
    SELECT {_COLUMNS} FROM message_file f
    WHERE f.workspace_id = %(workspace_id)s AND f.message_id = %(message_id)s
        AND (f.id = %(id)s
             OR (f.short_code = left(%(code)s, 12) AND starts_with(f.code, %(code)s)))
"""


async def find(db: Db, workspace_id: WorkspaceId, message_id: MessageId, ref: Ref) -> File | None:
    """Return a file of a message, or None."""
    values = {
        "workspace_id": workspace_id,
        "message_id": message_id,
        "id": ref.id,
        "code": ref.code,
    }
    async with db.cursor(row_factory=class_row(File)) as cursor:
        await cursor.execute(_FIND, values)
        return await cursor.fetchone()


_PIECE = """
    SELECT p.bytes FROM message_file_piece p
    WHERE p.workspace_id = %(workspace_id)s AND p.file_id = %(file_id)s AND p.number = %(number)s
"""


async def piece(db: Db, workspace_id: WorkspaceId, file_id: FileId, number: int) -> bytes | None:
    """Return one piece, or None if the number does not exist."""
    values = {"workspace_id": workspace_id, "file_id": file_id, "number": number}
    row = await (await db.execute(_PIECE, values)).fetchone()
    return bytes(row[0]) if row else None


async def pieces(db: Db, workspace_id: WorkspaceId, file_id: FileId) -> AsyncIterator[bytes]:
    """Yield a file's bytes; only one piece is in memory at a time."""
    number = 0
    while (found := await piece(db, workspace_id, file_id, number)) is not None:
        yield found
        number += 1


_REMOVE = "DELETE FROM message_file WHERE workspace_id = %(workspace_id)s AND id = %(id)s"


async def remove(db: Db, workspace_id: WorkspaceId, file_id: FileId) -> bool:
    """Delete a file and its bytes; return False if it does not exist."""
    values = {"workspace_id": workspace_id, "id": file_id}
    return (await db.execute(_REMOVE, values)).rowcount > 0
