"""Org administration over HTTP: done by the org's admins, with keys that have the admin right."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from recollect.core.domain import NO_WORKSPACE, Caller, KeyId, OrgId, Right, WorkspaceId
from recollect.core.errors import Denied, Invalid, NotFound
from recollect.db import audit_events
from recollect.engine import Engine
from recollect.tenancy import keys
from recollect.tenancy.keys import NewKey
from recollect.tenancy.queries import keys as key_queries
from recollect.tenancy.queries import users, workspaces
from recollect.tenancy.queries.keys import KeyRecord


@dataclass(frozen=True, slots=True)
class OrgAdmin:
    """An admin of one org; an admin of the instance's first org is also an instance admin."""

    caller: Caller
    is_instance_admin: bool

    @property
    def org_id(self) -> OrgId:
        """The org that this admin manages."""
        return self.caller.org_id

    @property
    def org(self) -> str:
        """The org's id as text, as the functions of `orgs` take it."""
        return str(self.caller.org_id)

    @property
    def within(self) -> OrgId | None:
        """The only org this admin can see; None for an instance admin, who sees every org."""
        return None if self.is_instance_admin else self.org_id

    @property
    def workspace(self) -> str:
        """The workspace of projects and agents when a request names none."""
        return str(self.caller.workspace_id)

    def require_instance_admin(self) -> None:
        """Raise `Denied` unless this admin may create and delete orgs."""
        if not self.is_instance_admin:
            raise Denied("Only an admin of this server's first org can create or delete orgs.")

    def check_not_self(self, wanted: str) -> None:
        """Raise `Invalid` when the admin would lock themselves out."""
        if wanted in {str(self.caller.user_id), str(self.org_id)}:
            raise Invalid("You would lock yourself out. Ask another admin.")


async def require_admin(engine: Engine, caller: Caller) -> OrgAdmin:
    """Return the caller as an admin; raise `Denied` unless both the key and its user are admins."""
    caller.require(Right.ADMIN)
    async with engine.pool.everywhere() as db:
        is_admin, is_of_first_org = await users.admin_status(db, caller.user_id)
    if not is_admin:
        raise Denied("The user of this key is not an admin.")
    return OrgAdmin(caller, is_instance_admin=is_of_first_org)


async def record_admin_event(engine: Engine, admin: OrgAdmin, action: str, **ids: UUID) -> None:
    """Record an admin's action as a private audit event, which only that admin can see."""
    caller = admin.caller
    workspace_id = (
        await _default_workspace(engine, admin)
        if caller.workspace_id == NO_WORKSPACE
        else caller.workspace_id
    )
    async with engine.pool.writing_as(workspace_id, caller.user_id) as db:
        await audit_events.insert_event(
            db,
            workspace_id,
            action,
            actor=caller.label,
            user_id=caller.user_id,
            details={name: str(value) for name, value in ids.items()},
            at=engine.now(),
            is_private=True,
        )


async def _default_workspace(engine: Engine, admin: OrgAdmin) -> WorkspaceId:
    async with engine.pool.everywhere() as db:
        return (await workspaces.find_workspaces(db, None, admin.org_id))[0].id


@dataclass(frozen=True, slots=True)
class AdminNewKey:
    """A request for a key: to one workspace of the org, or unbound, for the active workspace."""

    name: str = ""
    workspace: str | None = None
    # None: the same rights as the key that creates this one.
    rights: Sequence[Right] | None = None
    expires_at: datetime | None = None
    is_unbound: bool = False
    prefix: str = keys.PREFIX


async def list_keys(engine: Engine, admin: OrgAdmin) -> list[KeyRecord]:
    """Return every key of the org, oldest first, without its text."""
    async with engine.pool.everywhere() as db:
        return [*reversed(await key_queries.list_org_keys(db, admin.org_id, None))]


async def make_key(engine: Engine, admin: OrgAdmin, ask: AdminNewKey) -> NewKey:
    """Create a key that acts for the admin, with no more rights than the key that creates it."""
    caller = admin.caller
    rights = [each for each in Right if each in (ask.rights or caller.rights)]
    if not set(rights) <= caller.rights:
        raise Denied("A key cannot have more rights than the key that creates it.")
    new = await keys.create_key(
        engine,
        name=ask.name,
        workspace=ask.workspace or _own_workspace(admin),
        user=str(caller.user_id),
        rights=rights,
        expires_at=await _limit_expiry(engine, admin, ask.expires_at),
        prefix=ask.prefix,
        is_unbound=ask.is_unbound,
        within=admin.org_id,
    )
    await record_admin_event(engine, admin, "key.created", key=new.record.id)
    return new


async def rotate_key(engine: Engine, admin: OrgAdmin, wanted: str, overlap: timedelta) -> NewKey:
    """Replace one of the admin's own keys; the old one stays valid for `overlap`.

    Only their own: the new key's text lets its holder act as the key's user.
    """
    caller = admin.caller

    def check(old: KeyRecord) -> None:
        if old.user_id != caller.user_id:
            raise Denied("Only the user a key acts for can rotate it. You can revoke it.")
        if not {Right(each) for each in old.rights} <= caller.rights:
            raise Denied("A key cannot have more rights than the key that creates it.")

    new = await keys.rotate_key(engine, wanted, overlap, within=admin.org_id, check=check)
    await record_admin_event(engine, admin, "key.rotated", key=new.record.id)
    return new


async def revoke_key(engine: Engine, admin: OrgAdmin, wanted: str) -> list[KeyRecord]:
    """Revoke the org's keys with this id, name or prefix, in every process at once."""
    revoked = await keys.revoke_key(engine, wanted, within=admin.org_id)
    for each in revoked:
        await record_admin_event(engine, admin, "key.revoked", key=each)
    return [each for each in await list_keys(engine, admin) if each.id in revoked]


def _own_workspace(admin: OrgAdmin) -> str | None:
    return None if admin.caller.workspace_id == NO_WORKSPACE else admin.workspace


async def _limit_expiry(
    engine: Engine, admin: OrgAdmin, expires_at: datetime | None
) -> datetime | None:
    """Return when a new key expires: no later than the key that creates it."""
    own = await _find_own_key(engine, admin, admin.caller.key_id)
    if own.expires_at is None:
        return expires_at
    if expires_at and expires_at > own.expires_at:
        raise Denied("A key cannot expire later than the key that creates it.")
    return expires_at or own.expires_at


async def _find_own_key(engine: Engine, admin: OrgAdmin, key_id: KeyId | None) -> KeyRecord:
    for each in await list_keys(engine, admin):
        if each.id == key_id:
            return each
    raise NotFound("key")
