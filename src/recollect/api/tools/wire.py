"""Arguments and results of the three memory tools.

These models are the single definition of the tools: every transport validates with them, and the
JSON Schemas for models and clients are generated from them. Null means absent everywhere.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from recollect.api import ids
from recollect.api.fields import Body, Label, Tags, Time, ZonedTime, iso
from recollect.core.domain import (
    MEMORY_PREFIXES,
    Filter,
    Lifecycle,
    Memory,
    Origin,
    Ref,
    Relation,
    View,
    parse_ref,
)
from recollect.core.errors import Invalid
from recollect.memories.links import Link
from recollect.memories.save import Save
from recollect.search.hybrid import Search, SearchHit, SearchMode, SortOrder
from recollect.tenancy.thread_lookup import ThreadName

MAX_RESULTS = 50
MAX_ASSOCIATIONS = 100

MemoryType = Literal[
    "fact", "preference", "decision", "identity", "event", "observation", "goal", "todo"
]
RelationType = Literal["related_to", "updates", "contradicts", "caused_by", "result_of", "part_of"]
RecallMode = Literal["hybrid", "recent", "important", "typed"]
SortBy = Literal["recent", "importance", "most_accessed"]


def _to_integer(value: Any) -> Any:
    """Turn a float without a fraction into an integer, as in JSON Schema; keep anything else."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = Annotated[int, BeforeValidator(_to_integer)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=10_000)]


def _without_null(schema: dict[str, Any]) -> None:
    value_schema, _ = schema.pop("anyOf")
    schema.pop("default")
    schema.update(value_schema)


def optional(description: str) -> Any:
    """Declare a field that may be absent. Its schema omits null, so that models do not send it."""
    return Field(default=None, description=description, json_schema_extra=_without_null)


class Arguments(Body):
    """The arguments of a tool: exact types, unknown names ignored, null means absent."""

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        return {name: value for name, value in fields.items() if value is not None}


class AssociationArguments(Arguments):
    """A link from the new memory to an existing one."""

    target_id: str = Field(description="The memory to link to. An unknown one is ignored.")
    relation_type: RelationType = Field(
        default="related_to",
        description="How the new memory relates to the target: related_to; updates (it replaces "
        "the target, which recall then no longer shows); contradicts; caused_by; result_of; "
        "part_of.",
    )
    weight: Fraction = Field(default=0.5, description="How strong the link is, 0.0 to 1.0.")


class SaveArguments(Arguments):
    """`memory_save`. The fields from `key` on are Recollect's own additions."""

    content: str = Field(
        description="What to remember. Concise but complete, at most 50,000 bytes.",
        json_schema_extra={"minLength": 1},
    )
    memory_type: MemoryType = Field(
        default="fact",
        description="fact; preference (of the user); decision (taken in a conversation); "
        "identity (who someone is; never loses importance); event; observation (a pattern or "
        "insight); goal; todo.",
    )
    importance: Fraction | None = optional(
        "0.0 to 1.0; higher values are recalled more easily. Default by type: identity 1.0, "
        "decision 0.8, preference 0.7, goal 0.7, fact 0.5, event 0.5, observation 0.4, todo 0.3."
    )
    source: Text | None = optional(
        "Where this comes from: `user stated explicitly`, `inferred from conversation`, ..."
    )
    channel_id: Label | None = optional(
        "The conversation it comes from: an id, or any name that you choose. Recall from the same "
        "conversation prefers it."
    )
    associations: Annotated[list[AssociationArguments], Field(max_length=MAX_ASSOCIATIONS)] = Field(
        default=[], description="Links to other memories."
    )
    key: Label | None = optional("A short label that you choose. It is searched as words, too.")
    tags: Tags = Field(default=[], description="Labels to filter by.")
    expires_at: Time | None = optional("RFC 3339. After this time the memory is no longer found.")
    pinned: bool = Field(default=False, description="A pinned memory never loses importance.")
    said_at: Time | None = optional(
        "RFC 3339. When it was said, for imported memories. Default: now. It cannot be in the "
        "future."
    )


class SaveResult(BaseModel):
    """The result of `memory_save`."""

    memory_id: str = Field(description="The UUID of the saved memory.")
    success: bool
    message: str


class RecallArguments(Arguments):
    """`memory_recall`. The fields from `tags` on are Recollect's own additions."""

    query: Text = Field(
        default="",
        description="What to look for, in natural language. Required in hybrid mode, ignored in "
        "the others. Be specific; put an exact phrase in double quotes.",
    )
    max_results: WholeNumber = Field(
        default=10,
        ge=1,
        description="How many memories to return, 1 to 50.",
        json_schema_extra={"maximum": MAX_RESULTS},
    )
    memory_type: MemoryType | None = optional("Only this type. Required in typed mode.")
    mode: RecallMode = Field(
        default="hybrid",
        description="hybrid (by meaning, words and links; needs a query); recent (newest first); "
        "important (most important first); typed (one memory_type).",
    )
    sort_by: SortBy = Field(
        default="recent",
        description="Order in the modes without a query: recent, importance or most_accessed. "
        "In important mode the default, recent, keeps the most important first.",
    )
    tags: Tags = Field(default=[], description="Only memories with at least one of these tags.")
    channel_id: Label | None = optional(
        "The current conversation. Among equal matches, its own memories come first."
    )
    as_of: Time | None = optional("RFC 3339. Recall what was true at this time.")
    asked_at: ZonedTime | None = optional(
        "RFC 3339. The time of the question, in the asker's time zone; phrases like `last week` "
        "are relative to it. Default: now, in UTC."
    )
    include_history: bool = Field(
        default=False, description="Include superseded memories, with the time they were replaced."
    )
    explain: bool = Field(
        default=False, description="State why each memory was found, in the summary too."
    )


class Why(BaseModel):
    """The rank of a memory in one of the lists that found it."""

    source: Literal["vector", "words", "links", "time"]
    rank: int
    score: float
    path: list[str] | None = optional(
        "For links: memory, relation, memory, ..., from the start of the path."
    )


class RecalledMemory(BaseModel):
    """A memory in a `memory_recall` result. The last four fields appear only if they apply."""

    id: str = Field(description="The UUID; `memory_delete` takes it.")
    content: str
    memory_type: MemoryType
    importance: float
    created_at: str
    relevance_score: float = Field(
        description="0.0 to 1.0. In hybrid mode the sum of 1/(60 + rank) over the lists that "
        "found it. Comparable only within one result."
    )
    doubted: bool | None = optional(
        "True if it is based on a statement that was later replaced or forgotten."
    )
    valid_until: str | None = optional("When another memory replaced it.")
    superseded_by: str | None = optional("The memory that replaced it.")
    why: list[Why] | None = optional("Only with `explain`: the lists that found it.")


class RecallResult(BaseModel):
    """The result of `memory_recall`."""

    memories: list[RecalledMemory]
    total_found: int = Field(
        description="How many matches there were before truncation to max_results. In hybrid mode "
        "it counts candidates only: at most 60 by meaning, 60 by words and their links, or "
        "memories from the time that the query names. It is not a count of all memories."
    )
    summary: str = Field(description="The memories as Markdown.")
    degraded: bool | None = optional(
        "True if only words and links were searched because search by meaning is unavailable."
    )
    confidence: float | None = optional(
        "Only with `explain` in hybrid mode: confidence, 0.0 to 1.0, that the results contain an "
        "answer."
    )


class DeleteArguments(Arguments):
    """`memory_delete`."""

    memory_id: str = Field(description="The memory to forget, an id from memory_recall.")
    reason: Text | None = optional("A brief reason; stored only in the audit log.")


class DeleteResult(BaseModel):
    """The result of `memory_delete`."""

    forgotten: bool
    message: str


def to_save(arguments: SaveArguments, *, agent: str | None = None) -> Save:
    """Parse the arguments. Memories saved by tools decay, except those of type identity."""
    is_permanent = arguments.memory_type == "identity"
    return Save(
        content=arguments.content,
        thread_name=_thread_name(arguments.channel_id, agent),
        key=arguments.key,
        category=arguments.memory_type,
        tags=arguments.tags,
        importance=arguments.importance,
        pinned=arguments.pinned,
        expires_at=arguments.expires_at,
        origin=Origin.MODEL,
        lifecycle=Lifecycle.PERMANENT if is_permanent else Lifecycle.DECAYING,
        source_note=arguments.source,
        links=_links(arguments.associations),
        links_similar=True,
        said_at=arguments.said_at,
    )


def to_search(arguments: RecallArguments, thread: Ref | None) -> Search:
    """Parse the arguments."""
    if arguments.as_of and arguments.include_history:
        raise Invalid("`as_of` and `include_history` exclude each other.", field="as_of")
    return Search(
        query=arguments.query,
        mode=SearchMode(arguments.mode),
        # The default sets no order, even if a client or a model sends it explicitly: important
        # mode must still return the most important first.
        order=None if arguments.sort_by == "recent" else SortOrder(arguments.sort_by),
        limit=min(arguments.max_results, MAX_RESULTS),
        wanted=Filter(kinds=to_kinds(arguments.memory_type), tags=arguments.tags or None),
        thread=thread,
        view=View(as_of=arguments.as_of, is_history=arguments.include_history),
        asked_at=arguments.asked_at,
    )


def from_hit(hit: SearchHit, *, explain: bool) -> RecalledMemory:
    """Return the wire form of a search hit."""
    memory = hit.memory
    return RecalledMemory(
        id=str(memory.id),
        content=memory.content,
        memory_type=memory_type(memory),
        importance=memory.importance,
        created_at=iso(memory.created_at),
        relevance_score=hit.score,
        doubted=hit.is_doubted or None,
        valid_until=iso(memory.valid_until) if memory.valid_until else None,
        superseded_by=str(memory.superseded_by) if memory.superseded_by else None,
        why=_why(hit) if explain else None,
    )


def memory_type(memory: Memory) -> Any:
    """Return the type of a memory. A category that is not a type counts as a fact."""
    return memory.kind or "fact"


def to_kinds(memory_type: str | None) -> list[str] | None:
    """Return the type to filter by, or None for any type."""
    return None if memory_type is None else [memory_type]


def _thread_name(channel: str | None, agent: str | None) -> ThreadName | None:
    if agent is None:
        return None if channel is None else ids.channel(channel)
    # Memories that an agent saves outside any conversation go into a thread of its own.
    thread = (
        ThreadName(f"agent:{agent}", agent=agent)
        if channel is None
        else ids.channel(channel, agent)
    )
    return replace(thread, is_agent_only=True)


def _links(associations: list[AssociationArguments]) -> list[Link]:
    """Return the links. Malformed target ids are skipped, like unknown ones."""
    targets = [(parse_ref(each.target_id, *MEMORY_PREFIXES), each) for each in associations]
    return [Link(ref, Relation(each.relation_type), each.weight) for ref, each in targets if ref]


def _why(hit: SearchHit) -> list[Why]:
    return [
        Why(
            source=each.source.value,
            rank=each.rank,
            score=each.score,
            path=list(each.path) or None,
        )
        for each in hit.places
    ]
