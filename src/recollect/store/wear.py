"""What maintenance reads and writes: importance as it wears, and statements kept twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import MemoryId, WorkspaceId
from recollect.store.pool import Db

# Why maintenance hid a memory. Neither says that it was wrong.
WORN_OUT = "maintenance: worn out"
SAID_AGAIN = "maintenance: said again since"
BY_TIME = frozenset({WORN_OUT, SAID_AGAIN})


@dataclass(frozen=True, slots=True)
class Wearing:
    """A memory that time wears down, and how it was used."""

    id: MemoryId
    code: str
    version: int
    importance: float
    importance_base: float
    # When it was kept, changed or brought back: a memory may be of a time long before that.
    touched_at: datetime
    last_accessed_at: datetime | None
    access_count: int
    is_restricted: bool


# Identity, pinned and permanent rows are left alone, always.
_WORN = """
    lifecycle = 'decaying' AND NOT pinned AND kind IS DISTINCT FROM 'identity'
    AND deleted_at IS NULL
"""
_WEARING = f"""
    SELECT id, code, version, importance, importance_base,
        greatest(created_at, updated_at) AS touched_at, last_accessed_at, access_count,
        scope <> 'workspace' AS is_restricted
    FROM memory
    WHERE workspace_id = %(workspace_id)s AND id > %(after)s AND {_WORN}
    ORDER BY id
    LIMIT %(limit)s
"""


async def wearing(db: Db, workspace_id: WorkspaceId, *, after: UUID, limit: int) -> list[Wearing]:
    """Memories that wear down, by id, from just behind a given one on."""
    async with db.cursor(row_factory=class_row(Wearing)) as cursor:
        await cursor.execute(
            _WEARING, {"workspace_id": workspace_id, "after": after, "limit": limit}
        )
        return await cursor.fetchall()


# What was read is held only now, and only where it is to be changed: locking all of it would write
# to every page. Whatever somebody has changed or recalled since, or is about to, waits for the next
# time; so nobody waits for another in a ring.
_UNCHANGED = f"""
    SELECT memory.id
    FROM memory
    JOIN unnest(%(ids)s::uuid[], %(versions)s::integer[], %(accesses)s::integer[])
        AS read (id, version, accesses) ON read.id = memory.id
    WHERE memory.workspace_id = %(workspace_id)s AND memory.version = read.version
        AND memory.access_count = read.accesses AND {_WORN}
    ORDER BY memory.id
    FOR NO KEY UPDATE OF memory SKIP LOCKED
"""


async def hold_unchanged(
    db: Db, workspace_id: WorkspaceId, read: Sequence[Wearing]
) -> set[MemoryId]:
    """Those that are still as they were read, held until the transaction ends."""
    values = {
        "workspace_id": workspace_id,
        "ids": [each.id for each in read],
        "versions": [each.version for each in read],
        "accesses": [each.access_count for each in read],
    }
    return {MemoryId(row[0]) for row in await (await db.execute(_UNCHANGED, values)).fetchall()}


_SET = """
    UPDATE memory SET importance = worn.importance
    FROM unnest(%(ids)s::uuid[], %(values)s::float8[]) AS worn (id, importance)
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = worn.id
"""


async def set_importance(
    db: Db, workspace_id: WorkspaceId, worn: Sequence[tuple[Wearing, float]]
) -> None:
    """Write importance as it is today, of memories that the transaction holds."""
    await db.execute(
        _SET,
        {
            "workspace_id": workspace_id,
            "ids": [each.id for each, _ in worn],
            "values": [value for _, value in worn],
        },
    )


@dataclass(frozen=True, slots=True)
class Repeated:
    """A statement that a newer memory says in the same words."""

    id: MemoryId
    code: str
    newer_id: MemoryId
    is_restricted: bool


# The same is what nobody could tell apart: by whom and where it is seen, by what it is filtered, or
# by how long it holds. What happened on two days happened twice. And it was said again since
# anybody did something to the older one: what was brought back, or worded so only later, stays.
_REPEATED = f"""
    SELECT older.id, older.code, newer.id AS newer_id, older.scope <> 'workspace' AS is_restricted
    FROM (
        SELECT id, version, updated_at, first_value(id) OVER same AS newer_id,
            first_value(version) OVER same AS newer_version,
            first_value(created_at) OVER same AS said_again_at
        FROM memory
        WHERE workspace_id = %(workspace_id)s AND {_WORN}
            AND (valid_until IS NULL OR valid_until > %(now)s)
            AND (expires_at IS NULL OR expires_at > %(now)s)
        WINDOW same AS (
            PARTITION BY content_digest, kind, category, scope, user_id, project_id, agent_id,
                thread_id, subject, key, tags, expires_at, valid_until,
                CASE kind WHEN 'event' THEN (created_at AT TIME ZONE 'UTC')::date END
            ORDER BY created_at DESC, id DESC)
    ) AS seen
    JOIN memory older ON older.workspace_id = %(workspace_id)s AND older.id = seen.id
        AND older.version = seen.version
    JOIN memory newer ON newer.workspace_id = %(workspace_id)s AND newer.id = seen.newer_id
        AND newer.version = seen.newer_version
    WHERE seen.id <> seen.newer_id
        AND (seen.version = 1 OR seen.said_again_at > seen.updated_at)
    ORDER BY older.id
    LIMIT %(limit)s
    FOR NO KEY UPDATE OF older, newer SKIP LOCKED
"""


async def repeated(
    db: Db, workspace_id: WorkspaceId, *, now: datetime, limit: int
) -> list[Repeated]:
    """Live statements kept twice in the same words and place, but for the newest of each.

    Each is held with its newest until the transaction ends; what others hold is left out.
    """
    async with db.cursor(row_factory=class_row(Repeated)) as cursor:
        await cursor.execute(_REPEATED, {"workspace_id": workspace_id, "now": now, "limit": limit})
        return await cursor.fetchall()


# The uses move: brought back and said again, they would count twice.
_HAND_ON = """
    WITH older AS (
        SELECT access_count, last_accessed_at, importance_base, valid_from, updated_at
        FROM memory
        WHERE workspace_id = %(workspace_id)s AND id = %(id)s
    ),
    emptied AS (
        UPDATE memory SET access_count = 0
        WHERE workspace_id = %(workspace_id)s AND id = %(id)s
    )
    UPDATE memory
    SET access_count = memory.access_count + older.access_count,
        last_accessed_at = greatest(memory.last_accessed_at, older.last_accessed_at),
        importance_base = greatest(memory.importance_base, older.importance_base),
        valid_from = CASE
            WHEN memory.valid_from IS NOT NULL AND older.valid_from IS NOT NULL
            THEN least(memory.valid_from, older.valid_from) END,
        updated_at = greatest(memory.updated_at, older.updated_at)
    FROM older
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = %(newer_id)s
"""


async def hand_on(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, newer_id: MemoryId
) -> None:
    """Give the newer statement the uses and the weight of the older, and its time."""
    values = {"workspace_id": workspace_id, "id": memory_id, "newer_id": newer_id}
    await db.execute(_HAND_ON, values)
