"""The rows of `memory_link` (links between memories): create, find and follow for two hops."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import class_row, kwargs_row

from recollect.core.domain import (
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
from recollect.db.arrays import IdArray
from recollect.db.pool import Db, PreparedQuery
from recollect.db.visibility import IN_SCOPE, VISIBLE, scope_values, visibility_values
from recollect.memories.queries.decay import FADED, REPEATED
from recollect.memories.queries.memories import (
    COLUMNS,
    FOUND,
    MATCHES_FILTER,
    filter_values,
    memory_from_row,
)

# A requested (authored) link is never downgraded to one by similarity. Both ends are locked,
# because the foreign key check would otherwise wait for a delete of one of them and then fail.
_PUT = """
    INSERT INTO memory_link AS known (
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
    """Store a link; storing it again overwrites its weight. False if nothing was written.

    For an authored link, that means one of the ends has been deleted in the meantime.
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
    DELETE FROM memory_link
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
    """Delete a link; False if there was none."""
    values = {
        "workspace_id": workspace_id,
        "source_id": source_id,
        "target_id": target_id,
        "relation": relation,
    }
    return (await db.execute(_REMOVE, values)).rowcount > 0


_LINKS_AMONG = """
    SELECT id, source_id, target_id, relation, weight, is_authored, created_at
    FROM memory_link
    WHERE workspace_id = %(workspace_id)s
        AND source_id = ANY(%(ids)s) AND target_id = ANY(%(ids)s)
    ORDER BY created_at, id
"""
# For each memory, relation by relation, in index order. Links to memories that the caller cannot
# see do not count towards the limit, but at most 5,000 links are examined to skip them.
_LINKS_OF = f"""
    SELECT DISTINCT link.*, kind.relation, kind.is_authored
    FROM unnest(%(ids)s::uuid[]) AS s (id)
    CROSS JOIN (
        SELECT * FROM unnest(%(relations)s::text[]) AS named (relation)
        CROSS JOIN (VALUES (true), (false)) AS made (is_authored)
    ) AS kind
    CROSS JOIN LATERAL (
        (
            SELECT edge.* FROM (
                SELECT a.id, a.source_id, a.target_id, a.weight, a.created_at
                FROM memory_link a
                WHERE a.workspace_id = %(workspace_id)s AND a.source_id = s.id
                    AND a.is_authored = kind.is_authored AND a.relation = kind.relation
                ORDER BY a.weight DESC, a.target_id
                LIMIT (SELECT 5000)
            ) AS edge
            CROSS JOIN LATERAL (
                SELECT FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.id = edge.target_id AND {VISIBLE}
                LIMIT 1
            ) AS live
            ORDER BY edge.weight DESC, edge.target_id
            LIMIT %(limit)s
        )
        UNION ALL
        (
            SELECT edge.* FROM (
                SELECT a.id, a.source_id, a.target_id, a.weight, a.created_at
                FROM memory_link a
                WHERE a.workspace_id = %(workspace_id)s AND a.target_id = s.id
                    AND a.is_authored = kind.is_authored AND a.relation = kind.relation
                ORDER BY a.weight DESC, a.source_id
                LIMIT (SELECT 5000)
            ) AS edge
            CROSS JOIN LATERAL (
                SELECT FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.id = edge.source_id AND {VISIBLE}
                LIMIT 1
            ) AS live
            ORDER BY edge.weight DESC, edge.source_id
            LIMIT %(limit)s
        )
    ) AS link
    ORDER BY weight DESC, created_at, id
    LIMIT %(limit)s
"""


async def links_among(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> list[Association]:
    """Return the links between these memories."""
    return await _fetch(db, _LINKS_AMONG, {"workspace_id": workspace_id, "ids": list(ids)})


async def links_of(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Association]:
    """Return the strongest links between these memories and others that the caller can see."""
    values = {
        "ids": list(ids),
        "relations": list(Relation),
        "limit": limit,
        **visibility_values(caller, now, view),
    }
    return await _fetch(db, _LINKS_OF, values)


async def _fetch(db: Db, query: Any, values: dict[str, Any]) -> list[Association]:
    async with db.cursor(row_factory=kwargs_row(_association_from_row)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()


def _association_from_row(**row: Any) -> Association:
    row["relation"] = Relation(row["relation"])
    return Association(**row)


class LinkStep(NamedTuple):
    """A followed link: the hop, its two ends, and the importance of the memory it leads to."""

    hop: int
    start_id: MemoryId
    end_id: MemoryId
    relation: str
    weight: float
    end_importance: float


# From a memory `s`, by one relation: the strongest links first, in index order, so that a hub with
# 100,000 links is mostly not read whole. Links to memories that the caller cannot see do not count
# towards the limit, but at most 1,000 links are examined to skip them. The LIMIT is a subquery on
# purpose: if a constant exceeds the average number of links per memory, the planner reads and sorts
# all links of a hub; with a computed limit it expects an early stop. For a medium number of links
# the planner may still sort them all, once.
_OUTWARD = """
    SELECT a.target_id AS end_id, a.weight
    FROM memory_link a
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = s.id AND a.is_authored
        AND a.relation = kind.relation
    ORDER BY a.weight DESC, a.target_id
    LIMIT (SELECT 1000)
"""
_INWARD = """
    SELECT a.source_id AS end_id, a.weight
    FROM memory_link a
    WHERE a.workspace_id = %(workspace_id)s AND a.target_id = s.id AND a.is_authored
        AND a.relation = kind.relation
    ORDER BY a.weight DESC, a.source_id
    LIMIT (SELECT 1000)
"""
_VISIBLE_END = f"""
    SELECT m.importance, ({MATCHES_FILTER}) AS is_wanted
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = edge.end_id AND {VISIBLE}
    LIMIT 1
"""
# Most memories have no links; then nothing else is queried. Ordered by the index, although any row
# would do: otherwise, if most links of a workspace lead to one memory, the planner scans them all.
_HAS_LINKS = """
    (
        SELECT FROM memory_link a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = s.id AND a.is_authored
        ORDER BY a.relation, a.weight DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT FROM memory_link a
        WHERE a.workspace_id = %(workspace_id)s AND a.target_id = s.id AND a.is_authored
        ORDER BY a.relation, a.weight DESC
        LIMIT 1
    )
    LIMIT 1
"""
# Rank by round: the strongest link of every memory and relation, then the second strongest, and so
# on. No hub displaces the links of other memories, nor its own links by other relations.
_STEPS = f"""
    SELECT s.id AS start_id, step.end_id, kind.relation, step.weight, step.importance,
        step.is_wanted,
        row_number() OVER (
            PARTITION BY s.id, kind.relation ORDER BY step.weight DESC, step.end_id
        ) AS round
    FROM starts AS s
    CROSS JOIN LATERAL ({_HAS_LINKS}) AS linked
    CROSS JOIN unnest(%(relations)s::text[]) AS kind (relation)
    CROSS JOIN LATERAL (
        (
            SELECT edge.end_id, edge.weight, seen.importance, seen.is_wanted
            FROM ({_OUTWARD}) AS edge
            CROSS JOIN LATERAL ({_VISIBLE_END}) AS seen
            WHERE s.is_seed OR edge.end_id <> ALL(%(ids)s)
            ORDER BY edge.weight DESC, edge.end_id
            LIMIT s.max_links
        )
        UNION ALL
        (
            SELECT edge.end_id, edge.weight, seen.importance, seen.is_wanted
            FROM ({_INWARD}) AS edge
            CROSS JOIN LATERAL ({_VISIBLE_END}) AS seen
            WHERE s.is_seed OR edge.end_id <> ALL(%(ids)s)
            ORDER BY edge.weight DESC, edge.end_id
            LIMIT s.max_links
        )
    ) AS step
"""
# Both directions, two hops, authored links only. A link by similarity leads to memories that the
# other candidate lists find anyway, and would count them twice. The caller must be able to see the
# memory at the end of each hop. A memory in between need not match the filter, but must be live.
_FOLLOW = PreparedQuery(f"""
    WITH first AS MATERIALIZED (
        WITH starts AS (
            SELECT seed.id, true AS is_seed, %(limit)s::integer AS max_links
            FROM unnest(%(ids)s) AS seed (id)
        )
        {_STEPS}
    ),
    second AS MATERIALIZED (
        WITH starts AS (
            SELECT end_id AS id, false AS is_seed, 20 AS max_links
            FROM first
            WHERE end_id <> ALL(%(ids)s)
            GROUP BY end_id
            ORDER BY min(round), max(weight) DESC, end_id
            LIMIT %(limit)s
        )
        {_STEPS}
    ),
    followed AS (
        (
            SELECT 1 AS hop, * FROM first
            WHERE is_wanted
            ORDER BY round, weight DESC, start_id, end_id
            LIMIT %(limit)s
        )
        UNION ALL
        (
            SELECT 2, * FROM second
            WHERE is_wanted
            ORDER BY round, weight DESC, start_id, end_id
            LIMIT %(limit)s
        )
    )
    SELECT hop, start_id, end_id, relation, weight, importance AS end_importance
    FROM followed
    ORDER BY hop, weight DESC, start_id, end_id
""")


async def follow(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[LinkStep]:
    """Return the links reached from these memories within two hops, at most `limit` per hop."""
    if not ids:
        return []
    values = {
        "ids": IdArray(ids),
        **filter_values(wanted),
        "relations": list(Relation),
        "limit": limit,
        **visibility_values(caller, now, view),
    }
    return await _FOLLOW.run(db, values, class_row(LinkStep))


# A memory that depends on a statement that was superseded or forgotten may no longer hold. A
# statement that only decayed, or was forgotten as a repetition, causes no doubt.
_WAS_MAINTENANCE = f"(m.delete_reason IN ('{FADED}', '{REPEATED}'))"
_IN_DOUBT = f"""
    SELECT a.source_id
    FROM memory_link a
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(ids)s)
        AND a.relation IN ('caused_by', 'result_of', 'part_of')
        AND EXISTS (
            SELECT FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = a.target_id
                AND (m.valid_until <= %(now)s
                     OR (m.deleted_at IS NOT NULL AND {_WAS_MAINTENANCE} IS NOT TRUE))
                AND {IN_SCOPE}
        )
"""


async def contradicted(
    db: Db, caller: Caller, ids: Sequence[MemoryId], now: datetime
) -> set[MemoryId]:
    """Return the memories that depend on one that was superseded or forgotten."""
    if not ids:
        return set()
    values = {**scope_values(caller), "ids": list(ids), "now": now}
    return {MemoryId(row[0]) for row in await (await db.execute(_IN_DOUBT, values)).fetchall()}


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """A memory, and whether it depends on one that was superseded or forgotten."""

    memory: Memory
    is_doubted: bool


_FIND_ALL = PreparedQuery(f"SELECT {COLUMNS}, m.id = ANY(ARRAY({_IN_DOUBT})) AS is_doubted {FOUND}")


async def find_all(
    db: Db, caller: Caller, ids: Sequence[MemoryId], now: datetime, view: View = CURRENT
) -> dict[MemoryId, LinkedMemory]:
    """Like `memories.find_all`, and whether each is in doubt: one statement instead of two."""
    if not ids:
        return {}
    values = {"ids": IdArray(ids), **visibility_values(caller, now, view)}
    found = await _FIND_ALL.run(db, values, kwargs_row(_linked_from_row))
    return {each.memory.id: each for each in found}


def _linked_from_row(is_doubted: bool, **row: Any) -> LinkedMemory:  # noqa: FBT001 - the name of a column
    return LinkedMemory(memory_from_row(**row), is_doubted)
