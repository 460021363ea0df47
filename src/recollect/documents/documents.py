"""Documents: add, list, read, download and delete them."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import uuid4

from recollect.conversations.queries import threads
from recollect.core import file_pieces
from recollect.core.domain import (
    Caller,
    Document,
    DocumentId,
    DocumentKind,
    DocumentStatus,
    Ref,
    Right,
    new_code,
)
from recollect.core.errors import Invalid, NotFound
from recollect.core.file_pieces import StoredBytes, store_pieces
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db
from recollect.documents.queries import chunks, documents
from recollect.engine import Engine

READ_JOB = NewJob("read_documents")

MAX_BYTES = 20 * 1024 * 1024
_MAX_NAME = 255
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_CHUNKS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to store. Its name is a label, never a path."""

    name: str
    kind: DocumentKind = DocumentKind.UPLOAD
    # The conversation in which it was created.
    thread: Ref | None = None


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """Which documents to list: newest first, starting after a position."""

    limit: int = 50
    kind: DocumentKind | None = None
    before: tuple[datetime, DocumentId] | None = None


async def add_document(
    engine: Engine, caller: Caller, new: NewDocument, data: AsyncIterator[bytes]
) -> Document:
    """Store a document and queue the job that reads it.

    Each piece is stored in its own transaction.

    If the same bytes already exist under the same name, return that document; if reading it had
    failed, it is read again.
    """
    caller.require(Right.WRITE)
    document_id = DocumentId(uuid4())
    name = label_of(new.name)
    async with engine.writing(caller) as db:
        thread_id = None
        if new.thread and (thread_id := await threads.identify(db, caller, new.thread)) is None:
            raise NotFound("session")
        await documents.begin(
            db,
            caller,
            document_id,
            code=new_code(),
            kind=new.kind,
            name=name,
            thread_id=thread_id,
            now=engine.now(),
        )
    try:
        stored = await _store_pieces(engine, caller, document_id, data)
        async with engine.writing(caller) as db:
            return await _finish(engine, db, caller, document_id, name, stored)
    except BaseException:
        async with engine.pool.writing(caller.workspace_id) as db:
            await documents.remove(db, caller.workspace_id, [document_id])
        raise


async def save_artifact(
    engine: Engine, caller: Caller, name: str, content: str, *, thread: Ref | None = None
) -> Document:
    """Store a document that the assistant created."""
    if not content.strip():
        raise Invalid("`content` must not be empty.", field="content")

    async def whole() -> AsyncIterator[bytes]:
        yield content.encode("utf-8", "replace")

    return await add_document(
        engine, caller, NewDocument(name, DocumentKind.ARTIFACT, thread), whole()
    )


async def list_documents(
    engine: Engine, caller: Caller, ask: ListDocuments
) -> tuple[list[Document], bool]:
    """Return documents, newest first, and whether there are more."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        # One extra row shows whether a next page exists.
        found = await documents.listed(
            db, caller, kind=ask.kind, before=ask.before, limit=ask.limit + 1
        )
    return found[: ask.limit], len(found) > ask.limit


async def get_document(engine: Engine, caller: Caller, ref: Ref) -> Document:
    """Return one document."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _find_or_raise(db, caller, ref)


async def text_of(engine: Engine, caller: Caller, document: Document) -> AsyncGenerator[str]:
    """Yield a document's extracted text in parts; nothing if it has none."""
    caller.require(Right.READ)
    end = 0
    for first in range(0, document.chunk_count, _CHUNKS_AT_ONCE):
        async with engine.reading(caller) as db:
            found = await chunks.of_document(
                db, caller.workspace_id, document.id, first=first, limit=_CHUNKS_AT_ONCE
            )
        for chunk in found:
            # Skip the part that overlaps with the previous chunk.
            yield chunk.content[max(end - chunk.start, 0) :]
            end = chunk.start + len(chunk.content)


def bytes_of(
    engine: Engine, caller: Caller, document: Document, first: int, last: int
) -> AsyncIterator[bytes]:
    """Yield the bytes from `first` to `last`, both included, one piece at a time."""

    async def get(number: int) -> bytes | None:
        async with engine.reading(caller) as db:
            return await documents.piece(db, caller.workspace_id, document.id, number)

    return file_pieces.read_pieces(get, first, last)


async def delete_document(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a document, its bytes, chunks, postings and vectors permanently."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        document = await _find_or_raise(db, caller, ref)
        if not await documents.remove(db, caller.workspace_id, [document.id]):
            raise NotFound("document")
        await engine.record_event(db, caller, "document.deleted", _audit_details(document))


def label_of(name: str) -> str:
    """Return a filename without its path and control characters."""
    last = re.split(r"[/\\]", name)[-1]
    return _CONTROLS.sub("", last).strip()[:_MAX_NAME] or "untitled"


async def _store_pieces(
    engine: Engine, caller: Caller, document_id: DocumentId, data: AsyncIterator[bytes]
) -> StoredBytes:
    async def put(number: int, data: bytes) -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await documents.add_piece(db, caller.workspace_id, document_id, number, data)

    return await store_pieces(data, put, max_bytes=MAX_BYTES)


async def _finish(
    engine: Engine, db: Db, caller: Caller, document_id: DocumentId, name: str, stored: StoredBytes
) -> Document:
    """Make the upload visible and queue its reading, unless the same document already exists."""
    workspace_id = caller.workspace_id
    known = await documents.find_same(db, caller, name=name, digest=stored.digest)
    if known:
        await documents.remove(db, workspace_id, [document_id])
        if await documents.read_again(db, workspace_id, known.id):
            await job_queue.enqueue(db, workspace_id, [READ_JOB], engine.now())
            return replace(known, status=DocumentStatus.WAITING, error=None)
        return known
    if not await documents.finish(
        db, workspace_id, document_id, size=stored.size, digest=stored.digest
    ):
        raise Invalid("The upload took too long. Send it again.")
    await job_queue.enqueue(db, workspace_id, [READ_JOB], engine.now())
    document = await _find_or_raise(db, caller, Ref(id=document_id))
    await engine.record_event(
        db,
        caller,
        "document.created",
        _audit_details(document),
        is_private=document.project_id is not None,
    )
    return document


def _audit_details(document: Document) -> dict[str, str]:
    return {"document": document.code, "hash": bytes(document.digest).hex()}


async def _find_or_raise(db: Db, caller: Caller, ref: Ref) -> Document:
    found = await documents.find(db, caller, ref)
    if found is None:
        raise NotFound("document")
    return found
