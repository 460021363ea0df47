"""Where in an org a caller's key/value memories are: the active workspace, or all of them.

With workspaces on there is the active one, or none. With workspaces off they are not told apart:
what a user keeps is found from everywhere, and kept in the default one. Each is still asked by
itself, so that every statement names one workspace.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from recollect.domain import NOWHERE, Caller, WorkspaceId
from recollect.engine.contexts import Context, enter
from recollect.engine.core import Engine
from recollect.errors import NotFound
from recollect.store import identity


@dataclass(frozen=True, slots=True)
class Reach:
    """The caller where they write, and in every place where they read; that one is the first."""

    home: Caller
    everywhere: list[Caller]


async def activate(engine: Engine, caller: Caller, workspace_id: UUID) -> Caller:
    """The caller with this workspace active; raise `NotFound` where they may not be.

    A key of a workspace stays there: naming another finds nothing.
    """
    if caller.workspace_id == workspace_id:
        return caller
    async with engine.pool.everywhere() as db:
        homes = await identity.homes(db, caller.org_id)
        if not homes.is_on or caller.workspace_id != NOWHERE:
            raise NotFound("workspace")
        if not await identity.may_enter(db, caller.org_id, caller.user_id, workspace_id):
            raise NotFound("workspace")
    return replace(caller, workspace_id=WorkspaceId(workspace_id))


async def reach_of(engine: Engine, caller: Caller, context: Context) -> Reach:
    """Everywhere the caller may look, inside what the request names."""
    async with engine.pool.everywhere() as db:
        homes = await identity.homes(db, caller.org_id)
    if homes.is_on:
        inside = await enter(engine, caller, context)
        return Reach(inside, [inside])
    places = [_in(caller, workspace_id) for workspace_id in homes.workspace_ids]
    home = await _enter_any(engine, places, context) if places else caller
    others = [each for each in places if each.workspace_id != home.workspace_id]
    return Reach(home, [home, *(_as_there(each, home) for each in others)])


def _in(caller: Caller, workspace_id: WorkspaceId) -> Caller:
    if workspace_id == caller.workspace_id:
        return caller
    return replace(caller, workspace_id=workspace_id, is_visiting=True)


def _as_there(caller: Caller, home: Caller) -> Caller:
    return replace(
        caller, project_id=home.project_id, agent_id=home.agent_id, thread_id=home.thread_id
    )


async def _enter_any(engine: Engine, places: list[Caller], context: Context) -> Caller:
    """Inside what is named, in whichever workspace that is; nothing named is the default one."""
    missing: NotFound | None = None
    for place in places:
        try:
            return await enter(engine, place, context)
        except NotFound as error:
            missing = missing or error
    raise missing or NotFound("workspace")
