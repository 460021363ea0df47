"""Memories as this door reads and writes them: keys and values, importance from 1 to 10."""

from math import floor
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.domain import Memory, Origin, Scope
from recollect.doors import refs
from recollect.doors.values import Body, Label, Parameters, Tags, Time, clamped, iso
from recollect.engine.change import Change
from recollect.engine.contexts import Context
from recollect.engine.keyed import ListKeyed, SaveKeyed, SourceLink, Wanted, scopes_named
from recollect.engine.save import Save

MOST_CHARACTERS = 10_000
MOST_LABEL = 64
DEFAULT_CATEGORY = "fact"
DEFAULT_IMPORTANCE = 5
# A key that nobody gave: the beginning of what is remembered.
_DERIVED_CHARACTERS = 60

Value = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Importance = Annotated[int, Field(ge=1, le=10)]
ScopeName = Literal["global", "project", "agent"]
Spelling = Annotated[str, Field(min_length=1, max_length=100)]


class Names(Parameters):
    """What a request can be about. It narrows; what the key may not see it cannot name."""

    projectId: Spelling | None = None
    agentId: Spelling | None = Field(default=None, description="By id or name.")
    sessionId: Spelling | None = None


class SourceBody(Body):
    """Where a memory came from."""

    kind: Literal["session", "message"]
    id: Spelling


class NewMemory(Body):
    """`POST /api/v1/memories`."""

    key: Label | None = Field(default=None, description="Saved again under it, it is updated.")
    value: Value
    summary: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    category: Label | None = Field(default=None, description="Default: fact.")
    tags: Tags | None = None
    importance: Importance | None = Field(default=None, description="1 to 10; default 5.")
    pinned: bool | None = None
    expiresAt: Time | None = Field(default=None, description="From then on it is gone.")
    source: str | None = Field(default=None, description="manual, auto, or a label of yours.")
    scope: ScopeName | None = Field(default=None, description="Default: global.")
    projectId: Spelling | None = None
    agentId: Spelling | None = None
    sessionId: Spelling | None = None
    dedupe: Literal["update", "create"] | None = None
    sources: Annotated[list[SourceBody], Field(max_length=20)] | None = None


class MemoryChange(Body):
    """`PATCH /api/v1/memories/{id}`: what is absent or null stays."""

    key: Label | None = None
    value: Value | None = None
    summary: str | None = Field(default=None, max_length=MOST_CHARACTERS)
    category: Label | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    pinned: bool | None = None
    expiresAt: Time | None = None


class Recall(Body):
    """`POST /api/v1/memories/recall`."""

    query: Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
    limit: int | None = Field(default=None, ge=1, description="Default 5, at most 50.")
    projectId: Spelling | None = None
    agentId: Spelling | None = None
    sessionId: Spelling | None = None


class ListParameters(Names):
    """`GET /api/v1/memories`."""

    key: str | None = None
    scope: ScopeName | None = None
    category: str | None = None
    tag: str | None = None
    tags: str | None = Field(default=None, description="Comma-separated; all of them.")
    pinned: bool | None = None
    cursor: Annotated[str, Field(max_length=300)] | None = None
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")


class MemoryObject(BaseModel):
    """A memory."""

    id: str
    orgId: str
    userId: str
    workspaceId: str
    projectId: str | None
    agentId: str | None
    sessionId: str | None
    key: str
    value: str
    summary: str | None
    category: str
    tags: list[str]
    importance: int
    pinned: bool
    expiresAt: str | None
    source: str
    scope: str
    createdAt: str
    updatedAt: str


def to_save(body: NewMemory) -> SaveKeyed:
    """The verb's value. What is left out takes its default when it is new, else it stays."""
    label = (body.source or "manual")[:MOST_LABEL]
    origins = {"manual": Origin.USER, "auto": Origin.AUTO}
    importance = body.importance or DEFAULT_IMPORTANCE
    save = Save(
        content=body.value,
        thread=None if body.sessionId is None else refs.session(body.sessionId),
        key=body.key,
        summary=body.summary,
        category=body.category or DEFAULT_CATEGORY,
        tags=body.tags or (),
        importance=importance / 10,
        pinned=bool(body.pinned),
        expires_at=body.expiresAt,
        origin=origins.get(label, Origin.MODEL),
        origin_label=label,
        scope=Scope(body.scope or "global"),
    )
    change = Change(
        content=body.value,
        summary=body.summary,
        category=body.category,
        tags=body.tags,
        importance=None if body.importance is None else body.importance / 10,
        pinned=body.pinned,
        expires_at=body.expiresAt,
    )
    links = [source_link(each) for each in body.sources or ()]
    return SaveKeyed(save, change, forces_new=body.dedupe == "create", links=links)


def to_change(body: MemoryChange, memory: Memory) -> Change:
    """The verb's value: what equals what the reader was shown is no change."""
    shown = from_memory(memory)
    expires_at = body.expiresAt
    return Change(
        key=_unless(body.key, shown.key),
        content=_unless(body.value, shown.value),
        summary=_unless(body.summary, shown.summary),
        category=_unless(body.category, shown.category),
        tags=_unless(body.tags, shown.tags),
        importance=None
        if body.importance in {None, shown.importance}
        else (body.importance or 0) / 10,
        pinned=_unless(body.pinned, shown.pinned),
        expires_at=None if expires_at and iso(expires_at) == shown.expiresAt else expires_at,
    )


def to_list(parameters: ListParameters, after: Any) -> ListKeyed:
    """The verb's value."""
    tags = [part.strip() for part in (parameters.tags or "").split(",") if part.strip()]
    if parameters.tag:
        tags.append(parameters.tag)
    return ListKeyed(
        limit=clamped(parameters.limit, default=20, most=100),
        wanted=Wanted(
            key=parameters.key,
            scopes=scopes_named(Scope(parameters.scope) if parameters.scope else None),
            category=parameters.category,
            uncategorised=DEFAULT_CATEGORY,
            tags=tags or None,
            pinned=parameters.pinned,
        ),
        after=after,
    )


def context_of(names: Names | NewMemory | Recall) -> Context:
    """What the request is about; raise `NotFound` for what can be no id."""
    return Context(
        project=None if names.projectId is None else refs.uuid_of(names.projectId, "project"),
        agent=names.agentId,
        thread=None if names.sessionId is None else refs.session(names.sessionId),
    )


def source_link(body: SourceBody) -> SourceLink:
    """The verb's value; sources are named by their UUIDs."""
    return SourceLink(body.kind, refs.uuid_of(body.id, body.kind))


def from_memory(memory: Memory) -> MemoryObject:
    """A memory in this door's spelling, whichever door wrote it."""
    is_named = memory.scope in {Scope.PROJECT, Scope.AGENT}
    return MemoryObject(
        id=str(memory.id),
        orgId=str(memory.org_id),
        userId=str(memory.user_id),
        workspaceId=str(memory.workspace_id),
        projectId=_text(memory.project_id),
        agentId=_text(memory.agent_id),
        sessionId=_text(memory.thread_id),
        key=memory.key or _derived_key(memory.content),
        value=memory.content,
        summary=memory.summary,
        category=memory.category or DEFAULT_CATEGORY,
        tags=list(memory.tags),
        importance=shown_importance(memory.importance),
        pinned=memory.pinned,
        expiresAt=iso(memory.expires_at) if memory.expires_at else None,
        source=memory.origin_label or ("manual" if memory.origin is Origin.USER else "auto"),
        scope=memory.scope.value if is_named else Scope.GLOBAL.value,
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def shown_importance(importance: float) -> int:
    """From 1 to 10, half up; to nine decimals first, for 0.15 x 10 is a little less than 1.5."""
    return min(10, max(1, floor(round(importance * 10, 9) + 0.5)))


def _derived_key(content: str) -> str:
    return " ".join(content[: 2 * _DERIVED_CHARACTERS].split())[:_DERIVED_CHARACTERS]


def _unless(given: Any, shown: Any) -> Any:
    return None if given == shown else given


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
