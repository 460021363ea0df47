"""What every answer of this door is wrapped in."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class Envelope(BaseModel, Generic[T]):
    """A good answer."""

    success: Literal[True] = True
    data: T


class Page(BaseModel, Generic[T]):
    """Some of a list, and how to ask for the rest."""

    items: list[T]
    nextCursor: str | None
    hasMore: bool


class Items(BaseModel, Generic[T]):
    """A list that has no pages."""

    items: list[T]


class Gone(BaseModel):
    """What was deleted."""

    id: str
    deleted: Literal[True] = True


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorObject(BaseModel):
    """The envelope of every error."""

    success: Literal[False] = False
    error: ErrorBody
