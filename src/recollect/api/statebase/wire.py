"""Wire models of memories, and the id forms of the plain REST API.

Every optional field may be null, and null means absent.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from recollect.api import ids
from recollect.api.fields import Body, Label, Parameters, Tags, Time, clamp, iso
from recollect.core.domain import THREAD_PREFIXES, Filter, Memory, Ref, parse_ref
from recollect.core.errors import Invalid, TooLarge
from recollect.memories.edit import EditMemory
from recollect.memories.save import Save
from recollect.search.semantic import Hit, Recall

MAX_CHARACTERS = 10_000
DEFAULT_TYPE = "general"

# Matches no thread. A malformed id in a filter must find nothing rather than everything.
NO_THREAD = Ref(code="-")


Query = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Object = dict[str, Any]


class StatebaseNewMemory(Body):
    """`POST /v1/memory`. The fields from `user_id` on are Recollect's own additions."""

    session_id: str | None = Field(
        default=None, description="Session to associate the memory with."
    )
    content: str = Field(min_length=1, description="The text, at most 10,000 characters.")
    type: Label | None = Field(default=None, description="fact, preference, event, policy, ...")
    tags: Tags | None = None
    metadata: Object | None = None
    embed: bool | None = Field(
        default=None, description="Make it searchable by meaning. Default: true."
    )
    user_id: Label | None = Field(
        default=None, description="The user it is about. Default: the session's user."
    )
    summary: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    key: Label | None = Field(default=None, description="A short label that you choose.")
    importance: float | None = Field(default=None, ge=0, le=1)
    pinned: bool | None = None
    expires_at: Time | None = Field(
        default=None, description="After this time the memory is no longer found."
    )


class StatebaseMemoryChange(Body):
    """`PATCH /v1/memory/{id}`: absent fields stay. Tags are replaced, metadata is merged."""

    content: str | None = Field(default=None, min_length=1)
    type: Label | None = None
    tags: Tags | None = None
    metadata: Object | None = None
    summary: str | None = Field(default=None, max_length=MAX_CHARACTERS)
    key: Label | None = None
    importance: float | None = Field(default=None, ge=0, le=1)
    pinned: bool | None = None
    expires_at: Time | None = None


class StatebaseMemoryObject(BaseModel):
    """A memory. The fields from `user_id` on are Recollect's own additions."""

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


class StatebaseFound(StatebaseMemoryObject):
    """A search result: the memory, its relevance, and the kind of search that found it."""

    score: float
    found_by: str | None


class StatebaseSearch(Body):
    """`POST /v1/memory/search`."""

    query: Query
    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    limit: int | None = Field(default=None, ge=1, description="Default 10, at most 50.")
    threshold: float | None = Field(default=None, ge=0, le=1, description="Default 0.7.")


class SearchFilterParameters(Parameters):
    """Filters of a search by query string."""

    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    types: str | None = None
    tags: str | None = None
    limit: int | None = Field(default=None, ge=1)
    top_k: int | None = Field(default=None, ge=1)
    threshold: float | None = Field(default=None, ge=0, le=1)


class StatebaseSearchParameters(SearchFilterParameters):
    """`GET /v1/memories/search`."""

    query: Query


class SearchOrListParameters(SearchFilterParameters):
    """`GET /v1/memories`: a search if `query` is given, otherwise a paged list."""

    query: Query | None = None
    starting_after: str | None = None


class StatebaseListParameters(Parameters):
    """`GET /v1/memory`."""

    session_id: str | None = None
    user_id: str | None = None
    type: str | None = None
    tags: str | None = Field(
        default=None, description="Comma-separated. Memories with any of them match."
    )
    limit: int | None = Field(default=None, ge=1, description="Default 20, at most 100.")
    starting_after: str | None = None


class StatebaseMemoryList(BaseModel):
    """A page of memories."""

    object: Literal["list"] = "list"
    data: list[StatebaseMemoryObject]
    has_more: bool
    first_id: str | None
    last_id: str | None


class StatebaseSearchResult(BaseModel):
    """Search results, best first. `degraded`: only words were searched, not meaning."""

    object: Literal["list"] = "list"
    data: list[StatebaseFound]
    query: str
    degraded: bool


def to_save(body: StatebaseNewMemory, *, needs_session: bool) -> Save:
    """Parse a new memory; raise `Invalid` without a required session, `TooLarge` if too long."""
    if needs_session and body.session_id is None:
        raise Invalid("`session_id` is required.", field="session_id")
    return Save(
        content=check_length(body.content),
        thread=None if body.session_id is None else ids.session(body.session_id),
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


def to_change(body: StatebaseMemoryChange) -> EditMemory:
    """Parse a change of a memory."""
    return EditMemory(
        content=None if body.content is None else check_length(body.content),
        summary=body.summary,
        key=body.key,
        category=body.type,
        tags=body.tags,
        metadata=body.metadata,
        importance=body.importance,
        pinned=body.pinned,
        expires_at=body.expires_at,
    )


def check_length(content: str) -> str:
    """Return the text; raise `TooLarge` above this interface's limit, counted in characters."""
    if len(content) > MAX_CHARACTERS:
        raise TooLarge("content", limit=MAX_CHARACTERS, size=len(content))
    return content


def to_recall(body: StatebaseSearch) -> Recall:
    """Parse a search."""
    return Recall(
        query=body.query,
        limit=clamp(body.limit, default=10, maximum=50),
        threshold=0.7 if body.threshold is None else body.threshold,
        thread=thread_filter(body.session_id),
        wanted=make_filter(body.user_id, None if body.type is None else [body.type], body.tags),
    )


def to_recall_from_query(query: str, parameters: SearchFilterParameters) -> Recall:
    """Parse a search by query string."""
    return Recall(
        query=query,
        limit=clamp(parameters.top_k or parameters.limit, default=10, maximum=50),
        threshold=0.7 if parameters.threshold is None else parameters.threshold,
        thread=thread_filter(parameters.session_id),
        wanted=to_filter(parameters),
    )


def to_filter(parameters: SearchFilterParameters | StatebaseListParameters) -> Filter:
    """Parse the filters of a query string."""
    types = getattr(parameters, "types", None) or parameters.type
    return make_filter(parameters.user_id, split(types), split(parameters.tags))


def make_filter(
    user_id: str | None, types: Sequence[str] | None, tags: Sequence[str] | None
) -> Filter:
    """Return the filter. Memories that other interfaces saved without a category are `general`.

    An empty list filters nothing, because clients send it when they mean no filter.
    """
    return Filter(
        subject=user_id, categories=types or None, uncategorised=DEFAULT_TYPE, tags=tags or None
    )


def split(text: str | None) -> list[str] | None:
    """Split a comma-separated parameter."""
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def thread_filter(text: str | None) -> Ref | None:
    """Return the thread to filter by. A malformed id matches no thread."""
    if text is None:
        return None
    return parse_ref(text, *THREAD_PREFIXES) or NO_THREAD


def cursor(text: str | None, *prefixes: str) -> Ref | None:
    """Parse `starting_after`, the id of the last row of the previous page."""
    if text is None:
        return None
    ref = parse_ref(text, *prefixes)
    if ref is None:
        raise invalid_cursor()
    return ref


def invalid_cursor() -> Invalid:
    """Return the error for a `starting_after` that is not an id."""
    return Invalid("`starting_after` is not a valid id.", field="starting_after")


def from_memory(memory: Memory) -> StatebaseMemoryObject:
    """Return the wire form of a memory."""
    return StatebaseMemoryObject(**_memory(memory))


def from_hit(hit: Hit) -> StatebaseFound:
    """Return the wire form of a search result."""
    return StatebaseFound(**_memory(hit.memory), score=hit.score, found_by=hit.found_by)


def _memory(memory: Memory) -> dict[str, Any]:
    short = memory.code[:12]
    return {
        "id": f"mem_{short}",
        # Never null: the official client declares it as a plain string.
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
    """Return the id of a thread in this interface's form."""
    return f"sess_{code[:12]}"
