"""Wire models of sign-in and of the current user."""

from typing import Annotated

from pydantic import BaseModel, Field

from recollect.api.dashboard.wire.common import DashboardWorkspaceObject, ModelObject, Password
from recollect.api.fields import Body


class DashboardCredentials(Body):
    """`POST /login`."""

    username: Annotated[str, Field(min_length=1, max_length=255)]
    password: Password


class NewPassword(Body):
    """`POST /chat/api/password`."""

    current: Password
    new: Password


class DashboardUserObject(BaseModel):
    """A user."""

    id: str
    name: str


class DashboardOrgObject(BaseModel):
    """An org."""

    name: str


class ServerObject(BaseModel):
    """The server."""

    version: str


class Me(BaseModel):
    """The signed-in user, with their workspaces and models."""

    user: DashboardUserObject
    org: DashboardOrgObject
    rights: list[str]
    workspaces: list[DashboardWorkspaceObject]
    models: list[ModelObject]
    default_model: str | None
    server: ServerObject
