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
from recollect.store.visible import IN_SIGHT, PLACE, VISIBLE, in_sight_of, visible_to
from recollect.store.wear import SAID_AGAIN, WORN_OUT

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


# What is closed hangs on whole chains of links, and a transaction holds the rows of two: whatever
# makes or takes away a link that replaces, or a memory that may be in such a chain, comes one at a
# time in its workspace. Two that are linked the other way round at the same moment would close each
# other, and one whose only successor goes would stay closed.
_TAKE_TURN = """
    SELECT pg_advisory_xact_lock(hashtextextended('replacing/' || %(workspace_id)s::text, 0))
"""


async def take_turn(db: Db, workspace_id: WorkspaceId) -> None:
    """Wait for others who change what replaces what; to be asked before any memory is held."""
    await db.execute(_TAKE_TURN, {"workspace_id": workspace_id})


# Replacing: what closes a statement is the first `updates` that somebody made and whose own memory
# stands, so what is closed can always be told from the links, whatever was done in which order. One
# that was forgotten stands no more, and one said again since has its links there. What is merely
# worn out was no less true.
_STANDS = f"(n.deleted_at IS NULL OR n.delete_reason = '{WORN_OUT}')"
_REPLACES = "a.relation = 'updates' AND a.is_authored"
# Nobody's own word ends what others see: whoever sees the older statement must see the newer one.
_IS_SEEN_AS_FAR = f"""
    (n.scope = 'workspace' OR ({PLACE.replace("m.", "n.")}) = ({PLACE.replace("m.", "t.")}))
"""
# Behind one that does not stand, whoever replaced that: who forgets the second of three statements
# does not mean the first to be true again.
CLOSED_BY = f"""
    SELECT above.source_id, above.created_at
    FROM (
        WITH RECURSIVE above AS (
            SELECT a.source_id, a.created_at
            FROM association a
            WHERE a.workspace_id = %(workspace_id)s AND a.target_id = t.id AND {_REPLACES}
            UNION
            SELECT a.source_id, a.created_at
            FROM above
            JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = above.source_id
            JOIN association a
                ON a.workspace_id = %(workspace_id)s AND a.target_id = n.id AND {_REPLACES}
            WHERE {_STANDS} IS NOT TRUE AND {_IS_SEEN_AS_FAR}
        )
        SELECT above.source_id, above.created_at FROM above
    ) AS above
    JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = above.source_id
    WHERE {_STANDS} AND {_IS_SEEN_AS_FAR} AND n.id <> t.id
    ORDER BY above.created_at, above.source_id
    LIMIT 1
"""
_HOLD = """
    SELECT id FROM memory
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)
    ORDER BY id
    FOR NO KEY UPDATE
"""
_SETTLE = f"""
    UPDATE memory
    SET superseded_by = said.by, valid_until = said.at, updated_at = %(now)s, version = version + 1
    FROM (
        SELECT t.id, first.source_id AS by, first.created_at AS at
        FROM memory t
        LEFT JOIN LATERAL ({CLOSED_BY}) AS first ON true
        WHERE t.workspace_id = %(workspace_id)s AND t.id = ANY(%(ids)s)
    ) AS said
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = said.id
        AND (superseded_by IS DISTINCT FROM said.by
             OR (said.by IS NOT NULL AND valid_until IS DISTINCT FROM said.at))
        AND (superseded_by IS NOT NULL OR valid_until IS NULL OR valid_until > %(now)s)
    RETURNING memory.id, superseded_by
"""


async def hold(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Let nobody else replace these or be replaced by them until the transaction ends."""
    await db.execute(_HOLD, {"workspace_id": workspace_id, "ids": list(ids)})


async def settle(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId], now: datetime
) -> list[MemoryId]:
    """Close these statements if another replaces them, open them if none does; which were opened.

    Hidden ones too: they come back as they would be now.
    """
    await hold(db, workspace_id, ids)  # so that every link made before is seen
    values = {"workspace_id": workspace_id, "ids": list(ids), "now": now}
    settled = await (await db.execute(_SETTLE, values)).fetchall()
    return [MemoryId(memory_id) for memory_id, replaced_by in settled if replaced_by is None]


_REPLACED = f"""
    WITH RECURSIVE below AS (
        SELECT a.target_id AS id
        FROM association a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(ids)s) AND {_REPLACES}
        UNION
        SELECT a.target_id
        FROM below
        JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = below.id
        JOIN association a
            ON a.workspace_id = %(workspace_id)s AND a.source_id = n.id AND {_REPLACES}
        WHERE {_STANDS} IS NOT TRUE
    )
    SELECT id FROM below WHERE id <> ALL(%(ids)s)
"""


async def replaced(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[MemoryId]:
    """What these replace, directly or behind others that do not stand."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    return [MemoryId(row[0]) for row in await (await db.execute(_REPLACED, values)).fetchall()]


# What was taken back still links the two, as likeness would.
_TAKE_BACK = f"""
    UPDATE association a SET is_authored = false
    WHERE a.workspace_id = %(workspace_id)s AND a.target_id = %(id)s AND {_REPLACES}
"""
_TURN_ROUND = f"""
    WITH RECURSIVE below AS (
        SELECT unnest(%(ids)s::uuid[]) AS id
        UNION
        SELECT a.target_id
        FROM below
        JOIN association a
            ON a.workspace_id = %(workspace_id)s AND a.source_id = below.id AND {_REPLACES}
    )
    UPDATE association a SET is_authored = false
    FROM below
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = below.id AND a.target_id = %(id)s
        AND {_REPLACES}
"""


async def take_back(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> None:
    """Let nothing replace this statement any more."""
    await db.execute(_TAKE_BACK, {"workspace_id": workspace_id, "id": memory_id})


async def turn_round(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, ids: Sequence[MemoryId]
) -> None:
    """Let these, and what they have replaced, no longer replace a statement that replaces them.

    In a ring nothing would be current.
    """
    values = {"workspace_id": workspace_id, "id": memory_id, "ids": list(ids)}
    await db.execute(_TURN_ROUND, values)


# What replaced the older one would have closed it, unless it does not stand: that is no word about
# what was said again.
_HAND_ON = """
    INSERT INTO association AS known (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    SELECT a.workspace_id, gen_random_uuid(),
        CASE a.source_id WHEN %(id)s THEN %(newer_id)s ELSE a.source_id END,
        CASE a.target_id WHEN %(id)s THEN %(newer_id)s ELSE a.target_id END,
        a.relation, a.weight, true, a.created_at
    FROM association a
    JOIN memory other ON other.workspace_id = a.workspace_id
        AND other.id = CASE a.source_id WHEN %(id)s THEN a.target_id ELSE a.source_id END
    WHERE a.workspace_id = %(workspace_id)s AND a.is_authored
        AND (a.source_id = %(id)s OR (a.target_id = %(id)s AND a.relation <> 'updates'))
        AND other.id <> %(newer_id)s
    FOR KEY SHARE OF other
    ON CONFLICT (workspace_id, source_id, target_id, relation) DO UPDATE
    SET weight = EXCLUDED.weight, is_authored = true, created_at = EXCLUDED.created_at
    WHERE NOT known.is_authored
"""


async def hand_on(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, newer_id: MemoryId
) -> None:
    """Link the newer memory as somebody has linked the older one, which keeps its links."""
    values = {"workspace_id": workspace_id, "id": memory_id, "newer_id": newer_id}
    await db.execute(_HAND_ON, values)


# For memories that are about to be deleted, and their links with them.
INHERIT = f"""
    INSERT INTO association AS known (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    WITH RECURSIVE through AS (
        SELECT a.source_id, a.target_id, a.weight, a.created_at
        FROM association a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(memory_ids)s)
            AND {_REPLACES}
        UNION
        SELECT a.source_id, through.target_id, a.weight, a.created_at
        FROM through
        JOIN association a
            ON a.workspace_id = %(workspace_id)s AND a.target_id = through.source_id
            AND {_REPLACES}
        WHERE through.source_id = ANY(%(memory_ids)s)
    )
    SELECT source.workspace_id, gen_random_uuid(), source.id, target.id, 'updates', heir.weight,
        true, heir.created_at
    FROM (
        SELECT DISTINCT ON (source_id, target_id) * FROM through
        WHERE source_id <> ALL(%(memory_ids)s) AND target_id <> ALL(%(memory_ids)s)
            AND source_id <> target_id
        ORDER BY source_id, target_id, created_at
    ) AS heir
    JOIN memory source ON source.workspace_id = %(workspace_id)s AND source.id = heir.source_id
    JOIN memory target ON target.workspace_id = %(workspace_id)s AND target.id = heir.target_id
    FOR KEY SHARE OF source, target
    ON CONFLICT (workspace_id, source_id, target_id, relation) DO UPDATE
    SET weight = EXCLUDED.weight, is_authored = true, created_at = EXCLUDED.created_at
    WHERE NOT known.is_authored
"""


async def inherit(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Have whatever replaces these memories replace what they have replaced: they go for good."""
    await db.execute(INHERIT, {"workspace_id": workspace_id, "memory_ids": list(ids)})


_AMONG = """
    SELECT id, source_id, target_id, relation, weight, is_authored, created_at
    FROM association
    WHERE workspace_id = %(workspace_id)s
        AND source_id = ANY(%(ids)s) AND target_id = ANY(%(ids)s)
    ORDER BY created_at, id
"""
# Of each of the memories, relation by relation, in the order of the index. What the caller does not
# see takes up no room, but no more than a few thousand are looked at for it.
_TOUCHING = f"""
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
                FROM association a
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
                FROM association a
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


async def among(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[Association]:
    """The links between these memories."""
    return await _fetch(db, _AMONG, {"workspace_id": workspace_id, "ids": list(ids)})


async def touching(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Association]:
    """The strongest links between these memories and others that the caller may find."""
    values = {
        "ids": list(ids),
        "relations": list(Relation),
        "limit": limit,
        **visible_to(caller, now, view),
    }
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


# From a memory `s`, by one relation: the strongest first, in the order of the index, so that a hub
# of a hundred thousand links is mostly not read whole. What the caller does not see takes up no
# room, but no more than a thousand are looked at for it. With a plain number as LIMIT, more than
# memories have links on average, all of a hub's are read and sorted; one to be computed is expected
# to cut. Where links are of middling number the planner may sort them all the same, once.
_OUTWARD = """
    SELECT a.target_id AS end_id, a.weight
    FROM association a
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = s.id AND a.is_authored
        AND a.relation = kind.relation
    ORDER BY a.weight DESC, a.target_id
    LIMIT (SELECT 1000)
"""
_INWARD = """
    SELECT a.source_id AS end_id, a.weight
    FROM association a
    WHERE a.workspace_id = %(workspace_id)s AND a.target_id = s.id AND a.is_authored
        AND a.relation = kind.relation
    ORDER BY a.weight DESC, a.source_id
    LIMIT (SELECT 1000)
"""
_SEEN = f"""
    SELECT m.importance, ({MATCHES}) AS is_wanted
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = edge.end_id AND {VISIBLE}
    LIMIT 1
"""
# Most memories have no links: then nothing else is asked. In the order of the index, though any one
# would do: else a workspace whose links mostly lead to one memory is looked through row by row.
_LINKED = """
    (
        SELECT FROM association a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = s.id AND a.is_authored
        ORDER BY a.relation, a.weight DESC
        LIMIT 1
    )
    UNION ALL
    (
        SELECT FROM association a
        WHERE a.workspace_id = %(workspace_id)s AND a.target_id = s.id AND a.is_authored
        ORDER BY a.relation, a.weight DESC
        LIMIT 1
    )
    LIMIT 1
"""
# By turns: of every memory and relation the strongest, then the next ones. No hub crowds out what
# the others lead to, nor what leads elsewhere from itself.
_STEPS = f"""
    SELECT s.id AS start_id, step.end_id, kind.relation, step.weight, step.importance,
        step.is_wanted,
        row_number() OVER (
            PARTITION BY s.id, kind.relation ORDER BY step.weight DESC, step.end_id
        ) AS turn
    FROM starts AS s
    CROSS JOIN LATERAL ({_LINKED}) AS linked
    CROSS JOIN unnest(%(relations)s::text[]) AS kind (relation)
    CROSS JOIN LATERAL (
        (
            SELECT edge.end_id, edge.weight, seen.importance, seen.is_wanted
            FROM ({_OUTWARD}) AS edge
            CROSS JOIN LATERAL ({_SEEN}) AS seen
            WHERE s.is_seed OR edge.end_id <> ALL(%(ids)s)
            ORDER BY edge.weight DESC, edge.end_id
            LIMIT s.most
        )
        UNION ALL
        (
            SELECT edge.end_id, edge.weight, seen.importance, seen.is_wanted
            FROM ({_INWARD}) AS edge
            CROSS JOIN LATERAL ({_SEEN}) AS seen
            WHERE s.is_seed OR edge.end_id <> ALL(%(ids)s)
            ORDER BY edge.weight DESC, edge.end_id
            LIMIT s.most
        )
    ) AS step
"""
# Both directions, two hops; those that somebody made. A link made by likeness leads to what the
# other lists find by themselves, and would count it twice. The memory at the end of each hop must
# be one the caller may find; one in between need not match the filter, but it must be alive.
_FOLLOW = Numbered(f"""
    WITH first AS MATERIALIZED (
        WITH starts AS (
            SELECT seed.id, true AS is_seed, %(most)s::integer AS most
            FROM unnest(%(ids)s) AS seed (id)
        )
        {_STEPS}
    ),
    second AS MATERIALIZED (
        WITH starts AS (
            SELECT end_id AS id, false AS is_seed, 20 AS most
            FROM first
            WHERE end_id <> ALL(%(ids)s)
            GROUP BY end_id
            ORDER BY min(turn), max(weight) DESC, end_id
            LIMIT %(most)s
        )
        {_STEPS}
    ),
    followed AS (
        (
            SELECT 1 AS hop, * FROM first
            WHERE is_wanted
            ORDER BY turn, weight DESC, start_id, end_id
            LIMIT %(most)s
        )
        UNION ALL
        (
            SELECT 2, * FROM second
            WHERE is_wanted
            ORDER BY turn, weight DESC, start_id, end_id
            LIMIT %(most)s
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
        "relations": list(Relation),
        "most": most,
        **visible_to(caller, now, view),
    }
    return await _FOLLOW.run(db, values, class_row(Step))


# What rests on a statement that has been replaced or forgotten since may not hold any more. That
# nobody asked for it, or that it was said again, is no doubt.
_BY_TIME = f"(m.delete_reason IN ('{WORN_OUT}', '{SAID_AGAIN}'))"
_RESTING = f"""
    SELECT a.source_id
    FROM association a
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(ids)s)
        AND a.relation IN ('caused_by', 'result_of', 'part_of')
        AND EXISTS (
            SELECT FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = a.target_id
                AND (m.valid_until <= %(now)s
                     OR (m.deleted_at IS NOT NULL AND {_BY_TIME} IS NOT TRUE))
                AND {IN_SIGHT}
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
