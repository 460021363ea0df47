"""What the three tools take and give.

The models are the one definition of the tools: every surface validates with them, and the JSON
Schemas that models and clients are shown are made from them. Null means absent everywhere.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from recollect.domain import (
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
from recollect.doors import refs
from recollect.doors.values import Body, Label, Tags, Time, ZonedTime, iso
from recollect.engine.channels import Channel
from recollect.engine.link import Link
from recollect.engine.save import Save
from recollect.engine.search import Finding, Mode, Order, Search
from recollect.errors import Invalid

MOST_RESULTS = 50
MOST_ASSOCIATIONS = 100

MemoryType = Literal[
    "fact", "preference", "decision", "identity", "event", "observation", "goal", "todo"
]
RelationType = Literal["related_to", "updates", "contradicts", "caused_by", "result_of", "part_of"]
RecallMode = Literal["hybrid", "recent", "important", "typed"]
SortBy = Literal["recent", "importance", "most_accessed"]


def _whole(value: Any) -> Any:
    """A float without a fraction as the integer it is in JSON Schema; anything else as it came."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Share = Annotated[float, Field(ge=0, le=1)]
Text = Annotated[str, Field(max_length=10_000)]


def _without_null(schema: dict[str, Any]) -> None:
    given, _ = schema.pop("anyOf")
    schema.pop("default")
    schema.update(given)


def optional(about: str) -> Any:
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
    importance: Share | None = optional(
        "0.0 to 1.0; the higher, the more easily recalled. By type if absent: identity 1.0, "
        "decision 0.8, preference 0.7, goal 0.7, fact 0.5, event 0.5, observation 0.4, todo 0.3."
    )
    source: Text | None = optional(
        "Where this comes from: `user stated explicitly`, `inferred from conversation`, ..."
    )
    channel_id: Label | None = optional(
        "The conversation it came from: an id, or any name of yours. Recall from the same "
        "conversation prefers it."
    )
    associations: Annotated[list[AssociationArguments], Field(max_length=MOST_ASSOCIATIONS)] = (
        Field(default=[], description="Links to other memories.")
    )
    key: Label | None = optional("A short label of yours, searched as words too.")
    tags: Tags = Field(default=[], description="Labels to filter by.")
    expires_at: Time | None = optional("RFC 3339; from then on it is gone.")
    pinned: bool = Field(default=False, description="Never fades.")
    said_at: Time | None = optional(
        "RFC 3339; when it was said, for what is brought in from elsewhere. Now, if absent; not "
        "in the future."
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
    max_results: Whole = Field(
        default=10,
        ge=1,
        description="How many memories to return, 1 to 50.",
        json_schema_extra={"maximum": MOST_RESULTS},
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
        "In important mode recent, the default, leaves the most important first.",
    )
    tags: Tags = Field(default=[], description="Only memories with one of these.")
    channel_id: Label | None = optional(
        "The conversation that asks; of equal memories its own come first."
    )
    as_of: Time | None = optional("RFC 3339; what was true at that time.")
    asked_at: ZonedTime | None = optional(
        "RFC 3339; when it is asked, in the asker's zone: `last week` is told from there. Now in "
        "UTC, if absent."
    )
    include_history: bool = Field(
        default=False, description="Also what has been replaced since, marked with its end."
    )
    explain: bool = Field(
        default=False, description="Say for each memory why it was found, in the summary too."
    )


class Why(BaseModel):
    """The place of a memory in one of the lists that found it."""

    source: Literal["vector", "words", "links", "time"]
    rank: int
    score: float
    path: list[str] | None = optional(
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
    doubted: bool | None = optional("It rests on a statement that was replaced or forgotten since.")
    valid_until: str | None = optional("When another statement replaced it.")
    superseded_by: str | None = optional("The memory that replaced it.")
    why: list[Why] | None = optional("With `explain`.")


class RecallResult(BaseModel):
    """What `memory_recall` answers."""

    memories: list[RecalledMemory]
    total_found: int = Field(
        description="How many there were before the cut to max_results. In hybrid mode these are "
        "candidates, at most 60 by meaning, 60 by words and what their links lead to, or what was "
        "said at the time that is asked about: no count of all there is."
    )
    summary: str = Field(description="The memories as Markdown.")
    degraded: bool | None = optional(
        "Meaning could not be searched just now, only words and links."
    )
    confidence: float | None = optional(
        "With `explain`, in hybrid mode: how sure it is, 0.0 to 1.0, that any of it answers."
    )


class DeleteArguments(Arguments):
    """`memory_delete`."""

    memory_id: str = Field(description="The memory to forget, an id from memory_recall.")
    reason: Text | None = optional("Why, briefly; for the audit log alone.")


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
        # The default says nothing, also where a client or a model writes it out: what is asked for
        # in important mode is the most important.
        order=None if given.sort_by == "recent" else Order(given.sort_by),
        limit=min(given.max_results, MOST_RESULTS),
        wanted=Filter(kinds=kinds_of(given.memory_type), tags=given.tags or None),
        thread=thread,
        view=View(as_of=given.as_of, is_history=given.include_history),
        asked_at=given.asked_at,
    )


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


def kinds_of(wanted: str | None) -> list[str] | None:
    """The one type that is wanted, or any."""
    return None if wanted is None else [wanted]


def _channel_to_enter(name: str | None, agent: str | None) -> Channel | None:
    if agent is None:
        return None if name is None else refs.channel(name)
    # What an agent says outside any conversation is kept in one of its own.
    entered = Channel(f"agent:{agent}", agent=agent) if name is None else refs.channel(name, agent)
    return replace(entered, is_kept_apart=True)


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
