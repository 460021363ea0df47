"""Files attached to messages: attach, list, read in pieces and delete."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from uuid import uuid4

from recollect.conversations.queries import files, messages
from recollect.core.domain import Caller, File, FileId, Ref, Right, new_code
from recollect.core.errors import NotFound
from recollect.core.file_pieces import read_pieces, store_pieces
from recollect.db.pool import Db
from recollect.engine import Engine

MAX_BYTES = 20 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NewMessageFile:
    """A file to attach. Its name is a label, never a path.

    `read` returns the bytes from the beginning each time it is called: once to count them, once to
    store them.
    """

    filename: str
    media_type: str
    read: Callable[[], AsyncIterator[bytes]]


async def attach_file(engine: Engine, caller: Caller, message: Ref, new: NewMessageFile) -> File:
    """Attach a file to a message; only one piece is in memory at a time."""
    caller.require(Right.WRITE)
    taken = await store_pieces(new.read(), _count, max_bytes=MAX_BYTES)
    async with engine.writing(caller) as db:
        found = await messages.find(db, caller, message, engine.now())
        if found is None:
            raise NotFound("message")
        file = File(
            id=FileId(uuid4()),
            code=new_code(),
            message_id=found.id,
            filename=new.filename,
            media_type=new.media_type,
            size=taken.size,
            digest=taken.digest,
            created_at=engine.now(),
        )
        await files.insert(db, caller.workspace_id, file)

        async def put(number: int, data: bytes) -> None:
            await files.add_piece(db, caller.workspace_id, file.id, number, data)

        await store_pieces(new.read(), put, max_bytes=MAX_BYTES)
        await engine.record_event(
            db,
            caller,
            "file.created",
            {"file": file.code, "message": found.code, "hash": file.digest.hex()},
            thread_code=found.thread_code,
        )
    return file


async def _count(_: int, __: bytes) -> None:
    """Store nothing: the first pass only measures size and digest."""


async def list_files(engine: Engine, caller: Caller, message: Ref) -> list[File]:
    """Return a message's files, oldest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        found = await messages.find(db, caller, message, engine.now())
        if found is None:
            raise NotFound("message")
        return await files.of_messages(db, caller.workspace_id, [found.id])


async def get_file(engine: Engine, caller: Caller, message: Ref, ref: Ref) -> File:
    """Return one file of a message."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, message, ref)


def read_file(engine: Engine, caller: Caller, file: File) -> AsyncIterator[bytes]:
    """Yield a file's bytes, one transaction per piece: a slow reader holds no connection."""

    async def get(number: int) -> bytes | None:
        async with engine.reading(caller) as db:
            return await files.piece(db, caller.workspace_id, file.id, number)

    return read_pieces(get, 0, file.size - 1)


async def delete_file(engine: Engine, caller: Caller, message: Ref, ref: Ref) -> None:
    """Delete a file and its bytes permanently."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        file = await _existing(engine, db, caller, message, ref)
        if not await files.remove(db, caller.workspace_id, file.id):
            raise NotFound("file")
        await engine.record_event(db, caller, "file.deleted", {"file": file.code})


async def _existing(engine: Engine, db: Db, caller: Caller, message: Ref, ref: Ref) -> File:
    found = await messages.find(db, caller, message, engine.now())
    file = await files.find(db, caller.workspace_id, found.id, ref) if found else None
    if file is None:
        raise NotFound("file")
    return file
