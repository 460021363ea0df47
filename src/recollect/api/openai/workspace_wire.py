"""Wire format of workspaces and their memories: ids with prefixes, pages with cursors."""

from typing import Annotated, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field, Strict

from recollect.api.fields import Body, Parameters, iso
from recollect.core.domain import Caller, Memory
from recollect.documents.workspace_search import ResultKind, SearchedItem, title_of
from recollect.learning.distil_job import Row
from recollect.search.memory_browser import source_of, source_type
from recollect.tenancy.workspaces import WorkspaceEntry

T = TypeVar("T")

DEFAULT_PAGE, MAX_PAGE = 20, 100
DEFAULT_RESULTS, MAX_RESULTS = 10, 50
MAX_QUERY_CHARACTERS = 10_000


class OpenAINewWorkspace(Body):
    """`POST /v1/workspaces`."""

    name: str


class WorkspaceChange(Body):
    """`PATCH /v1/workspaces/{workspace_id}`; null leaves a field unchanged."""

    name: str | None = None


class OpenAIWorkspaceObject(BaseModel):
    """A workspace. It has its own memories."""

    id: str
    object: Literal["workspace"] = "workspace"
    project_id: str
    name: str
    is_default: bool
    created_at: str


class OpenAINewMemory(Body):
    """`POST /v1/workspaces/{workspace_id}/memories`."""

    content: str
    category: str | None = None


class OpenAIMemoryChange(Body):
    """`PATCH /v1/workspaces/{workspace_id}/memories/{memory_id}`."""

    content: str


class OpenAIMemoryObject(BaseModel):
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


class OpenAIPageParameters(Parameters):
    """The page of a list to return."""

    cursor: str | None = None
    limit: Annotated[int, Field(ge=1)] | None = None


class OpenAIPage(BaseModel, Generic[T]):
    """A page of a list, and the cursor of the next page."""

    items: list[T]
    next_cursor: str | None = None
    has_more: bool = False


class OpenAISearch(Body):
    """`POST /v1/workspaces/{workspace_id}/search`."""

    query: Annotated[str, Field(min_length=1, max_length=MAX_QUERY_CHARACTERS)]
    types: list[Annotated[ResultKind, Strict(strict=False)]] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class FoundObject(BaseModel):
    """A search result and its score."""

    type: str
    id: str
    title: str | None
    content: str
    score: float
    source: str | None


class PendingObject(BaseModel):
    """A candidate memory that waits for review, and the reason."""

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
    """Return a workspace's id in this interface's form."""
    return f"ws_{value}"


def from_workspace(workspace: WorkspaceEntry, caller: Caller) -> OpenAIWorkspaceObject:
    """Convert a workspace to its wire form."""
    return OpenAIWorkspaceObject(
        id=workspace_id(workspace.id),
        project_id=f"proj_{caller.org_id}",
        name=workspace.name,
        is_default=workspace.is_default,
        created_at=iso(workspace.created_at),
    )


def from_memory(memory: Memory) -> OpenAIMemoryObject:
    """Convert a memory to its wire form."""
    return OpenAIMemoryObject(
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


def from_result(result: SearchedItem) -> FoundObject:
    """Convert a search result: a memory, or a chunk of a document with the document's id."""
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
    """Convert a candidate memory to its wire form."""
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
