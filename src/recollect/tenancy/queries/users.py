"""Users: create, find, rename and archive them, and make them admins."""

from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from psycopg.rows import class_row

from recollect.core.domain import OrgId, UserId
from recollect.db.pool import Db
from recollect.tenancy.queries.keys import notify_key_change
from recollect.tenancy.queries.orgs import id_or_name


@dataclass(frozen=True, slots=True)
class User:
    """A user of an org."""

    id: UserId
    org_id: OrgId
    login: str
    is_admin: bool
    archived_at: datetime | None


_ADD_USER = """
    INSERT INTO app_user (id, org_id, login, password_hash, is_admin)
    VALUES (%(id)s, %(org_id)s, %(login)s, %(password_hash)s, %(is_admin)s)
"""


async def add_user(
    db: Db, org_id: OrgId, login: str, *, password_hash: str | None, is_admin: bool
) -> UserId:
    """Add a user to an org."""
    user_id = uuid4()
    await db.execute(
        _ADD_USER,
        {
            "id": user_id,
            "org_id": org_id,
            "login": login,
            "password_hash": password_hash,
            "is_admin": is_admin,
        },
    )
    return UserId(user_id)


_USER_COLUMNS = "id, org_id, login, is_admin, archived_at"
_USERS = f"""
    SELECT {_USER_COLUMNS} FROM app_user
    WHERE org_id = %(org_id)s
    ORDER BY created_at, id
"""
# A login may look like another user's id. The id wins.
_FIND_USER = f"""
    SELECT {_USER_COLUMNS} FROM app_user
    WHERE (id = %(id)s OR login = %(wanted)s)
        AND (%(within)s::uuid IS NULL OR org_id = %(within)s)
    ORDER BY login = %(wanted)s
    LIMIT 1
"""
_FIND_ACTIVE_USER = """
    SELECT id FROM app_user
    WHERE org_id = %(org_id)s AND (id::text = %(wanted)s OR login = %(wanted)s)
        AND archived_at IS NULL
"""
_FIND_ADMIN = """
    SELECT id FROM app_user
    WHERE org_id = %(org_id)s
    ORDER BY is_admin DESC, created_at, id
    LIMIT 1
"""


async def list_users(db: Db, org_id: OrgId) -> list[User]:
    """Return every user of an org, oldest first, archived ones included."""
    async with db.cursor(row_factory=class_row(User)) as cursor:
        await cursor.execute(_USERS, {"org_id": org_id})
        return await cursor.fetchall()


async def find_user(db: Db, wanted: str, within: OrgId | None) -> User | None:
    """Return the user with this id or login, archived or not."""
    async with db.cursor(row_factory=class_row(User)) as cursor:
        await cursor.execute(_FIND_USER, id_or_name(wanted) | {"within": within})
        return await cursor.fetchone()


async def find_active_user(db: Db, org_id: OrgId, wanted: str) -> UserId | None:
    """Return the user of the org with this id or login, unless archived."""
    values = {"org_id": org_id, "wanted": wanted}
    row = await (await db.execute(_FIND_ACTIVE_USER, values)).fetchone()
    return UserId(row[0]) if row else None


async def find_admin(db: Db, org_id: OrgId) -> UserId | None:
    """Return the user for whom an operator's key acts: the org's first admin, else first user."""
    row = await (await db.execute(_FIND_ADMIN, {"org_id": org_id})).fetchone()
    return UserId(row[0]) if row else None


# The instance's admins are the admins of its first org.
_ADMIN_STATUS = """
    SELECT u.is_admin, u.org_id = (SELECT id FROM org ORDER BY created_at, id LIMIT 1)
    FROM app_user u
    WHERE u.id = %(user_id)s
"""


async def admin_status(db: Db, user_id: UserId) -> tuple[bool, bool]:
    """Return whether a user is an admin, and whether their org is the instance's first."""
    row = await (await db.execute(_ADMIN_STATUS, {"user_id": user_id})).fetchone()
    return (row[0], row[1]) if row else (False, False)


# Without this lock, two transactions could both find the same login free.
_LOCK_LOGINS = "SELECT pg_advisory_xact_lock(7245018846216)"
_LOGIN_TAKEN = "SELECT EXISTS (SELECT FROM app_user WHERE login = %(login)s)"


async def is_login_taken(db: Db, login: str) -> bool:
    """Return whether a user of any org has this login; locks logins until the transaction ends."""
    await db.execute(_LOCK_LOGINS)
    row = await (await db.execute(_LOGIN_TAKEN, {"login": login})).fetchone()
    return bool(row and row[0])


_RENAME_USER = "UPDATE app_user SET login = %(name)s WHERE id = %(id)s"
_ARCHIVE_USER = "UPDATE app_user SET archived_at = %(at)s WHERE id = %(id)s"


async def rename_user(db: Db, user_id: UserId, login: str) -> None:
    """Change a user's login."""
    await db.execute(_RENAME_USER, {"id": user_id, "name": login})


async def archive_user(db: Db, user_id: UserId, at: datetime | None) -> None:
    """Archive a user, which disables their keys; None restores them."""
    await db.execute(_ARCHIVE_USER, {"id": user_id, "at": at})
    await notify_key_change(db)


_SET_ADMIN = "UPDATE app_user SET is_admin = %(is_admin)s WHERE id = %(id)s"
_REVOKE_ADMIN_KEYS = """
    UPDATE api_key SET revoked_at = %(now)s
    WHERE user_id = %(id)s AND revoked_at IS NULL AND 'admin' = ANY(rights)
"""


async def set_admin(db: Db, user_id: UserId, *, is_admin: bool, now: datetime) -> None:
    """Make a user an admin or not; a user who stops being one loses their admin keys."""
    await db.execute(_SET_ADMIN, {"id": user_id, "is_admin": is_admin})
    if not is_admin:
        await db.execute(_REVOKE_ADMIN_KEYS, {"id": user_id, "now": now})
        await notify_key_change(db)
