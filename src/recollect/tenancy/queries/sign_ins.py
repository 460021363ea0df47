"""Signed-in browsers, by the digest of their token, and attempts to sign in."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from recollect.core.domain import OrgId, UserId, WorkspaceId
from recollect.db.pool import Db


@dataclass(frozen=True, slots=True)
class Account:
    """A user who may sign in."""

    id: UserId
    org_id: OrgId
    login: str
    password_hash: str | None
    is_admin: bool
    # The org's default workspace, whose audit log records sign-ins.
    home: WorkspaceId | None


_ACCOUNT = """
    SELECT u.id, u.org_id, u.login, u.password_hash, u.is_admin, w.id AS home
    FROM app_user u
    JOIN org o ON o.id = u.org_id
    LEFT JOIN workspace w ON w.org_id = o.id AND w.is_default
    WHERE u.archived_at IS NULL AND o.archived_at IS NULL
        AND (u.login = %(login)s OR u.id = %(id)s)
"""


async def find_account(
    db: Db, *, login: str | None = None, user_id: UserId | None = None
) -> Account | None:
    """Return the account with this login or id, unless it or its org is archived."""
    async with db.cursor(row_factory=class_row(Account)) as cursor:
        await cursor.execute(_ACCOUNT, {"login": login, "id": user_id})
        return await cursor.fetchone()


_SET_HASH = "UPDATE app_user SET password_hash = %(hash)s WHERE id = %(id)s"
_REPLACE_HASH = """
    UPDATE app_user SET password_hash = %(hash)s
    WHERE id = %(id)s AND password_hash = %(old)s
"""


async def set_password(db: Db, user_id: UserId, password_hash: str) -> None:
    """Change a user's password."""
    await db.execute(_SET_HASH, {"id": user_id, "hash": password_hash})


async def replace_hash(db: Db, user_id: UserId, *, old: str, new: str) -> None:
    """Replace the hash of an unchanged password, unless it was changed meanwhile."""
    await db.execute(_REPLACE_HASH, {"id": user_id, "old": old, "hash": new})


_ADD = """
    INSERT INTO sign_in (digest, user_id, created_at, last_seen_at, expires_at)
    VALUES (%(digest)s, %(user_id)s, %(now)s, %(now)s, %(expires_at)s)
"""


async def add(
    db: Db, digest: bytes, user_id: UserId, *, now: datetime, expires_at: datetime
) -> None:
    """Record that a browser is signed in."""
    values = {"digest": digest, "user_id": user_id, "now": now, "expires_at": expires_at}
    await db.execute(_ADD, values)


@dataclass(frozen=True, slots=True)
class SignIn:
    """A signed-in browser and its user."""

    digest: bytes
    user_id: UserId
    org_id: OrgId
    is_admin: bool
    # The org's default workspace, if the user may enter it.
    workspace_id: WorkspaceId | None
    last_seen_at: datetime
    expires_at: datetime


# With workspaces off, every user of the org may enter its default workspace.
# everywhere: a cookie identifies a user before any workspace is named.
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
    """Return the sign-in with this token digest, expired or not."""
    async with db.cursor(row_factory=class_row(SignIn)) as cursor:
        await cursor.execute(_FIND, {"digest": digest})
        return await cursor.fetchone()


_TOUCH = """
    UPDATE sign_in SET last_seen_at = %(now)s
    WHERE digest = %(digest)s AND last_seen_at < %(stale)s
"""


async def touch_sign_in(db: Db, digest: bytes, *, now: datetime, stale: datetime) -> None:
    """Record that a browser was active, unless that was recorded since `stale`."""
    await db.execute(_TOUCH, {"digest": digest, "now": now, "stale": stale})


_END = "DELETE FROM sign_in WHERE digest = %(digest)s"
_END_ALL = "DELETE FROM sign_in WHERE user_id = %(user_id)s"
_DELETE_EXPIRED = "DELETE FROM sign_in WHERE expires_at <= %(now)s"
_DELETE_OLD_ATTEMPTS = "DELETE FROM sign_in_try WHERE tried_at < %(before)s"


async def end(db: Db, digest: bytes) -> None:
    """Sign out one browser."""
    await db.execute(_END, {"digest": digest})


async def end_all(db: Db, user_id: UserId) -> None:
    """Sign out every browser of a user."""
    await db.execute(_END_ALL, {"user_id": user_id})


async def delete_expired(db: Db, *, now: datetime, tried_before: datetime) -> None:
    """Delete expired sign-ins, and attempts last made before `tried_before`."""
    await db.execute(_DELETE_EXPIRED, {"now": now})
    await db.execute(_DELETE_OLD_ATTEMPTS, {"before": tried_before})


@dataclass(frozen=True, slots=True)
class Attempts:
    """Recent failures of an account or address, and when it may try again."""

    failures: int
    tried_at: datetime
    next_at: datetime


_LOCK_ATTEMPTS = """
    INSERT INTO sign_in_try AS known (subject, failures, tried_at, next_at)
    VALUES (%(subject)s, 0, %(now)s, %(now)s)
    ON CONFLICT (subject) DO UPDATE SET subject = known.subject
    RETURNING failures, tried_at, next_at
"""
_STORE_ATTEMPTS = """
    UPDATE sign_in_try
    SET failures = %(failures)s, tried_at = %(tried_at)s, next_at = %(next_at)s
    WHERE subject = %(subject)s
"""
_CLEAR_ATTEMPTS = "DELETE FROM sign_in_try WHERE subject = %(subject)s"
_UNDO_ATTEMPT = """
    UPDATE sign_in_try SET failures = greatest(failures - 1, 0)
    WHERE subject = %(subject)s
"""


async def lock_attempts(db: Db, subject: bytes, now: datetime) -> Attempts:
    """Return and lock a subject's attempts until the transaction ends."""
    async with db.cursor(row_factory=class_row(Attempts)) as cursor:
        await cursor.execute(_LOCK_ATTEMPTS, {"subject": subject, "now": now})
        found = await cursor.fetchone()
    assert found is not None
    return found


async def store_attempts(db: Db, subject: bytes, attempts: Attempts) -> None:
    """Store how often a subject has failed."""
    values: dict[str, Any] = {
        "subject": subject,
        "failures": attempts.failures,
        "tried_at": attempts.tried_at,
        "next_at": attempts.next_at,
    }
    await db.execute(_STORE_ATTEMPTS, values)


async def clear_attempts(db: Db, subject: bytes) -> None:
    """Delete a subject's failures."""
    await db.execute(_CLEAR_ATTEMPTS, {"subject": subject})


async def undo_attempt(db: Db, subject: bytes) -> None:
    """Subtract one failure: an attempt that was counted in advance succeeded."""
    await db.execute(_UNDO_ATTEMPT, {"subject": subject})


@dataclass(frozen=True, slots=True)
class Profile:
    """A user's login and the name of their org."""

    login: str
    org: str


_PROFILE = """
    SELECT u.login, o.name AS org
    FROM app_user u
    JOIN org o ON o.id = u.org_id
    WHERE u.id = %(user_id)s
"""


async def find_profile(db: Db, user_id: UserId) -> Profile | None:
    """Return the login of a user and the name of their org."""
    async with db.cursor(row_factory=class_row(Profile)) as cursor:
        await cursor.execute(_PROFILE, {"user_id": user_id})
        return await cursor.fetchone()
