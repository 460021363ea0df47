"""Who there is: orgs, users, workspaces and API keys. Keys are stored as digests only."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from psycopg.rows import class_row

from recollect.domain import NOWHERE, KeyId, OrgId, Right, UserId, WorkspaceId, parse_ref
from recollect.store.pool import Db

# Tells every process at once that a key was revoked or changed.
CHANNEL = "recollect_keys"


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace and the org it belongs to."""

    id: WorkspaceId
    org_id: OrgId
    name: str
    embedder: str | None
    is_default: bool
    archived_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key as it is kept: everything but the key."""

    id: KeyId
    org_id: OrgId
    # None: in no workspace of its own. In the default one while workspaces are off, else nowhere.
    workspace_id: WorkspaceId | None
    user_id: UserId
    name: str
    digest: bytes
    prefix: str
    last_four: str
    rights: Sequence[Right]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    # Where it was looked up with the workspace it is in today: whether that is not its own.
    is_unbound: bool = False


_ANY_ORG = "SELECT EXISTS (SELECT FROM org)"
# One first run, however many processes start at once.
_LOCK = "SELECT pg_advisory_xact_lock(7245018846214)"


async def is_empty(db: Db) -> bool:
    """Whether nobody lives here yet; holds the answer until the transaction ends."""
    await db.execute(_LOCK)
    row = await (await db.execute(_ANY_ORG)).fetchone()
    return not (row and row[0])


_ADD_ORG = "INSERT INTO org (id, name) VALUES (%(id)s, %(name)s)"
_ADD_USER = """
    INSERT INTO app_user (id, org_id, login, password_hash, is_admin)
    VALUES (%(id)s, %(org_id)s, %(login)s, %(password_hash)s, %(is_admin)s)
"""
_ADD_WORKSPACE = """
    INSERT INTO workspace (id, org_id, name, embedder, is_default)
    VALUES (%(id)s, %(org_id)s, %(name)s, %(embedder)s, %(is_default)s)
"""


async def add_org(db: Db, name: str) -> OrgId:
    """Found an org."""
    org_id = uuid4()
    await db.execute(_ADD_ORG, {"id": org_id, "name": name})
    return OrgId(org_id)


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


async def add_workspace(
    db: Db, org_id: OrgId, name: str, *, embedder: str | None = None, is_default: bool = False
) -> WorkspaceId:
    """Add a workspace to an org."""
    workspace_id = uuid4()
    await db.execute(
        _ADD_WORKSPACE,
        {
            "id": workspace_id,
            "org_id": org_id,
            "name": name,
            "embedder": embedder,
            "is_default": is_default,
        },
    )
    return WorkspaceId(workspace_id)


_WORKSPACE_COLUMNS = "id, org_id, name, embedder, is_default, archived_at"
_WORKSPACES = f"""
    SELECT {_WORKSPACE_COLUMNS} FROM workspace
    WHERE %(org_id)s::uuid IS NULL OR org_id = %(org_id)s
    ORDER BY created_at, id
"""
_FIND_WORKSPACE = f"""
    SELECT {_WORKSPACE_COLUMNS} FROM workspace
    WHERE (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND ((%(wanted)s::text IS NULL AND is_default)
             OR name = %(wanted)s OR id::text = %(wanted)s)
    ORDER BY is_default DESC, created_at, id
    LIMIT 2
"""


async def workspaces(db: Db, org_id: OrgId | None = None) -> list[Workspace]:
    """Every workspace, of one org or of all, oldest first."""
    async with db.cursor(row_factory=class_row(Workspace)) as cursor:
        await cursor.execute(_WORKSPACES, {"org_id": org_id})
        return await cursor.fetchall()


async def find_workspace(
    db: Db, wanted: str | None, org_id: OrgId | None = None
) -> list[Workspace]:
    """Workspaces of that name or id, the default ones when None; two show that it is ambiguous.

    Of one org where one is given.
    """
    async with db.cursor(row_factory=class_row(Workspace)) as cursor:
        await cursor.execute(_FIND_WORKSPACE, {"wanted": wanted, "org_id": org_id})
        return await cursor.fetchall()


_ADMIN_OF = """
    SELECT id FROM app_user
    WHERE org_id = %(org_id)s
    ORDER BY is_admin DESC, created_at, id
    LIMIT 1
"""


async def admin_of(db: Db, org_id: OrgId) -> UserId | None:
    """The user in whose name an operator's key acts."""
    row = await (await db.execute(_ADMIN_OF, {"org_id": org_id})).fetchone()
    return UserId(row[0]) if row else None


_ADD_KEY = """
    INSERT INTO api_key (
        id, org_id, workspace_id, user_id, name, digest, prefix, last_four, rights, created_at,
        expires_at
    ) VALUES (
        %(id)s, %(org_id)s, %(workspace_id)s, %(user_id)s, %(name)s, %(digest)s, %(prefix)s,
        %(last_four)s, %(rights)s, %(created_at)s, %(expires_at)s
    )
"""


async def add_key(db: Db, key: KeyRecord) -> None:
    """Store a key's digest and what it may do."""
    await db.execute(
        _ADD_KEY,
        {
            "id": key.id,
            "org_id": key.org_id,
            "workspace_id": key.workspace_id,
            "user_id": key.user_id,
            "name": key.name,
            "digest": key.digest,
            "prefix": key.prefix,
            "last_four": key.last_four,
            "rights": [right.value for right in key.rights],
            "created_at": key.created_at,
            "expires_at": key.expires_at,
        },
    )


_KEY_COLUMNS = """
    id, org_id, workspace_id, user_id, name, digest, prefix, last_four, rights, created_at,
    expires_at, revoked_at, last_used_at
"""
# With the workspace that it is in today. What was put away opens nothing.
_FIND_KEY = """
    SELECT k.id, k.org_id, coalesce(k.workspace_id, home.id) AS workspace_id, k.user_id, k.name,
        k.digest, k.prefix, k.last_four, k.rights, k.created_at, k.expires_at,
        coalesce(k.revoked_at, o.archived_at, u.archived_at, w.archived_at) AS revoked_at,
        k.last_used_at, k.workspace_id IS NULL AS is_unbound
    FROM api_key k
    JOIN org o ON o.id = k.org_id
    JOIN app_user u ON u.id = k.user_id
    LEFT JOIN workspace w ON w.id = k.workspace_id
    LEFT JOIN workspace home ON home.org_id = o.id AND home.is_default AND NOT o.workspaces_on
    WHERE k.digest = %(digest)s
"""
_KEYS = f"SELECT {_KEY_COLUMNS} FROM api_key ORDER BY created_at, id"


async def find_key(db: Db, digest: bytes) -> KeyRecord | None:
    """The key with this digest, good or not."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_FIND_KEY, {"digest": digest})
        return await cursor.fetchone()


async def keys(db: Db) -> list[KeyRecord]:
    """Every key, oldest first."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_KEYS)
        return await cursor.fetchall()


_REVOKE = """
    UPDATE api_key SET revoked_at = %(now)s
    WHERE revoked_at IS NULL AND (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND (id::text = %(wanted)s OR name = %(wanted)s OR prefix = %(wanted)s)
    RETURNING id
"""
_TELL = "SELECT pg_notify(%(channel)s, '')"


async def revoke(db: Db, wanted: str, now: datetime, org_id: OrgId | None = None) -> list[UUID]:
    """Revoke the keys of that id, name or shown prefix, of an org if given, everywhere at once."""
    values = {"wanted": wanted, "now": now, "org_id": org_id}
    rows = await (await db.execute(_REVOKE, values)).fetchall()
    await db.execute(_TELL, {"channel": CHANNEL})
    return [row[0] for row in rows]


async def tell(db: Db) -> None:
    """Let every process believe nothing from before, once this transaction is committed."""
    await db.execute(_TELL, {"channel": CHANNEL})


_REVOKED = """
    SELECT concat_ws('/',
        (SELECT concat_ws('/', count(*), count(revoked_at), max(revoked_at),
            sum(extract(epoch FROM expires_at))) FROM api_key),
        (SELECT concat_ws('/', count(archived_at), max(archived_at),
            count(*) FILTER (WHERE workspaces_on)) FROM org),
        (SELECT concat_ws('/', count(archived_at), max(archived_at)) FROM app_user),
        (SELECT concat_ws('/', count(archived_at), max(archived_at)) FROM workspace))
"""


async def revocations(db: Db) -> str:
    """What differs after any key was revoked, ended or erased, or what it opens was put away."""
    row = await (await db.execute(_REVOKED)).fetchone()
    return row[0] if row else ""


_TOUCH = """
    UPDATE api_key SET last_used_at = %(now)s
    WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at < %(stale)s)
"""


async def touch_key(db: Db, key_id: KeyId, now: datetime) -> None:
    """Note that a key was used, at most once a minute."""
    stale = now - timedelta(minutes=1)
    await db.execute(_TOUCH, {"id": key_id, "now": now, "stale": stale})


@dataclass(frozen=True, slots=True)
class Homes:
    """The workspaces of an org, the default one first, and whether they are told apart."""

    is_on: bool
    workspace_ids: Sequence[WorkspaceId]


_HOMES = """
    SELECT o.workspaces_on, w.id
    FROM org o
    LEFT JOIN workspace w ON w.org_id = o.id AND w.archived_at IS NULL
    WHERE o.id = %(org_id)s
    ORDER BY w.is_default DESC, w.created_at, w.id
"""


async def homes(db: Db, org_id: OrgId) -> Homes:
    """Where in an org memories can be."""
    rows = await (await db.execute(_HOMES, {"org_id": org_id})).fetchall()
    return Homes(bool(rows and rows[0][0]), [WorkspaceId(row[1]) for row in rows if row[1]])


_MAY_ENTER = """
    SELECT EXISTS (
        SELECT FROM workspace w
        JOIN app_user u ON u.id = %(user_id)s AND u.org_id = w.org_id
        WHERE w.id = %(workspace_id)s AND w.org_id = %(org_id)s AND w.archived_at IS NULL
            AND (u.is_admin OR EXISTS (
                SELECT FROM workspace_member own
                WHERE own.workspace_id = %(workspace_id)s AND own.user_id = u.id))
    )
"""


async def may_enter(db: Db, org_id: OrgId, user_id: UserId, workspace_id: UUID) -> bool:
    """Whether a user may make this workspace of the org the active one."""
    values = {"workspace_id": workspace_id, "org_id": org_id, "user_id": user_id}
    row = await (await db.execute(_MAY_ENTER, values)).fetchone()
    return bool(row and row[0])


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace as somebody of its org sees it."""

    id: WorkspaceId
    name: str
    is_default: bool
    created_at: datetime


# everywhere: which workspaces a user may enter is asked of all those of their org at once. For a
# caller who may be in one only, that one.
_PLACES = """
    SELECT w.id, w.name, w.is_default, w.created_at
    FROM workspace w
    JOIN app_user u ON u.id = %(user_id)s AND u.org_id = w.org_id
    WHERE w.org_id = %(org_id)s AND w.archived_at IS NULL
        AND (%(only)s::uuid IS NULL OR w.id = %(only)s)
        AND (w.id = %(own)s OR u.is_admin OR EXISTS (
            SELECT FROM workspace_member own
            WHERE own.workspace_id = w.id AND own.user_id = u.id))
    ORDER BY w.is_default DESC, w.created_at, w.id
"""


async def places(
    db: Db,
    org_id: OrgId,
    user_id: UserId,
    *,
    own: WorkspaceId | None = None,
    only: UUID | None = None,
) -> list[Place]:
    """The workspaces of an org that a user may enter; `own` is theirs whoever is a member."""
    values = {"org_id": org_id, "user_id": user_id, "own": own, "only": only}
    async with db.cursor(row_factory=class_row(Place)) as cursor:
        await cursor.execute(_PLACES, values)
        return await cursor.fetchall()


_ORG_NAME = "SELECT name FROM org WHERE id = %(org_id)s"
_NAME_TAKEN = """
    SELECT EXISTS (
        SELECT FROM workspace WHERE org_id = %(org_id)s AND name = %(name)s AND id <> %(besides)s
    )
"""
# Two who choose the same name at once are told apart.
_LOCK_NAMES = "SELECT pg_advisory_xact_lock(hashtextextended(%(org_id)s::text || ' names', 0))"


async def org_name(db: Db, org_id: OrgId) -> str:
    """What an org is called."""
    row = await (await db.execute(_ORG_NAME, {"org_id": org_id})).fetchone()
    return row[0] if row else ""


async def is_name_taken(db: Db, org_id: OrgId, name: str, *, besides: UUID = NOWHERE) -> bool:
    """Whether another workspace of the org has the name; nobody else takes it meanwhile."""
    await db.execute(_LOCK_NAMES, {"org_id": org_id})
    values = {"org_id": org_id, "name": name, "besides": besides}
    row = await (await db.execute(_NAME_TAKEN, values)).fetchone()
    return bool(row and row[0])


_SET_WORKSPACES = "UPDATE org SET workspaces_on = %(is_on)s WHERE id = %(org_id)s"


async def set_workspaces(db: Db, org_id: OrgId, *, is_on: bool) -> None:
    """Tell the workspaces of an org apart, or not; every process learns it at once."""
    await db.execute(_SET_WORKSPACES, {"org_id": org_id, "is_on": is_on})
    await db.execute(_TELL, {"channel": CHANNEL})


_FIND_USER = """
    SELECT id FROM app_user
    WHERE org_id = %(org_id)s AND (id::text = %(wanted)s OR login = %(wanted)s)
        AND archived_at IS NULL
"""


async def find_user(db: Db, org_id: OrgId, wanted: str) -> UserId | None:
    """A user of the org, by id or login."""
    row = await (await db.execute(_FIND_USER, {"org_id": org_id, "wanted": wanted})).fetchone()
    return UserId(row[0]) if row else None


_ADD_WORKSPACE_MEMBER = """
    INSERT INTO workspace_member (workspace_id, user_id)
    VALUES (%(workspace_id)s, %(user_id)s)
    ON CONFLICT (workspace_id, user_id) DO NOTHING
"""
_REMOVE_WORKSPACE_MEMBER = """
    DELETE FROM workspace_member
    WHERE workspace_id = %(workspace_id)s AND user_id = %(user_id)s
"""
_WORKSPACE_MEMBERS = """
    SELECT user_id FROM workspace_member
    WHERE workspace_id = %(workspace_id)s
    ORDER BY created_at, user_id
"""


async def add_workspace_member(db: Db, workspace_id: WorkspaceId, user_id: UserId) -> None:
    """Let a user make this workspace the active one."""
    values = {"workspace_id": workspace_id, "user_id": user_id}
    await db.execute(_ADD_WORKSPACE_MEMBER, values)


async def remove_workspace_member(db: Db, workspace_id: WorkspaceId, user_id: UserId) -> bool:
    """Keep a user out of a workspace; False when they were not let in."""
    values = {"workspace_id": workspace_id, "user_id": user_id}
    return (await db.execute(_REMOVE_WORKSPACE_MEMBER, values)).rowcount > 0


async def workspace_members(db: Db, workspace_id: WorkspaceId) -> list[UserId]:
    """Who may make this workspace the active one, beside admins."""
    cursor = await db.execute(_WORKSPACE_MEMBERS, {"workspace_id": workspace_id})
    return [UserId(row[0]) for row in await cursor.fetchall()]


@dataclass(frozen=True, slots=True)
class Org:
    """A customer: users, keys and workspaces of one house."""

    id: OrgId
    name: str
    workspaces_on: bool
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class User:
    """Somebody of an org."""

    id: UserId
    org_id: OrgId
    login: str
    is_admin: bool
    archived_at: datetime | None


_ORG_COLUMNS = "id, name, workspaces_on, archived_at"
_USER_COLUMNS = "id, org_id, login, is_admin, archived_at"
_ORGS = f"""
    SELECT {_ORG_COLUMNS} FROM org
    WHERE %(within)s::uuid IS NULL OR id = %(within)s
    ORDER BY created_at, id
"""
_ORGS_NAMED = f"""
    SELECT {_ORG_COLUMNS} FROM org
    WHERE (id = %(id)s OR name = %(wanted)s) AND (%(within)s::uuid IS NULL OR id = %(within)s)
    ORDER BY created_at, id
    LIMIT 2
"""
_USERS = f"""
    SELECT {_USER_COLUMNS} FROM app_user
    WHERE org_id = %(org_id)s
    ORDER BY created_at, id
"""
# Somebody's login may be spelt like another's id, which then is meant.
_USER_NAMED = f"""
    SELECT {_USER_COLUMNS} FROM app_user
    WHERE (id = %(id)s OR login = %(wanted)s)
        AND (%(within)s::uuid IS NULL OR org_id = %(within)s)
    ORDER BY login = %(wanted)s
    LIMIT 1
"""


async def orgs(db: Db, within: OrgId | None = None) -> list[Org]:
    """Every org, oldest first; or the one beyond which nothing is seen."""
    async with db.cursor(row_factory=class_row(Org)) as cursor:
        await cursor.execute(_ORGS, {"within": within})
        return await cursor.fetchall()


async def orgs_named(db: Db, wanted: str, within: OrgId | None) -> list[Org]:
    """The org of that id or name; of several, the first two."""
    async with db.cursor(row_factory=class_row(Org)) as cursor:
        await cursor.execute(_ORGS_NAMED, named(wanted) | {"within": within})
        return await cursor.fetchall()


async def user_named(db: Db, wanted: str, within: OrgId | None) -> User | None:
    """The user of that id or login, archived or not."""
    async with db.cursor(row_factory=class_row(User)) as cursor:
        await cursor.execute(_USER_NAMED, named(wanted) | {"within": within})
        return await cursor.fetchone()


def named(wanted: str) -> dict[str, Any]:
    """The values of a statement that finds something by id or by name."""
    ref = parse_ref(wanted)
    return {"id": ref.id if ref else None, "wanted": wanted}


_STANDING = """
    SELECT u.is_admin, u.org_id = (SELECT id FROM org ORDER BY created_at, id LIMIT 1)
    FROM app_user u
    WHERE u.id = %(user_id)s
"""


async def standing(db: Db, user_id: UserId) -> tuple[bool, bool]:
    """Whether a user is an admin, and whether of the house's first org."""
    row = await (await db.execute(_STANDING, {"user_id": user_id})).fetchone()
    return (row[0], row[1]) if row else (False, False)


async def users(db: Db, org_id: OrgId) -> list[User]:
    """Every user of an org, oldest first."""
    async with db.cursor(row_factory=class_row(User)) as cursor:
        await cursor.execute(_USERS, {"org_id": org_id})
        return await cursor.fetchall()


# Two that give the same login at the same instant would each find it free.
_HOLD_LOGINS = "SELECT pg_advisory_xact_lock(7245018846216)"
_LOGIN_TAKEN = "SELECT EXISTS (SELECT FROM app_user WHERE login = %(login)s)"


async def is_login_taken(db: Db, login: str) -> bool:
    """Whether somebody, of whichever org, has this login; holds the answer to the end."""
    await db.execute(_HOLD_LOGINS)
    row = await (await db.execute(_LOGIN_TAKEN, {"login": login})).fetchone()
    return bool(row and row[0])


_RENAME_ORG = "UPDATE org SET name = %(name)s WHERE id = %(id)s"
_RENAME_USER = "UPDATE app_user SET login = %(name)s WHERE id = %(id)s"
_RENAME_WORKSPACE = "UPDATE workspace SET name = %(name)s WHERE id = %(id)s"
_ARCHIVE_ORG = "UPDATE org SET archived_at = %(at)s WHERE id = %(id)s"
_ARCHIVE_USER = "UPDATE app_user SET archived_at = %(at)s WHERE id = %(id)s"
_ARCHIVE_WORKSPACE = "UPDATE workspace SET archived_at = %(at)s WHERE id = %(id)s"
_SET_EMBEDDER = "UPDATE workspace SET embedder = %(embedder)s WHERE id = %(id)s"


async def rename_org(db: Db, org_id: OrgId, name: str) -> None:
    """Give an org another name."""
    await db.execute(_RENAME_ORG, {"id": org_id, "name": name})


async def rename_user(db: Db, user_id: UserId, login: str) -> None:
    """Give a user another login."""
    await db.execute(_RENAME_USER, {"id": user_id, "name": login})


async def rename_workspace(db: Db, workspace_id: WorkspaceId, name: str) -> None:
    """Give a workspace another name."""
    await db.execute(_RENAME_WORKSPACE, {"id": workspace_id, "name": name})


async def archive_org(db: Db, org_id: OrgId, at: datetime | None) -> None:
    """Put an org away, keys and all, or with None bring it back."""
    await db.execute(_ARCHIVE_ORG, {"id": org_id, "at": at})
    await db.execute(_TELL, {"channel": CHANNEL})


async def archive_user(db: Db, user_id: UserId, at: datetime | None) -> None:
    """End a user's keys, or with None let them work again."""
    await db.execute(_ARCHIVE_USER, {"id": user_id, "at": at})
    await db.execute(_TELL, {"channel": CHANNEL})


_SET_ADMIN = "UPDATE app_user SET is_admin = %(is_admin)s WHERE id = %(id)s"
_END_ADMIN_KEYS = """
    UPDATE api_key SET revoked_at = %(now)s
    WHERE user_id = %(id)s AND revoked_at IS NULL AND 'admin' = ANY(rights)
"""


async def set_admin(db: Db, user_id: UserId, *, is_admin: bool, now: datetime) -> None:
    """Make a user an admin, or one no longer: then their keys that may arrange an org end too."""
    await db.execute(_SET_ADMIN, {"id": user_id, "is_admin": is_admin})
    if not is_admin:
        await db.execute(_END_ADMIN_KEYS, {"id": user_id, "now": now})
        await db.execute(_TELL, {"channel": CHANNEL})


async def archive_workspace(db: Db, workspace_id: WorkspaceId, at: datetime | None) -> None:
    """Put a workspace away, its keys too, or with None bring it back."""
    await db.execute(_ARCHIVE_WORKSPACE, {"id": workspace_id, "at": at})
    await db.execute(_TELL, {"channel": CHANNEL})


async def set_embedder(db: Db, workspace_id: WorkspaceId, embedder: str | None) -> None:
    """Give a workspace one of the operator's named embedders, or with None the server's own."""
    await db.execute(_SET_EMBEDDER, {"id": workspace_id, "embedder": embedder})


_END_AT = """
    UPDATE api_key SET expires_at = least(coalesce(expires_at, %(at)s), %(at)s)
    WHERE id = %(id)s
"""
_FIND_GOOD = f"""
    SELECT {_KEY_COLUMNS} FROM api_key
    WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(now)s)
        AND (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND (id::text = %(wanted)s OR name = %(wanted)s OR prefix = %(wanted)s)
"""


async def find_good_keys(
    db: Db, wanted: str, now: datetime, org_id: OrgId | None = None
) -> list[KeyRecord]:
    """The keys of that id, name or shown prefix that still open something; of an org if given."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_FIND_GOOD, {"wanted": wanted, "now": now, "org_id": org_id})
        return await cursor.fetchall()


async def end_key(db: Db, key_id: KeyId, at: datetime) -> None:
    """Let a key end at that time, if it does not before; every process learns it at once."""
    await db.execute(_END_AT, {"id": key_id, "at": at})
    await db.execute(_TELL, {"channel": CHANNEL})


_KEYS_OF = f"""
    SELECT {_KEY_COLUMNS} FROM api_key
    WHERE org_id = %(org_id)s AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
    ORDER BY created_at DESC, id
"""
_REVOKE_ONE = """
    UPDATE api_key SET revoked_at = coalesce(revoked_at, %(now)s)
    WHERE id = %(id)s AND org_id = %(org_id)s
        AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
"""


async def keys_of(db: Db, org_id: OrgId, user_id: UserId | None) -> list[KeyRecord]:
    """The keys of an org, or of one of its users, newest first."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_KEYS_OF, {"org_id": org_id, "user_id": user_id})
        return await cursor.fetchall()


async def revoke_one(
    db: Db, key_id: UUID, org_id: OrgId, user_id: UserId | None, now: datetime
) -> bool:
    """Revoke one key of an org, or of one of its users; False when there is no such key."""
    values = {"id": key_id, "org_id": org_id, "user_id": user_id, "now": now}
    is_found = (await db.execute(_REVOKE_ONE, values)).rowcount > 0
    await db.execute(_TELL, {"channel": CHANNEL})
    return is_found
