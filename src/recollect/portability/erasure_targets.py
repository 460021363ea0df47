"""Find what to erase, by id or by name: a user, thread, key, project, agent, workspace or org."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from recollect.conversations.queries import threads
from recollect.core.domain import OrgId, Ref, UserId, WorkspaceId
from recollect.core.errors import NotFound
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy.lookup import find_agent, find_project, find_user
from recollect.tenancy.queries import workspaces


class ErasureKind(StrEnum):
    """The kind of thing that is erased."""

    USER = "user"
    THREAD = "thread"
    KEY = "key"
    SUBJECT = "subject"
    PROJECT = "project"
    AGENT = "agent"
    WORKSPACE = "workspace"
    ORG = "org"
    # Data that an earlier erasure had removed and a restore brought back, by the receipt.
    RECEIPT = "receipt"


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """What to erase, and the workspaces of the org that may hold some of it."""

    kind: ErasureKind
    org_id: OrgId
    workspace_ids: Sequence[WorkspaceId]
    id: UUID | None = None
    # A memory key, or a client's name for a person; in one workspace.
    text: str | None = None
    # Only this user's memories with the key.
    owner_id: UserId | None = None
    # Threads, memories, messages, turns and documents by id.
    named_ids: Sequence[UUID] = ()

    @property
    def given_id(self) -> UUID:
        """The id, for kinds that have one."""
        assert self.id
        return self.id


async def target_user(engine: Engine, wanted: str, org_id: OrgId | None = None) -> ErasureTarget:
    """Return a user as a target, by login or id."""
    async with engine.pool.everywhere() as db:
        user = await find_user(db, wanted, org_id)
        workspace_ids = await list_workspace_ids(db, user.org_id)
    return ErasureTarget(ErasureKind.USER, user.org_id, workspace_ids, id=user.id)


async def find_owner(engine: Engine, wanted: str | None, org_id: OrgId) -> UserId | None:
    """Return the user whose memories alone are erased; None for those of every user."""
    if wanted is None:
        return None
    return UserId((await target_user(engine, wanted, org_id)).given_id)


async def target_thread(
    engine: Engine, workspace_id: WorkspaceId, org_id: OrgId, ref: Ref | None, name: str
) -> ErasureTarget:
    """Return a thread as a target, by any form of its id or by the client's label."""
    async with engine.pool.everywhere() as db:
        found = await threads.locate(db, [workspace_id], ref or Ref(), name)
    if found is None:
        raise NotFound("session")
    return ErasureTarget(ErasureKind.THREAD, org_id, [workspace_id], id=found[1])


async def target_project_or_agent(
    engine: Engine, kind: ErasureKind, workspace_id: WorkspaceId, org_id: OrgId, wanted: str
) -> tuple[ErasureTarget, bool]:
    """Return a project or agent as a target, by name or id, and whether it is archived."""
    async with engine.pool.reading(workspace_id) as db:
        find = find_project if kind is ErasureKind.PROJECT else find_agent
        found = await find(db, workspace_id, wanted)
    return ErasureTarget(kind, org_id, [workspace_id], id=found.id), found.archived_at is not None


async def target_org(engine: Engine, org_id: OrgId) -> ErasureTarget:
    """Return an org with all its workspaces as a target."""
    async with engine.pool.everywhere() as db:
        return ErasureTarget(
            ErasureKind.ORG, org_id, await list_workspace_ids(db, org_id), id=org_id
        )


async def list_workspace_ids(db: Db, org_id: OrgId) -> list[WorkspaceId]:
    """Return the ids of all workspaces of an org, archived ones included."""
    return [each.id for each in await workspaces.list_workspaces(db, org_id)]
