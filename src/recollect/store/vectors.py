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

_INSERT = """
    INSERT INTO memory_vector (workspace_id, memory_id, generation, embedding)
    VALUES (%(workspace_id)s, %(memory_id)s, %(generation)s, %(embedding)s)
    ON CONFLICT (workspace_id, memory_id, generation) DO UPDATE SET embedding = EXCLUDED.embedding
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
_INSERT_UNCHANGED = """
    INSERT INTO memory_vector (workspace_id, memory_id, generation, embedding)
    SELECT m.workspace_id, m.id, %(generation)s, %(embedding)s
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
        AND m.version = %(version)s AND m.deleted_at IS NULL
    FOR SHARE
    ON CONFLICT (workspace_id, memory_id, generation) DO NOTHING
"""


async def insert_unchanged(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    embedded: Sequence[tuple[MemoryId, int, NDArray[np.float32]]],
) -> None:
    """Store vectors made earlier for (memory, version), leaving out memories changed since."""
    async with db.cursor() as cursor:
        await cursor.executemany(
            _INSERT_UNCHANGED,
            [
                {
                    "workspace_id": workspace_id,
                    "memory_id": memory_id,
                    "generation": generation,
                    "embedding": HalfVector(vector),
                    "version": version,
                }
                for memory_id, version, vector in embedded
            ],
        )


_REMOVE = """
    DELETE FROM memory_vector
    WHERE workspace_id = %(workspace_id)s AND memory_id = %(memory_id)s
"""


async def remove(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> None:
    """Take a memory's vectors out of every generation."""
    await db.execute(_REMOVE, {"workspace_id": workspace_id, "memory_id": memory_id})


@dataclass(frozen=True, slots=True)
class Near:
    """A memory and how close its vector is to the one asked about."""

    memory: Memory
    cosine: float


# Exact, inside the workspace: left to itself the planner would take a vector index under a filter
# and lose nearly every right answer. The materialised step also computes each distance once.
_NEAREST = f"""
    WITH scanned AS MATERIALIZED (
        SELECT v.memory_id, v.embedding <=> %(vector)s AS distance
        FROM memory_vector v
        JOIN memory m ON m.workspace_id = v.workspace_id AND m.id = v.memory_id
        WHERE v.workspace_id = %(workspace_id)s AND v.generation = %(generation)s
            AND m.workspace_id = %(workspace_id)s AND {LIVE} AND {MATCHES}
    ),
    near AS (
        SELECT memory_id, distance FROM scanned
        WHERE distance <= %(farthest)s
        ORDER BY distance
        LIMIT %(limit)s
    )
    SELECT {COLUMNS}, 1 - near.distance AS cosine
    FROM near
    JOIN memory m ON m.workspace_id = %(workspace_id)s AND m.id = near.memory_id
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    ORDER BY near.distance, m.importance DESC, m.created_at DESC, m.id
"""


async def nearest(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    vector: NDArray[np.float32],
    wanted: Filter,
    *,
    least_cosine: float = -1.0,
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
                "farthest": 1 - least_cosine,
                "limit": limit,
                "now": now,
            },
        )
        return [_near(row) for row in await cursor.fetchall()]


def _near(row: dict[str, Any]) -> Near:
    cosine = row.pop("cosine")
    return Near(memory_from_row(**row), cosine)
