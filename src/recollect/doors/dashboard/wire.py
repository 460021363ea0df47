"""What all of this door's JSON has in common: errors, pages, ids, places and models.

The rest is beside it, one module a subject.
"""

from typing import Annotated, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.domain import Memory
from recollect.doors.values import Parameters
from recollect.engine.workspaces import Place

T = TypeVar("T")
Limit = Annotated[int, Field(ge=1)]
Cursor = Annotated[str, Field(max_length=300)]
Title = Annotated[str, Field(min_length=1, max_length=255)]
Word = Annotated[str, Field(min_length=1, max_length=1_000)]
Password = Annotated[str, Field(min_length=1, max_length=10_000)]


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorObject(BaseModel):
    """The envelope of every error, but for whoever is not signed in."""

    error: ErrorBody


class Page(BaseModel, Generic[T]):
    """Some of a list, and how to ask for the rest."""

    items: list[T]
    next_cursor: str | None = None
    has_more: bool = False


class PageParameters(Parameters):
    """Which part of a list."""

    cursor: Cursor | None = None
    limit: Limit | None = None


class PlaceObject(BaseModel):
    """A workspace one may be in."""

    id: str
    name: str
    is_default: bool


class ModelObject(BaseModel):
    """A chat model."""

    id: str
    owned_by: str


def from_place(place: Place) -> PlaceObject:
    """A workspace one may be in."""
    return PlaceObject(id=workspace_id(place.id), name=place.name, is_default=place.is_default)


def memory_id(memory: Memory) -> str:
    """A memory's id as this door writes it."""
    return f"mem_{memory.code}"


def chat_id(code: str) -> str:
    """A chat's id as this door writes it."""
    return f"chat_{code}"


def message_id(code: str) -> str:
    """A message's id as this door writes it."""
    return f"msg_{code}"


def workspace_id(value: UUID) -> str:
    """A workspace's id as this door writes it."""
    return f"ws_{value}"


def document_id(code: str) -> str:
    """A document's or an artifact's id as this door writes it."""
    return f"cart_{code}"
