"""Receipts of erasures, and the search for erased data that is still there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import sql
from psycopg.rows import class_row

from recollect.core.domain import OrgId, WorkspaceId
from recollect.db.pool import Db


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A stored receipt; `receipt` is its JSON text."""

    id: UUID
    number: int
    org_id: OrgId
    receipt: str
    hash: str
    created_at: datetime


# Receipts form one chain, so erasures take their numbers one at a time.
_LOCK_CHAIN = "SELECT pg_advisory_xact_lock(7245018846215)"
_COLUMNS = "id, number, org_id, receipt, hash, created_at"
_LAST = f"SELECT {_COLUMNS} FROM erasure ORDER BY number DESC LIMIT 1"
_ADD = """
    INSERT INTO erasure (id, number, org_id, receipt, hash, created_at)
    VALUES (%(id)s, %(number)s, %(org_id)s, %(receipt)s, %(hash)s, %(created_at)s)
"""
_FIND = f"SELECT {_COLUMNS} FROM erasure WHERE id = %(id)s"
_RECEIPTS = f"SELECT {_COLUMNS} FROM erasure ORDER BY number"
_OF_ORG = f"SELECT {_COLUMNS} FROM erasure WHERE org_id = %(org_id)s ORDER BY number"


async def last_receipt(db: Db) -> StoredReceipt | None:
    """Return the last receipt of the chain, and lock the chain until the transaction ends."""
    await db.execute(_LOCK_CHAIN)
    return next(iter(await _fetch(db, _LAST, {})), None)


async def add_receipt(db: Db, receipt: StoredReceipt) -> None:
    """Add a receipt to the chain."""
    values = {
        "id": receipt.id,
        "number": receipt.number,
        "org_id": receipt.org_id,
        "receipt": receipt.receipt,
        "hash": receipt.hash,
        "created_at": receipt.created_at,
    }
    await db.execute(_ADD, values)


async def find_receipt(db: Db, receipt_id: UUID) -> StoredReceipt | None:
    """Return a receipt by its id."""
    return next(iter(await _fetch(db, _FIND, {"id": receipt_id})), None)


async def list_receipts(db: Db, org_id: OrgId | None = None) -> list[StoredReceipt]:
    """Return every receipt, or those of one org, oldest first."""
    return await _fetch(db, _OF_ORG if org_id else _RECEIPTS, {"org_id": org_id})


# The search for data that should be gone, by the hashes of a receipt, covers every id column of
# every table that exists at that time.
_ID_COLUMNS = """
    SELECT c.relname, a.attname, a.atttypid = 'uuid[]'::regtype
    FROM pg_attribute a
    JOIN pg_class c ON c.oid = a.attrelid
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname <> 'erasure'
        AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'memory'::regclass)
        AND a.attnum > 0 AND NOT a.attisdropped
        AND a.atttypid IN ('uuid'::regtype, 'uuid[]'::regtype)
    ORDER BY c.relname, a.attnum
"""
# everywhere: erased data must not be in any workspace.
_LEFT = sql.SQL("""
    SELECT count(*) FROM {table}
    WHERE substr(sha256(%(salt)s || uuid_send({column})), 1, 16) = ANY(%(digests)s)
""")
# everywhere: as above, for columns that hold lists of ids.
_LEFT_IN_LISTS = sql.SQL("""
    SELECT count(*) FROM {table}
    CROSS JOIN LATERAL unnest({column}) AS listed (id)
    WHERE substr(sha256(%(salt)s || uuid_send(listed.id)), 1, 16) = ANY(%(digests)s)
""")


async def count_left_by_id(db: Db, salt: bytes, digests: Sequence[bytes]) -> dict[str, int]:
    """Count the rows that still hold an id with one of these digests, by column."""
    values = {"salt": salt, "digests": list(digests)}
    found: dict[str, int] = {}
    for table, column, is_list in await (await db.execute(_ID_COLUMNS)).fetchall():
        statement = (_LEFT_IN_LISTS if is_list else _LEFT).format(
            table=sql.Identifier(table), column=sql.Identifier(column)
        )
        row = await (await db.execute(statement, values)).fetchone()
        if row and row[0]:
            found[f"{table}.{column}"] = row[0]
    return found


# A key or a name may be used again, so only rows older than the erasure count.
# everywhere: the receipt does not name the workspace.
_LEFT_KEYS = """
    SELECT count(*) FROM memory m
    WHERE m.key IS NOT NULL AND m.created_at <= %(at)s AND m.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(m.workspace_id::text || '/' || m.key || CASE
            WHEN %(is_owned)s THEN '/' || m.user_id::text ELSE '' END, 'UTF8')), 1, 16) = %(target)s
"""
# everywhere: the receipt does not name the workspace.
_LEFT_SUBJECTS = """
    SELECT 'memory', count(*) FROM memory m
    WHERE m.subject IS NOT NULL AND m.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            m.workspace_id::text || '/' || m.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'thread', count(*) FROM thread t
    WHERE t.subject IS NOT NULL AND t.updated_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            t.workspace_id::text || '/' || t.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'response', count(*) FROM response r
    WHERE r.subject IS NOT NULL AND r.created_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            r.workspace_id::text || '/' || r.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'inbox_item', count(*) FROM inbox_item l
    WHERE l.subject IS NOT NULL AND l.created_at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            l.workspace_id::text || '/' || l.subject, 'UTF8')), 1, 16) = %(target)s
    UNION ALL
    SELECT 'event', count(*) FROM event e
    WHERE e.subject IS NOT NULL AND e.at <= %(at)s
        AND substr(sha256(%(salt)s || convert_to(
            e.workspace_id::text || '/' || e.subject, 'UTF8')), 1, 16) = %(target)s
"""


async def count_left_of_key(
    db: Db, salt: bytes, target: bytes, at: datetime, *, is_owned: bool
) -> dict[str, int]:
    """Count the memories of the erased key that are older than the erasure."""
    values = {"salt": salt, "target": target, "at": at, "is_owned": is_owned}
    row = await (await db.execute(_LEFT_KEYS, values)).fetchone()
    return {"memory.key": row[0]} if row and row[0] else {}


async def count_left_of_subject(db: Db, salt: bytes, target: bytes, at: datetime) -> dict[str, int]:
    """Count the rows about the erased person that are older than the erasure, by column."""
    rows = await (
        await db.execute(_LEFT_SUBJECTS, {"salt": salt, "target": target, "at": at})
    ).fetchall()
    return {f"{table}.subject": count for table, count in rows if count}


# everywhere: after a restore only hashes are known, not the workspaces of the rows.
_FIND_ROWS = sql.SQL("""
    SELECT workspace_id, id FROM {table}
    WHERE substr(sha256(%(salt)s || uuid_send(id)), 1, 16) = ANY(%(digests)s)
""")


async def find_rows(
    db: Db, table: str, salt: bytes, digests: Sequence[bytes]
) -> list[tuple[WorkspaceId, UUID]]:
    """Return the workspace and id of each row of a table whose id has one of these digests."""
    statement = _FIND_ROWS.format(table=sql.Identifier(table))
    cursor = await db.execute(statement, {"salt": salt, "digests": list(digests)})
    return [(WorkspaceId(row[0]), row[1]) for row in await cursor.fetchall()]


async def _fetch(db: Db, query: LiteralString, values: dict[str, Any]) -> list[StoredReceipt]:
    async with db.cursor(row_factory=class_row(StoredReceipt)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
