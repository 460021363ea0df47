"""Documents: uploaded or made, listed, shown, downloaded, deleted."""

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

MOST_BYTES = 20 * 1024 * 1024
_LONGEST_NAME = 255
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_CHUNKS_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What is about to be kept. A name is a label and never a path."""

    name: str
    kind: DocumentKind = DocumentKind.UPLOAD
    # The conversation it was made in.
    thread: Ref | None = None


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """Which documents to list: from just behind a place on, newest first."""

    limit: int = 50
    kind: DocumentKind | None = None
    before: tuple[datetime, DocumentId] | None = None


async def add_document(
    engine: Engine, caller: Caller, new: NewDocument, brought: AsyncIterator[bytes]
) -> Document:
    """Keep a document and have it read. Each piece is a transaction of its own.

    The same bytes under the same name are the document that is there; one that could not be read
    is tried once more.
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
        taken = await _take_in(engine, caller, document_id, brought)
        async with engine.writing(caller) as db:
            return await _finish(engine, db, caller, document_id, name, taken)
    except BaseException:
        async with engine.pool.writing(caller.workspace_id) as db:
            await documents.remove(db, caller.workspace_id, [document_id])
        raise


async def keep_artifact(
    engine: Engine, caller: Caller, name: str, content: str, *, thread: Ref | None = None
) -> Document:
    """Keep something that the assistant made."""
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
    """Documents, newest first, and whether there are more."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        # One row more shows whether a next page exists.
        found = await documents.listed(
            db, caller, kind=ask.kind, before=ask.before, limit=ask.limit + 1
        )
    return found[: ask.limit], len(found) > ask.limit


async def get_document(engine: Engine, caller: Caller, ref: Ref) -> Document:
    """One document."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(db, caller, ref)


async def text_of(engine: Engine, caller: Caller, document: Document) -> AsyncGenerator[str]:
    """A document's text as it was read, a part at a time; nothing while it has none."""
    caller.require(Right.READ)
    end = 0
    for first in range(0, document.chunk_count, _CHUNKS_AT_ONCE):
        async with engine.reading(caller) as db:
            found = await chunks.of_document(
                db, caller.workspace_id, document.id, first=first, limit=_CHUNKS_AT_ONCE
            )
        for stretch in found:
            # What the last chunk has said already is not said again.
            yield stretch.content[max(end - stretch.start, 0) :]
            end = stretch.start + len(stretch.content)


def bytes_of(
    engine: Engine, caller: Caller, document: Document, first: int, last: int
) -> AsyncIterator[bytes]:
    """The bytes from the first to the last, both included, a piece at a time."""

    async def get(number: int) -> bytes | None:
        async with engine.reading(caller) as db:
            return await documents.piece(db, caller.workspace_id, document.id, number)

    return file_pieces.read_pieces(get, first, last)


async def delete_document(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a document, its bytes, chunks, words and vectors for good."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        document = await _existing(db, caller, ref)
        if not await documents.remove(db, caller.workspace_id, [document.id]):
            raise NotFound("document")
        await engine.record_event(db, caller, "document.deleted", _audited(document))


def label_of(name: str) -> str:
    """A file's name without whatever path came with it, fit to be shown."""
    last = re.split(r"[/\\]", name)[-1]
    return _CONTROLS.sub("", last).strip()[:_LONGEST_NAME] or "untitled"


async def _take_in(
    engine: Engine, caller: Caller, document_id: DocumentId, brought: AsyncIterator[bytes]
) -> StoredBytes:
    async def put(number: int, data: bytes) -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await documents.add_piece(db, caller.workspace_id, document_id, number, data)

    return await store_pieces(brought, put, max_bytes=MOST_BYTES)


async def _finish(
    engine: Engine, db: Db, caller: Caller, document_id: DocumentId, name: str, taken: StoredBytes
) -> Document:
    """All of it is there: let it be read, unless the same is there already."""
    workspace_id = caller.workspace_id
    known = await documents.find_same(db, caller, name=name, digest=taken.digest)
    if known:
        await documents.remove(db, workspace_id, [document_id])
        if await documents.read_again(db, workspace_id, known.id):
            await job_queue.enqueue(db, workspace_id, [READ_JOB], engine.now())
            return replace(known, status=DocumentStatus.WAITING, error=None)
        return known
    if not await documents.finish(
        db, workspace_id, document_id, size=taken.size, digest=taken.digest
    ):
        raise Invalid("The upload took too long. Send it again.")
    await job_queue.enqueue(db, workspace_id, [READ_JOB], engine.now())
    document = await _existing(db, caller, Ref(id=document_id))
    await engine.record_event(
        db,
        caller,
        "document.created",
        _audited(document),
        is_private=document.project_id is not None,
    )
    return document


def _audited(document: Document) -> dict[str, str]:
    return {"document": document.code, "hash": bytes(document.digest).hex()}


async def _existing(db: Db, caller: Caller, ref: Ref) -> Document:
    found = await documents.find(db, caller, ref)
    if found is None:
        raise NotFound("document")
    return found
