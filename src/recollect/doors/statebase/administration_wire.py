"""Orgs, users, workspaces, projects, agents and receipts as this door reads and writes them."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.domain import Right
from recollect.doors.values import Body, Label, Parameters, Time, iso
from recollect.engine.administration import KeyRecord, MakeKey
from recollect.engine.administration import NewKey as MadeKey
from recollect.engine.circles import Agent, Project
from recollect.engine.erase import Erased
from recollect.engine.erase_receipts import Verified
from recollect.engine.erase_targets import Kind
from recollect.engine.tenants import NewUser, Org, User, Workspace
from recollect.errors import Invalid


class NewOrg(Body):
    """`POST /v1/admin/orgs`."""

    name: Label
    admin: Label = Field(description="Login of its first user.")


class OrgChange(Body):
    """`PATCH /v1/admin/orgs/{org}`: what is absent stays."""

    name: Label | None = None
    workspaces_on: bool | None = None
    archived: bool | None = None


class NewAccount(Body):
    """`POST /v1/admin/users`."""

    login: Label
    admin: bool = False


class UserChange(Body):
    """`PATCH /v1/admin/users/{user}`: what is absent stays."""

    login: Label | None = None
    archived: bool | None = None


class NewWorkspace(Body):
    """`POST /v1/admin/workspaces`."""

    name: Label
    embedder: Label | None = None


class Change(Body):
    """`PATCH` of a workspace, a project or an agent: what is absent stays."""

    name: Label | None = None
    archived: bool | None = None


class NewProject(Body):
    """`POST /v1/admin/projects`."""

    name: Label


class NewAgent(Body):
    """`POST /v1/admin/agents`."""

    name: Label
    project: Label | None = None


class NewKey(Body):
    """`POST /v1/admin/keys`: acts for whoever makes it."""

    name: str = Field(default="", max_length=255)
    workspace: Label | None = Field(default=None, description="The key's own unless named.")
    rights: list[Literal["read", "write", "delete", "admin"]] | None = Field(
        default=None, min_length=1, description="Of those of the key that asks; all of them."
    )
    expires_at: Time | None = None
    unbound: bool = Field(default=False, description="In whichever workspace is active.")
    spelling: Literal["rk_", "alm_live_", "alm_test_"] = "rk_"
    user: Label | None = Field(default=None, description="Nobody but yourself, by id.")


class Rotation(Body):
    """`POST /v1/admin/keys/{key}/rotate`: how long the old one works on."""

    keep_hours: int = Field(default=0, ge=0, le=24)


class Inside(Parameters):
    """In which workspace of the org; the key's own unless another is named."""

    workspace: str | None = Field(default=None, min_length=1, max_length=255)


class Removal(Parameters):
    """`DELETE`: with `dry_run` what would go is counted and stays."""

    dry_run: bool = False


class RemovalInside(Inside, Removal):
    """`DELETE` of a project or an agent."""


class NewErasure(Body):
    """`POST /v1/admin/erasures`: one of user, session, key and subject."""

    user: Label | None = Field(default=None, description="Login or id; or whose `key`.")
    session: Label | None = Field(default=None, description="Any id of a session, or its label.")
    key: Label | None = Field(default=None, description="The key of key/value memories.")
    subject: Label | None = Field(default=None, description="A `user_id` of your own.")
    workspace: Label | None = None
    dry_run: bool = False

    @property
    def kind(self) -> Kind:
        """Which of them it is."""
        given = [name for name in ("session", "key", "subject") if getattr(self, name)]
        if (
            len(given) > 1
            or (not given and not self.user)
            or (self.user and given not in ([], ["key"]))
        ):
            raise Invalid("Name one of `user`, `session`, `key` and `subject`.")
        return {"session": Kind.THREAD, "key": Kind.KEY, "subject": Kind.SUBJECT}.get(
            given[0] if given else "", Kind.USER
        )


class OrgObject(BaseModel):
    """An org."""

    object: Literal["org"] = "org"
    id: UUID
    name: str
    workspaces_on: bool
    archived_at: str | None
    # Of an org just made: its first user, the only time the password exists.
    admin: "NewUserObject | None" = None


class UserObject(BaseModel):
    """A user of the org."""

    object: Literal["user"] = "user"
    id: UUID
    login: str
    admin: bool
    archived_at: str | None


class NewUserObject(BaseModel):
    """A user just made: the only time the password exists."""

    object: Literal["user"] = "user"
    id: UUID
    login: str
    password: str


class WorkspaceObject(BaseModel):
    """A workspace of the org."""

    object: Literal["workspace"] = "workspace"
    id: UUID
    name: str
    embedder: str | None
    is_default: bool
    archived_at: str | None


class ProjectObject(BaseModel):
    """A project and who is in it."""

    object: Literal["project"] = "project"
    id: UUID
    workspace_id: UUID
    name: str
    members: list[UUID]
    created_at: str
    archived_at: str | None


class AgentObject(BaseModel):
    """An agent."""

    object: Literal["agent"] = "agent"
    id: UUID
    workspace_id: UUID
    project_id: UUID | None
    name: str
    created_at: str
    archived_at: str | None


class KeyObject(BaseModel):
    """A key, without its text."""

    object: Literal["key"] = "key"
    id: UUID
    name: str
    shown: str
    rights: list[str]
    user_id: UUID
    workspace_id: UUID | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKeyObject(KeyObject):
    """A key just made: the only time its text exists."""

    key: str


class KeyList(BaseModel):
    """Keys, oldest first."""

    object: Literal["list"] = "list"
    data: list[KeyObject]


class OrgList(BaseModel):
    """Orgs, oldest first."""

    object: Literal["list"] = "list"
    data: list[OrgObject]


class UserList(BaseModel):
    """Users, oldest first."""

    object: Literal["list"] = "list"
    data: list[UserObject]


class WorkspaceList(BaseModel):
    """Workspaces, oldest first."""

    object: Literal["list"] = "list"
    data: list[WorkspaceObject]


class ProjectList(BaseModel):
    """Projects, oldest first."""

    object: Literal["list"] = "list"
    data: list[ProjectObject]


class AgentList(BaseModel):
    """Agents, oldest first."""

    object: Literal["list"] = "list"
    data: list[AgentObject]


class MemberList(BaseModel):
    """Ids of users, in the order they came."""

    object: Literal["list"] = "list"
    data: list[UUID]


class ErasureObject(BaseModel):
    """What was erased, or would be; with its receipt if it was."""

    object: Literal["erasure"] = "erasure"
    kind: str
    counts: dict[str, int]
    receipt: dict[str, Any] | None


class ReceiptList(BaseModel):
    """Receipts of the org, oldest first."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]


class Verdict(BaseModel):
    """What a check of a receipt found."""

    object: Literal["verification"] = "verification"
    is_good: bool
    problems: list[str]
    left: dict[str, int]


def from_org(org: Org, admin: NewUser | None = None) -> OrgObject:
    """An org in this door's spelling."""
    return OrgObject(
        id=org.id,
        name=org.name,
        workspaces_on=org.workspaces_on,
        archived_at=org.archived_at and iso(org.archived_at),
        admin=admin and from_new_user(admin),
    )


def from_user(user: User) -> UserObject:
    """A user in this door's spelling."""
    return UserObject(
        id=user.id,
        login=user.login,
        admin=user.is_admin,
        archived_at=user.archived_at and iso(user.archived_at),
    )


def from_new_user(user: NewUser) -> NewUserObject:
    """A user just made."""
    return NewUserObject(id=user.id, login=user.login, password=user.password)


def from_workspace(workspace: Workspace) -> WorkspaceObject:
    """A workspace in this door's spelling."""
    return WorkspaceObject(
        id=workspace.id,
        name=workspace.name,
        embedder=workspace.embedder,
        is_default=workspace.is_default,
        archived_at=workspace.archived_at and iso(workspace.archived_at),
    )


def from_project(project: Project, members: Sequence[UUID]) -> ProjectObject:
    """A project in this door's spelling."""
    return ProjectObject(
        id=project.id,
        workspace_id=project.workspace_id,
        name=project.name,
        members=list(members),
        created_at=iso(project.created_at),
        archived_at=project.archived_at and iso(project.archived_at),
    )


def from_agent(agent: Agent) -> AgentObject:
    """An agent in this door's spelling."""
    return AgentObject(
        id=agent.id,
        workspace_id=agent.workspace_id,
        project_id=agent.project_id,
        name=agent.name,
        created_at=iso(agent.created_at),
        archived_at=agent.archived_at and iso(agent.archived_at),
    )


def to_make(body: NewKey) -> MakeKey:
    """What is asked for."""
    return MakeKey(
        name=body.name,
        workspace=body.workspace,
        rights=None if body.rights is None else [Right(each) for each in body.rights],
        expires_at=body.expires_at,
        is_unbound=body.unbound,
        spelling=body.spelling,
    )


def from_key(key: KeyRecord) -> KeyObject:
    """A key in this door's spelling."""
    return KeyObject(
        id=key.id,
        name=key.name,
        shown=f"{key.prefix}…{key.last_four}",
        rights=sorted(key.rights),
        user_id=key.user_id,
        workspace_id=key.workspace_id,
        created_at=iso(key.created_at),
        expires_at=key.expires_at and iso(key.expires_at),
        revoked_at=key.revoked_at and iso(key.revoked_at),
        last_used_at=key.last_used_at and iso(key.last_used_at),
    )


def from_new_key(made: MadeKey) -> NewKeyObject:
    """A key just made."""
    return NewKeyObject(**from_key(made.record).model_dump(), key=made.text)


def from_erased(erased: Erased) -> ErasureObject:
    """What was erased."""
    receipt = dict(erased.receipt) if erased.receipt else None
    return ErasureObject(kind=erased.kind, counts=dict(erased.counts), receipt=receipt)


def from_verified(found: Verified) -> Verdict:
    """What a check found."""
    return Verdict(is_good=found.is_good, problems=list(found.problems), left=dict(found.left))
