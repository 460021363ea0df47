"""Browsers that are signed in, by the digest of their token, and tries to sign in."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from recollect.domain import OrgId, UserId, WorkspaceId
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who may sign in."""

    id: UserId
    org_id: OrgId
    login: str
    password_hash: str | None
    is_admin: bool
    # The org's default workspace: where it is written down that they signed in.
    home: WorkspaceId | None


_ACCOUNT = """
    SELECT u.id, u.org_id, u.login, u.password_hash, u.is_admin, w.id AS home
    FROM app_user u
    JOIN org o ON o.id = u.org_id
    LEFT JOIN workspace w ON w.org_id = o.id AND w.is_default
    WHERE u.archived_at IS NULL AND o.archived_at IS NULL
        AND (u.login = %(login)s OR u.id = %(id)s)
"""


async def account(
    db: Db, *, login: str | None = None, user_id: UserId | None = None
) -> Account | None:
    """The account of that login or id, unless it was put away."""
    async with db.cursor(row_factory=class_row(Account)) as cursor:
        await cursor.execute(_ACCOUNT, {"login": login, "id": user_id})
        return await cursor.fetchone()


_SET_HASH = "UPDATE app_user SET password_hash = %(hash)s WHERE id = %(id)s"
_RENEW_HASH = """
    UPDATE app_user SET password_hash = %(hash)s
    WHERE id = %(id)s AND password_hash = %(old)s
"""


async def set_password(db: Db, user_id: UserId, password_hash: str) -> None:
    """Give a user another password."""
    await db.execute(_SET_HASH, {"id": user_id, "hash": password_hash})


async def renew_hash(db: Db, user_id: UserId, *, old: str, new: str) -> None:
    """Keep the same password under another hash, unless it was changed meanwhile."""
    await db.execute(_RENEW_HASH, {"id": user_id, "old": old, "hash": new})


_ADD = """
    INSERT INTO sign_in (digest, user_id, created_at, last_seen_at, expires_at)
    VALUES (%(digest)s, %(user_id)s, %(now)s, %(now)s, %(expires_at)s)
"""


async def add(
    db: Db, digest: bytes, user_id: UserId, *, now: datetime, expires_at: datetime
) -> None:
    """Note that a browser is signed in."""
    values = {"digest": digest, "user_id": user_id, "now": now, "expires_at": expires_at}
    await db.execute(_ADD, values)


@dataclass(frozen=True, slots=True)
class SignIn:
    """A browser that is signed in, and who that is."""

    digest: bytes
    user_id: UserId
    org_id: OrgId
    is_admin: bool
    # The org's default workspace, if the user may be there.
    workspace_id: WorkspaceId | None
    last_seen_at: datetime
    expires_at: datetime


# While the workspaces of an org are not told apart, its default one is everybody's there.
# everywhere: a cookie says who somebody is before any workspace is named.
_FIND = """
    SELECT s.digest, s.user_id, u.org_id, u.is_admin, w.id AS workspace_id, s.last_seen_at,
        s.expires_at
    FROM sign_in s
    JOIN app_user u ON u.id = s.user_id
    JOIN org o ON o.id = u.org_id
    LEFT JOIN workspace w ON w.org_id = o.id AND w.is_default AND w.archived_at IS NULL
        AND (u.is_admin OR NOT o.workspaces_on OR EXISTS (
            SELECT FROM workspace_member own
            WHERE own.workspace_id = w.id AND own.user_id = u.id))
    WHERE s.digest = %(digest)s AND u.archived_at IS NULL AND o.archived_at IS NULL
"""


async def find(db: Db, digest: bytes) -> SignIn | None:
    """Who is signed in with this token, in time or not."""
    async with db.cursor(row_factory=class_row(SignIn)) as cursor:
        await cursor.execute(_FIND, {"digest": digest})
        return await cursor.fetchone()


_SEEN = """
    UPDATE sign_in SET last_seen_at = %(now)s
    WHERE digest = %(digest)s AND last_seen_at < %(stale)s
"""


async def seen(db: Db, digest: bytes, *, now: datetime, stale: datetime) -> None:
    """Note that a browser was here, unless that was noted since `stale`."""
    await db.execute(_SEEN, {"digest": digest, "now": now, "stale": stale})


_END = "DELETE FROM sign_in WHERE digest = %(digest)s"
_END_ALL = "DELETE FROM sign_in WHERE user_id = %(user_id)s"
_SWEEP = "DELETE FROM sign_in WHERE expires_at <= %(now)s"
_SWEEP_TRIES = "DELETE FROM sign_in_try WHERE tried_at < %(before)s"


async def end(db: Db, digest: bytes) -> None:
    """Sign this browser out."""
    await db.execute(_END, {"digest": digest})


async def end_all(db: Db, user_id: UserId) -> None:
    """Sign every browser of a user out."""
    await db.execute(_END_ALL, {"user_id": user_id})


async def sweep(db: Db, *, now: datetime, tried_before: datetime) -> None:
    """Drop what has expired, and tries that nobody holds against anybody any more."""
    await db.execute(_SWEEP, {"now": now})
    await db.execute(_SWEEP_TRIES, {"before": tried_before})


@dataclass(frozen=True, slots=True)
class Tries:
    """How often an account or an address failed of late, and when it may try again."""

    failures: int
    tried_at: datetime
    next_at: datetime


_LOCK_TRIES = """
    INSERT INTO sign_in_try AS known (subject, failures, tried_at, next_at)
    VALUES (%(subject)s, 0, %(now)s, %(now)s)
    ON CONFLICT (subject) DO UPDATE SET subject = known.subject
    RETURNING failures, tried_at, next_at
"""
_KEEP_TRIES = """
    UPDATE sign_in_try
    SET failures = %(failures)s, tried_at = %(tried_at)s, next_at = %(next_at)s
    WHERE subject = %(subject)s
"""
_CLEAR_TRIES = "DELETE FROM sign_in_try WHERE subject = %(subject)s"
_TAKE_BACK = """
    UPDATE sign_in_try SET failures = greatest(failures - 1, 0)
    WHERE subject = %(subject)s
"""


async def lock_tries(db: Db, subject: bytes, now: datetime) -> Tries:
    """What is known of a subject's tries; nobody else changes it until the transaction ends."""
    async with db.cursor(row_factory=class_row(Tries)) as cursor:
        await cursor.execute(_LOCK_TRIES, {"subject": subject, "now": now})
        found = await cursor.fetchone()
    assert found is not None
    return found


async def keep_tries(db: Db, subject: bytes, tries: Tries) -> None:
    """Write down how often a subject has failed."""
    values: dict[str, Any] = {
        "subject": subject,
        "failures": tries.failures,
        "tried_at": tries.tried_at,
        "next_at": tries.next_at,
    }
    await db.execute(_KEEP_TRIES, values)


async def clear_tries(db: Db, subject: bytes) -> None:
    """Forget a subject's failures."""
    await db.execute(_CLEAR_TRIES, {"subject": subject})


async def take_back_try(db: Db, subject: bytes) -> None:
    """A try that was counted beforehand did not fail."""
    await db.execute(_TAKE_BACK, {"subject": subject})


@dataclass(frozen=True, slots=True)
class Known:
    """What somebody and their org are called."""

    login: str
    org: str


_KNOWN = """
    SELECT u.login, o.name AS org
    FROM app_user u
    JOIN org o ON o.id = u.org_id
    WHERE u.id = %(user_id)s
"""


async def known(db: Db, user_id: UserId) -> Known | None:
    """What a user and their org are called."""
    async with db.cursor(row_factory=class_row(Known)) as cursor:
        await cursor.execute(_KNOWN, {"user_id": user_id})
        return await cursor.fetchone()
