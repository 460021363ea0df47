"""The wire format of memories: keys and values, with an importance from 1 to 10."""

from math import floor
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.api import ids
from recollect.api.fields import Body, Label, Parameters, Tags, Time, clamp, iso
from recollect.core.domain import Memory, Origin, Scope
from recollect.memories.edit import EditMemory
from recollect.memories.key_value import (
    KeyValueFilter,
    ListKeyValue,
    SaveKeyValue,
    SourceLink,
    scopes_named,
)
from recollect.memories.save import Save
from recollect.tenancy.request_scope import RequestScope

MAX_CHARACTERS = 10_000
MAX_LABEL_LENGTH = 64
DEFAULT_CATEGORY = "fact"
DEFAULT_IMPORTANCE = 5
# A memory without a key shows the beginning of its content as its key.
_DERIVED_KEY_LENGTH = 60

Value = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Importance = Annotated[int, Field(ge=1, le=10)]
ScopeName = Literal["global", "project", "agent"]
IdText = Annotated[str, Field(min_length=1, max_length=100)]


class Names(Parameters):
    """The project, agent or session of a request. It only narrows what the key can see."""

    projectId: IdText | None = None
    agentId: IdText | None = Field(default=None, description="An id or a name.")
    sessionId: IdText | None = None


class SourceBody(Body):
    """The session or message that a memory came from."""

    kind: Literal["session", "message"]
    id: Annotated[IdText, Field(description="Any form of the id; of a message also a turn's id.")]


class AlumiaNewMemory(Body):
    """`POST /api/v1/memories`."""

    key: Label | None = Field(
        default=None, description="Saving the same key again updates the memory."
    )
    value: Value
    summary: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    category: Label | None = Field(default=None, description="Default: fact.")
    tags: Tags | None = None
    importance: Importance | None = Field(default=None, description="1 to 10; default 5.")
    pinned: bool | None = None
    expiresAt: Time | None = Field(default=None, description="The memory disappears at this time.")
    source: str | None = Field(default=None, description="`manual`, `auto`, or your own label.")
    scope: ScopeName | None = Field(default=None, description="Default: global.")
    projectId: IdText | None = None
    agentId: IdText | None = None
    sessionId: IdText | None = None
    dedupe: Literal["update", "create"] | None = None
    sources: Annotated[list[SourceBody], Field(max_length=20)] | None = None


class AlumiaMemoryChange(Body):
    """`PATCH /api/v1/memories/{id}`: absent and null fields stay unchanged."""

    key: Label | None = None
    value: Value | None = None
    summary: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    category: Label | None = None
    tags: Tags | None = None
    importance: Importance | None = None
    pinned: bool | None = None
    expiresAt: Time | None = None


class AlumiaRecall(Body):
    """`POST /api/v1/memories/recall`."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
    limit: int | None = Field(default=None, ge=1, description="Default 5, at most 50.")
    projectId: IdText | None = None
    agentId: IdText | None = None
    sessionId: IdText | None = None


class AlumiaListParameters(Names):
    """`GET /api/v1/memories`."""

    key: str | None = None
    scope: ScopeName | None = None
    category: str | None = None
    tag: str | None = None
    tags: str | None = Field(
        default=None, description="Comma-separated; a memory must have all of them."
    )
    pinned: bool | None = None
    cursor: Annotated[str, Field(max_length=300)] | None = None
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")


class AlumiaMemoryObject(BaseModel):
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


def to_save(body: AlumiaNewMemory) -> SaveKeyValue:
    """Convert to a request. Absent fields get defaults in a new row and stay in an old one."""
    label = (body.source or "manual")[:MAX_LABEL_LENGTH]
    origins = {"manual": Origin.USER, "auto": Origin.AUTO}
    importance = body.importance or DEFAULT_IMPORTANCE
    save = Save(
        content=body.value,
        thread=None if body.sessionId is None else ids.session(body.sessionId),
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
    change = EditMemory(
        content=body.value,
        summary=body.summary,
        category=body.category,
        tags=body.tags,
        importance=None if body.importance is None else body.importance / 10,
        pinned=body.pinned,
        expires_at=body.expiresAt,
    )
    links = [source_link(each) for each in body.sources or ()]
    return SaveKeyValue(save, change, forces_new=body.dedupe == "create", links=links)


def to_change(body: AlumiaMemoryChange, memory: Memory) -> EditMemory:
    """Convert to a request. A field equal to the value that was shown is not changed."""
    shown = from_memory(memory)
    expires_at = body.expiresAt
    return EditMemory(
        key=_if_changed(body.key, shown.key),
        content=_if_changed(body.value, shown.value),
        summary=_if_changed(body.summary, shown.summary),
        category=_if_changed(body.category, shown.category),
        tags=_if_changed(body.tags, shown.tags),
        importance=None
        if body.importance in {None, shown.importance}
        else (body.importance or 0) / 10,
        pinned=_if_changed(body.pinned, shown.pinned),
        expires_at=None if expires_at and iso(expires_at) == shown.expiresAt else expires_at,
    )


def to_list(parameters: AlumiaListParameters, after: Any) -> ListKeyValue:
    """Convert to a request."""
    tags = [part.strip() for part in (parameters.tags or "").split(",") if part.strip()]
    if parameters.tag:
        tags.append(parameters.tag)
    return ListKeyValue(
        limit=clamp(parameters.limit, default=20, maximum=100),
        wanted=KeyValueFilter(
            key=parameters.key,
            scopes=scopes_named(Scope(parameters.scope) if parameters.scope else None),
            category=parameters.category,
            uncategorised=DEFAULT_CATEGORY,
            tags=tags or None,
            pinned=parameters.pinned,
        ),
        after=after,
    )


def context_of(names: Names | AlumiaNewMemory | AlumiaRecall) -> RequestScope:
    """Return the scope of the request; raise `NotFound` for text that cannot be an id."""
    return RequestScope(
        project=None if names.projectId is None else ids.uuid_of(names.projectId, "project"),
        agent=names.agentId,
        thread=None if names.sessionId is None else ids.session(names.sessionId),
    )


def source_link(body: SourceBody) -> SourceLink:
    """Convert to a source link; raise `NotFound` for text that cannot be an id."""
    parse = ids.session if body.kind == "session" else ids.message_or_turn
    return SourceLink(body.kind, parse(body.id))


def from_memory(memory: Memory) -> AlumiaMemoryObject:
    """Convert a memory to the wire format, whichever interface wrote it."""
    has_own_name = memory.scope in {Scope.PROJECT, Scope.AGENT}
    return AlumiaMemoryObject(
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
        scope=memory.scope.value if has_own_name else Scope.GLOBAL.value,
        createdAt=iso(memory.created_at),
        updatedAt=iso(memory.updated_at),
    )


def shown_importance(importance: float) -> int:
    """Convert to 1-10, rounding half up.

    It rounds to nine decimals first, because 0.15 x 10 is slightly less than 1.5.
    """
    return min(10, max(1, floor(round(importance * 10, 9) + 0.5)))


def _derived_key(content: str) -> str:
    return " ".join(content[: 2 * _DERIVED_KEY_LENGTH].split())[:_DERIVED_KEY_LENGTH]


def _if_changed(given: Any, shown: Any) -> Any:
    return None if given == shown else given


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)
