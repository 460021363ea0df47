"""What this door reads and writes. Every optional field may be null, and null means absent."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from recollect.domain import (
    Event,
    Filter,
    Memory,
    Ref,
    StateVersion,
    Thread,
    Turn,
    parse_ref,
)
from recollect.doors.values import Body, Label, Parameters, Tags, Time, clamped, iso
from recollect.engine.change import Change
from recollect.engine.recall import Hit, Recall
from recollect.engine.save import Save
from recollect.engine.threads import AddTurn, Context, ListThreads, OpenThread
from recollect.errors import Invalid, NotFound, TooLarge

MOST_CHARACTERS = 10_000
DEFAULT_TYPE = "general"
DEFAULT_LIFE = timedelta(days=1)
LONGEST_LIFE = timedelta(days=30)

# No id at all, so it matches nothing; a filter must never widen because it was misspelt.
NOBODY = Ref(code="-")


Query = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Object = dict[str, Any]


# Memories.


class NewMemory(Body):
    """`POST /v1/memory`. From `user_id` on: Recollect's own, beyond the document."""

    session_id: str | None = Field(
        default=None, description="Session to associate the memory with."
    )
    content: str = Field(min_length=1, description="The text, at most 10,000 characters.")
    type: Label | None = Field(default=None, description="fact, preference, event, policy, ...")
    tags: Tags | None = None
    metadata: Object | None = None
    embed: bool | None = Field(default=None, description="Search it by meaning. Default: true.")
    user_id: Label | None = Field(default=None, description="Whom it is about; else the session's.")
    summary: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    key: Label | None = Field(default=None, description="A short label of yours.")
    importance: float | None = Field(default=None, ge=0, le=1)
    pinned: bool | None = None
    expires_at: Time | None = Field(default=None, description="From then on it is gone everywhere.")


class MemoryChange(Body):
    """`PATCH /v1/memory/{id}`: what is absent stays. Tags are replaced, metadata is merged."""

    content: str | None = Field(default=None, min_length=1)
    type: Label | None = None
    tags: Tags | None = None
    metadata: Object | None = None
    summary: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    key: Label | None = None
    importance: float | None = Field(default=None, ge=0, le=1)
    pinned: bool | None = None
    expires_at: Time | None = None


class MemoryObject(BaseModel):
    """A memory. From `user_id` on: Recollect's own, beyond the document."""

    object: Literal["memory"] = "memory"
    id: str
    session_id: str
    content: str
    type: str
    tags: list[str]
    metadata: Object
    created_at: str
    embedding_id: str | None
    vector_available: bool
    user_id: str | None
    updated_at: str
    version: int
    summary: str | None
    key: str | None
    importance: float
    pinned: bool
    expires_at: str | None


class Found(MemoryObject):
    """A search result: the memory, how relevant it is, and by what it was found."""

    score: float
    found_by: str | None


class Search(Body):
    """`POST /v1/memory/search`."""

    query: Query
    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    limit: int | None = Field(default=None, ge=1, description="Default 10, at most 50.")
    threshold: float | None = Field(default=None, ge=0, le=1, description="Default 0.7.")


class Narrowing(Parameters):
    """What a search by query string may be narrowed to."""

    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    types: str | None = None
    tags: str | None = None
    limit: int | None = Field(default=None, ge=1)
    top_k: int | None = Field(default=None, ge=1)
    threshold: float | None = Field(default=None, ge=0, le=1)


class SearchParameters(Narrowing):
    """`GET /v1/memories/search`."""

    query: Query


class SearchOrListParameters(Narrowing):
    """`GET /v1/memories`: a search with `query`, a list, with pages, without."""

    query: Query | None = None
    starting_after: str | None = None


class ListParameters(Parameters):
    """`GET /v1/memory`."""

    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    tags: str | None = Field(default=None, description="Comma-separated; any of them.")
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")
    starting_after: str | None = None


class MemoryList(BaseModel):
    """A page of memories."""

    object: Literal["list"] = "list"
    data: list[MemoryObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class SearchResult(BaseModel):
    """What a search found, best first. `degraded`: meaning could not be searched, only words."""

    object: Literal["list"] = "list"
    data: list[Found]
    query: str
    degraded: bool


def to_save(body: NewMemory, *, needs_session: bool) -> Save:
    """The verb's value; raise what the document says of a missing session or too long a text."""
    if needs_session and body.session_id is None:
        raise Invalid("`session_id` is required.", field="session_id")
    return Save(
        content=within_limit(body.content),
        thread=None if body.session_id is None else session_ref(body.session_id),
        subject=body.user_id,
        summary=body.summary,
        key=body.key,
        category=body.type or DEFAULT_TYPE,
        tags=body.tags or (),
        metadata=body.metadata or {},
        importance=body.importance,
        pinned=bool(body.pinned),
        expires_at=body.expires_at,
        wants_vector=body.embed is not False,
    )


def to_change(body: MemoryChange) -> Change:
    """The verb's value."""
    return Change(
        content=None if body.content is None else within_limit(body.content),
        summary=body.summary,
        key=body.key,
        category=body.type,
        tags=body.tags,
        metadata=body.metadata,
        importance=body.importance,
        pinned=body.pinned,
        expires_at=body.expires_at,
    )


def within_limit(content: str) -> str:
    """The text, if it is not too long for this door; counted in characters."""
    if len(content) > MOST_CHARACTERS:
        raise TooLarge("content", most=MOST_CHARACTERS)
    return content


def to_recall(body: Search) -> Recall:
    """The verb's value."""
    return Recall(
        query=body.query,
        limit=clamped(body.limit, default=10, most=50),
        threshold=0.7 if body.threshold is None else body.threshold,
        thread=filter_ref(body.session_id),
        wanted=wanted(body.user_id, None if body.type is None else [body.type], body.tags),
    )


def search_of(query: str, parameters: Narrowing) -> Recall:
    """The verb's value for a search by query string."""
    return Recall(
        query=query,
        limit=clamped(parameters.top_k or parameters.limit, default=10, most=50),
        threshold=0.7 if parameters.threshold is None else parameters.threshold,
        thread=filter_ref(parameters.session_id),
        wanted=filter_of(parameters),
    )


def filter_of(parameters: Narrowing | ListParameters) -> Filter:
    """Which memories a query string means."""
    types = getattr(parameters, "types", None) or parameters.type
    return wanted(parameters.user_id, split(types), split(parameters.tags))


def wanted(user_id: str | None, types: Sequence[str] | None, tags: Sequence[str] | None) -> Filter:
    """The filter; a row of another door without a category counts as `general` here.

    Clients send an empty list where they mean none, so that filters nothing.
    """
    return Filter(
        subject=user_id, categories=types or None, uncategorised=DEFAULT_TYPE, tags=tags or None
    )


def split(text: str | None) -> list[str] | None:
    """The parts of a comma-separated parameter."""
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def memory_ref(text: str) -> Ref:
    """Any spelling of a memory's id."""
    ref = parse_ref(text, "mem_", "mem-")
    if ref is None:
        raise NotFound("memory")
    return ref


def session_ref(text: str) -> Ref:
    """Any spelling of a thread's id."""
    ref = parse_ref(text, "sess_", "chat_", "chat-")
    if ref is None:
        raise NotFound("session")
    return ref


def filter_ref(text: str | None) -> Ref | None:
    """The thread to narrow to; one that cannot exist narrows to nothing."""
    if text is None:
        return None
    return parse_ref(text, "sess_", "chat_", "chat-") or NOBODY


def cursor(text: str | None, *prefixes: str) -> Ref | None:
    """The row behind which a page begins."""
    if text is None:
        return None
    ref = parse_ref(text, *prefixes)
    if ref is None:
        raise no_cursor()
    return ref


def no_cursor() -> Invalid:
    """What to say of a `starting_after` that can be no id."""
    return Invalid("`starting_after` is no id.", field="starting_after")


def from_memory(memory: Memory) -> MemoryObject:
    """A memory in this door's spelling."""
    return MemoryObject(**_memory(memory))


def from_hit(hit: Hit) -> Found:
    """A search result."""
    return Found(**_memory(hit.memory), score=hit.score, found_by=hit.found_by)


def _memory(memory: Memory) -> dict[str, Any]:
    short = memory.code[:12]
    return {
        "id": f"mem_{short}",
        # Never null: the official client's models type it as a plain string.
        "session_id": session_id(memory.thread_code) if memory.thread_code else "",
        "content": memory.content,
        "type": memory.category or DEFAULT_TYPE,
        "tags": list(memory.tags),
        "metadata": dict(memory.metadata),
        "created_at": iso(memory.created_at),
        "embedding_id": f"vec_{short}" if memory.has_vector else None,
        "vector_available": memory.has_vector,
        "user_id": memory.subject,
        "updated_at": iso(memory.updated_at),
        "version": memory.version,
        "summary": memory.summary,
        "key": memory.key,
        "importance": memory.importance,
        "pinned": memory.pinned,
        "expires_at": iso(memory.expires_at) if memory.expires_at else None,
    }


def session_id(code: str) -> str:
    """A thread's id at this door."""
    return f"sess_{code[:12]}"


# Sessions.


class NewSession(Body):
    """`POST /v1/sessions`."""

    agent_id: Label
    user_id: Label | None = None
    initial_state: Object | None = None
    metadata: Object | None = None
    ttl_seconds: int | None = Field(
        default=None, ge=1, le=int(LONGEST_LIFE.total_seconds()), description="Default 86,400."
    )


class SessionObject(BaseModel):
    """A session."""

    object: Literal["session"] = "session"
    id: str
    agent_id: str
    user_id: str | None
    created_at: str
    updated_at: str
    metadata: Object
    state: Object
    state_version: int
    memory_count: int
    turn_count: int
    ttl_expires_at: str | None


class SessionList(BaseModel):
    """A page of sessions."""

    object: Literal["list"] = "list"
    data: list[SessionObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class SessionParameters(Parameters):
    """`GET /v1/sessions`."""

    agent_id: str | None = None
    user_id: str | None = None
    created_after: Time | None = None
    limit: int | None = Field(default=None, ge=1)
    starting_after: str | None = None


class NewState(Body):
    """A state to put in place, or keys to change."""

    state: Object
    reasoning: str | None = Field(default=None, max_length=MOST_CHARACTERS)


class StateObject(BaseModel):
    """A session's state at one version."""

    object: Literal["state"] = "state"
    session_id: str
    version: int
    state: Object
    reasoning: str | None
    created_at: str
    updated_at: str


class StateList(BaseModel):
    """Versions of a state, newest first."""

    object: Literal["list"] = "list"
    data: list[StateObject]
    has_more: bool
    first_id: int | None
    last_id: int | None


class HistoryParameters(Parameters):
    """`GET /v1/sessions/{id}/state/history`; `starting_after` is a version."""

    limit: int | None = Field(default=None, ge=1)
    starting_after: int | None = Field(default=None, ge=0, le=2**31 - 1)


class RollBack(Body):
    """`POST /v1/sessions/{id}/state/rollback`; 0 is the initial state."""

    version: int = Field(ge=0, le=2**31 - 1)


class RolledBack(StateObject):
    """Answers two readers at once: the client's models and the published schema."""

    success: Literal[True] = True
    new_version: int
    restored_from_version: int
    trace_id: str | None


class ForkSession(Body):
    """`POST /v1/sessions/{id}/fork`."""

    version: int | None = Field(default=None, ge=0, le=2**31 - 1)


class AskContext(Body):
    """`POST /v1/sessions/{id}/context`."""

    query: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    memory_limit: int | None = Field(default=None, ge=1, description="Default 5, at most 20.")
    turn_limit: int | None = Field(default=None, ge=1, description="Default 10, at most 50.")


class ShortTurn(BaseModel):
    """A turn as the context tells it."""

    id: str
    input: Object
    output: Object
    created_at: str


class ContextObject(BaseModel):
    """What a model should know before it goes on."""

    state: Object
    memories: list[Found]
    recent_turns: list[ShortTurn]
    average_relevance: float | None


class Said(Body):
    """One side of a turn; further keys are kept as they are."""

    model_config = ConfigDict(strict=True, extra="allow")

    type: Label = "text"
    content: str = Field(max_length=100_000)


def _spoken(value: Any) -> Any:
    return {"content": value} if isinstance(value, str) else value


Side = Annotated[Said, BeforeValidator(_spoken, json_schema_input_type=Said | str)]


class NewTurn(Body):
    """`POST /v1/sessions/{id}/turns`; a plain text stands for `{"type": "text"}`."""

    input: Side
    output: Side
    reasoning: str | None = Field(default=None, max_length=100_000)
    metadata: Object | None = None


class TurnObject(BaseModel):
    """A turn."""

    object: Literal["turn"] = "turn"
    id: str
    session_id: str
    turn_number: int
    input: Object
    output: Object
    reasoning: str | None
    metadata: Object
    created_at: str


class TurnList(BaseModel):
    """A page of turns, newest first."""

    object: Literal["list"] = "list"
    data: list[TurnObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class PageParameters(Parameters):
    """A page of something."""

    limit: int | None = Field(default=None, ge=1)
    starting_after: str | None = None


def to_open(body: NewSession) -> OpenThread:
    """The verb's value."""
    lives_for = timedelta(seconds=body.ttl_seconds) if body.ttl_seconds else DEFAULT_LIFE
    return OpenThread(
        agent=body.agent_id,
        subject=body.user_id,
        state=body.initial_state or {},
        metadata=body.metadata or {},
        lives_for=lives_for,
    )


def to_list(parameters: SessionParameters) -> ListThreads:
    """The verb's value."""
    return ListThreads(
        limit=clamped(parameters.limit, default=20, most=100),
        agent=parameters.agent_id,
        subject=parameters.user_id,
        created_after=parameters.created_after,
        after=cursor(parameters.starting_after, "sess_", "chat_", "chat-"),
    )


def to_turn(body: NewTurn) -> AddTurn:
    """The verb's value."""
    return AddTurn(
        given=body.input.model_dump(),
        answered=body.output.model_dump(),
        reasoning=body.reasoning,
        metadata=body.metadata or {},
    )


def from_thread(thread: Thread) -> SessionObject:
    """A thread in this door's spelling."""
    return SessionObject(
        id=session_id(thread.code),
        agent_id=thread.agent or "",
        user_id=thread.subject,
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
        metadata=dict(thread.metadata),
        state=dict(thread.state),
        state_version=thread.state_version,
        memory_count=thread.memory_count,
        turn_count=thread.turn_count,
        ttl_expires_at=iso(thread.expires_at) if thread.expires_at else None,
    )


def from_state(thread: Thread) -> StateObject:
    """A thread's current state."""
    return StateObject(
        session_id=session_id(thread.code),
        version=thread.state_version,
        state=dict(thread.state),
        reasoning=None,
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
    )


def from_version(thread: Thread, version: StateVersion) -> StateObject:
    """A state of the past."""
    return StateObject(
        session_id=session_id(thread.code),
        version=version.version,
        state=dict(version.state),
        reasoning=version.reasoning,
        created_at=iso(version.created_at),
        updated_at=iso(version.created_at),
    )


def from_rollback(thread: Thread, restored: int, trace_id: str | None) -> RolledBack:
    """The state after a roll-back, for both readers."""
    return RolledBack(
        **from_state(thread).model_dump(),
        new_version=thread.state_version,
        restored_from_version=restored,
        trace_id=trace_id,
    )


def from_turn(thread: Thread, turn: Turn) -> TurnObject:
    """A turn in this door's spelling."""
    return TurnObject(
        id=f"turn_{turn.code[:12]}",
        session_id=session_id(thread.code),
        turn_number=turn.number,
        input=dict(turn.input),
        output=dict(turn.output),
        reasoning=turn.reasoning,
        metadata=dict(turn.metadata),
        created_at=iso(turn.created_at),
    )


def from_context(found: Context) -> ContextObject:
    """What a model should know, in this door's spelling."""
    scores = [hit.score for hit in found.hits if hit.found_by]
    return ContextObject(
        state=dict(found.thread.state),
        memories=[from_hit(hit) for hit in found.hits],
        recent_turns=[
            ShortTurn(
                id=f"turn_{turn.code[:12]}",
                input=dict(turn.input),
                output=dict(turn.output),
                created_at=iso(turn.created_at),
            )
            for turn in found.turns
        ],
        average_relevance=sum(scores) / len(scores) if scores else None,
    )


# Traces.


class TraceParameters(Parameters):
    """`GET /v1/traces`."""

    session_id: str | None = None
    user_id: str | None = None
    action: str | None = None
    created_after: Time | None = None
    created_before: Time | None = None
    limit: int | None = Field(default=None, ge=1)
    starting_after: str | None = None


class TraceObject(BaseModel):
    """One act: ids, never text."""

    object: Literal["trace"] = "trace"
    id: str
    session_id: str | None
    user_id: str | None
    action: str
    actor: str
    timestamp: str
    details: Object
    metadata: Object


class TraceList(BaseModel):
    """A page of traces, newest first."""

    object: Literal["list"] = "list"
    data: list[TraceObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


def from_event(event: Event) -> TraceObject:
    """An event in this door's spelling."""
    details = dict(event.details)
    if "memory" in details:
        details["memory_id"] = f"mem_{details.pop('memory')[:12]}"
    if "turn" in details:
        details["turn_id"] = f"turn_{details.pop('turn')[:12]}"
    return TraceObject(
        id=f"trace_{event.id.hex}",
        session_id=session_id(event.thread_code) if event.thread_code else None,
        user_id=event.subject,
        action=event.action,
        actor=event.actor,
        timestamp=iso(event.at),
        details=details,
        metadata={},
    )
