"""An org's members and API keys, managed by its own users from the dashboard.

An admin manages the whole org; other users manage their own keys. Every change is audited.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from recollect.core.domain import NO_WORKSPACE, Caller, KeyId, Right, UserId
from recollect.core.errors import Conflict, Denied, NotFound
from recollect.db import audit_events
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.tenancy.keys import NewKey, create_key
from recollect.tenancy.orgs import NewUser, create_user
from recollect.tenancy.queries import keys, sign_ins, users, workspaces
from recollect.tenancy.queries.keys import KeyRecord
from recollect.tenancy.queries.users import User
from recollect.tenancy.sign_in import MEMBER_RIGHTS


@dataclass(frozen=True, slots=True)
class MemberNewKey:
    """A request for a key to the caller's workspace: its rights and its expiry."""

    name: str
    rights: Sequence[Right]
    expires_at: datetime | None = None


async def list_members(engine: Engine, caller: Caller) -> list[User]:
    """Return the users of the caller's org who can sign in, oldest first."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        found = await users.list_users(db, caller.org_id)
    return [each for each in found if each.archived_at is None]


def user_rights(user: User) -> frozenset[Right]:
    """Return the rights of a user."""
    return frozenset(Right) if user.is_admin else MEMBER_RIGHTS


async def add_member(
    engine: Engine, caller: Caller, login: str, *, password: str | None, is_admin: bool
) -> NewUser:
    """Add a user to the org and to the caller's workspace."""
    caller.require(Right.ADMIN)
    new = await create_user(
        engine, login, org=None, is_admin=is_admin, password=password, within=caller.org_id
    )
    async with engine.pool.everywhere() as db:
        if caller.workspace_id != NO_WORKSPACE:
            await workspaces.add_workspace_member(db, caller.workspace_id, new.id)
        await _record_event(engine, db, caller, "user.created", user=new.id)
    return new


async def change_role(engine: Engine, caller: Caller, user_id: UUID, *, is_admin: bool) -> User:
    """Make a member an admin, or an admin a member.

    The change applies at once: the user is signed out everywhere.
    """
    caller.require(Right.ADMIN)
    if user_id == caller.user_id:
        raise Conflict("You cannot change your own role. Ask another admin.")
    found = next((each for each in await list_members(engine, caller) if each.id == user_id), None)
    if found is None:
        raise NotFound("member")
    if found.is_admin == is_admin:
        return found
    async with engine.pool.everywhere() as db:
        await users.set_admin(db, found.id, is_admin=is_admin, now=engine.now())
        await sign_ins.end_all(db, found.id)
        await _record_event(engine, db, caller, "user.changed_role", user=user_id)
    return replace(found, is_admin=is_admin)


async def remove_member(engine: Engine, caller: Caller, user_id: UUID) -> None:
    """Archive a user: they are signed out and their keys stop working; their memories stay."""
    caller.require(Right.ADMIN)
    if user_id == caller.user_id:
        raise Conflict("You cannot remove yourself. Ask another admin.")
    if all(each.id != user_id for each in await list_members(engine, caller)):
        raise NotFound("member")
    async with engine.pool.everywhere() as db:
        await users.archive_user(db, UserId(user_id), engine.now())
        await sign_ins.end_all(db, UserId(user_id))
        await _record_event(engine, db, caller, "user.archived", user=user_id)


async def list_own_keys(engine: Engine, caller: Caller) -> list[KeyRecord]:
    """Return the caller's keys, newest first; for an admin, all keys of the org."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await keys.list_org_keys(db, caller.org_id, _key_owner(caller))


async def make_key(engine: Engine, caller: Caller, ask: MemberNewKey) -> NewKey:
    """Create a key to the caller's workspace, with no more rights than the caller has."""
    caller.require(Right.WRITE)
    if not set(ask.rights) <= caller.rights:
        raise Denied("A key cannot have more rights than you have.")
    new = await create_key(
        engine,
        name=ask.name,
        workspace=str(caller.workspace_id),
        user=str(caller.user_id),
        rights=ask.rights,
        expires_at=ask.expires_at,
    )
    async with engine.pool.everywhere() as db:
        await _record_event(engine, db, caller, "key.created", key=new.record.id)
    return new


async def revoke_own_key(engine: Engine, caller: Caller, key_id: UUID) -> None:
    """Revoke one of the caller's keys; an admin can revoke any key of the org."""
    caller.require(Right.WRITE)
    async with engine.pool.everywhere() as db:
        if not await keys.revoke_key(db, key_id, caller.org_id, _key_owner(caller), engine.now()):
            raise NotFound("key")
        await _record_event(engine, db, caller, "key.revoked", key=KeyId(key_id))


def _key_owner(caller: Caller) -> UserId | None:
    """Return the only user whose keys the caller manages; None for an admin, who manages all."""
    return None if Right.ADMIN in caller.rights else caller.user_id


async def _record_event(engine: Engine, db: Db, caller: Caller, action: str, **ids: UUID) -> None:
    """Record a private audit event in the caller's workspace; only the caller can see it."""
    if caller.workspace_id == NO_WORKSPACE:
        return
    await audit_events.insert_event(
        db,
        caller.workspace_id,
        action,
        actor=caller.label,
        user_id=caller.user_id,
        details={name: str(value) for name, value in ids.items()},
        at=engine.now(),
        is_private=True,
    )
