"""What this door's JSON looks like."""

from typing import Annotated

from pydantic import BaseModel, Field

from recollect.doors.values import Body


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str


class ErrorObject(BaseModel):
    """The envelope of every error, but for whoever is not signed in."""

    error: ErrorBody


Password = Annotated[str, Field(min_length=1, max_length=10_000)]


class Credentials(Body):
    """`POST /login`."""

    username: Annotated[str, Field(min_length=1, max_length=255)]
    password: Password


class NewPassword(Body):
    """`POST /chat/api/password`."""

    current: Password
    new: Password


class UserObject(BaseModel):
    """Somebody."""

    id: str
    name: str


class OrgObject(BaseModel):
    """An org."""

    name: str


class PlaceObject(BaseModel):
    """A workspace one may be in."""

    id: str
    name: str
    is_default: bool


class ModelObject(BaseModel):
    """A chat model."""

    id: str
    owned_by: str


class ServerObject(BaseModel):
    """What is running here."""

    version: str


class Me(BaseModel):
    """Who is signed in, and what there is for them."""

    user: UserObject
    org: OrgObject
    rights: list[str]
    workspaces: list[PlaceObject]
    models: list[ModelObject]
    default_model: str | None
    server: ServerObject
