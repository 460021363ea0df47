"""API keys: made, shown once, recognised by digest; and the first run, which makes the first."""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import uuid4

from argon2 import PasswordHasher, Type

from recollect.domain import NOWHERE, Caller, KeyId, OrgId, Right, UserId, WorkspaceId
from recollect.engine.core import Clock, Engine
from recollect.engine.named import workspace_named
from recollect.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable
from recollect.store import events, identity
from recollect.store.identity import KeyRecord, Workspace
from recollect.store.pool import Pool

PREFIX = "rk_"
# As clients of the alumia door know their keys.
ALUMIA_SPELLINGS = ("alm_live_", "alm_test_")
SPELLINGS = (PREFIX, *ALUMIA_SPELLINGS)
ALL_RIGHTS = tuple(Right)
LONGEST_OVERLAP = timedelta(hours=24)

SHORTEST_PASSWORD = 8
LONGEST_PASSWORD = 1_024
# 19 MiB and two passes take about 0.1 s, enough to slow a thief down.
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, type=Type.ID)

# A verified key is believed for this long; a revocation reaches every process at once by NOTIFY,
# and this is the limit should that message be lost.
_BELIEVED = timedelta(seconds=60)
_MOST_BELIEVED = 10_000
_WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made: the only time its text exists."""

    text: str
    record: KeyRecord


@dataclass(frozen=True, slots=True)
class Admin:
    """The first user, made with the house; the password is nowhere else to be read."""

    login: str
    password: str


class KeyRing:
    """Recognises keys, remembering good ones for a minute."""

    def __init__(self, pool: Pool, now: Clock) -> None:
        self._pool = pool
        self._now = now
        self._believed: dict[bytes, tuple[KeyRecord, datetime]] = {}
        # How often something was revoked, as far as we have heard.
        self._revocations = 0

    async def recognise(self, presented: str | None) -> Caller:
        """Who holds this key; raise `Unauthenticated` unless it is good right now."""
        if presented is None:
            raise Unauthenticated("A key is needed here.")
        digest = _digest(presented)
        now = self._now()
        believed = self._believed.get(digest)
        if believed is None or now - believed[1] >= _BELIEVED:
            heard = self._revocations
            record = await self._look_up(digest, now)
            if len(self._believed) >= _MOST_BELIEVED:
                self._believed.clear()
            # What was read before a revocation we heard of meanwhile may be what was revoked.
            if heard == self._revocations:
                self._believed[digest] = (record, now)
        else:
            record = believed[0]
        if record.revoked_at or (record.expires_at and record.expires_at <= now):
            raise Unauthenticated("This key has expired or was revoked.")
        return _caller(record)

    def forget(self) -> None:
        """Believe nothing from before: some key was revoked."""
        self._revocations += 1
        self._believed.clear()

    async def watch(self) -> None:
        """Look for revocations, where no message tells of them; until cancelled."""
        known = ""
        while True:
            with suppress(Unavailable):
                async with self._pool.everywhere() as db:
                    found = await identity.revocations(db)
                if found != known:
                    self.forget()
                known = found
            await asyncio.sleep(_WATCH_SECONDS)

    async def _look_up(self, digest: bytes, now: datetime) -> KeyRecord:
        async with self._pool.everywhere() as db:
            record = await identity.find_key(db, digest)
            # Found by an index, so compared once more in constant time.
            if record is None or not hmac.compare_digest(bytes(record.digest), digest):
                raise Unauthenticated("This key is not known here.")
            await identity.touch_key(db, record.id, now)
        return record


def _caller(record: KeyRecord) -> Caller:
    return Caller(
        org_id=record.org_id,
        user_id=record.user_id,
        workspace_id=record.workspace_id or NOWHERE,
        rights=frozenset(Right(right) for right in record.rights),
        key_id=record.id,
        label=record.prefix,
        is_unbound=record.is_unbound,
    )


async def operator(engine: Engine) -> Caller:
    """Whoever runs the house, in its default workspace: for those at its own machine."""
    return await steward(engine, None, "operator")


async def steward(engine: Engine, workspace_id: WorkspaceId | None, label: str) -> Caller:
    """Who acts for a workspace, or for the default one: in its org's name, with every right."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, str(workspace_id) if workspace_id else None)
        user_id = await identity.admin_of(db, found.org_id)
    if user_id is None:
        raise NotFound("user")
    return Caller(
        org_id=found.org_id,
        user_id=user_id,
        workspace_id=found.id,
        rights=frozenset(Right),
        label=label,
    )


async def create_key(
    engine: Engine,
    *,
    name: str = "",
    workspace: str | None = None,
    user: str | None = None,
    rights: Sequence[Right] = ALL_RIGHTS,
    expires_at: datetime | None = None,
    spelling: str = PREFIX,
    is_unbound: bool = False,
    within: OrgId | None = None,
) -> NewKey:
    """Make a key for a workspace, by name or id; the default one when None.

    It acts for a user of that org, by id or login; for its admin when None. An unbound key is for
    the org, and in whichever workspace is active.
    """
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, workspace, within)
        user_id = await (
            identity.find_user(db, found.org_id, user)
            if user
            else identity.admin_of(db, found.org_id)
        )
        if user_id is None:
            raise NotFound("user")
        new = _minted(found, user_id, name, rights, expires_at, engine.now(), spelling)
        if is_unbound:
            new = replace(new, record=replace(new.record, workspace_id=None))
        await identity.add_key(db, new.record)
    return new


async def list_keys(engine: Engine) -> list[KeyRecord]:
    """Every key, oldest first, without its text."""
    async with engine.pool.everywhere() as db:
        return await identity.keys(db)


async def revoke_key(engine: Engine, wanted: str, *, within: OrgId | None = None) -> list[KeyId]:
    """Revoke the keys of that id, name or shown prefix, of an org if given; which they were."""
    async with engine.pool.everywhere() as db:
        revoked = await identity.revoke(db, wanted, engine.now(), within)
    if not revoked:
        raise NotFound("key")
    return [KeyId(each) for each in revoked]


async def rotate_key(
    engine: Engine,
    wanted: str,
    keeps_for: timedelta,
    *,
    within: OrgId | None = None,
    check: Callable[[KeyRecord], None] = lambda _: None,
) -> NewKey:
    """A new key in the place of one; the old one works on for a while, at most a day.

    `check` raises where it must not be replaced.
    """
    if not timedelta(0) <= keeps_for <= LONGEST_OVERLAP:
        raise Invalid("A replaced key can work on for at most 24 hours.", field="keep")
    now = engine.now()
    async with engine.pool.everywhere() as db:
        found = await identity.find_good_keys(db, wanted, now, within)
        if not found:
            raise NotFound("key")
        if len(found) > 1:
            raise Conflict("More than one key has that name. Use its id or shown beginning.")
        old = found[0]
        check(old)
        spelling = next(each for each in SPELLINGS if old.prefix.startswith(each))
        shown, text = _spelt(spelling)
        record = replace(
            old,
            id=KeyId(uuid4()),
            digest=_digest(text),
            prefix=shown,
            last_four=text[-4:],
            rights=[Right(right) for right in old.rights],
            created_at=now,
            last_used_at=None,
        )
        await identity.add_key(db, record)
        await identity.end_key(db, old.id, now + keeps_for)
    return NewKey(text, record)


async def note_by_operator(engine: Engine, action: str, key_ids: Sequence[KeyId]) -> None:
    """Write down in the audit what was done to keys at the machine; it is shown to nobody."""
    async with engine.pool.everywhere() as db:
        for key in await identity.keys(db):
            if key.id not in key_ids:
                continue
            home = key.workspace_id or (await identity.find_workspace(db, None, key.org_id))[0].id
            await events.record(
                db,
                home,
                action,
                actor="operator",
                user_id=None,
                details={"key": str(key.id)},
                at=engine.now(),
                is_private=True,
            )


async def move_in(engine: Engine) -> Admin | None:
    """On an empty database: the first org, admin and workspace. None ever after."""
    admin = Admin("admin", secrets.token_urlsafe(12))
    async with engine.pool.everywhere() as db:
        if not await identity.is_empty(db):
            return None
        password_hash = await asyncio.to_thread(hash_password, admin.password)
        org_id = await identity.add_org(db, "home")
        await identity.add_user(db, org_id, admin.login, password_hash=password_hash, is_admin=True)
        await identity.add_workspace(db, org_id, "default", is_default=True)
    return admin


def check_password(password: str, *, field: str = "password") -> None:
    """Raise `Invalid` for a password nobody may have."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        raise Invalid(
            f"A password has {SHORTEST_PASSWORD} to {LONGEST_PASSWORD:,} characters.", field=field
        )


def hash_password(password: str) -> str:
    """An argon2id hash."""
    return HASHER.hash(password)


def _minted(
    workspace: Workspace,
    user_id: UserId,
    name: str,
    rights: Sequence[Right],
    expires_at: datetime | None,
    now: datetime,
    spelling: str = PREFIX,
) -> NewKey:
    if not rights:
        raise Invalid("A key needs at least one right.", field="rights")
    if expires_at and expires_at <= now:
        raise Invalid("That expiry is in the past.", field="expires")
    shown, text = _spelt(spelling)
    record = KeyRecord(
        id=KeyId(uuid4()),
        org_id=workspace.org_id,
        workspace_id=workspace.id,
        user_id=user_id,
        name=name,
        digest=_digest(text),
        prefix=shown,
        last_four=text[-4:],
        rights=tuple(rights),
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
        last_used_at=None,
    )
    return NewKey(text, record)


def _spelt(spelling: str) -> tuple[str, str]:
    """What is shown of a new key, and all of it."""
    if spelling in ALUMIA_SPELLINGS:
        text = spelling + secrets.token_hex(24)
        return text[:12], text
    if spelling != PREFIX:
        raise Invalid(f"A key begins with one of: {', '.join(SPELLINGS)}.", field="spelling")
    shown = PREFIX + secrets.token_hex(4)
    return shown, f"{shown}_{secrets.token_urlsafe(32)}"


def _digest(presented: str) -> bytes:
    return hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
