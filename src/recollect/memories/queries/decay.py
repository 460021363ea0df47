"""What the maintenance job reads and writes: decaying importance and repeated statements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import MemoryId, WorkspaceId
from recollect.db.pool import Db

# Reasons for which the maintenance job forgets a memory. Neither means that it was wrong. They are
# stored in `delete_reason`, so the values must not change.
FADED = "maintenance: worn out"
REPEATED = "maintenance: said again since"
DECAY_REASONS = frozenset({FADED, REPEATED})


@dataclass(frozen=True, slots=True)
class DecayingMemory:
    """A memory that decays over time, and how it was used."""

    id: MemoryId
    code: str
    version: int
    importance: float
    importance_base: float
    # When it was saved, changed or restored; `created_at` may be a time long before that.
    touched_at: datetime
    last_accessed_at: datetime | None
    access_count: int
    is_restricted: bool


# Identity, pinned and permanent memories never decay.
_DECAYS = """
    lifecycle = 'decaying' AND NOT pinned AND kind IS DISTINCT FROM 'identity'
    AND deleted_at IS NULL
"""
_DECAYING = f"""
    SELECT id, code, version, importance, importance_base,
        greatest(created_at, updated_at) AS touched_at, last_accessed_at, access_count,
        scope <> 'workspace' AS is_restricted
    FROM memory
    WHERE workspace_id = %(workspace_id)s AND id > %(after)s AND {_DECAYS}
    ORDER BY id
    LIMIT %(limit)s
"""


async def decaying_memories(
    db: Db, workspace_id: WorkspaceId, *, after: UUID, limit: int
) -> list[DecayingMemory]:
    """Return memories that decay, ordered by id, starting after the given id."""
    async with db.cursor(row_factory=class_row(DecayingMemory)) as cursor:
        await cursor.execute(
            _DECAYING, {"workspace_id": workspace_id, "after": after, "limit": limit}
        )
        return await cursor.fetchall()


# Rows are locked only now, and only those to be changed: locking every row read would write to
# every page. A memory that was changed or recalled since it was read, or is locked, is left for the
# next run. So there is no deadlock.
_UNCHANGED = f"""
    SELECT memory.id
    FROM memory
    JOIN unnest(%(ids)s::uuid[], %(versions)s::integer[], %(accesses)s::integer[])
        AS read (id, version, accesses) ON read.id = memory.id
    WHERE memory.workspace_id = %(workspace_id)s AND memory.version = read.version
        AND memory.access_count = read.accesses AND {_DECAYS}
    ORDER BY memory.id
    FOR NO KEY UPDATE OF memory SKIP LOCKED
"""


async def lock_unchanged(
    db: Db, workspace_id: WorkspaceId, read: Sequence[DecayingMemory]
) -> set[MemoryId]:
    """Lock the memories that have not changed since they were read, and return their ids."""
    values = {
        "workspace_id": workspace_id,
        "ids": [each.id for each in read],
        "versions": [each.version for each in read],
        "accesses": [each.access_count for each in read],
    }
    return {MemoryId(row[0]) for row in await (await db.execute(_UNCHANGED, values)).fetchall()}


_SET = """
    UPDATE memory SET importance = current.importance
    FROM unnest(%(ids)s::uuid[], %(values)s::float8[]) AS current (id, importance)
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = current.id
"""


async def set_importance(
    db: Db, workspace_id: WorkspaceId, current: Sequence[tuple[DecayingMemory, float]]
) -> None:
    """Write the current importance of memories whose rows are locked."""
    await db.execute(
        _SET,
        {
            "workspace_id": workspace_id,
            "ids": [each.id for each, _ in current],
            "values": [value for _, value in current],
        },
    )


@dataclass(frozen=True, slots=True)
class RepeatedStatement:
    """A statement that a newer memory repeats in the same words."""

    id: MemoryId
    code: str
    newer_id: MemoryId
    is_restricted: bool


# Two memories are the same statement if nothing observable differs: who can see them, what filters
# match them, and how long they are valid. An event on two different days happened twice. The newer
# one must have been saved after the older one was last changed: a memory that was restored, or
# edited to these words later, stays.
_REPEATED = f"""
    SELECT older.id, older.code, newer.id AS newer_id, older.scope <> 'workspace' AS is_restricted
    FROM (
        SELECT id, version, updated_at, first_value(id) OVER same AS newer_id,
            first_value(version) OVER same AS newer_version,
            first_value(created_at) OVER same AS said_again_at
        FROM memory
        WHERE workspace_id = %(workspace_id)s AND {_DECAYS}
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


async def repeated_statements(
    db: Db, workspace_id: WorkspaceId, *, now: datetime, limit: int
) -> list[RepeatedStatement]:
    """Return live statements repeated in the same words and scope, except the newest of each.

    Each is locked together with its newest until the transaction ends. Rows that another
    transaction has locked are left out.
    """
    async with db.cursor(row_factory=class_row(RepeatedStatement)) as cursor:
        await cursor.execute(_REPEATED, {"workspace_id": workspace_id, "now": now, "limit": limit})
        return await cursor.fetchall()


# The access count is moved, not copied: if the older memory is restored and repeated again, its
# accesses would otherwise count twice.
_MERGE_ACCESS = """
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


async def merge_access(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, newer_id: MemoryId
) -> None:
    """Add the older statement's accesses, importance and validity to the newer one."""
    values = {"workspace_id": workspace_id, "id": memory_id, "newer_id": newer_id}
    await db.execute(_MERGE_ACCESS, values)
