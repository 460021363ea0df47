"""Memories and document chunks without a vector. `embeddings.generations` embeds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from recollect.core.domain import ChunkId, DocumentId, MemoryId, WorkspaceId
from recollect.db.pool import Db
from recollect.documents.queries import chunks
from recollect.embeddings.queries import generations, vectors
from recollect.models.embedder import Vector


@dataclass(frozen=True, slots=True)
class MissingVector:
    """An item whose text needs a vector, and the version of the text."""

    id: UUID
    text: str
    version: int = 1


class VectorOwners(Protocol):
    """A kind of item in a workspace that has vectors, and how to store them."""

    async def missing(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[MissingVector]:
        """Return items without a vector in the generation, by id, starting after `after`."""
        ...

    async def store(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        embedded: Sequence[tuple[MissingVector, Vector]],
    ) -> None:
        """Store vectors; items that were changed or deleted meanwhile are skipped."""
        ...

    async def refuse(self, db: Db, workspace_id: WorkspaceId, missing: MissingVector) -> None:
        """Record that the embedder rejects this text."""
        ...


class MemoryVectors:
    """The memories of a workspace."""

    async def missing(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[MissingVector]:
        """Return memories without a vector of their current text."""
        found = await generations.memories_without_vector(
            db, workspace_id, generation, after=after, limit=limit
        )
        return [MissingVector(each.id, each.content, each.content_version) for each in found]

    async def store(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        embedded: Sequence[tuple[MissingVector, Vector]],
    ) -> None:
        """Store vectors of memories whose text has not changed."""
        rows = [(MemoryId(each.id), each.version, vector) for each, vector in embedded]
        await vectors.insert_unchanged(db, workspace_id, generation, rows)

    async def refuse(self, db: Db, workspace_id: WorkspaceId, missing: MissingVector) -> None:
        """Record that the embedder rejects this text."""
        await generations.mark_refused(db, workspace_id, MemoryId(missing.id), missing.version)


@dataclass(frozen=True, slots=True)
class ChunkVectors:
    """The chunks of one document, or with None those of every document that has been read."""

    document_id: DocumentId | None = None

    async def missing(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[MissingVector]:
        """Return chunks without a vector."""
        found = await chunks.chunks_without_vector(
            db, workspace_id, generation, after=after, limit=limit, document_id=self.document_id
        )
        return [MissingVector(each.id, each.embedded_text) for each in found]

    async def store(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        embedded: Sequence[tuple[MissingVector, Vector]],
    ) -> None:
        """Store vectors of chunks that still exist."""
        rows = [(ChunkId(each.id), vector) for each, vector in embedded]
        await chunks.insert_vectors(db, workspace_id, generation, rows)

    async def refuse(self, db: Db, workspace_id: WorkspaceId, missing: MissingVector) -> None:
        """Record that the embedder rejects this text."""
        await chunks.mark_refused(db, workspace_id, ChunkId(missing.id))


# Memories first: a search may be waiting for them.
ALL_OWNERS: Sequence[VectorOwners] = (MemoryVectors(), ChunkVectors())
