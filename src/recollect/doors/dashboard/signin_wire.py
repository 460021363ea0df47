"""Signing in, and who one is, in this door's JSON."""

from typing import Annotated

from pydantic import BaseModel, Field

from recollect.doors.dashboard.wire import ModelObject, Password, PlaceObject
from recollect.doors.values import Body


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
