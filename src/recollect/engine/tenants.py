"""Who there is, arranged by whoever runs the house: orgs, users and workspaces.

Things are named by id or by name; inside an org or a workspace, which are the default ones unless
said otherwise. `within` is the org that an administrator may not look beyond; None is for whoever
runs the house. What is put away is kept and opens nothing; it can be brought back, or deleted for
good with everything in it. What is inside a workspace is arranged in `circles`.
"""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime

from recollect.domain import OrgId, UserId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.erase import Erased, erase
from recollect.engine.erase_targets import Kind, Target, target_org, target_user
from recollect.engine.keys import check_password, hash_password
from recollect.engine.named import org_named, user_named, workspace_named
from recollect.errors import Conflict, Invalid, NotFound
from recollect.store import identity, sign_ins
from recollect.store.identity import Org, User, Workspace
from recollect.store.pool import Db

MOST_CHARACTERS = 255


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user just made: the only time the password exists."""

    id: UserId
    login: str
    password: str


def check_name(name: str) -> None:
    """Raise `Invalid` for a name that nobody can read or type."""
    if not name.strip() or len(name) > MOST_CHARACTERS or not name.isprintable():
        raise Invalid(f"A name has 1 to {MOST_CHARACTERS} printable characters.", field="name")


def check_archived(archived_at: datetime | None, thing: str) -> None:
    """Raise `Conflict` where something is to be deleted that is still in use."""
    if archived_at is None:
        raise Conflict(f"Archive the {thing} first. What is deleted cannot be brought back.")


async def list_orgs(engine: Engine, within: OrgId | None = None) -> list[Org]:
    """Every org that may be seen."""
    async with engine.pool.everywhere() as db:
        return await identity.orgs(db, within)


async def find_org(engine: Engine, wanted: str, within: OrgId | None = None) -> Org:
    """An org by name or id."""
    async with engine.pool.everywhere() as db:
        return await org_named(db, wanted, within)


async def create_org(engine: Engine, name: str, admin: str) -> tuple[OrgId, NewUser]:
    """An org with its default workspace and its first user."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        org_id = await identity.add_org(db, name)
        user = await _add_user(db, org_id, admin, is_admin=True)
        await identity.add_workspace(db, org_id, "default", is_default=True)
    return org_id, user


async def rename_org(
    engine: Engine, wanted: str, name: str, *, within: OrgId | None = None
) -> None:
    """Give an org another name."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        await identity.rename_org(db, (await org_named(db, wanted, within)).id, name)


async def archive_org(
    engine: Engine, wanted: str, *, is_over: bool, within: OrgId | None = None
) -> None:
    """Put an org away with all its keys, or bring it back."""
    async with engine.pool.everywhere() as db:
        org = await org_named(db, wanted, within)
        await identity.archive_org(db, org.id, engine.now() if is_over else None)


async def delete_org(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Remove an archived org for good, with its users and everything they ever said."""
    async with engine.pool.everywhere() as db:
        org = await org_named(db, wanted, within)
    check_archived(org.archived_at, "org")
    return await erase(engine, await target_org(engine, org.id), by=by, is_dry=is_dry)


async def switch_workspaces(
    engine: Engine, wanted: str | None, *, is_on: bool, within: OrgId | None = None
) -> None:
    """Tell the workspaces of an org apart, or not."""
    async with engine.pool.everywhere() as db:
        await identity.set_workspaces(db, (await org_named(db, wanted, within)).id, is_on=is_on)


async def list_users(engine: Engine, org: str | None, within: OrgId | None = None) -> list[User]:
    """The users of an org."""
    async with engine.pool.everywhere() as db:
        return await identity.users(db, (await org_named(db, org, within)).id)


async def find_user(engine: Engine, wanted: str, within: OrgId | None = None) -> User:
    """A user by login or id."""
    async with engine.pool.everywhere() as db:
        return await user_named(db, wanted, within)


async def create_user(
    engine: Engine,
    login: str,
    *,
    org: str | None,
    is_admin: bool = False,
    password: str | None = None,
    within: OrgId | None = None,
) -> NewUser:
    """A user of an org; their password is made up where none is given."""
    if password is not None:
        check_password(password)
    async with engine.pool.everywhere() as db:
        org_id = (await org_named(db, org, within)).id
        return await _add_user(db, org_id, login, is_admin=is_admin, password=password)


async def rename_user(
    engine: Engine, wanted: str, login: str, *, within: OrgId | None = None
) -> None:
    """Give a user another login."""
    check_name(login)
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, within)
        if await identity.is_login_taken(db, login):
            raise Conflict("Somebody has that login.")
        await identity.rename_user(db, user.id, login)


async def reset_password(engine: Engine, wanted: str) -> str:
    """A new random password for somebody who lost theirs; every browser of theirs is signed out."""
    password = secrets.token_urlsafe(12)
    password_hash = await asyncio.to_thread(hash_password, password)
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, None)
        await sign_ins.set_password(db, user.id, password_hash)
        await sign_ins.end_all(db, user.id)
    return password


async def archive_user(
    engine: Engine, wanted: str, *, is_over: bool, within: OrgId | None = None
) -> None:
    """End a user's keys, or let them work again."""
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, within)
        await identity.archive_user(db, user.id, engine.now() if is_over else None)


async def delete_user(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Remove an archived user for good, with everything they ever said."""
    async with engine.pool.everywhere() as db:
        user = await user_named(db, wanted, within)
    check_archived(user.archived_at, "user")
    target = await target_user(engine, str(user.id), user.org_id)
    return await erase(engine, target, by=by, is_dry=is_dry)


async def list_workspaces(engine: Engine, within: OrgId | None = None) -> list[Workspace]:
    """Every workspace that may be seen."""
    async with engine.pool.everywhere() as db:
        return await identity.workspaces(db, within)


async def create_workspace(
    engine: Engine,
    name: str,
    *,
    org: str | None,
    embedder: str | None,
    within: OrgId | None = None,
) -> WorkspaceId:
    """A workspace of an org."""
    check_name(name)
    _check_embedder(engine, embedder)
    async with engine.pool.everywhere() as db:
        owner = await org_named(db, org, within)
        if await identity.is_name_taken(db, owner.id, name):
            raise Conflict("The org has a workspace of that name.")
        return await identity.add_workspace(db, owner.id, name, embedder=embedder)


async def rename_workspace(
    engine: Engine, wanted: str, name: str, *, within: OrgId | None = None
) -> None:
    """Give a workspace another name."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
        if await identity.is_name_taken(db, found.org_id, name, besides=found.id):
            raise Conflict("The org has a workspace of that name.")
        await identity.rename_workspace(db, found.id, name)


async def archive_workspace(
    engine: Engine, wanted: str, *, is_over: bool, within: OrgId | None = None
) -> None:
    """Put a workspace away with its keys, or bring it back."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
        if found.is_default and is_over:
            raise Invalid("The default workspace of an org stays.")
        await identity.archive_workspace(db, found.id, engine.now() if is_over else None)


async def find_workspace(
    engine: Engine, wanted: str | None, within: OrgId | None = None
) -> Workspace:
    """A workspace by name or id; the default one when None."""
    async with engine.pool.everywhere() as db:
        return await workspace_named(db, wanted, within)


async def delete_workspace(
    engine: Engine, wanted: str, *, by: str, is_dry: bool = False, within: OrgId | None = None
) -> Erased:
    """Remove an archived workspace for good, with everything in it."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
    check_archived(found.archived_at, "workspace")
    target = Target(Kind.WORKSPACE, found.org_id, [found.id], id=found.id)
    return await erase(engine, target, by=by, is_dry=is_dry)


async def set_embedder(engine: Engine, wanted: str, embedder: str | None) -> None:
    """Give a workspace an embedder of the operator's; its vectors follow in the background."""
    _check_embedder(engine, embedder)
    async with engine.pool.everywhere() as db:
        await identity.set_embedder(db, (await workspace_named(db, wanted, None)).id, embedder)


def _check_embedder(engine: Engine, name: str | None) -> None:
    if name is not None and not engine.embedders.has(name):
        raise Invalid(
            "No embedder of that name is configured: `[embedders.NAME]` in the settings file makes "
            "one known, and `builtin` always is.",
            field="embedder",
        )


async def invite_to_workspace(
    engine: Engine, wanted: str, user: str, *, within: OrgId | None = None
) -> None:
    """Let a user of the org make this workspace the active one."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
        guest = await user_named(db, user, found.org_id)
        await identity.add_workspace_member(db, found.id, guest.id)


async def remove_from_workspace(
    engine: Engine, wanted: str, user: str, *, within: OrgId | None = None
) -> None:
    """Keep a user out of a workspace."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
        guest = await user_named(db, user, found.org_id)
        if not await identity.remove_workspace_member(db, found.id, guest.id):
            raise NotFound("member")


async def workspace_members(
    engine: Engine, wanted: str, *, within: OrgId | None = None
) -> list[UserId]:
    """Who may make a workspace the active one, beside the org's admins."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, wanted, within)
        return await identity.workspace_members(db, found.id)


async def _add_user(
    db: Db, org_id: OrgId, login: str, *, is_admin: bool, password: str | None = None
) -> NewUser:
    check_name(login)
    if await identity.is_login_taken(db, login):
        raise Conflict("Somebody has that login.")
    password = password or secrets.token_urlsafe(12)
    password_hash = await asyncio.to_thread(hash_password, password)
    user_id = await identity.add_user(
        db, org_id, login, password_hash=password_hash, is_admin=is_admin
    )
    return NewUser(user_id, login, password)
