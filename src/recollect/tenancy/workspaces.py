"""The workspaces of an org, for callers with a key: list, create, rename, archive and enter them.

A key that belongs to one workspace sees only that one. An unbound key sees those that its user may
enter, and manages them if it has the `admin` right. Anything else raises `NotFound`.
"""

import re
from dataclasses import replace
from uuid import UUID

from recollect.conversations.queries import threads
from recollect.core.domain import NO_WORKSPACE, Caller, OrgId, Ref, Right, WorkspaceId
from recollect.core.errors import Conflict, Denied, Invalid, NotFound
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy.orgs import check_name
from recollect.tenancy.queries import orgs, workspaces
from recollect.tenancy.queries.workspaces import WorkspaceEntry
from recollect.tenancy.request_scope import RequestScope, narrow_caller
from recollect.tenancy.thread_lookup import ThreadName

_NOT_IN_SLUG = re.compile(r"[^a-z0-9]+")


async def is_own_org(engine: Engine, caller: Caller, wanted: str) -> bool:
    """Return whether this is the id, or the slug of the name, of the caller's org."""
    if wanted.removeprefix("proj_") in {str(caller.org_id), caller.org_id.hex}:
        return True
    async with engine.pool.everywhere() as db:
        return slug(await orgs.find_org_name(db, caller.org_id)) == wanted


def slug(name: str) -> str:
    """Return a name in the form used in URLs."""
    return _NOT_IN_SLUG.sub("-", name.lower()).strip("-")


async def list_own_workspaces(engine: Engine, caller: Caller) -> list[WorkspaceEntry]:
    """Return the workspaces that the caller may enter, the default one first."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await _list_visible(db, caller)


async def find_own_workspace(engine: Engine, caller: Caller, workspace_id: UUID) -> WorkspaceEntry:
    """Return one workspace that the caller may enter."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await _find_visible(db, caller, workspace_id)


async def enter_workspace(engine: Engine, caller: Caller, workspace_id: UUID) -> Caller:
    """Return the caller in that workspace; raise `NotFound` if they may not enter it."""
    if caller.workspace_id == workspace_id:
        return caller
    async with engine.pool.everywhere() as db:
        found = await _find_visible(db, caller, workspace_id)
    if caller.repeat_key:
        # The response would be stored in the key's own workspace, where an erasure of this
        # workspace would not find it.
        raise Invalid("`Idempotency-Key` only works in the key's own workspace.")
    return replace(caller, workspace_id=found.id)


async def enter_thread(engine: Engine, caller: Caller, thread_name: ThreadName) -> Caller:
    """Return the caller in this thread and its workspace; raise `NotFound` without access."""
    visible = await list_own_workspaces(engine, caller)
    async with engine.pool.everywhere() as db:
        workspace_ids = [each.id for each in visible]
        found = await threads.locate(db, workspace_ids, thread_name.ref or Ref(), thread_name.name)
    if found is None:
        raise NotFound("chat")
    inside = replace(caller, workspace_id=found[0])
    try:
        return await narrow_caller(engine, inside, RequestScope(thread=Ref(id=found[1])))
    except NotFound:
        raise NotFound("chat") from None


async def create_own_workspace(engine: Engine, caller: Caller, name: str) -> WorkspaceEntry:
    """Create a workspace in the org, with the caller as a member."""
    _require_org_admin(caller)
    check_name(name)
    async with engine.pool.everywhere() as db:
        await _require_free_name(db, caller.org_id, name)
        new_id = await workspaces.add_workspace(db, caller.org_id, name)
        await workspaces.add_workspace_member(db, new_id, caller.user_id)
        return await _find_visible(db, caller, new_id)


async def rename_own_workspace(
    engine: Engine, caller: Caller, workspace_id: UUID, name: str
) -> WorkspaceEntry:
    """Rename a workspace."""
    caller.require(Right.ADMIN)
    check_name(name)
    async with engine.pool.everywhere() as db:
        found = await _find_visible(db, caller, workspace_id)
        await _require_free_name(db, caller.org_id, name, except_id=found.id)
        await workspaces.rename_workspace(db, found.id, name)
        return replace(found, name=name)


async def archive_own_workspace(engine: Engine, caller: Caller, workspace_id: UUID) -> None:
    """Archive a workspace, which disables its keys; the operator can restore it."""
    _require_org_admin(caller)
    caller.require(Right.DELETE)
    async with engine.pool.everywhere() as db:
        found = await _find_visible(db, caller, workspace_id)
        if found.is_default:
            raise Invalid("The default workspace cannot be deleted.", field="workspace")
        await workspaces.archive_workspace(db, found.id, engine.now())


def _require_org_admin(caller: Caller) -> None:
    caller.require(Right.ADMIN)
    if not caller.is_unbound:
        raise Denied(
            "A key of one workspace cannot create or delete workspaces. Use an unbound key."
        )


async def _require_free_name(
    db: Db, org_id: OrgId, name: str, except_id: UUID = NO_WORKSPACE
) -> None:
    if await workspaces.is_name_taken(db, org_id, name, except_id=except_id):
        raise Conflict("The project already has a workspace with that name.")


async def _list_visible(db: Db, caller: Caller, only: UUID | None = None) -> list[WorkspaceEntry]:
    own = None if caller.workspace_id == NO_WORKSPACE else caller.workspace_id
    if not caller.is_unbound:
        only = own if only in {None, own} else NO_WORKSPACE
    return await workspaces.list_user_workspaces(
        db, caller.org_id, caller.user_id, own=own, only=only
    )


async def _find_visible(db: Db, caller: Caller, workspace_id: UUID) -> WorkspaceEntry:
    found = await _list_visible(db, caller, WorkspaceId(workspace_id))
    if not found:
        raise NotFound("workspace")
    return found[0]
