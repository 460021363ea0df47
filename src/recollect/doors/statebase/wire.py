"""Memories as this door reads and writes them, and its spelling of ids.

Every optional field may be null, and null means absent.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.domain import THREAD_PREFIXES, Filter, Memory, Ref, parse_ref
from recollect.doors import refs
from recollect.doors.values import Body, Label, Parameters, Tags, Time, clamped, iso
from recollect.engine.change import Change
from recollect.engine.recall import Hit, Recall
from recollect.engine.save import Save
from recollect.errors import Invalid, TooLarge

MOST_CHARACTERS = 10_000
DEFAULT_TYPE = "general"

# No id at all, so it matches nothing; a filter must never widen because it was misspelt.
NOBODY = Ref(code="-")


Query = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]
Object = dict[str, Any]


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
        thread=None if body.session_id is None else refs.session(body.session_id),
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
        raise TooLarge("content", most=MOST_CHARACTERS, size=len(content))
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


def filter_ref(text: str | None) -> Ref | None:
    """The thread to narrow to; one that cannot exist narrows to nothing."""
    if text is None:
        return None
    return parse_ref(text, *THREAD_PREFIXES) or NOBODY


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
