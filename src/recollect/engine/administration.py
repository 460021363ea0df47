"""Who may arrange an org from outside the machine: its admins, by keys with that right."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from recollect.domain import NOWHERE, Caller, KeyId, OrgId, Right, WorkspaceId
from recollect.engine import keys
from recollect.engine.core import Engine
from recollect.engine.keys import NewKey
from recollect.errors import Denied, Invalid, NotFound
from recollect.store import events, identity
from recollect.store.identity import KeyRecord


@dataclass(frozen=True, slots=True)
class Admin:
    """An administrator: of one org, or of the house, which is whoever is admin of its first org."""

    caller: Caller
    is_of_house: bool

    @property
    def org_id(self) -> OrgId:
        """The org that is arranged."""
        return self.caller.org_id

    @property
    def org(self) -> str:
        """Its id, as the verbs of `tenants` take it."""
        return str(self.caller.org_id)

    @property
    def reach(self) -> OrgId | None:
        """The org beyond which nothing is seen; None for the house's admins."""
        return None if self.is_of_house else self.org_id

    @property
    def workspace(self) -> str:
        """Where projects and agents are, unless another workspace is named."""
        return str(self.caller.workspace_id)

    def require_house(self) -> None:
        """Raise `Denied` unless orgs themselves may be made and unmade."""
        if not self.is_of_house:
            raise Denied("Only an admin of this house's first org makes and removes orgs.")

    def check_not_self(self, wanted: str) -> None:
        """Raise `Invalid` for whoever would shut themselves out."""
        if wanted in {str(self.caller.user_id), str(self.org_id)}:
            raise Invalid("You would shut yourself out. Let another admin do it.")


async def administer(engine: Engine, caller: Caller) -> Admin:
    """The caller as an administrator; raise `Denied` unless both the key and its user may."""
    caller.require(Right.ADMIN)
    async with engine.pool.everywhere() as db:
        is_admin, is_of_house = await identity.standing(db, caller.user_id)
    if not is_admin:
        raise Denied("The user of this key is no admin.")
    return Admin(caller, is_of_house=is_of_house)


async def note(engine: Engine, admin: Admin, action: str, **ids: UUID) -> None:
    """Write down in the audit what an admin did; nobody else in the workspace is shown it."""
    caller = admin.caller
    place = await _home(engine, admin) if caller.workspace_id == NOWHERE else caller.workspace_id
    async with engine.pool.writing_as(place, caller.user_id) as db:
        await events.record(
            db,
            place,
            action,
            actor=caller.label,
            user_id=caller.user_id,
            details={name: str(value) for name, value in ids.items()},
            at=engine.now(),
            is_private=True,
        )


async def _home(engine: Engine, admin: Admin) -> WorkspaceId:
    """The org's default workspace, for an admin who is in none."""
    async with engine.pool.everywhere() as db:
        return (await identity.find_workspace(db, None, admin.org_id))[0].id


@dataclass(frozen=True, slots=True)
class MakeKey:
    """A key to one workspace of the org, or an unbound one to whichever is active."""

    name: str = ""
    workspace: str | None = None
    # None: as many as the key has that makes it.
    rights: Sequence[Right] | None = None
    expires_at: datetime | None = None
    is_unbound: bool = False
    spelling: str = keys.PREFIX


async def list_keys(engine: Engine, admin: Admin) -> list[KeyRecord]:
    """Every key of the org, oldest first, without its text."""
    async with engine.pool.everywhere() as db:
        return [*reversed(await identity.keys_of(db, admin.org_id, None))]


async def make_key(engine: Engine, admin: Admin, ask: MakeKey) -> NewKey:
    """A key that acts for the admin, and can do no more than the key that makes it."""
    caller = admin.caller
    rights = [each for each in Right if each in (ask.rights or caller.rights)]
    if not set(rights) <= caller.rights:
        raise Denied("A key can do no more than the one that makes it.")
    made = await keys.create_key(
        engine,
        name=ask.name,
        workspace=ask.workspace or _bound(admin),
        user=str(caller.user_id),
        rights=rights,
        expires_at=await _end_of(engine, admin, ask.expires_at),
        spelling=ask.spelling,
        is_unbound=ask.is_unbound,
        within=admin.org_id,
    )
    await note(engine, admin, "key.created", key=made.record.id)
    return made


async def rotate_key(engine: Engine, admin: Admin, wanted: str, keeps_for: timedelta) -> NewKey:
    """A new key in the place of one of the admin's own: its text is as good as its user."""
    caller = admin.caller

    def check(old: KeyRecord) -> None:
        if old.user_id != caller.user_id:
            raise Denied("Only whom a key acts for can replace it. You can revoke it.")
        if not {Right(each) for each in old.rights} <= caller.rights:
            raise Denied("A key can do no more than the one that makes it.")

    made = await keys.rotate_key(engine, wanted, keeps_for, within=admin.org_id, check=check)
    await note(engine, admin, "key.rotated", key=made.record.id)
    return made


async def revoke_key(engine: Engine, admin: Admin, wanted: str) -> list[KeyRecord]:
    """End the keys of that id, name or shown beginning in the org, at once and everywhere."""
    revoked = await keys.revoke_key(engine, wanted, within=admin.org_id)
    for each in revoked:
        await note(engine, admin, "key.revoked", key=each)
    return [each for each in await list_keys(engine, admin) if each.id in revoked]


def _bound(admin: Admin) -> str | None:
    return None if admin.caller.workspace_id == NOWHERE else admin.workspace


async def _end_of(engine: Engine, admin: Admin, asked: datetime | None) -> datetime | None:
    """When a new key ends: no later than the one that makes it."""
    own = await _own(engine, admin, admin.caller.key_id)
    if own.expires_at is None:
        return asked
    if asked and asked > own.expires_at:
        raise Denied("A key can work no longer than the one that makes it.")
    return asked or own.expires_at


async def _own(engine: Engine, admin: Admin, key_id: KeyId | None) -> KeyRecord:
    for each in await list_keys(engine, admin):
        if each.id == key_id:
            return each
    raise NotFound("key")
