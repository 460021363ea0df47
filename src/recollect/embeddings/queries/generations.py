"""The embedding generations of a workspace, and the memories without a vector in one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import (
    Caller,
    Generation,
    GenerationState,
    MemoryId,
    ThreadId,
    VectorIndexInfo,
    WorkspaceId,
)
from recollect.db.pool import Db
from recollect.db.visibility import DOCUMENT_VISIBLE, IN_SCOPE, scope_values

_EMBEDDER = "SELECT embedder FROM workspace WHERE id = %(workspace_id)s"
# Rows of the first releases have no kind. Their endpoint is a URL, or the name of a kind.
_COLUMNS = """
    number, coalesce(kind, CASE WHEN starts_with(endpoint, 'http') THEN 'openai' ELSE endpoint END)
        AS kind, endpoint, model, dimension, fingerprint, state
"""
_IN_USE = f"""
    SELECT {_COLUMNS}
    FROM generation
    WHERE workspace_id = %(workspace_id)s AND state IN ('serving', 'filling')
"""


async def find_generations(db: Db, workspace_id: WorkspaceId) -> GenerationState:
    """Return the workspace's embedder and its generations in use."""
    values = {"workspace_id": workspace_id}
    row = await (await db.execute(_EMBEDDER, values)).fetchone()
    async with db.cursor(row_factory=class_row(Generation)) as cursor:
        await cursor.execute(_IN_USE, values)
        by_state = {each.state: each for each in await cursor.fetchall()}
    serving = by_state.get("serving")
    indexed = await _indexed(db, workspace_id, serving.number) if serving else {}
    return GenerationState(row[0] if row else None, serving, by_state.get("filling"), indexed)


# The shared part of a workspace's index is what all members see; of a thread's index, everything.
_INDEXED = """
    SELECT i.thread_id, greatest(1, sum(t.documents))::bigint,
        coalesce(sum(t.documents) FILTER (WHERE t.owner_id = i.workspace_id), 0)::float8
            / greatest(1, sum(t.documents))
    FROM vector_index i
    LEFT JOIN keyword_total t ON t.workspace_id = i.workspace_id
    WHERE i.workspace_id = %(workspace_id)s AND i.generation = %(generation)s AND i.is_ready
        AND i.thread_id IS NULL
    GROUP BY i.thread_id
    UNION ALL
    SELECT i.thread_id, greatest(1, sum(t.documents))::bigint, 1
    FROM vector_index i
    LEFT JOIN keyword_total t ON t.workspace_id = i.workspace_id AND t.owner_id = i.thread_id
    WHERE i.workspace_id = %(workspace_id)s AND i.generation = %(generation)s AND i.is_ready
        AND i.thread_id IS NOT NULL
    GROUP BY i.thread_id
"""


async def _indexed(
    db: Db, workspace_id: WorkspaceId, generation: int
) -> dict[ThreadId | None, VectorIndexInfo]:
    values = {"workspace_id": workspace_id, "generation": generation}
    rows = await (await db.execute(_INDEXED, values)).fetchall()
    return {thread_id: VectorIndexInfo(size, shared) for thread_id, size, shared in rows}


# Taken by every save, so that the switch, which locks the row FOR UPDATE, waits for running saves.
_LOCK_SERVING = f"""
    SELECT {_COLUMNS}
    FROM generation
    WHERE workspace_id = %(workspace_id)s AND state = 'serving'
    FOR SHARE
"""


async def lock_serving(db: Db, workspace_id: WorkspaceId) -> Generation | None:
    """Return the serving generation, locked until this transaction ends."""
    async with db.cursor(row_factory=class_row(Generation)) as cursor:
        await cursor.execute(_LOCK_SERVING, {"workspace_id": workspace_id})
        return await cursor.fetchone()


# A new model may embed texts that an earlier model rejected.
_CLEAR_REFUSED = """
    UPDATE memory SET vector_refused = false
    WHERE workspace_id = %(workspace_id)s AND vector_refused
"""
_CLEAR_REFUSED_CHUNKS = """
    UPDATE chunk SET vector_refused = false
    WHERE workspace_id = %(workspace_id)s AND vector_refused
"""
_INSERT = """
    INSERT INTO generation (
        workspace_id, number, kind, endpoint, model, dimension, fingerprint, state, created_at,
        served_at
    )
    SELECT %(workspace_id)s, coalesce(max(number), 0) + 1, %(kind)s, %(endpoint)s, %(model)s,
        %(dimension)s, %(fingerprint)s, %(state)s, %(now)s,
        CASE WHEN %(state)s = 'serving' THEN %(now)s::timestamptz END
    FROM generation
    WHERE workspace_id = %(workspace_id)s
    ON CONFLICT DO NOTHING
"""


async def insert(
    db: Db,
    workspace_id: WorkspaceId,
    *,
    kind: str,
    endpoint: str,
    model: str,
    fingerprint: Sequence[float],
    state: str,
    now: datetime,
) -> bool:
    """Create a generation; False if another process was first."""
    await db.execute(_CLEAR_REFUSED, {"workspace_id": workspace_id})
    await db.execute(_CLEAR_REFUSED_CHUNKS, {"workspace_id": workspace_id})
    cursor = await db.execute(
        _INSERT,
        {
            "workspace_id": workspace_id,
            "kind": kind,
            "endpoint": endpoint,
            "model": model,
            "dimension": len(fingerprint),
            "fingerprint": list(fingerprint),
            "state": state,
            "now": now,
        },
    )
    return cursor.rowcount > 0


# Saves that look for a duplicate run one at a time per workspace. Otherwise two at the same moment
# would each find nothing, and both would be saved.
_LOCK_FOR_DUPLICATES = (
    "SELECT pg_advisory_xact_lock(hashtextextended('duplicate' || %(workspace_id)s::text, 0))"
)


async def lock_for_duplicates(db: Db, workspace_id: WorkspaceId) -> None:
    """Wait for other saves that look for a duplicate in this workspace."""
    await db.execute(_LOCK_FOR_DUPLICATES, {"workspace_id": workspace_id})


@dataclass(frozen=True, slots=True)
class MemoryWithoutVector:
    """A memory without a vector in some generation."""

    id: MemoryId
    content: str
    content_version: int


_WITHOUT_VECTOR = """
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


async def memories_without_vector(
    db: Db, workspace_id: WorkspaceId, generation: int, *, after: UUID, limit: int
) -> list[MemoryWithoutVector]:
    """Return memories without a vector of their current text, by id, starting after `after`."""
    async with db.cursor(row_factory=class_row(MemoryWithoutVector)) as cursor:
        await cursor.execute(
            _WITHOUT_VECTOR,
            {
                "workspace_id": workspace_id,
                "generation": generation,
                "after": after,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


# Also deletes the vector of an earlier text, which would otherwise stay: no new one replaces it.
_MARK_REFUSED = """
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
    """Record that the embedder rejects this text, unless the text has changed meanwhile."""
    values = {
        "workspace_id": workspace_id,
        "id": memory_id,
        "content_version": content_version,
    }
    await db.execute(_MARK_REFUSED, values)


_LOCK_GENERATIONS = """
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


async def lock_for_switch(db: Db, workspace_id: WorkspaceId) -> None:
    """Keep saves from choosing a generation until this transaction ends."""
    await db.execute(_LOCK_GENERATIONS, {"workspace_id": workspace_id})


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
    """Abandon a partly filled generation, because another model was configured."""
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
    """Progress of a generation: stored vectors, and memories and chunks that need one."""

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


# The same for what a caller can see: they must not learn how much others have.
_VISIBLE_PROGRESS = f"""
    SELECT g.workspace_id, g.number, g.model, g.state,
        (SELECT count(*) FROM memory_vector m
         WHERE m.workspace_id = g.workspace_id AND m.generation = g.number
            AND m.deleted_at IS NULL AND ({IN_SCOPE}))
        + (SELECT count(*) FROM chunk_vector cv
           JOIN document d ON d.workspace_id = cv.workspace_id AND d.id = cv.document_id
           WHERE cv.workspace_id = g.workspace_id AND cv.generation = g.number
            AND {DOCUMENT_VISIBLE}) AS filled,
        (SELECT count(*) FROM memory m
         WHERE m.workspace_id = g.workspace_id AND m.wants_vector AND NOT m.vector_refused
            AND m.deleted_at IS NULL AND ({IN_SCOPE}))
        + (SELECT count(*) FROM chunk c
           JOIN document d ON d.workspace_id = c.workspace_id AND d.id = c.document_id
           WHERE c.workspace_id = g.workspace_id AND NOT c.vector_refused
            AND {DOCUMENT_VISIBLE}) AS wanted
    FROM generation g
    WHERE g.workspace_id = %(workspace_id)s AND g.state IN ('serving', 'filling')
    ORDER BY g.number
"""


async def visible_progress(db: Db, caller: Caller) -> list[Progress]:
    """Return the progress of each generation in use, counting what the caller can see."""
    async with db.cursor(row_factory=class_row(Progress)) as cursor:
        await cursor.execute(_VISIBLE_PROGRESS, scope_values(caller))
        return await cursor.fetchall()


async def progress(db: Db, workspace_id: WorkspaceId) -> list[Progress]:
    """Return the progress of each generation in use."""
    async with db.cursor(row_factory=class_row(Progress)) as cursor:
        await cursor.execute(_PROGRESS, {"workspace_id": workspace_id})
        return await cursor.fetchall()
