"""Signing in: passwords, the tokens that browsers carry, and how often one may guess."""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ParamSpec, TypeVar

from argon2.exceptions import InvalidHashError, VerificationError

from recollect.domain import NOWHERE, Caller, Right
from recollect.engine.core import Clock, Engine
from recollect.engine.keys import HASHER, LONGEST_PASSWORD, check_password, hash_password
from recollect.errors import Invalid, NotFound, RateLimited, Unauthenticated
from recollect.store import events, sign_ins
from recollect.store.pool import Pool
from recollect.store.sign_ins import Account, Known, SignIn, Tries

P = ParamSpec("P")
T = TypeVar("T")

MEMBER_RIGHTS = frozenset({Right.READ, Right.WRITE, Right.DELETE})
LABEL = "dashboard"

# Each hash takes 19 MiB and 0.1 s of a core. Whoever waits longer than this is one of many who
# were sent at once.
_AT_ONCE = 2
_PATIENCE_SECONDS = 5.0

# Tries that cost nothing; after them each pause is twice the last. An address may be a whole
# office. Nobody is ever locked out: the longest pause is short, and quiet forgives everything.
_FREE_BY_ACCOUNT = 5
_FREE_BY_ADDRESS = 30
_LONGEST_PAUSE = timedelta(seconds=60)
FORGIVEN = timedelta(minutes=15)

# For those whom nobody knows: their guess costs as much as any other, and no password fits.
_NOBODYS = f"$argon2id$v=19$m={HASHER.memory_cost},t={HASHER.time_cost},p=1${'A' * 22}${'A' * 43}"

# A browser's presence is written down at most this often.
_NOTED = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Life:
    """How long a browser stays signed in: without a word, and in all."""

    idle: timedelta = timedelta(days=7)
    whole: timedelta = timedelta(days=30)


class SignIns:
    """Who is signed in, and everything that begins or ends that."""

    def __init__(self, pool: Pool, now: Clock, life: Life) -> None:
        self._pool = pool
        self._now = now
        self.life = life
        self._hashing = asyncio.Semaphore(_AT_ONCE)

    async def sign_in(self, login: str, password: str, *, address: str | None) -> str:
        """A new token for whoever knows the password; raise `Unauthenticated` otherwise.

        Nobody learns from the answer, or from how long it takes, whether there is such a user.
        """
        subjects = _subjects(login, address)
        await self._count(subjects)
        async with self._pool.everywhere() as db:
            found = await sign_ins.account(db, login=login)
        is_right = await self._fits(found, password)
        if found is None or not is_right:
            raise Unauthenticated("That name and password do not fit.")
        await self._forgive(subjects)
        await self._renew(found, password)
        return await self._begin(found, "user.signed_in")

    async def recognise(self, token: str | None) -> Caller:
        """Who carries this token; raise `Unauthenticated` unless it is good right now.

        The caller is in the org's default workspace, where they may be, until a route says another.
        """
        if not token:
            raise Unauthenticated("Sign in first.")
        digest = _digest(token)
        now = self._now()
        async with self._pool.everywhere() as db:
            found = await sign_ins.find(db, digest)
            if found is None or self._is_over(found, now):
                raise Unauthenticated("Sign in again.")
            await sign_ins.seen(db, digest, now=now, stale=now - _NOTED)
        rights = frozenset(Right) if found.is_admin else MEMBER_RIGHTS
        return Caller(
            org_id=found.org_id,
            user_id=found.user_id,
            workspace_id=found.workspace_id or NOWHERE,
            rights=rights,
            label=LABEL,
            is_unbound=True,
        )

    async def sign_out(self, token: str | None) -> None:
        """End this browser's session; one that is unknown has none."""
        if token:
            async with self._pool.everywhere() as db:
                await sign_ins.end(db, _digest(token))

    async def change_password(
        self, caller: Caller, *, current: str, new: str, address: str | None
    ) -> str:
        """Give the caller another password and a new token; all the old ones are dead."""
        check_password(new, field="new")
        async with self._pool.everywhere() as db:
            found = await sign_ins.account(db, user_id=caller.user_id)
        if found is None:
            raise NotFound("user")
        subjects = _subjects(found.login, address)
        await self._count(subjects)
        if not await self._fits(found, current):
            raise Invalid("`current` is not your password.", field="current")
        await self._forgive(subjects)
        made = await self._off_the_loop(hash_password, new)
        async with self._pool.everywhere() as db:
            await sign_ins.set_password(db, found.id, made)
            await sign_ins.end_all(db, found.id)
        return await self._begin(found, "user.changed_password")

    def _is_over(self, found: SignIn, now: datetime) -> bool:
        return now >= found.expires_at or now - found.last_seen_at >= self.life.idle

    async def _begin(self, account: Account, action: str) -> str:
        token = secrets.token_urlsafe(32)
        now = self._now()
        async with self._pool.everywhere() as db:
            await sign_ins.add(
                db, _digest(token), account.id, now=now, expires_at=now + self.life.whole
            )
            if account.home:
                await events.record(
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

    async def _fits(self, found: Account | None, password: str) -> bool:
        kept = found.password_hash if found else None
        is_right = await self._off_the_loop(_verify, kept or _NOBODYS, password[:LONGEST_PASSWORD])
        return is_right and kept is not None and len(password) <= LONGEST_PASSWORD

    async def _renew(self, found: Account, password: str) -> None:
        old = found.password_hash
        if old is None or not HASHER.check_needs_rehash(old):
            return
        made = await self._off_the_loop(hash_password, password)
        async with self._pool.everywhere() as db:
            await sign_ins.renew_hash(db, found.id, old=old, new=made)

    async def _off_the_loop(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._hashing.acquire()
        except TimeoutError:
            raise RateLimited(timedelta(seconds=_PATIENCE_SECONDS)) from None
        try:
            return await asyncio.to_thread(work, *args, **kwargs)
        finally:
            self._hashing.release()

    async def _count(self, subjects: Sequence["_Subject"]) -> None:
        """Count a try before it is made, so that many at once are as many; or have it wait."""
        now = self._now()
        async with self._pool.everywhere() as db:
            known = [await sign_ins.lock_tries(db, each.digest, now) for each in subjects]
            wait = max((each.next_at - now for each in known), default=timedelta(0))
            if wait > timedelta(0):
                raise RateLimited(wait)
            for each, tries in zip(subjects, known, strict=True):
                await sign_ins.keep_tries(db, each.digest, counted(tries, now, each.free))

    async def _forgive(self, subjects: Sequence["_Subject"]) -> None:
        """The account's owner was here. Its address keeps what others failed at."""
        account, *others = subjects
        async with self._pool.everywhere() as db:
            await sign_ins.clear_tries(db, account.digest)
            for each in others:
                await sign_ins.take_back_try(db, each.digest)


def counted(tries: Tries, now: datetime, free: int) -> Tries:
    """One failure more, and when the next try may come."""
    failures = 1 if now - tries.tried_at >= FORGIVEN else tries.failures + 1
    return Tries(failures, now, now + pause(failures, free))


def pause(failures: int, free: int) -> timedelta:
    """How long to wait after so many failures: nothing at first, then twice as long each time."""
    if failures < free:
        return timedelta(0)
    return min(timedelta(seconds=2 ** min(failures - free, 10)), _LONGEST_PAUSE)


async def introduce(engine: Engine, caller: Caller) -> Known:
    """What a caller and their org are called."""
    async with engine.pool.everywhere() as db:
        found = await sign_ins.known(db, caller.user_id)
    if found is None:
        raise NotFound("user")
    return found


@dataclass(frozen=True, slots=True)
class _Subject:
    digest: bytes
    free: int


def _subjects(login: str, address: str | None) -> list[_Subject]:
    """Who is counted: first the account, there or not, then the address.

    Everybody locks in this order, and no account is an address: nobody waits in a circle.
    """
    found = [_Subject(_digest(f"account {login}"), _FREE_BY_ACCOUNT)]
    if address:
        found.append(_Subject(_digest(f"address {address}"), _FREE_BY_ADDRESS))
    return found


def _verify(kept: str, password: str) -> bool:
    try:
        return HASHER.verify(kept, password)
    except (VerificationError, InvalidHashError):
        return False


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
