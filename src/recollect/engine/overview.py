"""How a workspace is doing: what waits, what was used, what it embeds with, and what is linked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from recollect.domain import Association, Caller, Document, JobId, Memory, Relation, Right
from recollect.engine.browse import Browse, graph
from recollect.engine.core import Engine
from recollect.engine.documents import ListDocuments, list_documents
from recollect.engine.search import Order
from recollect.engine.spaces import current_space
from recollect.engine.workspaces import list_places
from recollect.errors import Conflict, NotFound
from recollect.store import generations, jobs, ledger
from recollect.store.generations import Progress
from recollect.store.jobs import Listed
from recollect.store.ledger import Line, Recalls

# Documents beside the memories of a picture.
_MOST_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class Queue:
    """Jobs, newest first, whether more follow, and how many there are by state."""

    jobs: list[Listed]
    has_more: bool
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Usage:
    """What models were asked, and how long turns took to recall, by day."""

    lines: list[Line]
    recalls: list[Recalls]


@dataclass(frozen=True, slots=True)
class Embedding:
    """What a workspace embeds with, and how far its generations are."""

    model: str
    dimension: int | None
    generations: list[Progress]


@dataclass(frozen=True, slots=True)
class Tie:
    """A line of the picture: from one thing to another, and what it says."""

    source: Memory | Document
    target: Memory | Document
    kind: str
    relation: str
    weight: float


@dataclass(frozen=True, slots=True)
class Picture:
    """A workspace as things and what ties them."""

    memories: list[Memory]
    documents: list[Document]
    ties: list[Tie]


async def list_jobs(
    engine: Engine,
    caller: Caller,
    *,
    state: str | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> Queue:
    """The jobs of every workspace the caller may be in that are not done."""
    places = [each.id for each in await list_places(engine, caller)]
    async with engine.pool.everywhere() as db:
        found = await jobs.listed_in(
            db,
            places,
            status=state,
            after=after,
            limit=limit + 1,  # one row more shows whether a next page exists
        )
        counts = await jobs.counted_in(db, places)
    return Queue(found[:limit], len(found) > limit, counts)


async def retry_job(engine: Engine, caller: Caller, job_id: UUID) -> Listed:
    """Let a buried job try again."""
    caller.require(Right.WRITE)
    places = [each.id for each in await list_places(engine, caller)]
    async with engine.pool.everywhere() as db:
        found = await jobs.listed_in(db, places, only=JobId(job_id), limit=1)
        if not found:
            raise NotFound("job")
        if found[0].status != "buried" or not await jobs.revive(db, JobId(job_id), engine.now()):
            raise Conflict("Only a buried job is tried again, and only while no other waits.")
        [revived] = await jobs.listed_in(db, places, only=JobId(job_id), limit=1)
    return revived


async def usage(engine: Engine, caller: Caller, *, days: int) -> Usage:
    """What the workspace used in so many days, today included."""
    caller.require(Right.READ)
    today = engine.now().replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=days - 1)
    async with engine.reading(caller) as db:
        lines = await ledger.used(db, caller.workspace_id, since)
        recalls = await ledger.recalled(db, caller.workspace_id, since)
    return Usage(lines, recalls)


async def embedding(engine: Engine, caller: Caller) -> Embedding:
    """What the caller's workspace embeds with."""
    caller.require(Right.READ)
    space = await current_space(engine, caller.workspace_id)
    async with engine.reading(caller) as db:
        found = await generations.progress_in_sight(db, caller)
    configured = engine.embedders.configured(space.embedder).identity.model
    return Embedding(configured, space.serving.dimension if space.serving else None, found)


async def draw(engine: Engine, caller: Caller, *, limit: int) -> Picture:
    """The newest memories and documents, and what ties them."""
    found = await graph(engine, caller, Browse(order=Order.RECENT, limit=limit))
    documents, _ = await list_documents(
        engine, caller, ListDocuments(limit=min(limit, _MOST_DOCUMENTS))
    )
    by_id = {each.id: each for each in found.memories}
    links = [
        Tie(
            by_id[each.source_id],
            by_id[each.target_id],
            _kind_of(each),
            each.relation,
            each.weight,
        )
        for each in found.associations
    ]
    return Picture(found.memories, documents, [*links, *_origins(found.memories, documents)])


def _kind_of(association: Association) -> str:
    if association.relation is Relation.CONTRADICTS:
        return "contradicts"
    return "explicit" if association.is_authored else "similarity"


def _origins(memories: Sequence[Memory], documents: Sequence[Document]) -> list[Tie]:
    """What came of the same conversation: a memory, and what the assistant made there."""
    return [
        Tie(memory, document, "provenance", "same_chat", 0.5)
        for document in documents
        if document.thread_id
        for memory in memories
        if memory.thread_id == document.thread_id
    ]
