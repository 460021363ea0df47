"""Files of messages: attached, listed, read in pieces, deleted."""

from collections.abc import AsyncGenerator
from hashlib import sha256
from uuid import uuid4

from recollect.domain import Caller, File, FileId, Ref, Right, new_code
from recollect.engine.core import Engine
from recollect.errors import NotFound, TooLarge
from recollect.store import files, messages
from recollect.store.pool import Db

MOST_BYTES = 5 * 1024 * 1024
_PIECE = 256 * 1024


async def attach_file(
    engine: Engine, caller: Caller, message: Ref, *, filename: str, media_type: str, content: bytes
) -> File:
    """Attach a file to a message. Its name is a label and never a path."""
    caller.require(Right.WRITE)
    if len(content) > MOST_BYTES:
        raise TooLarge("data", most=MOST_BYTES, unit="bytes")
    async with engine.writing(caller) as db:
        found = await messages.find(db, caller, message, engine.now())
        if found is None:
            raise NotFound("message")
        file = File(
            id=FileId(uuid4()),
            code=new_code(),
            message_id=found.id,
            filename=filename,
            media_type=media_type,
            size=len(content),
            digest=sha256(content).digest(),
            created_at=engine.now(),
        )
        pieces = (content[at : at + _PIECE] for at in range(0, len(content), _PIECE))
        await files.insert(db, caller.workspace_id, file, pieces)
        await engine.note(
            db,
            caller,
            "file.created",
            {"file": file.code, "message": found.code, "hash": file.digest.hex()},
            thread_code=found.thread_code,
        )
    return file


async def list_files(engine: Engine, caller: Caller, message: Ref) -> list[File]:
    """A message's files, oldest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        found = await messages.find(db, caller, message, engine.now())
        if found is None:
            raise NotFound("message")
        return await files.of_messages(db, caller.workspace_id, [found.id])


async def get_file(engine: Engine, caller: Caller, message: Ref, ref: Ref) -> File:
    """One file of a message."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, message, ref)


async def read_file(engine: Engine, caller: Caller, file: File) -> AsyncGenerator[bytes]:
    """A file's bytes, one piece in memory at a time."""
    async with engine.reading(caller) as db:
        async for piece in files.pieces(db, caller.workspace_id, file.id):
            yield piece


async def delete_file(engine: Engine, caller: Caller, message: Ref, ref: Ref) -> None:
    """Delete a file and its bytes for good."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        file = await _existing(engine, db, caller, message, ref)
        if not await files.remove(db, caller.workspace_id, file.id):
            raise NotFound("file")
        await engine.note(db, caller, "file.deleted", {"file": file.code})


async def _existing(engine: Engine, db: Db, caller: Caller, message: Ref, ref: Ref) -> File:
    found = await messages.find(db, caller, message, engine.now())
    file = await files.find(db, caller.workspace_id, found.id, ref) if found else None
    if file is None:
        raise NotFound("file")
    return file
