"""Vectors of memories, one per memory and generation, and the exact search over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import dict_row

from recollect.domain import Filter, Memory, MemoryId, WorkspaceId
from recollect.store.memories import COLUMNS, LIVE, MATCHES, matching, memory_from_row
from recollect.store.pool import Db

_COPIED = """
    m.thread_id, m.subject, m.category, m.tags, m.pinned, m.expires_at, m.valid_until, m.deleted_at
"""
_INTO = """
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, thread_id, subject,
        category, tags, pinned, expires_at, valid_until, deleted_at
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
# and lose nearly every right answer. Materialised, each distance is computed once. The lateral
# step looks each memory up by its whole key, whatever the planner believes of the table's size.
# `m` stands for the vector's row in the scan: it has copies of all that is filtered by.
_NEAREST = f"""
    WITH scanned AS MATERIALIZED (
        SELECT m.memory_id, m.embedding <=> %(vector)s AS distance
        FROM memory_vector m
        WHERE m.workspace_id = %(workspace_id)s AND m.generation = %(generation)s
            AND {LIVE} AND {MATCHES}
    ),
    near AS (
        SELECT memory_id, distance FROM scanned
        ORDER BY distance
        LIMIT %(limit)s
    )
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


async def nearest(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    vector: NDArray[np.float32],
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
) -> list[Near]:
    """The live memories closest to a vector, closest first."""
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            _NEAREST,
            {
                "workspace_id": workspace_id,
                "generation": generation,
                "vector": HalfVector(vector),
                **matching(wanted),
                "limit": limit,
                "now": now,
            },
        )
        return [_near(row) for row in await cursor.fetchall()]


def _near(row: dict[str, Any]) -> Near:
    cosine = row.pop("cosine")
    return Near(memory_from_row(**row), cosine)
