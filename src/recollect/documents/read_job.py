"""The job that reads documents: text, chunks, words, vectors."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from uuid import uuid4

import structlog

from recollect.core import file_pieces
from recollect.core.domain import ChunkId, Document, DocumentStatus, WorkspaceId
from recollect.core.errors import Unavailable
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.documents.documents import READ_JOB
from recollect.documents.queries import chunks, documents
from recollect.documents.queries.chunks import NewChunk
from recollect.documents.reading.process import READ_DEADLINE, read_document
from recollect.documents.reading.values import Reading, TextPiece, UnreadableDocument
from recollect.embeddings import generations
from recollect.embeddings.generations import Heartbeat
from recollect.embeddings.missing_vectors import ChunkVectors
from recollect.engine import Engine
from recollect.keywords.tokenizer import terms

# Longer than the extraction alone may take. After that, each batch renews the lease.
_LEASE = READ_DEADLINE + timedelta(seconds=30)
# A document that crashes its worker is not tried forever.
_MAX_TRIES = 3
_INTERRUPTED = "Reading it was interrupted several times."
_BATCH = 100

_log = structlog.get_logger(__name__)


class _DocumentDeleted(Exception):
    """The document was deleted, or another worker reads it."""


async def read_documents(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Read every waiting document of the workspace. Each is read once, even by concurrent jobs."""
    while claimed := await _claim(engine, workspace_id):
        document, tries = claimed
        try:
            await _ReadJob(engine, workspace_id, document, tries, beat).read()
        except _DocumentDeleted:
            _log.info("document.gone", document=str(document.id))
    await _schedule_retry(engine, workspace_id)


async def _claim(engine: Engine, workspace_id: WorkspaceId) -> tuple[Document, int] | None:
    now = engine.now()
    async with engine.pool.writing(workspace_id) as db:
        return await documents.claim_next(db, workspace_id, until=now + _LEASE, now=now)


async def _schedule_retry(engine: Engine, workspace_id: WorkspaceId) -> None:
    """Queue a job for the time when the lease of a crashed worker ends."""
    async with engine.pool.writing(workspace_id) as db:
        until = await documents.next_release(db, workspace_id)
        if until is not None:
            again = NewJob(READ_JOB.kind, run_after=until + timedelta(seconds=1))
            await job_queue.enqueue(db, workspace_id, [again], engine.now())


class _ReadJob:
    """Reads one document: from bytes to searchable chunks."""

    def __init__(
        self,
        engine: Engine,
        workspace_id: WorkspaceId,
        document: Document,
        tries: int,
        beat: Heartbeat,
    ) -> None:
        self._engine = engine
        self._workspace_id = workspace_id
        self._document = document
        self._tries = tries
        self._beat = beat
        self._count = 0

    async def read(self) -> None:
        if self._tries > _MAX_TRIES:
            await self._finish(DocumentStatus.FAILED, _INTERRUPTED)
            return
        try:
            reading = await self._read_document()
        except UnreadableDocument as failure:
            await self._finish(DocumentStatus.FAILED, str(failure))
            return
        if not reading.pieces:
            await self._finish(DocumentStatus.STORED, reading.note, reading.media_type)
            return
        await self._store_chunks(reading.pieces)
        await self._embed()
        await self._finish(DocumentStatus.READY, None, reading.media_type)

    async def _read_document(self) -> Reading:
        async def get(number: int) -> bytes | None:
            async with self._engine.pool.reading(self._workspace_id) as db:
                return await documents.piece(db, self._workspace_id, self._document.id, number)

        data = file_pieces.read_pieces(get, 0, self._document.size - 1)
        return await read_document(self._document.name, data)

    async def _store_chunks(self, found: Sequence[TextPiece]) -> None:
        """Store the chunks; delete those of an interrupted attempt."""
        async with self._engine.pool.writing(self._workspace_id) as db:
            await documents.remove_chunks(db, self._workspace_id, [self._document.id])
        for first in range(0, len(found), _BATCH):
            batch = found[first : first + _BATCH]
            # In a thread: tokenising a long book would block other requests.
            new = await asyncio.to_thread(_new_chunks, self._document.name, batch, first)
            await self._renew_lease()
            async with self._engine.pool.writing(self._workspace_id) as db:
                await chunks.insert(db, self._workspace_id, self._document.id, new)
            self._count = first + len(batch)

    async def _embed(self) -> None:
        try:
            await generations.fill_serving(
                self._engine, self._workspace_id, ChunkVectors(self._document.id), self._renew_lease
            )
        except Unavailable:
            # Found by words until the embedder works again.
            _log.info("document.waits_for_vectors", document=str(self._document.id))

    async def _renew_lease(self) -> None:
        await self._beat()
        async with self._engine.pool.writing(self._workspace_id) as db:
            has_lease = await documents.renew_lease(
                db,
                self._workspace_id,
                self._document.id,
                tries=self._tries,
                until=self._engine.now() + _LEASE,
                chunk_count=self._count,
            )
        if not has_lease:
            raise _DocumentDeleted

    async def _finish(
        self, status: DocumentStatus, error: str | None, media_type: str | None = None
    ) -> None:
        async with self._engine.pool.writing(self._workspace_id) as db:
            if status is DocumentStatus.READY:
                await generations.complete_vectors(
                    self._engine, db, self._workspace_id, ChunkVectors(self._document.id)
                )
            has_lease = await documents.finish_reading(
                db,
                self._workspace_id,
                self._document.id,
                tries=self._tries,
                status=status,
                error=error,
                media_type=media_type,
                chunk_count=self._count,
                now=self._engine.now(),
            )
        if not has_lease:
            raise _DocumentDeleted


def _new_chunks(name: str, batch: Sequence[TextPiece], first: int) -> list[NewChunk]:
    """Return chunks with the terms of their text, their heading and the document's name."""
    return [
        NewChunk(
            id=ChunkId(uuid4()),
            number=number,
            start=piece.start,
            content=piece.content,
            heading=piece.heading,
            page=piece.page,
            terms=terms("\n".join(part for part in (name, piece.heading, piece.content) if part)),
        )
        for number, piece in enumerate(batch, start=first)
    ]
