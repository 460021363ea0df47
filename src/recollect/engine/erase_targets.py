"""What is to be erased: a person, a thread, a key or a part of the house, by id or by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from recollect.domain import OrgId, Ref, UserId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.named import agent_named, project_named, user_named
from recollect.errors import NotFound
from recollect.store import identity, threads
from recollect.store.pool import Db


class Kind(StrEnum):
    """What is erased."""

    USER = "user"
    THREAD = "thread"
    KEY = "key"
    SUBJECT = "subject"
    PROJECT = "project"
    AGENT = "agent"
    WORKSPACE = "workspace"
    ORG = "org"
    # What came back of an earlier erasure, by its receipt.
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class Target:
    """Whose or which; in which workspaces of the org there can be something of it."""

    kind: Kind
    org_id: OrgId
    workspace_ids: Sequence[WorkspaceId]
    id: UUID | None = None
    # A key, or a name that clients have for a person; in the one workspace.
    text: str | None = None
    # Only this user's memories of the key.
    owner_id: UserId | None = None
    # Threads, memories, messages, turns and documents by id.
    named_ids: Sequence[UUID] = ()

    @property
    def given_id(self) -> UUID:
        """The id of what has one."""
        assert self.id
        return self.id


async def target_user(engine: Engine, wanted: str, org_id: OrgId | None = None) -> Target:
    """A user by login or id."""
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, org_id)
        places = await workspaces_of(db, user.org_id)
    return Target(Kind.USER, user.org_id, places, id=user.id)


async def find_owner(engine: Engine, wanted: str | None, org_id: OrgId) -> UserId | None:
    """Whose memories alone are meant; None for everybody's."""
    if wanted is None:
        return None
    return UserId((await target_user(engine, wanted, org_id)).given_id)


async def target_thread(
    engine: Engine, workspace_id: WorkspaceId, org_id: OrgId, ref: Ref | None, name: str
) -> Target:
    """A thread by any spelling of its id, or by the client's own label."""
    async with engine.pool.everywhere() as db:
        found = await threads.locate(db, [workspace_id], ref or Ref(), name)
    if found is None:
        raise NotFound("session")
    return Target(Kind.THREAD, org_id, [workspace_id], id=found[1])


async def target_circle(
    engine: Engine, kind: Kind, workspace_id: WorkspaceId, org_id: OrgId, wanted: str
) -> tuple[Target, bool]:
    """A project or an agent by name or id, and whether it is archived."""
    async with engine.pool.reading(workspace_id) as db:
        named = project_named if kind is Kind.PROJECT else agent_named
        found = await named(db, workspace_id, wanted)
    return Target(kind, org_id, [workspace_id], id=found.id), found.archived_at is not None


async def target_org(engine: Engine, org_id: OrgId) -> Target:
    """An org with all its workspaces."""
    async with engine.pool.everywhere() as db:
        return Target(Kind.ORG, org_id, await workspaces_of(db, org_id), id=org_id)


async def workspaces_of(db: Db, org_id: OrgId) -> list[WorkspaceId]:
    """Every workspace of an org, archived ones too."""
    return [each.id for each in await identity.workspaces(db, org_id)]
