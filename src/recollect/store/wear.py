"""What maintenance reads and writes: importance as it wears, and statements kept twice."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import MemoryId, WorkspaceId
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Wearing:
    """A memory that time wears down, and how it was used."""

    id: MemoryId
    code: str
    importance: float
    importance_base: float
    created_at: datetime
    last_accessed_at: datetime | None
    access_count: int
    is_restricted: bool


# Identity, pinned and permanent rows are left alone, always.
_WORN = """
    lifecycle = 'decaying' AND NOT pinned AND kind IS DISTINCT FROM 'identity'
    AND deleted_at IS NULL
"""
_WEARING = f"""
    SELECT id, code, importance, importance_base, created_at, last_accessed_at, access_count,
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


# The base must still be what the number was computed from; a change since is not overwritten.
_SET = f"""
    UPDATE memory SET importance = worn.importance
    FROM unnest(%(ids)s::uuid[], %(values)s::float8[], %(bases)s::float8[])
        AS worn (id, importance, base)
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = worn.id
        AND memory.importance_base = worn.base AND {_WORN}
"""


async def set_importance(
    db: Db, workspace_id: WorkspaceId, worn: Sequence[tuple[Wearing, float]]
) -> None:
    """Write importance as it is today."""
    await db.execute(
        _SET,
        {
            "workspace_id": workspace_id,
            "ids": [each.id for each, _ in worn],
            "values": [value for _, value in worn],
            "bases": [each.importance_base for each, _ in worn],
        },
    )


@dataclass(frozen=True, slots=True)
class Repeated:
    """A statement that a newer memory says in the same words."""

    id: MemoryId
    code: str
    newer_id: MemoryId
    access_count: int
    is_restricted: bool


_REPEATED = f"""
    SELECT id, code, newer_id, access_count, is_restricted FROM (
        SELECT id, code, access_count, scope <> 'workspace' AS is_restricted,
            first_value(id) OVER same AS newer_id
        FROM memory
        WHERE workspace_id = %(workspace_id)s AND {_WORN}
            AND (valid_until IS NULL OR valid_until > %(now)s)
            AND (expires_at IS NULL OR expires_at > %(now)s)
        WINDOW same AS (
            PARTITION BY content_digest, kind, scope, user_id, project_id, agent_id, thread_id,
                subject, key
            ORDER BY created_at DESC, id DESC)
    ) AS seen
    WHERE id <> newer_id
    ORDER BY id
    LIMIT %(limit)s
"""


async def repeated(
    db: Db, workspace_id: WorkspaceId, *, now: datetime, limit: int
) -> list[Repeated]:
    """Live statements kept twice in the same words and place, but for the newest of each."""
    async with db.cursor(row_factory=class_row(Repeated)) as cursor:
        await cursor.execute(_REPEATED, {"workspace_id": workspace_id, "now": now, "limit": limit})
        return await cursor.fetchall()


_ADD_ACCESSES = """
    UPDATE memory SET access_count = access_count + %(accesses)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def pass_on_accesses(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, accesses: int
) -> None:
    """Add the uses of a merged statement to the one that stays."""
    values = {"workspace_id": workspace_id, "id": memory_id, "accesses": accesses}
    await db.execute(_ADD_ACCESSES, values)
