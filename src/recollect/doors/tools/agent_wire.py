"""The memories and graphs of `/agents/memories`."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from recollect.domain import (
    MEMORY_PREFIXES,
    Association,
    Filter,
    Memory,
    Ref,
    Relation,
    parse_ref,
)
from recollect.doors import refs
from recollect.doors.tools.wire import (
    Arguments,
    AssociationArguments,
    DeleteResult,
    MemoryType,
    RelationType,
    Share,
    SortBy,
    Text,
    kinds_of,
    memory_type,
    optional,
)
from recollect.doors.values import Label, Parameters, Tags, clamped, iso
from recollect.engine.browse import Browse, Graph
from recollect.engine.change import Change
from recollect.engine.link import Link
from recollect.engine.search import Found, Order, Search
from recollect.errors import Invalid


class MemoryObject(BaseModel):
    """A memory."""

    id: str
    content: str
    memory_type: MemoryType
    importance: float
    created_at: str
    updated_at: str
    last_accessed_at: str | None
    access_count: int
    source: str | None
    channel_id: str | None
    forgotten: bool


class EdgeObject(BaseModel):
    """A link between two memories."""

    id: str
    source_id: str
    target_id: str
    relation_type: RelationType
    weight: float
    created_at: str


class AgentParameters(Parameters):
    """Whose memories; `default` stands for the whole workspace."""

    agent_id: Label


class ListParameters(AgentParameters):
    """`GET /agents/memories`."""

    limit: int | None = Field(default=None, ge=1, description="Default 50, at most 200.")
    offset: int = Field(default=0, ge=0, le=2**31)
    memory_type: MemoryType | None = None
    sort: SortBy = "recent"


class GraphParameters(AgentParameters):
    """`GET /agents/memories/graph`."""

    limit: int | None = Field(default=None, ge=1, description="Default 200, at most 500.")
    offset: int = Field(default=0, ge=0, le=2**31)
    memory_type: MemoryType | None = None
    sort: SortBy = "recent"


class SearchParameters(AgentParameters):
    """`GET /agents/memories/search`."""

    q: Annotated[str, Field(min_length=1, max_length=10_000)]
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")
    memory_type: MemoryType | None = None


class NeighbourParameters(AgentParameters):
    """`GET /agents/memories/graph/neighbors`."""

    memory_id: str
    depth: int | None = Field(default=None, ge=1, description="Links away. Default 1, at most 3.")
    exclude: str = Field(default="", description="Ids that need not be told, comma-separated.")


class DeleteParameters(AgentParameters):
    """`DELETE /agents/memories/{memory_id}`."""

    reason: Text | None = Field(default=None, description="Why, for the audit log alone.")


class UnlinkParameters(AgentParameters):
    """`DELETE /agents/memories/{memory_id}/associations/{target_id}`."""

    relation_type: RelationType = "related_to"


class MemoryChange(Arguments):
    """`PUT /agents/memories/{memory_id}`: what is absent stays as it is."""

    content: str | None = optional("New text, at most 50,000 bytes.")
    memory_type: MemoryType | None = optional("Another type.")
    importance: Share | None = optional("0.0 to 1.0.")
    tags: Tags | None = optional("In place of those it has.")
    pinned: bool | None = optional("Never fades.")


class MemoryList(BaseModel):
    """A page of memories, and how many there are in all."""

    memories: list[MemoryObject]
    total: int


class SearchHit(BaseModel):
    """A memory that fits, its fused score, and its rank from 1."""

    memory: MemoryObject
    score: float
    rank: int


class SearchAnswer(BaseModel):
    """What a search found, best first. `sessions` is always empty here."""

    results: list[SearchHit]
    sessions: list[Any]


class GraphObject(BaseModel):
    """Memories and the links among them."""

    nodes: list[MemoryObject]
    edges: list[EdgeObject]
    total: int


class NeighbourObject(BaseModel):
    """The memories around one, and the links among them all."""

    nodes: list[MemoryObject]
    edges: list[EdgeObject]


class Changed(BaseModel):
    """A memory as it is now."""

    success: bool
    memory: MemoryObject


class Linked(BaseModel):
    """A link as it is now."""

    success: bool
    association: EdgeObject


class Unlinked(BaseModel):
    """The link is gone."""

    success: bool


class Deleted(DeleteResult):
    """What a deletion did."""

    success: bool


def to_browse(
    given: ListParameters | GraphParameters, reach: Filter, *, default: int, most: int
) -> Browse:
    """The verb's value."""
    return Browse(
        wanted=_within(reach, given.memory_type),
        order=Order(given.sort),
        limit=clamped(given.limit, default=default, most=most),
        offset=given.offset,
    )


def to_agent_search(given: SearchParameters, reach: Filter) -> Search:
    """The verb's value; looking around is no access."""
    if not given.q.strip():
        raise Invalid("`q` must not be empty.", field="q")
    return Search(
        query=given.q,
        limit=clamped(given.limit, default=20, most=100),
        wanted=_within(reach, given.memory_type),
        counts_as_access=False,
    )


def to_change(given: MemoryChange, memory: Memory) -> Change:
    """The verb's value: what equals what the reader was shown is no change.

    What was shown may be less than what is kept: importance is shown as time has worn it, and the
    category of another door as the type it counts as.
    """
    shown = from_memory(memory)
    return Change(
        content=None if given.content == shown.content else given.content,
        category=None if given.memory_type == shown.memory_type else given.memory_type,
        importance=None if given.importance == shown.importance else given.importance,
        tags=given.tags,
        pinned=given.pinned,
    )


def to_link(given: AssociationArguments) -> Link:
    """The verb's value."""
    return Link(refs.memory(given.target_id), Relation(given.relation_type), given.weight)


def from_memory(memory: Memory) -> MemoryObject:
    """A memory in this door's spelling."""
    accessed = memory.last_accessed_at
    thread = str(memory.thread_id) if memory.thread_id else None
    return MemoryObject(
        id=str(memory.id),
        content=memory.content,
        memory_type=memory_type(memory),
        importance=memory.importance,
        created_at=iso(memory.created_at),
        updated_at=iso(memory.updated_at),
        last_accessed_at=iso(accessed) if accessed else None,
        access_count=memory.access_count,
        source=memory.source_note,
        channel_id=memory.thread_label or thread,
        forgotten=memory.deleted_at is not None,
    )


def from_association(association: Association) -> EdgeObject:
    """A link in this door's spelling."""
    return EdgeObject(
        id=str(association.id),
        source_id=str(association.source_id),
        target_id=str(association.target_id),
        relation_type=association.relation.value,
        weight=association.weight,
        created_at=iso(association.created_at),
    )


def from_found(found: Found) -> SearchAnswer:
    """Search results in this door's spelling."""
    hits = [
        SearchHit(memory=from_memory(each.memory), score=each.score, rank=rank)
        for rank, each in enumerate(found.findings, start=1)
    ]
    return SearchAnswer(results=hits, sessions=[])


def from_graph(graph: Graph) -> GraphObject:
    """A graph in this door's spelling."""
    return GraphObject(
        nodes=[from_memory(each) for each in graph.memories],
        edges=[from_association(each) for each in graph.associations],
        total=graph.total,
    )


def from_neighbours(graph: Graph, exclude: str) -> NeighbourObject:
    """The memories around one, without those the client has already."""
    known = {parse_ref(part.strip(), *MEMORY_PREFIXES) for part in exclude.split(",")}
    return NeighbourObject(
        nodes=[
            from_memory(each)
            for each in graph.memories
            if not known & {Ref(id=each.id), Ref(code=each.code), Ref(code=each.code[:12])}
        ],
        edges=[from_association(each) for each in graph.associations],
    )


def _within(reach: Filter, wanted: str | None) -> Filter:
    return Filter(agent=reach.agent, kinds=kinds_of(wanted))
