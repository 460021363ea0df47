"""Embedding generations of a workspace, and which memories still lack a vector in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import Caller, MemoryId, ThreadId, WorkspaceId
from recollect.store.pool import Db
from recollect.store.visible import DOCUMENT_IN_SIGHT, IN_SIGHT, in_sight_of


@dataclass(frozen=True, slots=True)
class Generation:
    """One vector space: what made it, how wide it is, and whether it serves yet."""

    number: int
    endpoint: str
    model: str
    dimension: int
    fingerprint: Sequence[float]
    state: str


class Indexed(NamedTuple):
    """A vector index: how many memories it holds, about, and which share all that search it see."""

    size: int
    shared: float = 1.0


@dataclass(frozen=True, slots=True)
class Space:
    """What a workspace embeds with: its choice of embedder, and its generations in use."""

    embedder: str | None
    serving: Generation | None
    filling: Generation | None
    # The vector indexes of the serving generation, by the thread they are of; None is the whole
    # workspace.
    indexed: Mapping[ThreadId | None, Indexed] = field(
        default_factory=dict[ThreadId | None, Indexed]
    )


_EMBEDDER = "SELECT embedder FROM workspace WHERE id = %(workspace_id)s"
_IN_USE = """
    SELECT number, endpoint, model, dimension, fingerprint, state
    FROM generation
    WHERE workspace_id = %(workspace_id)s AND state IN ('serving', 'filling')
"""


async def space(db: Db, workspace_id: WorkspaceId) -> Space:
    """What the workspace embeds with right now."""
    values = {"workspace_id": workspace_id}
    row = await (await db.execute(_EMBEDDER, values)).fetchone()
    async with db.cursor(row_factory=class_row(Generation)) as cursor:
        await cursor.execute(_IN_USE, values)
        by_state = {each.state: each for each in await cursor.fetchall()}
    serving = by_state.get("serving")
    indexed = await _indexed(db, workspace_id, serving.number) if serving else {}
    return Space(row[0] if row else None, serving, by_state.get("filling"), indexed)


# Of a workspace's index its members see what is everybody's; of a thread's, all that is in it.
_INDEXED = """
    SELECT i.thread_id, greatest(1, sum(t.documents))::bigint,
        coalesce(sum(t.documents) FILTER (WHERE t.place = i.workspace_id), 0)::float8
            / greatest(1, sum(t.documents))
    FROM vector_index i
    LEFT JOIN word_tally t ON t.workspace_id = i.workspace_id
    WHERE i.workspace_id = %(workspace_id)s AND i.generation = %(generation)s AND i.is_ready
        AND i.thread_id IS NULL
    GROUP BY i.thread_id
    UNION ALL
    SELECT i.thread_id, greatest(1, sum(t.documents))::bigint, 1
    FROM vector_index i
    LEFT JOIN word_tally t ON t.workspace_id = i.workspace_id AND t.place = i.thread_id
    WHERE i.workspace_id = %(workspace_id)s AND i.generation = %(generation)s AND i.is_ready
        AND i.thread_id IS NOT NULL
    GROUP BY i.thread_id
"""


async def _indexed(
    db: Db, workspace_id: WorkspaceId, generation: int
) -> dict[ThreadId | None, Indexed]:
    values = {"workspace_id": workspace_id, "generation": generation}
    rows = await (await db.execute(_INDEXED, values)).fetchall()
    return {thread_id: Indexed(size, shared) for thread_id, size, shared in rows}


# Taken by every save, so that the switch, which takes it FOR UPDATE, waits for saves under way.
_SERVING_HELD = """
    SELECT number, endpoint, model, dimension, fingerprint, state
    FROM generation
    WHERE workspace_id = %(workspace_id)s AND state = 'serving'
    FOR SHARE
"""


async def hold_serving(db: Db, workspace_id: WorkspaceId) -> Generation | None:
    """The serving generation, which cannot change until this transaction ends."""
    async with db.cursor(row_factory=class_row(Generation)) as cursor:
        await cursor.execute(_SERVING_HELD, {"workspace_id": workspace_id})
        return await cursor.fetchone()


# What an earlier model would not embed, a new one may.
_FORGIVE = """
    UPDATE memory SET vector_refused = false
    WHERE workspace_id = %(workspace_id)s AND vector_refused
"""
_FORGIVE_CHUNKS = """
    UPDATE chunk SET vector_refused = false
    WHERE workspace_id = %(workspace_id)s AND vector_refused
"""
_BEGIN = """
    INSERT INTO generation (
        workspace_id, number, endpoint, model, dimension, fingerprint, state, created_at, served_at
    )
    SELECT %(workspace_id)s, coalesce(max(number), 0) + 1, %(endpoint)s, %(model)s,
        %(dimension)s, %(fingerprint)s, %(state)s, %(now)s,
        CASE WHEN %(state)s = 'serving' THEN %(now)s::timestamptz END
    FROM generation
    WHERE workspace_id = %(workspace_id)s
    ON CONFLICT DO NOTHING
"""


async def begin(
    db: Db,
    workspace_id: WorkspaceId,
    *,
    endpoint: str,
    model: str,
    fingerprint: Sequence[float],
    state: str,
    now: datetime,
) -> bool:
    """Open a new generation; False when another process was first."""
    await db.execute(_FORGIVE, {"workspace_id": workspace_id})
    await db.execute(_FORGIVE_CHUNKS, {"workspace_id": workspace_id})
    cursor = await db.execute(
        _BEGIN,
        {
            "workspace_id": workspace_id,
            "endpoint": endpoint,
            "model": model,
            "dimension": len(fingerprint),
            "fingerprint": list(fingerprint),
            "state": state,
            "now": now,
        },
    )
    return cursor.rowcount > 0


# Saves that look for a twin first come one at a time in a workspace; otherwise two at the same
# instant would each find nothing and both be kept.
_HOLD_FOR_TWINS = (
    "SELECT pg_advisory_xact_lock(hashtextextended('twin' || %(workspace_id)s::text, 0))"
)


async def hold_for_twins(db: Db, workspace_id: WorkspaceId) -> None:
    """Wait for other saves that look for a twin in this workspace."""
    await db.execute(_HOLD_FOR_TWINS, {"workspace_id": workspace_id})


@dataclass(frozen=True, slots=True)
class Lacking:
    """A memory that wants a vector in some generation."""

    id: MemoryId
    content: str
    content_version: int


_LACKING = """
    SELECT m.id, m.content, m.content_version
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.wants_vector AND NOT m.vector_refused
        AND m.deleted_at IS NULL AND m.id > %(after)s
        AND NOT EXISTS (
            SELECT FROM memory_vector v
            WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
                AND v.generation = %(generation)s AND v.content_version = m.content_version
        )
    ORDER BY m.id
    LIMIT %(limit)s
"""


async def lacking(
    db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
) -> list[Lacking]:
    """Memories without a vector of their present text, by id, from just behind a given one on."""
    async with db.cursor(row_factory=class_row(Lacking)) as cursor:
        await cursor.execute(
            _LACKING,
            {
                "workspace_id": workspace_id,
                "generation": generation,
                "after": after,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


# A vector of an earlier text goes with it: nothing else is to come in its place.
_REFUSED = """
    WITH refused AS (
        UPDATE memory SET vector_refused = true
        WHERE workspace_id = %(workspace_id)s AND id = %(id)s
            AND content_version = %(content_version)s
        RETURNING id
    )
    DELETE FROM memory_vector v
    USING refused
    WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = refused.id
        AND v.content_version <> %(content_version)s
"""


async def mark_refused(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, content_version: int
) -> None:
    """Remember that the embedder will not have this text; one changed since is left."""
    values = {
        "workspace_id": workspace_id,
        "id": memory_id,
        "content_version": content_version,
    }
    await db.execute(_REFUSED, values)


_HOLD_ALL = """
    SELECT number FROM generation
    WHERE workspace_id = %(workspace_id)s AND state IN ('serving', 'filling')
    ORDER BY number
    FOR UPDATE
"""
_RETIRE = """
    UPDATE generation SET state = 'retired'
    WHERE workspace_id = %(workspace_id)s AND state = 'serving'
"""
_SERVE = """
    UPDATE generation SET state = 'serving', served_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND number = %(number)s AND state = 'filling'
"""


async def hold_for_switch(db: Db, workspace_id: WorkspaceId) -> None:
    """Keep saves from choosing a generation until this transaction ends."""
    await db.execute(_HOLD_ALL, {"workspace_id": workspace_id})


async def switch(db: Db, workspace_id: WorkspaceId, number: int, now: datetime) -> bool:
    """Let the filled generation serve and retire the old one."""
    values = {"workspace_id": workspace_id, "number": number, "now": now}
    await db.execute(_RETIRE, values)
    return (await db.execute(_SERVE, values)).rowcount > 0


_ABANDON = """
    UPDATE generation SET state = 'retired'
    WHERE workspace_id = %(workspace_id)s AND state = 'filling'
"""


async def abandon_filling(db: Db, workspace_id: WorkspaceId) -> None:
    """Give up a half-filled generation, because yet another model was configured."""
    await db.execute(_ABANDON, {"workspace_id": workspace_id})


_DROP_VECTORS = """
    DELETE FROM memory_vector v
    WHERE v.workspace_id = %(workspace_id)s AND (v.memory_id, v.generation) IN (
        SELECT old.memory_id, old.generation
        FROM memory_vector old
        JOIN generation g ON g.workspace_id = old.workspace_id AND g.number = old.generation
        WHERE old.workspace_id = %(workspace_id)s AND g.state = 'retired'
        LIMIT %(limit)s
    )
"""


async def drop_retired(db: Db, workspace_id: WorkspaceId, limit: int) -> int:
    """Delete some vectors of retired generations; return how many."""
    values = {"workspace_id": workspace_id, "limit": limit}
    return (await db.execute(_DROP_VECTORS, values)).rowcount


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a generation is: vectors really there, of memories and chunks that want one."""

    workspace_id: WorkspaceId
    number: int
    model: str
    state: str
    filled: int
    wanted: int


_PROGRESS = """
    SELECT g.workspace_id, g.number, g.model, g.state,
        (SELECT count(*) FROM memory_vector v
         WHERE v.workspace_id = g.workspace_id AND v.generation = g.number
            AND v.deleted_at IS NULL)
        + (SELECT count(*) FROM chunk_vector cv
           WHERE cv.workspace_id = g.workspace_id AND cv.generation = g.number) AS filled,
        (SELECT count(*) FROM memory m
         WHERE m.workspace_id = g.workspace_id AND m.wants_vector AND NOT m.vector_refused
            AND m.deleted_at IS NULL)
        + (SELECT count(*) FROM chunk c
           WHERE c.workspace_id = g.workspace_id AND NOT c.vector_refused) AS wanted
    FROM generation g
    WHERE g.workspace_id = %(workspace_id)s AND g.state IN ('serving', 'filling')
    ORDER BY g.number
"""


# The same of what a caller sees: how much there is of others' is not for them to know.
_PROGRESS_IN_SIGHT = f"""
    SELECT g.workspace_id, g.number, g.model, g.state,
        (SELECT count(*) FROM memory_vector m
         WHERE m.workspace_id = g.workspace_id AND m.generation = g.number
            AND m.deleted_at IS NULL AND ({IN_SIGHT}))
        + (SELECT count(*) FROM chunk_vector cv
           JOIN document d ON d.workspace_id = cv.workspace_id AND d.id = cv.document_id
           WHERE cv.workspace_id = g.workspace_id AND cv.generation = g.number
            AND {DOCUMENT_IN_SIGHT}) AS filled,
        (SELECT count(*) FROM memory m
         WHERE m.workspace_id = g.workspace_id AND m.wants_vector AND NOT m.vector_refused
            AND m.deleted_at IS NULL AND ({IN_SIGHT}))
        + (SELECT count(*) FROM chunk c
           JOIN document d ON d.workspace_id = c.workspace_id AND d.id = c.document_id
           WHERE c.workspace_id = g.workspace_id AND NOT c.vector_refused
            AND {DOCUMENT_IN_SIGHT}) AS wanted
    FROM generation g
    WHERE g.workspace_id = %(workspace_id)s AND g.state IN ('serving', 'filling')
    ORDER BY g.number
"""


async def progress_in_sight(db: Db, caller: Caller) -> list[Progress]:
    """How far each generation in use is with what the caller sees."""
    async with db.cursor(row_factory=class_row(Progress)) as cursor:
        await cursor.execute(_PROGRESS_IN_SIGHT, in_sight_of(caller))
        return await cursor.fetchall()


async def progress(db: Db, workspace_id: WorkspaceId) -> list[Progress]:
    """How far each generation in use is."""
    async with db.cursor(row_factory=class_row(Progress)) as cursor:
        await cursor.execute(_PROGRESS, {"workspace_id": workspace_id})
        return await cursor.fetchall()
