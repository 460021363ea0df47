"""The workspaces of an org, for whoever asks with a key: seen, made, renamed, put away, entered.

A key of one workspace sees that one. A key of the org sees those its user may enter, and with the
`admin` right arranges them. Whatever a caller may not see is not there.
"""

import re
from dataclasses import replace
from uuid import UUID

from recollect.domain import NOWHERE, Caller, OrgId, Ref, Right, WorkspaceId
from recollect.engine.channels import Channel
from recollect.engine.contexts import Context, enter
from recollect.engine.core import Engine
from recollect.engine.tenants import check_name
from recollect.errors import Conflict, Denied, Invalid, NotFound
from recollect.store import identity, threads
from recollect.store.identity import Place
from recollect.store.pool import Db

_NO_SLUG = re.compile(r"[^a-z0-9]+")


async def is_project(engine: Engine, caller: Caller, wanted: str) -> bool:
    """Whether this names the caller's org: by its id, or by its name as an address writes it."""
    if wanted.removeprefix("proj_") in {str(caller.org_id), caller.org_id.hex}:
        return True
    async with engine.pool.everywhere() as db:
        return slug(await identity.org_name(db, caller.org_id)) == wanted


def slug(name: str) -> str:
    """A name as an address writes it."""
    return _NO_SLUG.sub("-", name.lower()).strip("-")


async def list_places(engine: Engine, caller: Caller) -> list[Place]:
    """The workspaces the caller may enter, the default one first."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await _seen(db, caller)


async def find_place(engine: Engine, caller: Caller, workspace_id: UUID) -> Place:
    """One workspace."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await _found(db, caller, workspace_id)


async def enter_place(engine: Engine, caller: Caller, workspace_id: UUID) -> Caller:
    """The caller in that workspace; raise `NotFound` where they may not be."""
    if caller.workspace_id == workspace_id:
        return caller
    async with engine.pool.everywhere() as db:
        place = await _found(db, caller, workspace_id)
    if caller.once:
        # Its answer would be kept in the key's own workspace, where erasing it here never looks.
        raise Invalid("`Idempotency-Key` works in the workspace of the key alone.")
    return replace(caller, workspace_id=place.id)


async def enter_chat(engine: Engine, caller: Caller, channel: Channel) -> Caller:
    """The caller in this chat and its workspace; raise `NotFound` where they may not be."""
    places = await list_places(engine, caller)
    async with engine.pool.everywhere() as db:
        here = [each.id for each in places]
        found = await threads.locate(db, here, channel.ref or Ref(), channel.name)
    if found is None:
        raise NotFound("chat")
    inside = replace(caller, workspace_id=found[0])
    try:
        return await enter(engine, inside, Context(thread=Ref(id=found[1])))
    except NotFound:
        raise NotFound("chat") from None


async def add_place(engine: Engine, caller: Caller, name: str) -> Place:
    """A new workspace of the org, which its maker may enter."""
    _require_arranging(caller)
    check_name(name)
    async with engine.pool.everywhere() as db:
        await _require_free(db, caller.org_id, name)
        made = await identity.add_workspace(db, caller.org_id, name)
        await identity.add_workspace_member(db, made, caller.user_id)
        return await _found(db, caller, made)


async def rename_place(engine: Engine, caller: Caller, workspace_id: UUID, name: str) -> Place:
    """Give a workspace another name."""
    caller.require(Right.ADMIN)
    check_name(name)
    async with engine.pool.everywhere() as db:
        place = await _found(db, caller, workspace_id)
        await _require_free(db, caller.org_id, name, besides=place.id)
        await identity.rename_workspace(db, place.id, name)
        return replace(place, name=name)


async def close_place(engine: Engine, caller: Caller, workspace_id: UUID) -> None:
    """Put a workspace away with its keys; the operator can bring it back."""
    _require_arranging(caller)
    caller.require(Right.DELETE)
    async with engine.pool.everywhere() as db:
        place = await _found(db, caller, workspace_id)
        if place.is_default:
            raise Invalid("The default workspace stays.", field="workspace")
        await identity.archive_workspace(db, place.id, engine.now())


def _require_arranging(caller: Caller) -> None:
    caller.require(Right.ADMIN)
    if not caller.is_unbound:
        raise Denied("A key of one workspace makes and deletes none. Use a key of the org.")


async def _require_free(db: Db, org_id: OrgId, name: str, besides: UUID = NOWHERE) -> None:
    if await identity.is_name_taken(db, org_id, name, besides=besides):
        raise Conflict("The project has a workspace of that name.")


async def _seen(db: Db, caller: Caller, only: UUID | None = None) -> list[Place]:
    own = None if caller.workspace_id == NOWHERE else caller.workspace_id
    if not caller.is_unbound:
        only = own if only in {None, own} else NOWHERE
    return await identity.places(db, caller.org_id, caller.user_id, own=own, only=only)


async def _found(db: Db, caller: Caller, workspace_id: UUID) -> Place:
    found = await _seen(db, caller, WorkspaceId(workspace_id))
    if not found:
        raise NotFound("workspace")
    return found[0]
