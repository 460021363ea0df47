"""Wire models of the administration routes: orgs, users, keys, workspaces, projects, receipts."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.api.fields import Body, Label, Parameters, Time, iso
from recollect.core.domain import Right
from recollect.core.errors import Invalid
from recollect.portability.erasure import Erased
from recollect.portability.erasure_receipts import Verified
from recollect.portability.erasure_targets import ErasureKind
from recollect.tenancy.administration import AdminNewKey, KeyRecord
from recollect.tenancy.administration import NewKey as CreatedKey
from recollect.tenancy.orgs import NewUser, Org, User, Workspace
from recollect.tenancy.projects import Agent, Project


class NewOrg(Body):
    """`POST /v1/admin/orgs`."""

    name: Label
    admin: Label = Field(description="Login of its first user.")


class OrgChange(Body):
    """`PATCH /v1/admin/orgs/{org}`: absent fields keep their values."""

    name: Label | None = None
    workspaces_on: bool | None = None
    archived: bool | None = None


class NewAccount(Body):
    """`POST /v1/admin/users`."""

    login: Label
    admin: bool = False


class UserChange(Body):
    """`PATCH /v1/admin/users/{user}`: absent fields keep their values."""

    login: Label | None = None
    archived: bool | None = None


class StatebaseNewWorkspace(Body):
    """`POST /v1/admin/workspaces`."""

    name: Label
    embedder: Label | None = None


class RenameOrArchive(Body):
    """`PATCH` of a workspace, a project or an agent: absent fields keep their values."""

    name: Label | None = None
    archived: bool | None = None


class NewProject(Body):
    """`POST /v1/admin/projects`."""

    name: Label


class NewAgent(Body):
    """`POST /v1/admin/agents`."""

    name: Label
    project: Label | None = None


class StatebaseNewKey(Body):
    """`POST /v1/admin/keys`: a key that acts for its creator."""

    name: str = Field(default="", max_length=255)
    workspace: Label | None = Field(
        default=None, description="Default: the workspace of the calling key."
    )
    rights: list[Literal["read", "write", "delete", "admin"]] | None = Field(
        default=None,
        min_length=1,
        description="A subset of the calling key's rights. Default: all of them.",
    )
    expires_at: Time | None = None
    unbound: bool = Field(
        default=False, description="Not tied to a workspace: it uses the active one."
    )
    spelling: Literal["rk_", "alm_live_", "alm_test_"] = "rk_"
    user: Label | None = Field(default=None, description="Your own user id; no other is allowed.")


class Rotation(Body):
    """`POST /v1/admin/keys/{key}/rotate`: how long the old key keeps working."""

    keep_hours: int = Field(default=0, ge=0, le=24)


class AdminWorkspaceParameters(Parameters):
    """A workspace of the org. Default: the workspace of the key."""

    workspace: str | None = Field(default=None, min_length=1, max_length=255)


class AdminDeleteParameters(Parameters):
    """`DELETE`: `dry_run` counts what would be deleted and deletes nothing."""

    dry_run: bool = False


class AdminDeleteInWorkspaceParameters(AdminWorkspaceParameters, AdminDeleteParameters):
    """`DELETE` of a project or an agent."""


class NewErasure(Body):
    """`POST /v1/admin/erasures`: exactly one of user, session, key and subject."""

    user: Label | None = Field(default=None, description="Login or id. With `key`: the owner.")
    session: Label | None = Field(default=None, description="An id of a session, or its label.")
    key: Label | None = Field(default=None, description="A key of key/value memories.")
    subject: Label | None = Field(default=None, description="A `user_id` that you assigned.")
    workspace: Label | None = None
    dry_run: bool = False

    @property
    def kind(self) -> ErasureKind:
        """What to erase; raise `Invalid` unless exactly one kind is named."""
        given = [name for name in ("session", "key", "subject") if getattr(self, name)]
        if (
            len(given) > 1
            or (not given and not self.user)
            or (self.user and given not in ([], ["key"]))
        ):
            raise Invalid("Send exactly one of `user`, `session`, `key` and `subject`.")
        return {
            "session": ErasureKind.THREAD,
            "key": ErasureKind.KEY,
            "subject": ErasureKind.SUBJECT,
        }.get(given[0] if given else "", ErasureKind.USER)


class StatebaseOrgObject(BaseModel):
    """An org."""

    object: Literal["org"] = "org"
    id: UUID
    name: str
    workspaces_on: bool
    archived_at: str | None
    # Only in the response that creates the org: its first user, with the password.
    admin: "NewUserObject | None" = None


class StatebaseUserObject(BaseModel):
    """A user of the org."""

    object: Literal["user"] = "user"
    id: UUID
    login: str
    admin: bool
    archived_at: str | None


class NewUserObject(BaseModel):
    """A new user. The password is shown only here."""

    object: Literal["user"] = "user"
    id: UUID
    login: str
    password: str


class StatebaseWorkspaceObject(BaseModel):
    """A workspace of the org."""

    object: Literal["workspace"] = "workspace"
    id: UUID
    name: str
    embedder: str | None
    is_default: bool
    archived_at: str | None


class ProjectObject(BaseModel):
    """A project and its members."""

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


class StatebaseKeyObject(BaseModel):
    """A key, without its secret."""

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


class StatebaseNewKeyObject(StatebaseKeyObject):
    """A new key. Its text is shown only here."""

    key: str


class KeyList(BaseModel):
    """Keys, oldest first."""

    object: Literal["list"] = "list"
    data: list[StatebaseKeyObject]


class OrgList(BaseModel):
    """Orgs, oldest first."""

    object: Literal["list"] = "list"
    data: list[StatebaseOrgObject]


class UserList(BaseModel):
    """Users, oldest first."""

    object: Literal["list"] = "list"
    data: list[StatebaseUserObject]


class WorkspaceList(BaseModel):
    """Workspaces, oldest first."""

    object: Literal["list"] = "list"
    data: list[StatebaseWorkspaceObject]


class ProjectList(BaseModel):
    """Projects, oldest first."""

    object: Literal["list"] = "list"
    data: list[ProjectObject]


class AgentList(BaseModel):
    """Agents, oldest first."""

    object: Literal["list"] = "list"
    data: list[AgentObject]


class MemberList(BaseModel):
    """User ids, in the order in which the users were added."""

    object: Literal["list"] = "list"
    data: list[UUID]


class ErasureObject(BaseModel):
    """Counts of what was erased, or would be with `dry_run`. A real erasure has a receipt."""

    object: Literal["erasure"] = "erasure"
    kind: str
    counts: dict[str, int]
    receipt: dict[str, Any] | None


class ReceiptList(BaseModel):
    """Receipts of the org, oldest first."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]


class Verdict(BaseModel):
    """The result of verifying a receipt."""

    object: Literal["verification"] = "verification"
    is_good: bool
    problems: list[str]
    left: dict[str, int]


def from_org(org: Org, admin: NewUser | None = None) -> StatebaseOrgObject:
    """Return the wire form of an org."""
    return StatebaseOrgObject(
        id=org.id,
        name=org.name,
        workspaces_on=org.workspaces_on,
        archived_at=org.archived_at and iso(org.archived_at),
        admin=admin and from_new_user(admin),
    )


def from_user(user: User) -> StatebaseUserObject:
    """Return the wire form of a user."""
    return StatebaseUserObject(
        id=user.id,
        login=user.login,
        admin=user.is_admin,
        archived_at=user.archived_at and iso(user.archived_at),
    )


def from_new_user(user: NewUser) -> NewUserObject:
    """Return the wire form of a new user, with the password."""
    return NewUserObject(id=user.id, login=user.login, password=user.password)


def from_workspace(workspace: Workspace) -> StatebaseWorkspaceObject:
    """Return the wire form of a workspace."""
    return StatebaseWorkspaceObject(
        id=workspace.id,
        name=workspace.name,
        embedder=workspace.embedder,
        is_default=workspace.is_default,
        archived_at=workspace.archived_at and iso(workspace.archived_at),
    )


def from_project(project: Project, members: Sequence[UUID]) -> ProjectObject:
    """Return the wire form of a project."""
    return ProjectObject(
        id=project.id,
        workspace_id=project.workspace_id,
        name=project.name,
        members=list(members),
        created_at=iso(project.created_at),
        archived_at=project.archived_at and iso(project.archived_at),
    )


def from_agent(agent: Agent) -> AgentObject:
    """Return the wire form of an agent."""
    return AgentObject(
        id=agent.id,
        workspace_id=agent.workspace_id,
        project_id=agent.project_id,
        name=agent.name,
        created_at=iso(agent.created_at),
        archived_at=agent.archived_at and iso(agent.archived_at),
    )


def to_new_key(body: StatebaseNewKey) -> AdminNewKey:
    """Parse the request for a key."""
    return AdminNewKey(
        name=body.name,
        workspace=body.workspace,
        rights=None if body.rights is None else [Right(each) for each in body.rights],
        expires_at=body.expires_at,
        is_unbound=body.unbound,
        prefix=body.spelling,
    )


def from_key(key: KeyRecord) -> StatebaseKeyObject:
    """Return the wire form of a key."""
    return StatebaseKeyObject(
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


def from_new_key(made: CreatedKey) -> StatebaseNewKeyObject:
    """Return the wire form of a new key, with its text."""
    return StatebaseNewKeyObject(**from_key(made.record).model_dump(), key=made.text)


def from_erased(erased: Erased) -> ErasureObject:
    """Return the wire form of an erasure."""
    receipt = dict(erased.receipt) if erased.receipt else None
    return ErasureObject(kind=erased.kind, counts=dict(erased.counts), receipt=receipt)


def from_verified(found: Verified) -> Verdict:
    """Return the wire form of a verification."""
    return Verdict(is_good=found.is_good, problems=list(found.problems), left=dict(found.left))
