"""Orgs, users and workspaces, managed by the operator or by an org's admins.

Each is found by id or by name; an org or workspace that is not given is the default one. `within`
is the only org that an admin can see; None is for the operator. An archived org, user or workspace
is kept but cannot be used. It can be restored, or deleted permanently with everything in it.
`tenancy.projects` does the same for projects and agents.
"""

import asyncio
import secrets
from dataclasses import dataclass
from datetime import datetime

from recollect.core.domain import OrgId, UserId, WorkspaceId
from recollect.core.errors import Conflict, Invalid, NotFound
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy import lookup
from recollect.tenancy.keys import check_password, hash_password
from recollect.tenancy.queries import orgs, sign_ins, users, workspaces
from recollect.tenancy.queries.orgs import Org
from recollect.tenancy.queries.users import User
from recollect.tenancy.queries.workspaces import Workspace

MAX_NAME_LENGTH = 255

_LOGIN_TAKEN = "That login is already taken."
_WORKSPACE_NAME_TAKEN = "The org already has a workspace with that name."


@dataclass(frozen=True, slots=True)
class NewUser:
    """A new user; the password is available only now and is not stored."""

    id: UserId
    login: str
    password: str


def check_name(name: str) -> None:
    """Raise `Invalid` for a name that is empty, too long or not printable."""
    if not name.strip() or len(name) > MAX_NAME_LENGTH or not name.isprintable():
        raise Invalid(
            f"A name must have 1 to {MAX_NAME_LENGTH} printable characters.", field="name"
        )


def check_archived(archived_at: datetime | None, thing: str) -> None:
    """Raise `Conflict` when something that is not archived is about to be deleted."""
    if archived_at is None:
        raise Conflict(f"Archive the {thing} first. Deleting it cannot be undone.")


async def list_orgs(engine: Engine, within: OrgId | None = None) -> list[Org]:
    """Return every visible org."""
    async with engine.pool.everywhere() as db:
        return await orgs.list_orgs(db, within)


async def find_org(engine: Engine, wanted: str, within: OrgId | None = None) -> Org:
    """Return an org by name or id."""
    async with engine.pool.everywhere() as db:
        return await lookup.find_org(db, wanted, within)


async def create_org(engine: Engine, name: str, admin: str) -> tuple[OrgId, NewUser]:
    """Create an org with its default workspace and its first user, an admin."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        org_id = await orgs.add_org(db, name)
        user = await _add_user(db, org_id, admin, is_admin=True)
        await workspaces.add_workspace(db, org_id, "default", is_default=True)
    return org_id, user


async def rename_org(
    engine: Engine, wanted: str, name: str, *, within: OrgId | None = None
) -> None:
    """Rename an org."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        await orgs.rename_org(db, (await lookup.find_org(db, wanted, within)).id, name)


async def archive_org(
    engine: Engine, wanted: str, *, is_archived: bool, within: OrgId | None = None
) -> None:
    """Archive an org, which disables all its keys, or restore it."""
    async with engine.pool.everywhere() as db:
        org = await lookup.find_org(db, wanted, within)
        await orgs.archive_org(db, org.id, engine.now() if is_archived else None)


async def switch_workspaces(
    engine: Engine, wanted: str | None, *, is_on: bool, within: OrgId | None = None
) -> None:
    """Switch separate workspaces on or off for an org."""
    async with engine.pool.everywhere() as db:
        org = await lookup.find_org(db, wanted, within)
        await orgs.set_workspaces(db, org.id, is_on=is_on)


async def list_users(engine: Engine, org: str | None, within: OrgId | None = None) -> list[User]:
    """Return the users of an org."""
    async with engine.pool.everywhere() as db:
        return await users.list_users(db, (await lookup.find_org(db, org, within)).id)


async def find_user(engine: Engine, wanted: str, within: OrgId | None = None) -> User:
    """Return a user by login or id."""
    async with engine.pool.everywhere() as db:
        return await lookup.find_user(db, wanted, within)


async def create_user(
    engine: Engine,
    login: str,
    *,
    org: str | None,
    is_admin: bool = False,
    password: str | None = None,
    within: OrgId | None = None,
) -> NewUser:
    """Create a user in an org, with a random password unless one is given."""
    if password is not None:
        check_password(password)
    async with engine.pool.everywhere() as db:
        org_id = (await lookup.find_org(db, org, within)).id
        return await _add_user(db, org_id, login, is_admin=is_admin, password=password)


async def rename_user(
    engine: Engine, wanted: str, login: str, *, within: OrgId | None = None
) -> None:
    """Change a user's login."""
    check_name(login)
    async with engine.pool.everywhere() as db:
        user = await lookup.find_user(db, wanted, within)
        if await users.is_login_taken(db, login):
            raise Conflict(_LOGIN_TAKEN)
        await users.rename_user(db, user.id, login)


async def reset_password(engine: Engine, wanted: str) -> str:
    """Give a user a new random password and sign them out everywhere."""
    password = secrets.token_urlsafe(12)
    password_hash = await asyncio.to_thread(hash_password, password)
    async with engine.pool.everywhere() as db:
        user = await lookup.find_user(db, wanted, None)
        await sign_ins.set_password(db, user.id, password_hash)
        await sign_ins.end_all(db, user.id)
    return password


async def archive_user(
    engine: Engine, wanted: str, *, is_archived: bool, within: OrgId | None = None
) -> None:
    """Archive a user, which disables their keys, or restore them."""
    async with engine.pool.everywhere() as db:
        user = await lookup.find_user(db, wanted, within)
        await users.archive_user(db, user.id, engine.now() if is_archived else None)


async def list_workspaces(engine: Engine, within: OrgId | None = None) -> list[Workspace]:
    """Return every visible workspace."""
    async with engine.pool.everywhere() as db:
        return await workspaces.list_workspaces(db, within)


async def create_workspace(
    engine: Engine,
    name: str,
    *,
    org: str | None,
    embedder: str | None,
    within: OrgId | None = None,
) -> WorkspaceId:
    """Create a workspace in an org."""
    check_name(name)
    _check_embedder(engine, embedder)
    async with engine.pool.everywhere() as db:
        owner = await lookup.find_org(db, org, within)
        if await workspaces.is_name_taken(db, owner.id, name):
            raise Conflict(_WORKSPACE_NAME_TAKEN)
        return await workspaces.add_workspace(db, owner.id, name, embedder=embedder)


async def rename_workspace(
    engine: Engine, wanted: str, name: str, *, within: OrgId | None = None
) -> None:
    """Rename a workspace."""
    check_name(name)
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
        if await workspaces.is_name_taken(db, found.org_id, name, except_id=found.id):
            raise Conflict(_WORKSPACE_NAME_TAKEN)
        await workspaces.rename_workspace(db, found.id, name)


async def archive_workspace(
    engine: Engine, wanted: str, *, is_archived: bool, within: OrgId | None = None
) -> None:
    """Archive a workspace, which disables its keys, or restore it."""
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
        if found.is_default and is_archived:
            raise Invalid("The default workspace of an org cannot be archived.")
        await workspaces.archive_workspace(db, found.id, engine.now() if is_archived else None)


async def find_workspace(
    engine: Engine, wanted: str | None, within: OrgId | None = None
) -> Workspace:
    """Return a workspace by name or id; the default one when None."""
    async with engine.pool.everywhere() as db:
        return await lookup.find_workspace(db, wanted, within)


async def set_embedder(engine: Engine, wanted: str, embedder: str | None) -> None:
    """Set a workspace's embedder; its memories are embedded again in the background."""
    _check_embedder(engine, embedder)
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, None)
        await workspaces.set_embedder(db, found.id, embedder)


def _check_embedder(engine: Engine, name: str | None) -> None:
    if name is not None and not engine.embedders.has(name):
        raise Invalid(
            "No embedder with that name is configured. Add `[embedders.NAME]` to the settings "
            "file, or use `builtin`, which always exists.",
            field="embedder",
        )


async def invite_to_workspace(
    engine: Engine, wanted: str, user: str, *, within: OrgId | None = None
) -> None:
    """Let a user of the org make this workspace the active one."""
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
        member = await lookup.find_user(db, user, found.org_id)
        await workspaces.add_workspace_member(db, found.id, member.id)


async def remove_from_workspace(
    engine: Engine, wanted: str, user: str, *, within: OrgId | None = None
) -> None:
    """Remove a user from a workspace."""
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
        member = await lookup.find_user(db, user, found.org_id)
        if not await workspaces.remove_workspace_member(db, found.id, member.id):
            raise NotFound("member")


async def workspace_members(
    engine: Engine, wanted: str, *, within: OrgId | None = None
) -> list[UserId]:
    """Return the users, besides the org's admins, who may make a workspace the active one."""
    async with engine.pool.everywhere() as db:
        found = await lookup.find_workspace(db, wanted, within)
        return await workspaces.list_workspace_members(db, found.id)


async def _add_user(
    db: Db, org_id: OrgId, login: str, *, is_admin: bool, password: str | None = None
) -> NewUser:
    check_name(login)
    if await users.is_login_taken(db, login):
        raise Conflict(_LOGIN_TAKEN)
    password = password or secrets.token_urlsafe(12)
    password_hash = await asyncio.to_thread(hash_password, password)
    user_id = await users.add_user(
        db, org_id, login, password_hash=password_hash, is_admin=is_admin
    )
    return NewUser(user_id, login, password)
