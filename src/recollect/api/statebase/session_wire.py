"""Wire models of sessions, their state and their turns."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from recollect.api.fields import Body, Label, Parameters, Time, clamp, iso
from recollect.api.statebase.wire import (
    MAX_CHARACTERS,
    Object,
    StatebaseFound,
    cursor,
    from_hit,
    session_id,
)
from recollect.conversations.threads import AddTurn, ListThreads, OpenThread, ThreadContext
from recollect.core.domain import THREAD_PREFIXES, StateVersion, Thread, Turn

DEFAULT_LIFETIME = timedelta(days=1)
MAX_LIFETIME = timedelta(days=30)


class StatebaseNewSession(Body):
    """`POST /v1/sessions`."""

    agent_id: Label
    user_id: Label | None = None
    initial_state: Object | None = None
    metadata: Object | None = None
    ttl_seconds: int | None = Field(
        default=None, ge=1, le=int(MAX_LIFETIME.total_seconds()), description="Default 86,400."
    )


class StatebaseSessionObject(BaseModel):
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
    data: list[StatebaseSessionObject]
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
    """A new state, or the keys of a state to change."""

    state: Object
    reasoning: str | None = Field(default=None, max_length=MAX_CHARACTERS)


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
    """Has the fields of the official client's models and of the published schema."""

    success: Literal[True] = True
    new_version: int
    restored_from_version: int
    trace_id: str | None


class ForkSession(Body):
    """`POST /v1/sessions/{id}/fork`."""

    version: int | None = Field(default=None, ge=0, le=2**31 - 1)


class ContextRequest(Body):
    """`POST /v1/sessions/{id}/context`."""

    query: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    memory_limit: int | None = Field(default=None, ge=1, description="Default 5, at most 20.")
    turn_limit: int | None = Field(default=None, ge=1, description="Default 10, at most 50.")


class ShortTurn(BaseModel):
    """A turn in a context response."""

    id: str
    input: Object
    output: Object
    created_at: str


class ContextObject(BaseModel):
    """What a model needs to know to continue the session."""

    state: Object
    memories: list[StatebaseFound]
    recent_turns: list[ShortTurn]
    average_relevance: float | None


class StatebaseTurnSide(Body):
    """The input or the output of a turn. Extra keys are stored unchanged."""

    model_config = ConfigDict(strict=True, extra="allow")

    type: Label = "text"
    content: str = Field(max_length=100_000)


def _text_as_object(value: Any) -> Any:
    return {"content": value} if isinstance(value, str) else value


TurnSide = Annotated[
    StatebaseTurnSide,
    BeforeValidator(_text_as_object, json_schema_input_type=StatebaseTurnSide | str),
]


class StatebaseNewTurn(Body):
    """`POST /v1/sessions/{id}/turns`; plain text means `{"type": "text"}`."""

    input: TurnSide
    output: TurnSide
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


class StatebasePageParameters(Parameters):
    """Which page of a list."""

    limit: int | None = Field(default=None, ge=1)
    starting_after: str | None = None


def to_open(body: StatebaseNewSession) -> OpenThread:
    """Parse a new session."""
    lives_for = timedelta(seconds=body.ttl_seconds) if body.ttl_seconds else DEFAULT_LIFETIME
    return OpenThread(
        agent=body.agent_id,
        subject=body.user_id,
        state=body.initial_state or {},
        metadata=body.metadata or {},
        lives_for=lives_for,
    )


def to_list(parameters: SessionParameters) -> ListThreads:
    """Parse the query string of a session list."""
    return ListThreads(
        limit=clamp(parameters.limit, default=20, maximum=100),
        agent=parameters.agent_id,
        subject=parameters.user_id,
        created_after=parameters.created_after,
        after=cursor(parameters.starting_after, *THREAD_PREFIXES),
    )


def to_turn(body: StatebaseNewTurn) -> AddTurn:
    """Parse a new turn."""
    return AddTurn(
        given=body.input.model_dump(),
        answered=body.output.model_dump(),
        reasoning=body.reasoning,
        metadata=body.metadata or {},
    )


def from_thread(thread: Thread) -> StatebaseSessionObject:
    """Return the wire form of a thread."""
    return StatebaseSessionObject(
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
    """Return the wire form of a thread's current state."""
    return StateObject(
        session_id=session_id(thread.code),
        version=thread.state_version,
        state=dict(thread.state),
        reasoning=None,
        created_at=iso(thread.created_at),
        updated_at=iso(thread.updated_at),
    )


def from_version(thread: Thread, version: StateVersion) -> StateObject:
    """Return the wire form of an earlier state."""
    return StateObject(
        session_id=session_id(thread.code),
        version=version.version,
        state=dict(version.state),
        reasoning=version.reasoning,
        created_at=iso(version.created_at),
        updated_at=iso(version.created_at),
    )


def from_rollback(thread: Thread, restored: int, trace_id: str | None) -> RolledBack:
    """Return the wire form of the state after a rollback."""
    return RolledBack(
        **from_state(thread).model_dump(),
        new_version=thread.state_version,
        restored_from_version=restored,
        trace_id=trace_id,
    )


def from_turn(thread: Thread, turn: Turn) -> TurnObject:
    """Return the wire form of a turn."""
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


def from_context(found: ThreadContext) -> ContextObject:
    """Return the wire form of a session's context."""
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
