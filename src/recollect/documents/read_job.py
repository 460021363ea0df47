"""Reading documents in the background: text, chunks, words, vectors; then they can be searched."""

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

# Longer than reading alone may take; from then on each batch renews it.
_LEASE = READ_DEADLINE + timedelta(seconds=30)
# One that takes its reader down with it shall not do so for ever.
_MOST_TRIES = 3
_GIVEN_UP = "Reading it was broken off each time."
_BATCH = 100

_log = structlog.get_logger(__name__)


class _DocumentDeleted(Exception):
    """The document was deleted, or another reads it by now."""


async def read_documents(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Read every document of the workspace that waits; as often as it runs, each is read once."""
    while claimed := await _claim(engine, workspace_id):
        document, tries = claimed
        try:
            await _ReadJob(engine, workspace_id, document, tries, beat).read()
        except _DocumentDeleted:
            _log.info("document.gone", document=str(document.id))
    await _look_again(engine, workspace_id)


async def _claim(engine: Engine, workspace_id: WorkspaceId) -> tuple[Document, int] | None:
    now = engine.now()
    async with engine.pool.writing(workspace_id) as db:
        return await documents.claim_next(db, workspace_id, until=now + _LEASE, now=now)


async def _look_again(engine: Engine, workspace_id: WorkspaceId) -> None:
    """Whoever reads a document may be dead: it is looked at again when its time is over."""
    async with engine.pool.writing(workspace_id) as db:
        until = await documents.next_release(db, workspace_id)
        if until is not None:
            again = NewJob(READ_JOB.kind, run_after=until + timedelta(seconds=1))
            await job_queue.enqueue(db, workspace_id, [again], engine.now())


class _ReadJob:
    """One document on its way from bytes to what can be found."""

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
        if self._tries > _MOST_TRIES:
            await self._settle(DocumentStatus.FAILED, _GIVEN_UP)
            return
        try:
            reading = await self._reading()
        except UnreadableDocument as failure:
            await self._settle(DocumentStatus.FAILED, str(failure))
            return
        if not reading.pieces:
            await self._settle(DocumentStatus.STORED, reading.note, reading.media_type)
            return
        await self._cut(reading.pieces)
        await self._embed()
        await self._settle(DocumentStatus.READY, None, reading.media_type)

    async def _reading(self) -> Reading:
        async def get(number: int) -> bytes | None:
            async with self._engine.pool.reading(self._workspace_id) as db:
                return await documents.piece(db, self._workspace_id, self._document.id, number)

        brought = file_pieces.read_pieces(get, 0, self._document.size - 1)
        return await read_document(self._document.name, brought)

    async def _cut(self, found: Sequence[TextPiece]) -> None:
        """Store the chunks; those of an earlier try that broke off make room."""
        async with self._engine.pool.writing(self._workspace_id) as db:
            await documents.remove_chunks(db, self._workspace_id, [self._document.id])
        for first in range(0, len(found), _BATCH):
            batch = found[first : first + _BATCH]
            # In a thread: finding the words of a long book would hold up everybody else.
            new = await asyncio.to_thread(_indexed, self._document.name, batch, first)
            await self._still_ours()
            async with self._engine.pool.writing(self._workspace_id) as db:
                await chunks.insert(db, self._workspace_id, self._document.id, new)
            self._count = first + len(batch)

    async def _embed(self) -> None:
        try:
            await generations.fill_serving(
                self._engine, self._workspace_id, ChunkVectors(self._document.id), self._still_ours
            )
        except Unavailable:
            # Found by its words until the embedder is back.
            _log.info("document.waits_for_vectors", document=str(self._document.id))

    async def _still_ours(self) -> None:
        await self._beat()
        async with self._engine.pool.writing(self._workspace_id) as db:
            is_ours = await documents.renew_lease(
                db,
                self._workspace_id,
                self._document.id,
                tries=self._tries,
                until=self._engine.now() + _LEASE,
                chunk_count=self._count,
            )
        if not is_ours:
            raise _DocumentDeleted

    async def _settle(
        self, status: DocumentStatus, error: str | None, media_type: str | None = None
    ) -> None:
        async with self._engine.pool.writing(self._workspace_id) as db:
            if status is DocumentStatus.READY:
                await generations.complete_vectors(
                    self._engine, db, self._workspace_id, ChunkVectors(self._document.id)
                )
            is_ours = await documents.finish_reading(
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
        if not is_ours:
            raise _DocumentDeleted


def _indexed(name: str, batch: Sequence[TextPiece], first: int) -> list[NewChunk]:
    """Chunks with the words they can be found by: their own, their heading's, the document's."""
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
