"""Vectors that are owed: to memories, and to chunks of documents. `engine.spaces` makes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from recollect.domain import ChunkId, DocumentId, MemoryId, WorkspaceId
from recollect.models.embed import Vector
from recollect.store import chunks, generations, vectors
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Owing:
    """Something whose text wants a vector; the version is of the text."""

    id: UUID
    text: str
    version: int = 1


class Owed(Protocol):
    """What in a workspace wants vectors, and how they are put there."""

    async def lacking(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[Owing]:
        """Those without a vector in a generation, by id, from just behind a given one on."""
        ...

    async def pay(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        paid: Sequence[tuple[Owing, Vector]],
    ) -> None:
        """Store vectors; what changed or went since is left alone."""
        ...

    async def refuse(self, db: Db, workspace_id: WorkspaceId, owing: Owing) -> None:
        """Remember that the embedder will not have this text."""
        ...


class OfMemories:
    """The memories of a workspace."""

    async def lacking(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[Owing]:
        """Those without a vector of their present text."""
        found = await generations.lacking(db, workspace_id, generation, after=after, limit=limit)
        return [Owing(each.id, each.content, each.content_version) for each in found]

    async def pay(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        paid: Sequence[tuple[Owing, Vector]],
    ) -> None:
        """Store vectors of memories whose text is still the same."""
        embedded = [(MemoryId(each.id), each.version, vector) for each, vector in paid]
        await vectors.insert_unchanged(db, workspace_id, generation, embedded)

    async def refuse(self, db: Db, workspace_id: WorkspaceId, owing: Owing) -> None:
        """Remember that the embedder will not have this text."""
        await generations.mark_refused(db, workspace_id, MemoryId(owing.id), owing.version)


@dataclass(frozen=True, slots=True)
class OfChunks:
    """The chunks of one document, or with None of all that have been read."""

    document_id: DocumentId | None = None

    async def lacking(
        self, db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
    ) -> list[Owing]:
        """Those without a vector."""
        found = await chunks.lacking(
            db, workspace_id, generation, after=after, limit=limit, document_id=self.document_id
        )
        return [Owing(each.id, each.embedded_text) for each in found]

    async def pay(
        self,
        db: Db,
        workspace_id: WorkspaceId,
        generation: int,
        paid: Sequence[tuple[Owing, Vector]],
    ) -> None:
        """Store vectors of chunks that are still there."""
        embedded = [(ChunkId(each.id), vector) for each, vector in paid]
        await chunks.insert_vectors(db, workspace_id, generation, embedded)

    async def refuse(self, db: Db, workspace_id: WorkspaceId, owing: Owing) -> None:
        """Remember that the embedder will not have this text."""
        await chunks.mark_refused(db, workspace_id, ChunkId(owing.id))


# Memories first: somebody may be asking for them.
EVERYTHING: Sequence[Owed] = (OfMemories(), OfChunks())
