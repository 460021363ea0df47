"""What workspaces and their memories look like here: ids with prefixes, pages with cursors."""

from typing import Annotated, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field, Strict

from recollect.domain import Caller, Memory
from recollect.doors.values import Body, Parameters, iso
from recollect.engine.learn import Row
from recollect.engine.shelf import source_of, source_type
from recollect.engine.workspace_search import Kind, Result, title_of
from recollect.engine.workspaces import Place

T = TypeVar("T")

USUAL_PAGE, LONGEST_PAGE = 20, 100
USUAL_FOUND, MOST_FOUND = 10, 50
LONGEST_QUERY = 10_000


class NewWorkspace(Body):
    """`POST /v1/workspaces`."""

    name: str


class WorkspaceChange(Body):
    """`PATCH /v1/workspaces/{workspace_id}`; null is unchanged."""

    name: str | None = None


class WorkspaceObject(BaseModel):
    """A workspace: what its chats remember is its own."""

    id: str
    object: Literal["workspace"] = "workspace"
    project_id: str
    name: str
    is_default: bool
    created_at: str


class NewMemory(Body):
    """`POST /v1/workspaces/{workspace_id}/memories`."""

    content: str
    category: str | None = None


class MemoryChange(Body):
    """`PATCH /v1/workspaces/{workspace_id}/memories/{memory_id}`."""

    content: str


class MemoryObject(BaseModel):
    """A memory."""

    id: str
    object: Literal["memory"] = "memory"
    content: str
    summary: str | None
    category: str | None
    source_type: str
    source_chat_id: str | None
    workspace_id: str
    created_at: str
    updated_at: str


class PageParameters(Parameters):
    """Which part of a list."""

    cursor: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None


class Page(BaseModel, Generic[T]):
    """Some of a list, and how to ask for the rest."""

    items: list[T]
    next_cursor: str | None = None
    has_more: bool = False


class Search(Body):
    """`POST /v1/workspaces/{workspace_id}/search`."""

    query: Annotated[str, Field(min_length=1, max_length=LONGEST_QUERY)]
    types: list[Annotated[Kind, Strict(strict=False)]] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class FoundObject(BaseModel):
    """Something that was found, and how relevant it is."""

    type: str
    id: str
    title: str | None
    content: str
    score: float
    source: str | None


class PendingObject(BaseModel):
    """Something learnt that waits for a decision, and why it waits."""

    id: str
    object: Literal["pending_memory"] = "pending_memory"
    content: str
    summary: str | None
    category: str | None
    quote: str
    reason: str | None
    source_type: str
    created_at: str


def workspace_id(value: UUID) -> str:
    """A workspace's id as this door writes it."""
    return f"ws_{value}"


def from_place(place: Place, caller: Caller) -> WorkspaceObject:
    """A workspace as it is shown."""
    return WorkspaceObject(
        id=workspace_id(place.id),
        project_id=f"proj_{caller.org_id}",
        name=place.name,
        is_default=place.is_default,
        created_at=iso(place.created_at),
    )


def from_memory(memory: Memory) -> MemoryObject:
    """A memory as it is shown."""
    return MemoryObject(
        id=f"mem_{memory.code}",
        content=memory.content,
        summary=memory.summary,
        category=memory.category,
        source_type=source_type(memory),
        source_chat_id=f"chat_{memory.thread_code}" if memory.thread_code else None,
        workspace_id=workspace_id(memory.workspace_id),
        created_at=iso(memory.created_at),
        updated_at=iso(memory.updated_at),
    )


def from_result(result: Result) -> FoundObject:
    """What was found: a memory, or a chunk of a document under the document's id."""
    found = result.found
    if isinstance(found, Memory):
        name = f"mem_{found.code}"
        source = f"chat_{found.thread_code}" if found.thread_code else None
    else:
        name = f"cart_{found.document_code}"
        source = found.document_name
    return FoundObject(
        type=result.kind,
        id=name,
        title=title_of(found),
        content=found.content,
        score=round(result.score, 4),
        source=source,
    )


def from_candidate(candidate: Row) -> PendingObject:
    """What waits, as it is shown."""
    return PendingObject(
        id=f"lrn_{candidate.id}",
        content=candidate.content,
        summary=candidate.summary,
        category=candidate.category,
        quote=candidate.quote,
        reason=candidate.why,
        source_type=source_of(candidate.source),
        created_at=iso(candidate.created_at),
    )
