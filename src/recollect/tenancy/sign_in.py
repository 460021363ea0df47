"""Sign-in to the dashboard: passwords, session tokens, and the limit on password guesses."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from argon2.exceptions import InvalidHashError, VerificationError

from recollect.core.domain import NO_WORKSPACE, Caller, Right
from recollect.core.errors import Invalid, NotFound, RateLimited, Unauthenticated
from recollect.db import audit_events
from recollect.db.pool import Pool
from recollect.engine import Clock, Engine
from recollect.tenancy.keys import HASHER, MAX_PASSWORD_LENGTH, check_password, hash_password
from recollect.tenancy.queries import sign_ins
from recollect.tenancy.queries.sign_ins import Account, Attempts, Profile, SignIn

P = ParamSpec("P")
T = TypeVar("T")

MEMBER_RIGHTS = frozenset({Right.READ, Right.WRITE, Right.DELETE})
LABEL = "dashboard"

# Each hash takes 19 MiB and 0.1 s of a core, so only a few run at once. A request that waits
# longer than this is part of a flood and is turned away.
_MAX_CONCURRENT_HASHES = 2
_HASH_WAIT_SECONDS = 5.0

# Attempts without a delay; after them, each delay is twice the last. An address may belong to a
# whole office, so it gets more. No user is ever locked out: the longest delay is short, and
# failures are forgotten after a quiet period.
_FREE_BY_ACCOUNT = 5
_FREE_BY_ADDRESS = 30
_MAX_DELAY = timedelta(seconds=60)
FAILURES_FORGOTTEN_AFTER = timedelta(minutes=15)

# Checked for unknown logins, so that they take as long as known ones. No password matches it.
_DUMMY_HASH = (
    f"$argon2id$v=19$m={HASHER.memory_cost},t={HASHER.time_cost},p=1${'A' * 22}${'A' * 43}"
)

# `last_seen_at` is updated at most this often.
_TOUCH_INTERVAL = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class SessionLifetime:
    """How long a browser stays signed in: while idle, and in total."""

    idle: timedelta = timedelta(days=7)
    total: timedelta = timedelta(days=30)


class SignIns:
    """Signs users in and out, and recognises their session tokens."""

    def __init__(self, pool: Pool, now: Clock, life: SessionLifetime) -> None:
        self._pool = pool
        self._now = now
        self.life = life
        self._hashing = asyncio.Semaphore(_MAX_CONCURRENT_HASHES)

    async def sign_in(self, login: str, password: str, *, address: str | None) -> str:
        """Return a new token for the right password; raise `Unauthenticated` for a wrong one.

        Neither the response nor its timing reveals whether the login exists.
        """
        subjects = _subjects(login, address)
        await self._count_attempt(subjects)
        async with self._pool.everywhere() as db:
            found = await sign_ins.find_account(db, login=login)
        is_right = await self._is_password(found, password)
        if found is None or not is_right:
            raise Unauthenticated("Wrong username or password.")
        await self._clear_attempts(subjects)
        await self._rehash_if_outdated(found, password)
        return await self._start_session(found, "user.signed_in")

    async def recognise(self, token: str | None) -> Caller:
        """Return the caller of this token; raise `Unauthenticated` unless it is valid now.

        The caller is in the org's default workspace, if they may enter it, until a route names
        another.
        """
        if not token:
            raise Unauthenticated("Sign in first.")
        digest = _digest(token)
        now = self._now()
        async with self._pool.everywhere() as db:
            found = await sign_ins.find(db, digest)
            if found is None or self._is_expired(found, now):
                raise Unauthenticated("Sign in again.")
            await sign_ins.touch_sign_in(db, digest, now=now, stale=now - _TOUCH_INTERVAL)
        rights = frozenset(Right) if found.is_admin else MEMBER_RIGHTS
        return Caller(
            org_id=found.org_id,
            user_id=found.user_id,
            workspace_id=found.workspace_id or NO_WORKSPACE,
            rights=rights,
            label=LABEL,
            is_unbound=True,
        )

    async def sign_out(self, token: str | None) -> None:
        """End this browser's session; an unknown token is ignored."""
        if token:
            async with self._pool.everywhere() as db:
                await sign_ins.end(db, _digest(token))

    async def change_password(
        self, caller: Caller, *, current: str, new: str, address: str | None
    ) -> str:
        """Change the caller's password and return a new token; all their older tokens end."""
        check_password(new, field="new")
        async with self._pool.everywhere() as db:
            found = await sign_ins.find_account(db, user_id=caller.user_id)
        if found is None:
            raise NotFound("user")
        subjects = _subjects(found.login, address)
        await self._count_attempt(subjects)
        if not await self._is_password(found, current):
            raise Invalid("`current` is not your password.", field="current")
        await self._clear_attempts(subjects)
        new_hash = await self._in_thread(hash_password, new)
        async with self._pool.everywhere() as db:
            await sign_ins.set_password(db, found.id, new_hash)
            await sign_ins.end_all(db, found.id)
        return await self._start_session(found, "user.changed_password")

    def _is_expired(self, found: SignIn, now: datetime) -> bool:
        return now >= found.expires_at or now - found.last_seen_at >= self.life.idle

    async def _start_session(self, account: Account, action: str) -> str:
        token = secrets.token_urlsafe(32)
        now = self._now()
        async with self._pool.everywhere() as db:
            await sign_ins.add(
                db, _digest(token), account.id, now=now, expires_at=now + self.life.total
            )
            if account.home:
                await audit_events.insert_event(
                    db,
                    account.home,
                    action,
                    actor=LABEL,
                    user_id=account.id,
                    details={},
                    at=now,
                    is_private=True,
                )
        return token

    async def _is_password(self, found: Account | None, password: str) -> bool:
        stored = found.password_hash if found else None
        is_right = await self._in_thread(
            _verify, stored or _DUMMY_HASH, password[:MAX_PASSWORD_LENGTH]
        )
        return is_right and stored is not None and len(password) <= MAX_PASSWORD_LENGTH

    async def _rehash_if_outdated(self, found: Account, password: str) -> None:
        old = found.password_hash
        if old is None or not HASHER.check_needs_rehash(old):
            return
        new_hash = await self._in_thread(hash_password, password)
        async with self._pool.everywhere() as db:
            await sign_ins.replace_hash(db, found.id, old=old, new=new_hash)

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            async with asyncio.timeout(_HASH_WAIT_SECONDS):
                await self._hashing.acquire()
        except TimeoutError:
            raise RateLimited(timedelta(seconds=_HASH_WAIT_SECONDS)) from None
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._hashing.release()

    async def _count_attempt(self, subjects: Sequence["_Subject"]) -> None:
        """Count an attempt before it is made, so that concurrent ones all count.

        Raises `RateLimited` when the subject has to wait.
        """
        now = self._now()
        async with self._pool.everywhere() as db:
            known = [await sign_ins.lock_attempts(db, each.digest, now) for each in subjects]
            wait = max((each.next_at - now for each in known), default=timedelta(0))
            if wait > timedelta(0):
                raise RateLimited(wait)
            for each, attempts in zip(subjects, known, strict=True):
                counted = count_attempt(attempts, now, each.free)
                await sign_ins.store_attempts(db, each.digest, counted)

    async def _clear_attempts(self, subjects: Sequence["_Subject"]) -> None:
        """Clear the account's failures; the address keeps those of other accounts."""
        account, *others = subjects
        async with self._pool.everywhere() as db:
            await sign_ins.clear_attempts(db, account.digest)
            for each in others:
                await sign_ins.undo_attempt(db, each.digest)


def count_attempt(attempts: Attempts, now: datetime, free: int) -> Attempts:
    """Add one failure, and set when the next attempt is allowed."""
    is_forgotten = now - attempts.tried_at >= FAILURES_FORGOTTEN_AFTER
    failures = 1 if is_forgotten else attempts.failures + 1
    return Attempts(failures, now, now + retry_delay(failures, free))


def retry_delay(failures: int, free: int) -> timedelta:
    """Return the delay after this many failures: none at first, then doubling each time."""
    if failures < free:
        return timedelta(0)
    return min(timedelta(seconds=2 ** min(failures - free, 10)), _MAX_DELAY)


async def find_profile(engine: Engine, caller: Caller) -> Profile:
    """Return the login of the caller and the name of their org."""
    async with engine.pool.everywhere() as db:
        found = await sign_ins.find_profile(db, caller.user_id)
    if found is None:
        raise NotFound("user")
    return found


@dataclass(frozen=True, slots=True)
class _Subject:
    digest: bytes
    free: int


def _subjects(login: str, address: str | None) -> list[_Subject]:
    """Return what failures are counted for: the account, known or not, then the address.

    Every sign-in locks in this order, and an account never equals an address: no deadlock.
    """
    subjects = [_Subject(_digest(f"account {login}"), _FREE_BY_ACCOUNT)]
    if address:
        subjects.append(_Subject(_digest(f"address {address}"), _FREE_BY_ADDRESS))
    return subjects


def _verify(stored: str, password: str) -> bool:
    try:
        return HASHER.verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
