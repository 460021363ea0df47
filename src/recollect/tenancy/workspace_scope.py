"""The workspaces in which the key/value interface reads and writes for a caller.

With workspaces on, that is the active workspace, or none. With workspaces off, the workspaces of
an org are not separate: a user's memories are written to the default workspace and read from all
of them. Each workspace still gets its own query, so that every statement names one workspace.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from recollect.core.domain import NO_WORKSPACE, Caller, WorkspaceId
from recollect.core.errors import NotFound
from recollect.engine import Engine
from recollect.tenancy.queries import workspaces
from recollect.tenancy.request_scope import RequestScope, narrow_caller


@dataclass(frozen=True, slots=True)
class WorkspaceScope:
    """The caller in the workspace they write to, and in each one they read, that one first."""

    home: Caller
    everywhere: list[Caller]


async def activate_workspace(engine: Engine, caller: Caller, workspace_id: UUID) -> Caller:
    """Return the caller with this workspace active; raise `NotFound` if they may not enter it.

    A key that belongs to one workspace cannot activate another: that raises `NotFound` too.
    """
    if caller.workspace_id == workspace_id:
        return caller
    async with engine.pool.everywhere() as db:
        of_org = await workspaces.find_org_workspaces(db, caller.org_id)
        if not of_org.is_on or caller.workspace_id != NO_WORKSPACE:
            raise NotFound("workspace")
        if not await workspaces.can_enter(db, caller.org_id, caller.user_id, workspace_id):
            raise NotFound("workspace")
    return replace(caller, workspace_id=WorkspaceId(workspace_id))


async def workspace_scope(engine: Engine, caller: Caller, context: RequestScope) -> WorkspaceScope:
    """Return the workspaces the caller may use, limited to what the request names."""
    async with engine.pool.everywhere() as db:
        of_org = await workspaces.find_org_workspaces(db, caller.org_id)
    if of_org.is_on:
        inside = await narrow_caller(engine, caller, context)
        return WorkspaceScope(inside, [inside])
    callers = [_in(caller, workspace_id) for workspace_id in of_org.workspace_ids]
    home = await _narrow_in_any(engine, callers, context) if callers else caller
    others = [each for each in callers if each.workspace_id != home.workspace_id]
    return WorkspaceScope(home, [home, *(_with_context_of(each, home) for each in others)])


def _in(caller: Caller, workspace_id: WorkspaceId) -> Caller:
    if workspace_id == caller.workspace_id:
        return caller
    return replace(caller, workspace_id=workspace_id, is_guest=True)


def _with_context_of(caller: Caller, home: Caller) -> Caller:
    return replace(
        caller, project_id=home.project_id, agent_id=home.agent_id, thread_id=home.thread_id
    )


async def _narrow_in_any(engine: Engine, callers: list[Caller], context: RequestScope) -> Caller:
    """Narrow the caller in the first workspace that has what the request names.

    A request that names nothing gets the default workspace, which is the first.
    """
    missing: NotFound | None = None
    for caller in callers:
        try:
            return await narrow_caller(engine, caller, context)
        except NotFound as error:
            missing = missing or error
    raise missing or NotFound("workspace")
