"""Vectors of memories, one per memory and generation, and the exact search over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import class_row, dict_row

from recollect.domain import CURRENT, Filter, Memory, MemoryId, ThreadId, View, WorkspaceId
from recollect.store.memories import COLUMNS, LIVE, MATCHES, alive, matching, memory_from_row
from recollect.store.pool import Db

_COPIED = """
    m.thread_id, m.subject, m.category, m.kind, m.tags, m.pinned, m.expires_at, m.valid_from,
    m.valid_until, m.deleted_at, m.created_at
"""
_INTO = """
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, thread_id, subject,
        category, kind, tags, pinned, expires_at, valid_from, valid_until, deleted_at, created_at
    )
"""
_REPLACE = """
    ON CONFLICT (workspace_id, memory_id, generation)
    DO UPDATE SET embedding = EXCLUDED.embedding, content_version = EXCLUDED.content_version
"""
_INSERT = f"""
    {_INTO}
    SELECT m.workspace_id, m.id, %(generation)s, m.content_version, %(embedding)s, {_COPIED}
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
    {_REPLACE}
"""


async def insert(
    db: Db,
    workspace_id: WorkspaceId,
    memory_id: MemoryId,
    generation: int,
    embedding: NDArray[np.float32],
) -> None:
    """Store a memory's vector in one generation."""
    await db.execute(
        _INSERT,
        {
            "workspace_id": workspace_id,
            "memory_id": memory_id,
            "generation": generation,
            "embedding": HalfVector(embedding),
        },
    )


# The row is taken only if it still says what was embedded; the lock waits for a change under way.
_INSERT_UNCHANGED = f"""
    {_INTO}
    SELECT m.workspace_id, m.id, %(generation)s, m.content_version, %(embedding)s, {_COPIED}
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
        AND m.content_version = %(content_version)s AND m.deleted_at IS NULL
    FOR SHARE
    {_REPLACE}
"""


async def insert_unchanged(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    embedded: Sequence[tuple[MemoryId, int, NDArray[np.float32]]],
) -> None:
    """Store vectors made of (memory, version of its content); a content changed since is left."""
    async with db.cursor() as cursor:
        await cursor.executemany(
            _INSERT_UNCHANGED,
            [
                {
                    "workspace_id": workspace_id,
                    "memory_id": memory_id,
                    "generation": generation,
                    "embedding": HalfVector(vector),
                    "content_version": version,
                }
                for memory_id, version, vector in embedded
            ],
        )


@dataclass(frozen=True, slots=True)
class Near:
    """A memory and how close its vector is to the one asked about."""

    memory: Memory
    cosine: float


# Exact, inside the workspace: left to itself the planner would take a vector index under a filter
# and lose nearly every right answer; `+ 0` hides the order from any index. `m` stands for the
# vector's row: it has copies of all that is filtered by. Most searches filter by nothing and skip
# `MATCHES`, which a prepared plan would try on every row (1.7 of 9 ms at 10,000 rows).
_SCANNED = f"""
    SELECT m.memory_id, (m.embedding <=> %(vector)s) + 0 AS distance
    FROM memory_vector m
    WHERE m.workspace_id = %(workspace_id)s AND m.generation = %(generation)s AND {LIVE}
"""
_FIRST = "ORDER BY distance LIMIT %(limit)s"

# The lateral step looks each memory up by its whole key, whatever the planner believes of the
# table's size.
_FOUND = f"""
    SELECT found.*, 1 - near.distance AS cosine
    FROM near
    CROSS JOIN LATERAL (
        SELECT {COLUMNS}
        FROM memory m
        LEFT JOIN thread t ON t.workspace_id = %(workspace_id)s AND t.id = m.thread_id
        WHERE m.workspace_id = %(workspace_id)s AND m.id = near.memory_id
        LIMIT 1
    ) AS found
    ORDER BY near.distance, found.importance DESC, found.created_at DESC, found.id
"""


_NEAREST = f"WITH near AS ({_SCANNED} {_FIRST}) {_FOUND}"
_NEAREST_MATCHING = f"WITH near AS ({_SCANNED} AND {MATCHES} {_FIRST}) {_FOUND}"


async def nearest(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    vector: NDArray[np.float32],
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Near]:
    """The live memories closest to a vector, closest first."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            _NEAREST if wanted.is_open else _NEAREST_MATCHING,
            {
                "workspace_id": workspace_id,
                "generation": generation,
                "vector": HalfVector(vector),
                **matching(wanted),
                "limit": limit,
                **alive(now, view),
            },
        )
        return [_near(row) for row in await cursor.fetchall()]


def _near(row: dict[str, Any]) -> Near:
    cosine = row.pop("cosine")
    return Near(memory_from_row(**row), cosine)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory found by one list: just enough to rank it."""

    id: MemoryId
    score: float
    importance: float
    thread_id: ThreadId | None
    created_at: datetime


_RANKED = """
    SELECT near.memory_id AS id, 1 - near.distance AS score, found.importance, found.thread_id,
        found.created_at
    FROM near
    CROSS JOIN LATERAL (
        SELECT m.importance, m.thread_id, m.created_at
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = near.memory_id
        LIMIT 1
    ) AS found
    ORDER BY near.distance, found.importance DESC, found.created_at DESC, near.memory_id
"""
_CANDIDATES = f"WITH near AS ({_SCANNED} {_FIRST}) {_RANKED}"
_CANDIDATES_MATCHING = f"WITH near AS ({_SCANNED} AND {MATCHES} {_FIRST}) {_RANKED}"


async def candidates(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    vector: NDArray[np.float32],
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Candidate]:
    """The memories closest to a vector by cosine, closest first."""
    async with db.cursor(row_factory=class_row(Candidate)) as cursor:
        await cursor.execute(
            _CANDIDATES if wanted.is_open else _CANDIDATES_MATCHING,
            {
                "workspace_id": workspace_id,
                "generation": generation,
                "vector": HalfVector(vector),
                **matching(wanted),
                "limit": limit,
                **alive(now, view),
            },
        )
        return await cursor.fetchall()
