"""What the three tools take and give, and the memories and graphs of `/agents/memories`.

The models are the one definition of the tools: every surface validates with them, and the JSON
Schemas that models and clients are shown are made from them. Null means absent everywhere.
"""

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, model_validator

from recollect.domain import (
    MEMORY_PREFIXES,
    THREAD_PREFIXES,
    Association,
    Filter,
    Lifecycle,
    Memory,
    Origin,
    Ref,
    Relation,
    View,
    parse_ref,
)
from recollect.doors import refs
from recollect.doors.values import Body, Label, Parameters, Tags, Time, clamped, iso
from recollect.engine.browse import Browse, Graph
from recollect.engine.change import Change
from recollect.engine.channels import Channel
from recollect.engine.link import Link
from recollect.engine.save import Save
from recollect.engine.search import Finding, Found, Mode, Order, Search
from recollect.errors import Invalid

MOST_RESULTS = 50
MOST_ASSOCIATIONS = 100

MemoryType = Literal[
    "fact", "preference", "decision", "identity", "event", "observation", "goal", "todo"
]
RelationType = Literal["related_to", "updates", "contradicts", "caused_by", "result_of", "part_of"]
RecallMode = Literal["hybrid", "recent", "important", "typed"]
SortBy = Literal["recent", "importance", "most_accessed"]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=10_000)]


def _without_null(schema: dict[str, Any]) -> None:
    given, _ = schema.pop("anyOf")
    schema.pop("default")
    schema.update(given)


def _optional(about: str) -> Any:
    """A field that may be absent; the schema offers no null for it, which would invite one."""
    return Field(default=None, description=about, json_schema_extra=_without_null)


class Arguments(Body):
    """The arguments of a tool: exact types, unknown ones ignored, null means absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        named = cast("dict[str, Any]", given)
        return {name: value for name, value in named.items() if value is not None}


# The tools.


class AssociationArguments(Arguments):
    """A link from the new memory to one that is there."""

    target_id: str = Field(description="The memory to link to. An unknown one is passed over.")
    relation_type: RelationType = Field(
        default="related_to",
        description="How the new memory stands to the target: related_to; updates (it replaces "
        "the target, which recall then no longer shows); contradicts; caused_by; result_of; "
        "part_of.",
    )
    weight: Share = Field(default=0.5, description="How strong the link is, 0.0 to 1.0.")


class SaveArguments(Arguments):
    """`memory_save`. From `key` on: Recollect's own, beyond the document."""

    content: str = Field(
        description="What to remember. Concise but complete, at most 50,000 bytes.",
        json_schema_extra={"minLength": 1},
    )
    memory_type: MemoryType = Field(
        default="fact",
        description="fact; preference (of the user); decision (taken in a conversation); "
        "identity (who somebody is; never fades); event; observation (a pattern or insight); "
        "goal; todo.",
    )
    importance: Share | None = _optional(
        "0.0 to 1.0; the higher, the more easily recalled. By type if absent: identity 1.0, "
        "decision 0.8, preference 0.7, goal 0.7, fact 0.5, event 0.5, observation 0.4, todo 0.3."
    )
    source: Text | None = _optional(
        "Where this comes from: `user stated explicitly`, `inferred from conversation`, ..."
    )
    channel_id: Label | None = _optional(
        "The conversation it came from: an id, or any name of yours. Recall from the same "
        "conversation prefers it."
    )
    associations: Annotated[list[AssociationArguments], Field(max_length=MOST_ASSOCIATIONS)] = (
        Field(default=[], description="Links to other memories.")
    )
    key: Label | None = _optional("A short label of yours, searched as words too.")
    tags: Tags = Field(default=[], description="Labels to filter by.")
    expires_at: Time | None = _optional("RFC 3339; from then on it is gone.")
    pinned: bool = Field(default=False, description="Never fades.")
    said_at: Time | None = _optional(
        "RFC 3339; when it was said, for what is brought in from elsewhere. Now, if absent."
    )


class SaveResult(BaseModel):
    """What `memory_save` answers."""

    memory_id: str = Field(description="The UUID of the saved memory.")
    success: bool
    message: str


class RecallArguments(Arguments):
    """`memory_recall`. From `tags` on: Recollect's own, beyond the document."""

    query: Text = Field(
        default="",
        description="What to look for, in natural language. Required in hybrid mode, ignored in "
        "the others. Be specific; put an exact phrase in double quotes.",
    )
    max_results: int = Field(
        default=10,
        ge=1,
        description="How many memories to return, 1 to 50.",
        json_schema_extra={"maximum": MOST_RESULTS},
    )
    memory_type: MemoryType | None = _optional("Only this type. Required in typed mode.")
    mode: RecallMode = Field(
        default="hybrid",
        description="hybrid (by meaning, words and links; needs a query); recent (newest first); "
        "important (most important first); typed (one memory_type).",
    )
    sort_by: SortBy = Field(
        default="recent",
        description="Order in the modes without a query: recent, importance or most_accessed.",
    )
    tags: Tags = Field(default=[], description="Only memories with one of these.")
    channel_id: Label | None = _optional(
        "The conversation that asks; of equal memories its own come first."
    )
    as_of: Time | None = _optional("RFC 3339; what was true at that time.")
    include_history: bool = Field(
        default=False, description="Also what has been replaced since, marked with its end."
    )
    explain: bool = Field(default=False, description="Say for each memory why it was found.")


class Why(BaseModel):
    """The place of a memory in one of the lists that found it."""

    source: Literal["vector", "words", "links"]
    rank: int
    score: float
    path: list[str] | None = _optional(
        "For links: memory, relation, memory, ..., from where the search began."
    )


class RecalledMemory(BaseModel):
    """A memory as `memory_recall` shows it; the last four only where there is something to say."""

    id: str = Field(description="The UUID; `memory_delete` takes it.")
    content: str
    memory_type: MemoryType
    importance: float
    created_at: str
    relevance_score: float = Field(
        description="0.0 to 1.0. In hybrid mode the sum of 1/(60 + rank) over the lists that "
        "found it; comparable within one answer only."
    )
    doubted: bool | None = _optional(
        "It rests on a statement that was replaced or forgotten since."
    )
    valid_until: str | None = _optional("When another statement replaced it.")
    superseded_by: str | None = _optional("The memory that replaced it.")
    why: list[Why] | None = _optional("With `explain`.")


class RecallResult(BaseModel):
    """What `memory_recall` answers."""

    memories: list[RecalledMemory]
    total_found: int = Field(description="How many were found before the cut to max_results.")
    summary: str = Field(description="The memories as Markdown.")
    degraded: bool | None = _optional(
        "Meaning could not be searched just now, only words and links."
    )
    confidence: float | None = _optional(
        "With `explain`, in hybrid mode: how sure it is, 0.0 to 1.0, that any of it answers."
    )


class DeleteArguments(Arguments):
    """`memory_delete`."""

    memory_id: str = Field(description="The memory to forget, an id from memory_recall.")
    reason: Text | None = _optional("Why, briefly; for the audit log alone.")


class DeleteResult(BaseModel):
    """What `memory_delete` answers."""

    forgotten: bool
    message: str


def to_save(given: SaveArguments, *, agent: str | None = None) -> Save:
    """The verb's value, with this door's policy: what is saved here fades, all but who one is."""
    is_lasting = given.memory_type == "identity"
    return Save(
        content=given.content,
        channel=_channel_to_enter(given.channel_id, agent),
        key=given.key,
        category=given.memory_type,
        tags=given.tags,
        importance=given.importance,
        pinned=given.pinned,
        expires_at=given.expires_at,
        origin=Origin.MODEL,
        lifecycle=Lifecycle.PERMANENT if is_lasting else Lifecycle.DECAYING,
        source_note=given.source,
        links=_links(given.associations),
        links_alike=True,
        said_at=given.said_at,
    )


def to_search(given: RecallArguments, thread: Ref | None) -> Search:
    """The verb's value."""
    if given.as_of and given.include_history:
        raise Invalid("`as_of` and `include_history` exclude each other.", field="as_of")
    return Search(
        query=given.query,
        mode=Mode(given.mode),
        order=Order(given.sort_by),
        limit=min(given.max_results, MOST_RESULTS),
        wanted=Filter(kinds=_kinds(given.memory_type), tags=given.tags or None),
        thread=thread,
        view=View(as_of=given.as_of, is_history=given.include_history),
    )


def channel(name: str, agent: str | None = None) -> Channel:
    """A conversation by any spelling of a thread's id, or by the client's own name for it."""
    return Channel(name, parse_ref(name, *THREAD_PREFIXES), agent)


def recalled(finding: Finding, *, explain: bool) -> RecalledMemory:
    """A finding in this door's spelling."""
    memory = finding.memory
    return RecalledMemory(
        id=str(memory.id),
        content=memory.content,
        memory_type=memory_type(memory),
        importance=memory.importance,
        created_at=iso(memory.created_at),
        relevance_score=finding.score,
        doubted=finding.is_doubted or None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
        superseded_by=str(memory.superseded_by) if memory.superseded_by else None,
        why=_why(finding) if explain else None,
    )


def memory_type(memory: Memory) -> Any:
    """The type of a memory from any door; one whose category is no type counts as a fact."""
    return memory.kind or "fact"


def _kinds(wanted: str | None) -> list[str] | None:
    return None if wanted is None else [wanted]


def _channel_to_enter(name: str | None, agent: str | None) -> Channel | None:
    if name is not None:
        return channel(name, agent)
    # What an agent says outside any conversation is kept in one of its own.
    return None if agent is None else Channel(f"agent:{agent}", agent=agent)


def _links(given: list[AssociationArguments]) -> list[Link]:
    """Links to what can be an id at all; the others cannot exist and are passed over too."""
    found = [(parse_ref(each.target_id, *MEMORY_PREFIXES), each) for each in given]
    return [Link(ref, Relation(each.relation_type), each.weight) for ref, each in found if ref]


def _why(finding: Finding) -> list[Why]:
    return [
        Why(
            source=place.source.value,
            rank=place.rank,
            score=place.score,
            path=list(place.path) or None,
        )
        for place in finding.places
    ]


# `/agents/memories`.


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

    content: str | None = _optional("New text, at most 50,000 bytes.")
    memory_type: MemoryType | None = _optional("Another type.")
    importance: Share | None = _optional("0.0 to 1.0.")
    tags: Tags | None = _optional("In place of those it has.")
    pinned: bool | None = _optional("Never fades.")


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
    return Search(
        query=given.q,
        limit=clamped(given.limit, default=20, most=100),
        wanted=_within(reach, given.memory_type),
        counts_as_access=False,
    )


def to_change(given: MemoryChange) -> Change:
    """The verb's value."""
    return Change(
        content=given.content,
        category=given.memory_type,
        importance=given.importance,
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
    return Filter(agent=reach.agent, kinds=_kinds(wanted))
