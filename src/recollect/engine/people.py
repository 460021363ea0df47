"""Who is in an org and which keys there are, arranged by its own people from the dashboard.

An admin arranges the org; everybody else their own keys. What is done is in the audit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from recollect.domain import NOWHERE, Caller, KeyId, Right, UserId
from recollect.engine.core import Engine
from recollect.engine.keys import NewKey, create_key
from recollect.engine.signin import MEMBER_RIGHTS
from recollect.engine.tenants import NewUser, create_user
from recollect.errors import Conflict, Denied, NotFound
from recollect.store import events, identity, sign_ins
from recollect.store.identity import KeyRecord, User
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class MakeKey:
    """A key to a workspace: what it may do, and until when."""

    name: str
    rights: Sequence[Right]
    expires_at: datetime | None = None


async def list_members(engine: Engine, caller: Caller) -> list[User]:
    """The users of the caller's org who can sign in, oldest first."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        found = await identity.users(db, caller.org_id)
    return [each for each in found if each.archived_at is None]


def rights_of(user: User) -> frozenset[Right]:
    """What a user may do."""
    return frozenset(Right) if user.is_admin else MEMBER_RIGHTS


async def add_member(
    engine: Engine, caller: Caller, login: str, *, password: str | None, is_admin: bool
) -> NewUser:
    """A user of the org, who may be in the caller's workspace."""
    caller.require(Right.ADMIN)
    made = await create_user(
        engine, login, org=None, is_admin=is_admin, password=password, within=caller.org_id
    )
    async with engine.pool.everywhere() as db:
        if caller.workspace_id != NOWHERE:
            await identity.add_workspace_member(db, caller.workspace_id, made.id)
        await _note(engine, db, caller, "user.created", user=made.id)
    return made


async def change_role(engine: Engine, caller: Caller, user_id: UUID, *, is_admin: bool) -> User:
    """Make a member an admin, or an admin a member; they sign in anew, and it holds at once."""
    caller.require(Right.ADMIN)
    if user_id == caller.user_id:
        raise Conflict("Nobody changes their own role. Another admin can.")
    found = next((each for each in await list_members(engine, caller) if each.id == user_id), None)
    if found is None:
        raise NotFound("member")
    if found.is_admin == is_admin:
        return found
    async with engine.pool.everywhere() as db:
        await identity.set_admin(db, found.id, is_admin=is_admin, now=engine.now())
        await sign_ins.end_all(db, found.id)
        await _note(engine, db, caller, "user.changed_role", user=user_id)
    return replace(found, is_admin=is_admin)


async def remove_member(engine: Engine, caller: Caller, user_id: UUID) -> None:
    """Put a user away: signed out everywhere, their keys ended; what they told stays."""
    caller.require(Right.ADMIN)
    if user_id == caller.user_id:
        raise Conflict("Nobody removes themselves. Another admin can.")
    if all(each.id != user_id for each in await list_members(engine, caller)):
        raise NotFound("member")
    async with engine.pool.everywhere() as db:
        await identity.archive_user(db, UserId(user_id), engine.now())
        await sign_ins.end_all(db, UserId(user_id))
        await _note(engine, db, caller, "user.archived", user=user_id)


async def list_own_keys(engine: Engine, caller: Caller) -> list[KeyRecord]:
    """The caller's keys, newest first; for an admin all of the org."""
    caller.require(Right.READ)
    async with engine.pool.everywhere() as db:
        return await identity.keys_of(db, caller.org_id, _whose(caller))


async def make_key(engine: Engine, caller: Caller, ask: MakeKey) -> NewKey:
    """A key of the caller's to the workspace they are in; it can do no more than they can."""
    caller.require(Right.WRITE)
    if not set(ask.rights) <= caller.rights:
        raise Denied("A key can do no more than who makes it.")
    made = await create_key(
        engine,
        name=ask.name,
        workspace=str(caller.workspace_id),
        user=str(caller.user_id),
        rights=ask.rights,
        expires_at=ask.expires_at,
    )
    async with engine.pool.everywhere() as db:
        await _note(engine, db, caller, "key.created", key=made.record.id)
    return made


async def end_key(engine: Engine, caller: Caller, key_id: UUID) -> None:
    """Revoke a key of the caller's, or for an admin any of the org."""
    caller.require(Right.WRITE)
    async with engine.pool.everywhere() as db:
        if not await identity.revoke_one(db, key_id, caller.org_id, _whose(caller), engine.now()):
            raise NotFound("key")
        await _note(engine, db, caller, "key.revoked", key=KeyId(key_id))


def _whose(caller: Caller) -> UserId | None:
    return None if Right.ADMIN in caller.rights else caller.user_id


async def _note(engine: Engine, db: Db, caller: Caller, action: str, **ids: UUID) -> None:
    """In the workspace the caller is in; it is nobody else's business there."""
    if caller.workspace_id == NOWHERE:
        return
    await events.record(
        db,
        caller.workspace_id,
        action,
        actor=caller.label,
        user_id=caller.user_id,
        details={name: str(value) for name, value in ids.items()},
        at=engine.now(),
        is_private=True,
    )
