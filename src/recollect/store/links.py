"""Associations between memories: made, found again from either end, followed for two hops."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import class_row, kwargs_row

from recollect.domain import (
    CURRENT,
    Association,
    Caller,
    Filter,
    Memory,
    MemoryId,
    Relation,
    View,
    WorkspaceId,
)
from recollect.store.arrays import IdArray
from recollect.store.memories import COLUMNS, FOUND, MATCHES, matching, memory_from_row
from recollect.store.pool import Db, Numbered
from recollect.store.visible import IN_SIGHT, VISIBLE, in_sight_of, visible_to

# A link somebody made is never weakened to one made by likeness. Both ends are held: a foreign key
# would wait for whoever is deleting one of them, and fail the save then.
_PUT = """
    INSERT INTO association AS known (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    SELECT source.workspace_id, %(id)s::uuid, source.id, target.id, %(relation)s::text,
        %(weight)s::float8, %(is_authored)s::boolean, %(created_at)s::timestamptz
    FROM memory source
    JOIN memory target ON target.workspace_id = source.workspace_id AND target.id = %(target_id)s
    WHERE source.workspace_id = %(workspace_id)s AND source.id = %(source_id)s
    FOR KEY SHARE
    ON CONFLICT (workspace_id, source_id, target_id, relation) DO UPDATE
    SET weight = EXCLUDED.weight, is_authored = known.is_authored OR EXCLUDED.is_authored,
        created_at = CASE
            WHEN known.is_authored OR NOT EXCLUDED.is_authored THEN known.created_at
            ELSE EXCLUDED.created_at END
    WHERE EXCLUDED.is_authored OR NOT known.is_authored
"""


async def put(db: Db, workspace_id: WorkspaceId, association: Association) -> bool:
    """Store a link; the same one again overwrites its weight. False when nothing came of it.

    For one that somebody makes, that is when either end has been deleted meanwhile.
    """
    values = {
        "workspace_id": workspace_id,
        "id": association.id,
        "source_id": association.source_id,
        "target_id": association.target_id,
        "relation": association.relation,
        "weight": association.weight,
        "is_authored": association.is_authored,
        "created_at": association.created_at,
    }
    return (await db.execute(_PUT, values)).rowcount > 0


_REMOVE = """
    DELETE FROM association
    WHERE workspace_id = %(workspace_id)s AND source_id = %(source_id)s
        AND target_id = %(target_id)s AND relation = %(relation)s
"""


async def remove(
    db: Db,
    workspace_id: WorkspaceId,
    source_id: MemoryId,
    target_id: MemoryId,
    relation: Relation,
) -> bool:
    """Delete a link; False when there was none."""
    values = {
        "workspace_id": workspace_id,
        "source_id": source_id,
        "target_id": target_id,
        "relation": relation,
    }
    return (await db.execute(_REMOVE, values)).rowcount > 0


_AMONG = """
    SELECT id, source_id, target_id, relation, weight, is_authored, created_at
    FROM association
    WHERE workspace_id = %(workspace_id)s
        AND source_id = ANY(%(ids)s) AND target_id = ANY(%(ids)s)
    ORDER BY created_at, id
"""
_TOUCHING = """
    SELECT id, source_id, target_id, relation, weight, is_authored, created_at
    FROM association
    WHERE workspace_id = %(workspace_id)s
        AND (source_id = ANY(%(ids)s) OR target_id = ANY(%(ids)s))
    ORDER BY weight DESC, created_at, id
    LIMIT %(limit)s
"""


async def among(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[Association]:
    """The links between these memories."""
    return await _fetch(db, _AMONG, {"workspace_id": workspace_id, "ids": list(ids)})


async def touching(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId], limit: int
) -> list[Association]:
    """The strongest links that begin or end at these memories."""
    values = {"workspace_id": workspace_id, "ids": list(ids), "limit": limit}
    return await _fetch(db, _TOUCHING, values)


async def _fetch(db: Db, query: Any, values: dict[str, Any]) -> list[Association]:
    async with db.cursor(row_factory=kwargs_row(_association)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


def _association(**row: Any) -> Association:
    row["relation"] = Relation(row["relation"])
    return Association(**row)


class Step(NamedTuple):
    """A link followed from one memory to the next, the hop it was, and what lies at its end."""

    hop: int
    start_id: MemoryId
    end_id: MemoryId
    relation: str
    weight: float
    end_importance: float


# Both directions, two hops, the strongest links first; those that somebody made. A link made by
# likeness leads to what the other lists find by themselves, and would count it twice. The memory
# at the end of each hop must be one the caller may find; one in between need not match the filter,
# but it must be alive.
_FOLLOW = Numbered(f"""
    WITH first AS (
        SELECT DISTINCT ON (start_id, end_id, relation) * FROM (
            SELECT source_id AS start_id, target_id AS end_id, relation, weight
            FROM association
            WHERE workspace_id = %(workspace_id)s AND source_id = ANY(%(ids)s) AND is_authored
            UNION ALL
            SELECT target_id, source_id, relation, weight
            FROM association
            WHERE workspace_id = %(workspace_id)s AND target_id = ANY(%(ids)s) AND is_authored
        ) AS edge
        ORDER BY start_id, end_id, relation, weight DESC
        LIMIT %(most)s
    ),
    way AS (
        SELECT DISTINCT first.end_id AS id FROM first
        CROSS JOIN LATERAL (
            SELECT FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = first.end_id AND {VISIBLE}
            LIMIT 1
        ) AS alive
    ),
    second AS (
        SELECT * FROM (
            SELECT e.source_id AS start_id, e.target_id AS end_id, e.relation, e.weight
            FROM association e
            WHERE e.workspace_id = %(workspace_id)s AND e.is_authored
                AND e.source_id = ANY(ARRAY(SELECT id FROM way))
            UNION ALL
            SELECT e.target_id, e.source_id, e.relation, e.weight
            FROM association e
            WHERE e.workspace_id = %(workspace_id)s AND e.is_authored
                AND e.target_id = ANY(ARRAY(SELECT id FROM way))
        ) AS edge
        WHERE NOT end_id = ANY(%(ids)s)
        LIMIT %(most)s
    ),
    followed AS (
        SELECT 1 AS hop, * FROM first
        UNION ALL
        SELECT 2, * FROM second
    )
    SELECT followed.hop, followed.start_id, followed.end_id, followed.relation, followed.weight,
        found.importance AS end_importance
    FROM followed
    CROSS JOIN LATERAL (
        SELECT m.importance FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = followed.end_id
            AND {VISIBLE} AND {MATCHES}
        LIMIT 1
    ) AS found
    ORDER BY followed.hop, followed.weight DESC, followed.start_id, followed.end_id
""")


async def follow(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    wanted: Filter,
    *,
    most: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Step]:
    """The links reached from these memories within two hops, at most so many a hop."""
    if not ids:
        return []
    values = {
        "ids": IdArray(ids),
        **matching(wanted),
        "most": most,
        **visible_to(caller, now, view),
    }
    return await _FOLLOW.run(db, values, class_row(Step))


# What rests on a statement that has been replaced since may not hold any more.
_RESTING = f"""
    SELECT a.source_id
    FROM association a
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(ids)s)
        AND a.relation IN ('caused_by', 'result_of', 'part_of')
        AND EXISTS (
            SELECT FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = a.target_id
                AND (m.valid_until <= %(now)s OR m.deleted_at IS NOT NULL) AND {IN_SIGHT}
        )
"""


async def doubted(db: Db, caller: Caller, ids: Sequence[MemoryId], now: datetime) -> set[MemoryId]:
    """Those of the memories that rest on one which was replaced or forgotten since."""
    if not ids:
        return set()
    values = {**in_sight_of(caller), "ids": list(ids), "now": now}
    return {MemoryId(row[0]) for row in await (await db.execute(_RESTING, values)).fetchall()}


@dataclass(frozen=True, slots=True)
class Known:
    """A memory, and whether it rests on one that was replaced or forgotten since."""

    memory: Memory
    is_doubted: bool


_FIND_ALL = Numbered(f"SELECT {COLUMNS}, m.id = ANY(ARRAY({_RESTING})) AS is_doubted {FOUND}")


async def find_all(
    db: Db, caller: Caller, ids: Sequence[MemoryId], now: datetime, view: View = CURRENT
) -> dict[MemoryId, Known]:
    """As `memories.find_all`, and which of them are in doubt: one statement instead of two."""
    if not ids:
        return {}
    values = {"ids": IdArray(ids), **visible_to(caller, now, view)}
    found = await _FIND_ALL.run(db, values, kwargs_row(_known))
    return {each.memory.id: each for each in found}


def _known(is_doubted: bool, **row: Any) -> Known:  # noqa: FBT001 - the name of a column
    return Known(memory_from_row(**row), is_doubted)
