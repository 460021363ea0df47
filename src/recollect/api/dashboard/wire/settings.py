"""Wire models of jobs, server settings, API keys and members."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from recollect.api.dashboard.wire.common import (
    DashboardPage,
    ModelObject,
    Password,
    Title,
    workspace_id,
)
from recollect.api.fields import Body, Time, iso
from recollect.embeddings.status import EmbeddingStatus
from recollect.tenancy.members import KeyRecord, User, user_rights
from recollect.tenancy.workspace_jobs import ListedJob


class JobObject(BaseModel):
    """A queued, running or failed job."""

    id: str
    kind: str
    state: str
    tries: int
    error: str | None
    created_at: str
    due_at: str
    workspace_id: str


class Jobs(DashboardPage[JobObject]):
    """Unfinished jobs, newest first, and their number by state."""

    counts: dict[str, int]


class ChatModelObject(ModelObject):
    """A chat model, and whether it is the default."""

    is_default: bool


class GenerationObject(BaseModel):
    """A generation of vectors: in use or being built, and its progress."""

    id: str
    model: str
    state: Literal["current", "building"]
    done: int
    total: int


class EmbedderObject(BaseModel):
    """The embedding model and its generations."""

    model: str
    dimensions: int | None
    generations: list[GenerationObject]


class LimitsObject(BaseModel):
    """The limits of this server."""

    content_bytes: int
    daily_tokens: int
    injection_floor: float
    is_reviewed: bool


class SettingsObject(BaseModel):
    """The server settings that matter to its users."""

    models: list[ChatModelObject]
    embedder: EmbedderObject
    limits: LimitsObject


class DashboardNewKey(Body):
    """`POST /chat/api/keys`: a key for a workspace. Default: the default workspace."""

    name: Title
    rights: Annotated[list[Literal["read", "write", "delete", "admin"]], Field(min_length=1)]
    expires: Time | None = None
    expires_days: Annotated[int, Field(ge=1, le=3_650)] | None = None
    workspace_id: str | None = None


class DashboardKeyObject(BaseModel):
    """An API key, without its secret."""

    id: str
    name: str
    shown: str
    rights: list[str]
    workspace_id: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class DashboardNewKeyObject(DashboardKeyObject):
    """A new key. Its text is shown only here."""

    key: str


class NewMember(Body):
    """`POST /chat/api/members`. A member with the right `admin` is an admin."""

    name: Title
    password: Password | None = None
    rights: list[Literal["read", "write", "delete", "admin"]] = []


class Role(Body):
    """`PATCH /chat/api/members/{memberId}`."""

    role: Literal["admin", "member"]


class MemberObject(BaseModel):
    """A member of the org."""

    id: str
    name: str
    role: Literal["admin", "member"]
    rights: list[str]


class NewMemberObject(MemberObject):
    """A new member. A generated password is shown only here."""

    password: str | None


def from_job(job: ListedJob) -> JobObject:
    """Return the wire form of a job."""
    return JobObject(
        id=str(job.id),
        kind=job.kind,
        state=job.status,
        tries=job.attempts,
        error=job.last_error,
        created_at=iso(job.created_at),
        due_at=iso(job.run_after),
        workspace_id=workspace_id(job.workspace_id),
    )


def from_embedding(found: EmbeddingStatus) -> EmbedderObject:
    """Return the wire form of the embedding status."""
    return EmbedderObject(
        model=found.model,
        dimensions=found.dimension,
        generations=[
            GenerationObject(
                id=str(each.number),
                model=each.model,
                state="current" if each.state == "serving" else "building",
                done=each.filled,
                total=each.wanted,
            )
            for each in found.generations
        ],
    )


def from_key(key: KeyRecord) -> DashboardKeyObject:
    """Return the wire form of a key, without its secret."""
    return DashboardKeyObject(
        id=f"key_{key.id}",
        name=key.name,
        shown=f"{key.prefix}…{key.last_four}",
        rights=sorted(key.rights),
        workspace_id=workspace_id(key.workspace_id) if key.workspace_id else None,
        created_at=iso(key.created_at),
        expires_at=iso(key.expires_at) if key.expires_at else None,
        revoked_at=iso(key.revoked_at) if key.revoked_at else None,
        last_used_at=iso(key.last_used_at) if key.last_used_at else None,
    )


def from_member(user: User) -> MemberObject:
    """Return the wire form of a member."""
    return MemberObject(
        id=str(user.id),
        name=user.login,
        role="admin" if user.is_admin else "member",
        rights=sorted(user_rights(user)),
    )
