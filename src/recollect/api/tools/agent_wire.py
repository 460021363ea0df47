"""Wire models of `/agents/memories`: memories, links and graphs."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from recollect.api import ids
from recollect.api.fields import Label, Parameters, Tags, clamp, iso
from recollect.api.tools.memory_delete import DeleteResult
from recollect.api.tools.wire import (
    Arguments,
    AssociationArguments,
    Fraction,
    MemoryType,
    RelationType,
    SortBy,
    Text,
    memory_type,
    optional,
    to_kinds,
)
from recollect.core.domain import (
    MEMORY_PREFIXES,
    Association,
    Filter,
    Memory,
    Ref,
    Relation,
    parse_ref,
)
from recollect.core.errors import Invalid
from recollect.memories.edit import EditMemory
from recollect.memories.links import Link
from recollect.search.hybrid import Search, SearchResults, SortOrder
from recollect.search.memory_graph import Browse, MemoryGraph


class AgentMemoryObject(BaseModel):
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


class AgentEdgeObject(BaseModel):
    """A link between two memories."""

    id: str
    source_id: str
    target_id: str
    relation_type: RelationType
    weight: float
    created_at: str


class AgentParameters(Parameters):
    """The agent whose memories are meant; `default` means the whole workspace."""

    agent_id: Label


class AgentListParameters(AgentParameters):
    """`GET /agents/memories`."""

    limit: int | None = Field(default=None, ge=1, description="Default 50, at most 200.")
    offset: int = Field(default=0, ge=0, le=2**31)
    memory_type: MemoryType | None = None
    sort: SortBy = "recent"


class AgentGraphParameters(AgentParameters):
    """`GET /agents/memories/graph`."""

    limit: int | None = Field(default=None, ge=1, description="Default 200, at most 500.")
    offset: int = Field(default=0, ge=0, le=2**31)
    memory_type: MemoryType | None = None
    sort: SortBy = "recent"


class AgentSearchParameters(AgentParameters):
    """`GET /agents/memories/search`."""

    q: Annotated[str, Field(min_length=1, max_length=10_000)]
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")
    memory_type: MemoryType | None = None


class NeighbourParameters(AgentParameters):
    """`GET /agents/memories/graph/neighbors`."""

    memory_id: str
    depth: int | None = Field(
        default=None, ge=1, description="How many links away. Default 1, at most 3."
    )
    exclude: str = Field(default="", description="Ids to leave out, comma-separated.")


class DeleteParameters(AgentParameters):
    """`DELETE /agents/memories/{memory_id}`."""

    reason: Text | None = Field(default=None, description="Why; stored only in the audit log.")


class UnlinkParameters(AgentParameters):
    """`DELETE /agents/memories/{memory_id}/associations/{target_id}`."""

    relation_type: RelationType = "related_to"


class AgentMemoryChange(Arguments):
    """`PUT /agents/memories/{memory_id}`: absent fields keep their values."""

    content: str | None = optional("New text, at most 50,000 bytes.")
    memory_type: MemoryType | None = optional("The new type.")
    importance: Fraction | None = optional("0.0 to 1.0.")
    tags: Tags | None = optional("Replaces the current tags.")
    pinned: bool | None = optional("A pinned memory never loses importance.")


class AgentMemoryList(BaseModel):
    """A page of memories, and the total count."""

    memories: list[AgentMemoryObject]
    total: int


class AgentSearchHit(BaseModel):
    """A matching memory, its fused score, and its rank, starting at 1."""

    memory: AgentMemoryObject
    score: float
    rank: int


class AgentSearchResults(BaseModel):
    """Search results, best first. `sessions` is always empty here."""

    results: list[AgentSearchHit]
    sessions: list[Any]


class AgentGraphObject(BaseModel):
    """Memories and the links between them."""

    nodes: list[AgentMemoryObject]
    edges: list[AgentEdgeObject]
    total: int


class NeighbourObject(BaseModel):
    """The memories around one memory, and the links between all of them."""

    nodes: list[AgentMemoryObject]
    edges: list[AgentEdgeObject]


class AgentMemorySaved(BaseModel):
    """The memory after a write."""

    success: bool
    memory: AgentMemoryObject


class AgentLinked(BaseModel):
    """The link after a write."""

    success: bool
    association: AgentEdgeObject


class Unlinked(BaseModel):
    """Confirms that the link was removed."""

    success: bool


class AgentDeleted(DeleteResult):
    """The result of a deletion."""

    success: bool


def to_browse(
    parameters: AgentListParameters | AgentGraphParameters,
    scope: Filter,
    *,
    default: int,
    max_limit: int,
) -> Browse:
    """Parse a request for a list or a graph."""
    return Browse(
        wanted=_narrow(scope, parameters.memory_type),
        order=SortOrder(parameters.sort),
        limit=clamp(parameters.limit, default=default, maximum=max_limit),
        offset=parameters.offset,
    )


def to_agent_search(parameters: AgentSearchParameters, scope: Filter) -> Search:
    """Parse a search. It does not count as an access."""
    if not parameters.q.strip():
        raise Invalid("`q` must not be empty.", field="q")
    return Search(
        query=parameters.q,
        limit=clamp(parameters.limit, default=20, maximum=100),
        wanted=_narrow(scope, parameters.memory_type),
        counts_as_access=False,
    )


def to_change(body: AgentMemoryChange, memory: Memory) -> EditMemory:
    """Parse a change. A field that equals the displayed value is left unchanged.

    The displayed value can differ from the stored one: importance is shown after decay, and the
    category of another interface is shown as the type it maps to.
    """
    shown = from_memory(memory)
    return EditMemory(
        content=None if body.content == shown.content else body.content,
        category=None if body.memory_type == shown.memory_type else body.memory_type,
        importance=None if body.importance == shown.importance else body.importance,
        tags=body.tags,
        pinned=body.pinned,
    )


def to_link(body: AssociationArguments) -> Link:
    """Parse a link."""
    return Link(ids.memory(body.target_id), Relation(body.relation_type), body.weight)


def from_memory(memory: Memory) -> AgentMemoryObject:
    """Return the wire form of a memory."""
    accessed = memory.last_accessed_at
    thread = str(memory.thread_id) if memory.thread_id else None
    return AgentMemoryObject(
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


def from_association(association: Association) -> AgentEdgeObject:
    """Return the wire form of a link."""
    return AgentEdgeObject(
        id=str(association.id),
        source_id=str(association.source_id),
        target_id=str(association.target_id),
        relation_type=association.relation.value,
        weight=association.weight,
        created_at=iso(association.created_at),
    )


def from_found(found: SearchResults) -> AgentSearchResults:
    """Return the wire form of search results."""
    hits = [
        AgentSearchHit(memory=from_memory(each.memory), score=each.score, rank=rank)
        for rank, each in enumerate(found.findings, start=1)
    ]
    return AgentSearchResults(results=hits, sessions=[])


def from_graph(graph: MemoryGraph) -> AgentGraphObject:
    """Return the wire form of a graph."""
    return AgentGraphObject(
        nodes=[from_memory(each) for each in graph.memories],
        edges=[from_association(each) for each in graph.associations],
        total=graph.total,
    )


def from_neighbours(graph: MemoryGraph, exclude: str) -> NeighbourObject:
    """Return the memories around one, without those that the client already has."""
    known = {parse_ref(part.strip(), *MEMORY_PREFIXES) for part in exclude.split(",")}
    return NeighbourObject(
        nodes=[
            from_memory(each)
            for each in graph.memories
            if not known & {Ref(id=each.id), Ref(code=each.code), Ref(code=each.code[:12])}
        ],
        edges=[from_association(each) for each in graph.associations],
    )


def _narrow(scope: Filter, memory_type: str | None) -> Filter:
    return Filter(agent=scope.agent, kinds=to_kinds(memory_type))
