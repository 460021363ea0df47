"""The house in this door's JSON: its jobs, how it is set up, its keys and its people."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from recollect.doors.dashboard.wire import ModelObject, Page, Password, Title, workspace_id
from recollect.doors.values import Body, Time, iso
from recollect.engine.overview import Embedding, Listed
from recollect.engine.people import KeyRecord, User, rights_of


class JobObject(BaseModel):
    """A job in the queue."""

    id: str
    kind: str
    state: str
    tries: int
    error: str | None
    created_at: str
    due_at: str
    workspace_id: str


class Jobs(Page[JobObject]):
    """Jobs that are not done, newest first, and how many there are by state."""

    counts: dict[str, int]


class ChatModelObject(ModelObject):
    """A chat model, and whether it answers when nobody names one."""

    is_default: bool


class GenerationObject(BaseModel):
    """A vector space: in use, or being built, and how far it is."""

    id: str
    model: str
    state: Literal["current", "building"]
    done: int
    total: int


class EmbedderObject(BaseModel):
    """What texts are embedded with."""

    model: str
    dimensions: int | None
    generations: list[GenerationObject]


class LimitsObject(BaseModel):
    """What is bounded here."""

    content_bytes: int
    daily_tokens: int
    injection_floor: float
    is_reviewed: bool


class SettingsObject(BaseModel):
    """How this server is set up, as far as its people need to know."""

    models: list[ChatModelObject]
    embedder: EmbedderObject
    limits: LimitsObject


class NewKey(Body):
    """`POST /chat/api/keys`: to a workspace, the default one where none is named."""

    name: Title
    rights: Annotated[list[Literal["read", "write", "delete", "admin"]], Field(min_length=1)]
    expires: Time | None = None
    expires_days: Annotated[int, Field(ge=1, le=3_650)] | None = None
    workspace_id: str | None = None


class KeyObject(BaseModel):
    """An API key, without its text."""

    id: str
    name: str
    shown: str
    rights: list[str]
    workspace_id: str | None
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None


class NewKeyObject(KeyObject):
    """A key just made: the only time its text is shown."""

    key: str


class NewMember(Body):
    """`POST /chat/api/members`; an admin where `admin` is among the rights."""

    name: Title
    password: Password | None = None
    rights: list[Literal["read", "write", "delete", "admin"]] = []


class Role(Body):
    """`PATCH /chat/api/members/{memberId}`."""

    role: Literal["admin", "member"]


class MemberObject(BaseModel):
    """Somebody of the org."""

    id: str
    name: str
    role: Literal["admin", "member"]
    rights: list[str]


class NewMemberObject(MemberObject):
    """Somebody just added; a password that was made up is shown only now."""

    password: str | None


def from_job(job: Listed) -> JobObject:
    """A job in the queue."""
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


def from_embedding(found: Embedding) -> EmbedderObject:
    """What texts are embedded with."""
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


def from_key(key: KeyRecord) -> KeyObject:
    """A key, without its text."""
    return KeyObject(
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
    """Somebody of the org."""
    return MemberObject(
        id=str(user.id),
        name=user.login,
        role="admin" if user.is_admin else "member",
        rights=sorted(rights_of(user)),
    )
