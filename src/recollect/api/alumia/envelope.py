"""The envelope around every response of this interface."""

from typing import Generic, Literal, TypeVar

from pydantic import BaseModel

T = TypeVar("T")


class Envelope(BaseModel, Generic[T]):
    """A successful response."""

    success: Literal[True] = True
    data: T


class AlumiaPage(BaseModel, Generic[T]):
    """One page of a list, and the cursor of the next."""

    items: list[T]
    nextCursor: str | None
    hasMore: bool


class Items(BaseModel, Generic[T]):
    """A list without pages."""

    items: list[T]


class Gone(BaseModel):
    """The id of a deleted row."""

    id: str
    deleted: Literal[True] = True


class AlumiaErrorBody(BaseModel):
    """The code and the message of an error."""

    code: str
    message: str


class AlumiaErrorObject(BaseModel):
    """The envelope of every error response."""

    success: Literal[False] = False
    error: AlumiaErrorBody
