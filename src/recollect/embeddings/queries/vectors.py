"""The vectors of memories, one per memory and generation, and search by vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from math import sqrt
from typing import Any, LiteralString, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import BaseRowFactory, args_row, dict_row, kwargs_row

from recollect.core.domain import (
    CURRENT,
    Caller,
    Filter,
    Memory,
    MemoryId,
    ThreadId,
    VectorIndexInfo,
    View,
    WorkspaceId,
)
from recollect.db import job_queue
from recollect.db.arrays import IdArray
from recollect.db.pool import Db, PreparedQuery, Row
from recollect.db.visibility import VISIBLE, visibility_values
from recollect.memories.queries.memories import (
    COLUMNS,
    MATCHES_FILTER,
    filter_values,
    memory_from_row,
)

_FILTER_COLUMNS = """
    m.thread_id, m.subject, m.category, m.kind, m.tags, m.pinned, m.expires_at, m.valid_from,
    m.valid_until, m.deleted_at, m.created_at, m.scope, m.user_id, m.project_id, m.agent_id
"""
_INSERT_INTO = """
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, thread_id, subject,
        category, kind, tags, pinned, expires_at, valid_from, valid_until, deleted_at, created_at,
        scope, user_id, project_id, agent_id
    )
"""
_ON_CONFLICT = """
    ON CONFLICT (workspace_id, memory_id, generation)
    DO UPDATE SET embedding = EXCLUDED.embedding, content_version = EXCLUDED.content_version
"""
_INSERT = f"""
    {_INSERT_INTO}
    SELECT m.workspace_id, m.id, %(generation)s, m.content_version, %(embedding)s, {_FILTER_COLUMNS}
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
    {_ON_CONFLICT}
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


# Inserted only if the content is still the one embedded; the lock waits for a running change.
_INSERT_UNCHANGED = f"""
    {_INSERT_INTO}
    SELECT m.workspace_id, m.id, %(generation)s, m.content_version, %(embedding)s, {_FILTER_COLUMNS}
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
        AND m.content_version = %(content_version)s AND m.deleted_at IS NULL
    FOR SHARE
    {_ON_CONFLICT}
"""


async def insert_unchanged(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    embedded: Sequence[tuple[MemoryId, int, NDArray[np.float32]]],
) -> None:
    """Store vectors of (memory, content version); skip memories whose content has changed."""
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


class VectorMatch(NamedTuple):
    """A memory found near a vector."""

    id: MemoryId
    cosine: float


@dataclass(frozen=True, slots=True)
class NearMemory:
    """A complete memory near a vector."""

    memory: Memory
    cosine: float


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A vector to search with, its generation, and the indexes that exist for it."""

    generation: int
    vector: NDArray[np.float32]
    # By thread; None is the whole workspace. If there is no entry, there is no index.
    indexed: Mapping[ThreadId | None, VectorIndexInfo] = field(
        default_factory=dict[ThreadId | None, VectorIndexInfo]
    )


_SELECT_NEAREST = """
    SELECT near.memory_id AS id, 1 - near.distance AS cosine
    FROM near
    ORDER BY near.distance, near.memory_id
"""
# The average cosine of any memory: the mean over a fixed sample, chosen by their random ids. The
# mean over all memories would have to read them all. If the caller sees few of them, the sample is
# smaller. The LIMIT is a subquery, which the planner cannot read: with 300 small workspaces next to
# one of 50,000, a constant of 2,000 was more than a cached plan expected of any workspace, so it
# sorted all vectors of the large one, in 60 to 100 ms instead of 0.2.
TYPICAL_COSINE = f"""
    (SELECT coalesce(avg(1 - (sample.embedding <=> %(vector)s)), 0)
     FROM (
        SELECT m.embedding
        FROM (
            SELECT v.* FROM memory_vector v
            WHERE v.workspace_id = %(workspace_id)s AND v.generation = %(generation)s
            ORDER BY v.memory_id
            LIMIT (SELECT 2000)
        ) AS m
        WHERE {VISIBLE}
        LIMIT 128
     ) AS sample)
"""
# A lateral subquery per id, because a cached plan does not know how few ids there are.
COSINES = """
    SELECT named.id, 1 - (found.embedding <=> %(vector)s) AS cosine
    FROM unnest(%(ids)s::uuid[]) AS named (id)
    CROSS JOIN LATERAL (
        SELECT v.embedding FROM memory_vector v
        WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = named.id
            AND v.generation = %(generation)s
        LIMIT 1
    ) AS found
"""
# At equal distance, the more important memory comes first, then the newer one. A lateral subquery
# per row: a cached plan does not know how few rows there are, and a join read the whole workspace.
_MEMORIES = f"""
    FROM near
    CROSS JOIN LATERAL (
        SELECT {COLUMNS}
        FROM memory m
        LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
        WHERE m.workspace_id = %(workspace_id)s AND m.id = near.memory_id
        LIMIT 1
    ) AS found
    ORDER BY near.distance, found.importance DESC, found.created_at DESC, found.id
"""
_SELECT_MEMORIES = f"SELECT 1 - near.distance AS cosine, found.* {_MEMORIES}"
# Whether any memory may lack its vector: it waits for the job, or was refused.
_MAY_LACK_VECTORS = f"""
    ({job_queue.UNFINISHED} OR EXISTS (
        SELECT FROM memory refused
        WHERE refused.workspace_id = %(workspace_id)s AND refused.vector_refused
            AND refused.deleted_at IS NULL
    ))
"""
_SELECT_MEMORIES_AND_LACK = f"""
    SELECT 1 - near.distance AS cosine, {_MAY_LACK_VECTORS} AS may_lack_vectors, found.* {_MEMORIES}
"""
_SELECT_MAY_LACK = f"SELECT {_MAY_LACK_VECTORS}"

# Exact, within the workspace: under a filter, the planner would otherwise use a vector index and
# lose nearly every right result; `+ 0` keeps the order from matching any index. `m` is the row of
# the vector, which has copies of all columns that are filtered by. Most searches have no filter and
# skip `MATCHES_FILTER`, which a prepared plan evaluates for every row. (At 10,000 rows: 7.5 ms;
# with `MATCHES_FILTER` 9.2; with materialised distances as well 11.3; the bare scan 6.0.)
_EXACT_SCAN = f"""
    SELECT m.memory_id, (m.embedding <=> %(vector)s) + 0 AS distance
    FROM memory_vector m
    WHERE m.workspace_id = %(workspace_id)s AND m.generation = %(generation)s AND {VISIBLE}
"""
# At equal distance, the newer one comes first: the order on disk must not decide.
_ORDER = "ORDER BY distance, m.created_at DESC, m.memory_id LIMIT %(limit)s"
_EXACT = f"WITH near AS ({_EXACT_SCAN} {_ORDER})"
_EXACT_MATCHING = f"WITH near AS ({_EXACT_SCAN} AND {MATCHES_FILTER} {_ORDER})"
# Within one thread, as every search in a chat is; also skips the rest of `MATCHES_FILTER`.
_EXACT_IN_THREAD = f"WITH near AS ({_EXACT_SCAN} AND m.thread_id = %(thread_id)s {_ORDER})"

# By the index of the workspace or thread. Its predicate is only proven by literals, so workspace,
# generation and thread are in the query text, as the dimension must be. The limit is there too: a
# cached plan expected a tenth of a thread to be requested, and sorted all of it instead. Rows that
# are not visible are skipped while the index scan continues. The settings for that are made in a
# condition that is constant for all rows, so it is evaluated before the first is read. The index
# stops after `hnsw.max_scan_tuples`, 20,000: behind 25,000 superseded rows, 1 of 60 was found. So
# if fewer rows than requested are found, and only then, all are scanned.
_BY_INDEX = f"""
    WITH by_index AS MATERIALIZED (
        SELECT m.memory_id,
            (m.embedding::halfvec({{dimension}})) <=> %(vector)s::halfvec({{dimension}}) AS distance
        FROM memory_vector m
        WHERE m.workspace_id = {{workspace_id}} AND m.generation = {{generation}} AND {VISIBLE}
            AND (SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true)
                || set_config('hnsw.ef_search', %(effort)s::text, true)) IS NOT NULL
        ORDER BY (m.embedding::halfvec({{dimension}})) <=> %(vector)s::halfvec({{dimension}})
        LIMIT {{limit}}
    ),
    near AS MATERIALIZED (
        SELECT memory_id, distance FROM by_index
        WHERE (SELECT count(*) FROM by_index) = {{limit}}
        UNION ALL
        (SELECT m.memory_id, (m.embedding <=> %(vector)s) + 0 AS distance
         FROM memory_vector m
         WHERE m.workspace_id = {{workspace_id}} AND m.generation = {{generation}} AND {VISIBLE}
            AND (SELECT count(*) FROM by_index) < {{limit}}
         {_ORDER})
    )
"""
_BY_INDEX_OF_THREAD = _BY_INDEX.replace(
    "AND m.generation", "AND m.thread_id = {thread_id} AND m.generation"
)
# How many candidates of the index a search considers (`hnsw.ef_search`). `python -m bench.growth`
# measures which share of the exact ten it finds. Longer lists and larger indexes need more: for
# synthetic vectors, 300 find .993 of the exact ten among 100,000, and 150 find .998 among 10,000;
# for the real vectors of three public sets, 150 find .991 among 22,000.
_MIN_EFFORT = 150
_MAX_EFFORT = 1_000  # pgvector's maximum
_EFFORT_AT_100_000 = 300
# If everyone sees a smaller share of the vectors in an index, the search is exact and slower.
MIN_SHARED = 0.5


async def candidates(
    db: Db,
    caller: Caller,
    point: QueryVector,
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[VectorMatch]:
    """Return the live memories closest to a vector by cosine, closest first.

    A search with a filter (except for a thread that has an index), or for another time than now, is
    exact: under a filter, an index loses results.
    """
    ask = VectorQuery(caller, point, wanted, limit, now, view)
    return await ask.run(db, _SELECT_NEAREST, args_row(VectorMatch))


async def nearest(
    db: Db, caller: Caller, point: QueryVector, wanted: Filter, *, limit: int, now: datetime
) -> list[NearMemory]:
    """Like `candidates`, with the complete memories."""
    ask = VectorQuery(caller, point, wanted, limit, now)
    return await ask.run(db, _SELECT_MEMORIES, kwargs_row(_near_from_row))


async def nearest_and_gaps(
    db: Db,
    caller: Caller,
    point: QueryVector,
    wanted: Filter,
    job_kind: str,
    *,
    limit: int,
    now: datetime,
) -> tuple[list[NearMemory], bool]:
    """Like `nearest`, and whether some memories may lack a vector: one statement instead of two.

    `job_kind` is the job that embeds missing vectors.
    """
    ask = VectorQuery(caller, point, wanted, limit, now)
    rows = await ask.run(db, _SELECT_MEMORIES_AND_LACK, dict_row, kind=job_kind)
    if not rows:
        values = {"workspace_id": caller.workspace_id, "kind": job_kind}
        asked = await (await db.execute(_SELECT_MAY_LACK, values)).fetchone()
        return [], bool(asked and asked[0])
    may_lack_vectors = [row.pop("may_lack_vectors") for row in rows]
    return [_near_from_row(**row) for row in rows], may_lack_vectors[0]


def _near_from_row(cosine: float, **row: Any) -> NearMemory:
    return NearMemory(memory_from_row(**row), cosine)


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A search near a vector; uses an index if that loses no results."""

    caller: Caller
    point: QueryVector
    wanted: Filter
    limit: int
    now: datetime
    view: View = CURRENT

    async def run(
        self, db: Db, select: LiteralString, row_factory: BaseRowFactory[Row], **more: Any
    ) -> list[Row]:
        """Run the query; `select` reads the matches from `near`."""
        indexed = self._index()
        values = {
            "generation": self.point.generation,
            "vector": HalfVector(self.point.vector),
            **filter_values(self.wanted),
            "limit": self.limit,
            **visibility_values(self.caller, self.now, self.view),
            **more,
        }
        if indexed is None:
            return await _prepared(_exact(self.wanted), select).run(db, values, row_factory)
        values["effort"] = effort(indexed, self.limit)
        found = _BY_INDEX if self.wanted.thread_id is None else _BY_INDEX_OF_THREAD
        return await _prepared(found, select).run(
            db,
            values,
            row_factory,
            dimension=len(self.point.vector),
            workspace_id=self.caller.workspace_id,
            generation=self.point.generation,
            thread_id=self.wanted.thread_id,
            limit=self.limit,
        )

    def _index(self) -> VectorIndexInfo | None:
        """Return an index that covers the filter and contains little that the caller cannot see.

        Other rows in it act as a filter, and under a filter an index loses results. Everyone must
        see at least half of a workspace's index, and a thread's index is for callers in the thread.
        A caller who sees only their own rows may see few of them, so their search is exact.
        """
        wanted, caller = self.wanted, self.caller
        if self.view != CURRENT or caller.is_guest or caller.sees_only_own:
            return None
        if wanted.is_open or (wanted.is_thread_only and wanted.thread_id == caller.thread_id):
            found = self.point.indexed.get(wanted.thread_id)
            return found if found and found.shared >= MIN_SHARED else None
        return None


@cache
def _prepared(found: LiteralString, select: LiteralString) -> PreparedQuery:
    return PreparedQuery(f"{found} {select}")


def effort(indexed: VectorIndexInfo, limit: int) -> int:
    """Return how many candidates to consider: it grows with the square root of the index size.

    If only a share of the index is visible to everyone, it is higher in proportion.
    """
    by_size = _EFFORT_AT_100_000 * sqrt(indexed.size / 100_000)
    visible = max(2 * limit, by_size, _MIN_EFFORT)
    return min(round(visible / indexed.shared), _MAX_EFFORT)


def _exact(wanted: Filter) -> LiteralString:
    if wanted.is_open:
        return _EXACT
    return _EXACT_IN_THREAD if wanted.is_thread_only else _EXACT_MATCHING


async def cosines(
    db: Db, workspace_id: WorkspaceId, point: QueryVector, ids: Sequence[MemoryId]
) -> dict[MemoryId, float]:
    """Return the cosine of these memories to a vector; memories without a vector are left out."""
    values = {
        "workspace_id": workspace_id,
        "generation": point.generation,
        "vector": HalfVector(point.vector),
        "ids": IdArray(ids),
    }
    return dict(await (await db.execute(COSINES, values)).fetchall())


_SIMILAR = """
    SELECT pair.one, pair.other, pair.cosine
    FROM (
        SELECT a.memory_id AS one, b.memory_id AS other, 1 - (a.embedding <=> b.embedding) AS cosine
        FROM memory_vector a
        JOIN memory_vector b
            ON b.workspace_id = %(workspace_id)s AND b.generation = %(generation)s
            AND b.memory_id = ANY(%(ids)s) AND b.memory_id > a.memory_id
        WHERE a.workspace_id = %(workspace_id)s AND a.generation = %(generation)s
            AND a.memory_id = ANY(%(ids)s)
    ) AS pair
    WHERE pair.cosine >= %(min_cosine)s
"""


async def similar_memories(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    ids: Sequence[MemoryId],
    *,
    min_cosine: float,
) -> list[tuple[MemoryId, MemoryId, float]]:
    """Return the pairs of these memories with at least that cosine, and their cosine."""
    values = {
        "workspace_id": workspace_id,
        "generation": generation,
        "ids": IdArray(ids),
        "min_cosine": min_cosine,
    }
    return await (await db.execute(_SIMILAR, values)).fetchall()


_OF_MEMORY = """
    SELECT v.embedding FROM memory_vector v
    JOIN memory m ON m.workspace_id = v.workspace_id AND m.id = v.memory_id
    WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = %(memory_id)s
        AND v.content_version = m.content_version
    ORDER BY v.generation DESC
    LIMIT 1
"""


async def of_memory(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> list[float]:
    """Return a memory's vector by its newest model; empty if it has none."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    row = await (await db.execute(_OF_MEMORY, values)).fetchone()
    return row[0].to_list() if row else []
