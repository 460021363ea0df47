"""API keys: create, check, rotate and revoke them; also password hashing and the first run."""

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

from recollect.core.domain import NO_WORKSPACE, Caller, KeyId, OrgId, Right, UserId, WorkspaceId
from recollect.core.errors import Conflict, Invalid, NotFound, Unauthenticated, Unavailable
from recollect.db import audit_events
from recollect.db.pool import Pool
from recollect.engine import Clock, Engine
from recollect.tenancy.lookup import find_workspace
from recollect.tenancy.queries import keys, orgs, users, workspaces
from recollect.tenancy.queries.keys import KeyRecord
from recollect.tenancy.queries.workspaces import Workspace

PREFIX = "rk_"
# The key formats that clients of the alumia interface expect.
ALUMIA_KEY_PREFIXES = ("alm_live_", "alm_test_")
KEY_PREFIXES = (PREFIX, *ALUMIA_KEY_PREFIXES)
ALL_RIGHTS = tuple(Right)
MAX_OVERLAP = timedelta(hours=24)

MIN_PASSWORD_LENGTH = 8
MAX_PASSWORD_LENGTH = 1_024
# 19 MiB and two passes take about 0.1 s, which slows down guessing against a stolen hash.
HASHER = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1, type=Type.ID)

# A verified key is cached for this long. A revocation reaches every process at once by NOTIFY;
# this is the limit in case that message is lost.
_CACHED_FOR = timedelta(seconds=60)
_MAX_CACHED = 10_000
_WATCH_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class NewKey:
    """A new key; its text is available only now and is not stored."""

    text: str
    record: KeyRecord


@dataclass(frozen=True, slots=True)
class FirstAdmin:
    """The first user of a new database; the password is shown only here."""

    login: str
    password: str


class KeyCache:
    """Checks API keys, and caches valid ones for a minute."""

    def __init__(self, pool: Pool, now: Clock) -> None:
        self._pool = pool
        self._now = now
        self._cached: dict[bytes, tuple[KeyRecord, datetime]] = {}
        # How many revocations this process has been notified of.
        self._revocations = 0

    async def recognise(self, presented: str | None) -> Caller:
        """Return the caller of this key; raise `Unauthenticated` unless it is valid now."""
        if presented is None:
            raise Unauthenticated("An API key is required.")
        digest = _digest(presented)
        now = self._now()
        cached = self._cached.get(digest)
        if cached is None or now - cached[1] >= _CACHED_FOR:
            revocations = self._revocations
            record = await self._look_up(digest, now)
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            # A revocation during the lookup may concern this key, so do not cache it then.
            if revocations == self._revocations:
                self._cached[digest] = (record, now)
        else:
            record = cached[0]
        if record.revoked_at or (record.expires_at and record.expires_at <= now):
            raise Unauthenticated("This key has expired or was revoked.")
        return _caller(record)

    def forget(self) -> None:
        """Drop every cached key, because a key was revoked."""
        self._revocations += 1
        self._cached.clear()

    async def watch(self) -> None:
        """Poll for revocations where NOTIFY is not available; runs until cancelled."""
        known = ""
        while True:
            with suppress(Unavailable):
                async with self._pool.everywhere() as db:
                    found = await keys.revocation_state(db)
                if found != known:
                    self.forget()
                known = found
            await asyncio.sleep(_WATCH_SECONDS)

    async def _look_up(self, digest: bytes, now: datetime) -> KeyRecord:
        async with self._pool.everywhere() as db:
            record = await keys.find_key(db, digest)
            # The index lookup is not constant-time, so compare once more in constant time.
            if record is None or not hmac.compare_digest(bytes(record.digest), digest):
                raise Unauthenticated("This key is unknown.")
            await keys.touch_key(db, record.id, now)
        return record


def _caller(record: KeyRecord) -> Caller:
    return Caller(
        org_id=record.org_id,
        user_id=record.user_id,
        workspace_id=record.workspace_id or NO_WORKSPACE,
        rights=frozenset(Right(right) for right in record.rights),
        key_id=record.id,
        label=record.prefix,
        is_unbound=record.is_unbound,
    )


async def operator_caller(engine: Engine) -> Caller:
    """Return a caller for the operator at the machine itself, in the default workspace."""
    return await system_caller(engine, None, "operator")


async def system_caller(engine: Engine, workspace_id: WorkspaceId | None, label: str) -> Caller:
    """Return a caller with every right in a workspace, or the default one, as its org's admin."""
    async with engine.pool.everywhere() as db:
        found = await find_workspace(db, str(workspace_id) if workspace_id else None)
        user_id = await users.find_admin(db, found.org_id)
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
    prefix: str = PREFIX,
    is_unbound: bool = False,
    within: OrgId | None = None,
) -> NewKey:
    """Create a key for a workspace, by name or id; the default one when None.

    It acts for a user of that org, by id or login; for its admin when None. An unbound key belongs
    to the org and works in the active workspace.
    """
    async with engine.pool.everywhere() as db:
        found = await find_workspace(db, workspace, within)
        user_id = await (
            users.find_active_user(db, found.org_id, user)
            if user
            else users.find_admin(db, found.org_id)
        )
        if user_id is None:
            raise NotFound("user")
        new = _new_key(found, user_id, name, rights, expires_at, engine.now(), prefix)
        if is_unbound:
            new = replace(new, record=replace(new.record, workspace_id=None))
        await keys.add_key(db, new.record)
    return new


async def list_keys(engine: Engine) -> list[KeyRecord]:
    """Return every key, oldest first, without its text."""
    async with engine.pool.everywhere() as db:
        return await keys.list_keys(db)


async def revoke_key(engine: Engine, wanted: str, *, within: OrgId | None = None) -> list[KeyId]:
    """Revoke the keys with this id, name or prefix, and return their ids."""
    async with engine.pool.everywhere() as db:
        revoked = await keys.revoke_keys(db, wanted, engine.now(), within)
    if not revoked:
        raise NotFound("key")
    return [KeyId(each) for each in revoked]


async def rotate_key(
    engine: Engine,
    wanted: str,
    overlap: timedelta,
    *,
    within: OrgId | None = None,
    check: Callable[[KeyRecord], None] = lambda _: None,
) -> NewKey:
    """Create a key that replaces another; the old one stays valid for `overlap`, at most a day.

    `check` raises if the old key must not be replaced.
    """
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise Invalid("A rotated key can stay valid for at most 24 hours.", field="keep")
    now = engine.now()
    async with engine.pool.everywhere() as db:
        found = await keys.find_valid_keys(db, wanted, now, within)
        if not found:
            raise NotFound("key")
        if len(found) > 1:
            raise Conflict("More than one key has that name. Use its id or prefix.")
        old = found[0]
        check(old)
        prefix = next(each for each in KEY_PREFIXES if old.prefix.startswith(each))
        shown, text = _generate_text(prefix)
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
        await keys.add_key(db, record)
        await keys.expire_key(db, old.id, now + overlap)
    return NewKey(text, record)


async def record_operator_event(engine: Engine, action: str, key_ids: Sequence[KeyId]) -> None:
    """Record what the operator did to keys as private audit events, which no user can see."""
    async with engine.pool.everywhere() as db:
        for key in await keys.list_keys(db):
            if key.id not in key_ids:
                continue
            workspace_id = key.workspace_id
            if workspace_id is None:
                workspace_id = (await workspaces.find_workspaces(db, None, key.org_id))[0].id
            await audit_events.insert_event(
                db,
                workspace_id,
                action,
                actor="operator",
                user_id=None,
                details={"key": str(key.id)},
                at=engine.now(),
                is_private=True,
            )


async def first_run(engine: Engine) -> FirstAdmin | None:
    """Create the first org, admin and workspace in an empty database; otherwise return None."""
    admin = FirstAdmin("admin", secrets.token_urlsafe(12))
    async with engine.pool.everywhere() as db:
        if not await orgs.is_empty(db):
            return None
        password_hash = await asyncio.to_thread(hash_password, admin.password)
        org_id = await orgs.add_org(db, "home")
        await users.add_user(db, org_id, admin.login, password_hash=password_hash, is_admin=True)
        await workspaces.add_workspace(db, org_id, "default", is_default=True)
    return admin


def check_password(password: str, *, field: str = "password") -> None:
    """Raise `Invalid` for a password that is too short or too long."""
    if not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        raise Invalid(
            f"A password must have {MIN_PASSWORD_LENGTH} to {MAX_PASSWORD_LENGTH:,} characters.",
            field=field,
        )


def hash_password(password: str) -> str:
    """Return the argon2id hash of a password."""
    return HASHER.hash(password)


def _new_key(
    workspace: Workspace,
    user_id: UserId,
    name: str,
    rights: Sequence[Right],
    expires_at: datetime | None,
    now: datetime,
    prefix: str = PREFIX,
) -> NewKey:
    if not rights:
        raise Invalid("A key needs at least one right.", field="rights")
    if expires_at and expires_at <= now:
        raise Invalid("The expiry time is in the past.", field="expires")
    shown, text = _generate_text(prefix)
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


def _generate_text(prefix: str) -> tuple[str, str]:
    """Return the part of a new key that may be shown, and the whole key."""
    if prefix in ALUMIA_KEY_PREFIXES:
        text = prefix + secrets.token_hex(24)
        return text[:12], text
    if prefix != PREFIX:
        raise Invalid(f"A key must begin with one of: {', '.join(KEY_PREFIXES)}.", field="spelling")
    shown = PREFIX + secrets.token_hex(4)
    return shown, f"{shown}_{secrets.token_urlsafe(32)}"


def _digest(presented: str) -> bytes:
    return hashlib.sha256(presented.encode("utf-8", "surrogatepass")).digest()
