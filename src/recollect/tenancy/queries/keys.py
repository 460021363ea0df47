"""API keys: store, find, revoke and expire them. Only their digests are stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import KeyId, OrgId, Right, UserId, WorkspaceId
from recollect.db.pool import Db

# NOTIFY channel that tells every process that a key was revoked or changed.
CHANNEL = "recollect_keys"


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """A stored API key, without its text."""

    id: KeyId
    org_id: OrgId
    # None: an unbound key. It uses the default workspace while workspaces are off, else none.
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
    # Only `find_key` sets this: whether `workspace_id` is the org's default, not the key's own.
    is_unbound: bool = False


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
    """Store a key's digest and its rights."""
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
# An unbound key gets the default workspace while workspaces are off. A key of an archived org,
# user or workspace counts as revoked.
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
_ORG_KEYS = f"""
    SELECT {_KEY_COLUMNS} FROM api_key
    WHERE org_id = %(org_id)s AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
    ORDER BY created_at DESC, id
"""
_FIND_VALID_KEYS = f"""
    SELECT {_KEY_COLUMNS} FROM api_key
    WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > %(now)s)
        AND (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND (id::text = %(wanted)s OR name = %(wanted)s OR prefix = %(wanted)s)
"""


async def find_key(db: Db, digest: bytes) -> KeyRecord | None:
    """Return the key with this digest, valid or not."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_FIND_KEY, {"digest": digest})
        return await cursor.fetchone()


async def list_keys(db: Db) -> list[KeyRecord]:
    """Return every key of every org, oldest first."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_KEYS)
        return await cursor.fetchall()


async def list_org_keys(db: Db, org_id: OrgId, user_id: UserId | None) -> list[KeyRecord]:
    """Return the keys of an org, or of one of its users, newest first."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_ORG_KEYS, {"org_id": org_id, "user_id": user_id})
        return await cursor.fetchall()


async def find_valid_keys(
    db: Db, wanted: str, now: datetime, org_id: OrgId | None = None
) -> list[KeyRecord]:
    """Return the valid keys with this id, name or prefix, optionally of one org only."""
    async with db.cursor(row_factory=class_row(KeyRecord)) as cursor:
        await cursor.execute(_FIND_VALID_KEYS, {"wanted": wanted, "now": now, "org_id": org_id})
        return await cursor.fetchall()


_TOUCH = """
    UPDATE api_key SET last_used_at = %(now)s
    WHERE id = %(id)s AND (last_used_at IS NULL OR last_used_at < %(stale)s)
"""


async def touch_key(db: Db, key_id: KeyId, now: datetime) -> None:
    """Record that a key was used, at most once a minute."""
    stale = now - timedelta(minutes=1)
    await db.execute(_TOUCH, {"id": key_id, "now": now, "stale": stale})


_REVOKE_KEYS = """
    UPDATE api_key SET revoked_at = %(now)s
    WHERE revoked_at IS NULL AND (%(org_id)s::uuid IS NULL OR org_id = %(org_id)s)
        AND (id::text = %(wanted)s OR name = %(wanted)s OR prefix = %(wanted)s)
    RETURNING id
"""
_REVOKE_KEY = """
    UPDATE api_key SET revoked_at = coalesce(revoked_at, %(now)s)
    WHERE id = %(id)s AND org_id = %(org_id)s
        AND (%(user_id)s::uuid IS NULL OR user_id = %(user_id)s)
"""
_EXPIRE_KEY = """
    UPDATE api_key SET expires_at = least(coalesce(expires_at, %(at)s), %(at)s)
    WHERE id = %(id)s
"""


async def revoke_keys(
    db: Db, wanted: str, now: datetime, org_id: OrgId | None = None
) -> list[UUID]:
    """Revoke the keys with this id, name or prefix, optionally of one org only; return their ids.

    Every process learns of it at once.
    """
    values = {"wanted": wanted, "now": now, "org_id": org_id}
    rows = await (await db.execute(_REVOKE_KEYS, values)).fetchall()
    await notify_key_change(db)
    return [row[0] for row in rows]


async def revoke_key(
    db: Db, key_id: UUID, org_id: OrgId, user_id: UserId | None, now: datetime
) -> bool:
    """Revoke one key of an org, or of one of its users; False when there is no such key."""
    values = {"id": key_id, "org_id": org_id, "user_id": user_id, "now": now}
    is_found = (await db.execute(_REVOKE_KEY, values)).rowcount > 0
    await notify_key_change(db)
    return is_found


async def expire_key(db: Db, key_id: KeyId, at: datetime) -> None:
    """Make a key expire at this time, unless it expires earlier; notifies every process."""
    await db.execute(_EXPIRE_KEY, {"id": key_id, "at": at})
    await notify_key_change(db)


_NOTIFY = "SELECT pg_notify(%(channel)s, '')"


async def notify_key_change(db: Db) -> None:
    """Make every process drop its cached keys once this transaction is committed."""
    await db.execute(_NOTIFY, {"channel": CHANNEL})


_REVOCATION_STATE = """
    SELECT concat_ws('/',
        (SELECT concat_ws('/', count(*), count(revoked_at), max(revoked_at),
            sum(extract(epoch FROM expires_at))) FROM api_key),
        (SELECT concat_ws('/', count(archived_at), max(archived_at),
            count(*) FILTER (WHERE workspaces_on)) FROM org),
        (SELECT concat_ws('/', count(archived_at), max(archived_at)) FROM app_user),
        (SELECT concat_ws('/', count(archived_at), max(archived_at)) FROM workspace))
"""


async def revocation_state(db: Db) -> str:
    """Return a text that changes when a key is revoked, expired or erased.

    It also changes when an org, user or workspace is archived.
    """
    row = await (await db.execute(_REVOCATION_STATE)).fetchone()
    return row[0] if row else ""
