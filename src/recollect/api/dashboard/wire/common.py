"""Wire models that the dashboard's routes share: errors, pages, ids, workspaces and models.

The other modules of this package hold one subject each.
"""

from typing import Annotated, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.api.fields import Parameters
from recollect.core.domain import Memory
from recollect.tenancy.workspaces import WorkspaceEntry

T = TypeVar("T")
Limit = Annotated[int, Field(ge=1)]
Cursor = Annotated[str, Field(max_length=300)]
Title = Annotated[str, Field(min_length=1, max_length=255)]
Word = Annotated[str, Field(min_length=1, max_length=1_000)]
Password = Annotated[str, Field(min_length=1, max_length=10_000)]


class DashboardErrorBody(BaseModel):
    """The error."""

    code: str
    message: str


class DashboardErrorObject(BaseModel):
    """The envelope of every error, except for requests without a session."""

    error: DashboardErrorBody


class DashboardPage(BaseModel, Generic[T]):
    """One page of a list, and the cursor for the next."""

    items: list[T]
    next_cursor: str | None = None
    has_more: bool = False


class DashboardPageParameters(Parameters):
    """Which page of a list."""

    cursor: Cursor | None = None
    limit: Limit | None = None


class DashboardWorkspaceObject(BaseModel):
    """A workspace that the user may enter."""

    id: str
    name: str
    is_default: bool


class ModelObject(BaseModel):
    """A chat model."""

    id: str
    owned_by: str


def from_workspace(workspace: WorkspaceEntry) -> DashboardWorkspaceObject:
    """Return the wire form of a workspace."""
    return DashboardWorkspaceObject(
        id=workspace_id(workspace.id), name=workspace.name, is_default=workspace.is_default
    )


def memory_id(memory: Memory) -> str:
    """Return the id of a memory in this interface's form."""
    return f"mem_{memory.code}"


def chat_id(code: str) -> str:
    """Return the id of a chat in this interface's form."""
    return f"chat_{code}"


def message_id(code: str) -> str:
    """Return the id of a message in this interface's form."""
    return f"msg_{code}"


def workspace_id(value: UUID) -> str:
    """Return the id of a workspace in this interface's form."""
    return f"ws_{value}"


def document_id(code: str) -> str:
    """Return the id of a document or an artifact in this interface's form."""
    return f"cart_{code}"
