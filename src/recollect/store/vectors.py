"""Vectors of memories, one per memory and generation, and the exact search over them."""

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

from recollect.domain import (
    CURRENT,
    Caller,
    Filter,
    Memory,
    MemoryId,
    ThreadId,
    View,
    WorkspaceId,
)
from recollect.store import jobs
from recollect.store.arrays import IdArray
from recollect.store.generations import Indexed
from recollect.store.memories import COLUMNS, MATCHES, matching, memory_from_row
from recollect.store.pool import Db, Numbered, Row
from recollect.store.visible import VISIBLE, visible_to

_COPIED = """
    m.thread_id, m.subject, m.category, m.kind, m.tags, m.pinned, m.expires_at, m.valid_from,
    m.valid_until, m.deleted_at, m.created_at, m.scope, m.user_id, m.project_id, m.agent_id
"""
_INTO = """
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, thread_id, subject,
        category, kind, tags, pinned, expires_at, valid_from, valid_until, deleted_at, created_at,
        scope, user_id, project_id, agent_id
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


class Candidate(NamedTuple):
    """A memory found near a vector."""

    id: MemoryId
    cosine: float


@dataclass(frozen=True, slots=True)
class Near:
    """A memory near a vector, whole."""

    memory: Memory
    cosine: float


@dataclass(frozen=True, slots=True)
class Point:
    """Where to look: a vector, its generation, and the indexes there are of it here."""

    generation: int
    vector: NDArray[np.float32]
    # By thread; None is the whole workspace. What is not in it has no index.
    indexed: Mapping[ThreadId | None, Indexed] = field(
        default_factory=dict[ThreadId | None, Indexed]
    )


_IN_ORDER = """
    SELECT near.memory_id AS id, 1 - near.distance AS cosine
    FROM near
    ORDER BY near.distance, near.memory_id
"""
# How near any memory is on average: the mean over a fixed handful, found by their random ids. Over
# all it would need all of them. Where most are not in sight it makes do with what it meets. The
# bound is a subquery, which no planner reads: 2,000 was more than a plan that is kept expected of
# any workspace where 300 small ones stand beside one of 50,000, so it sorted all of that one, in 60
# to 100 ms instead of 0.2.
TYPICAL = f"""
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
# One by one: a plan that is kept does not know how few they are.
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
# Of equally near ones the more important comes first, then the newer one. One by one: a plan that
# is kept does not know how few they are, and joined them by reading the whole workspace.
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
_WHOLE = f"SELECT 1 - near.distance AS cosine, found.* {_MEMORIES}"
# Whether something may be without its vector: it waits for the job, or was refused.
_SOME_LACK = f"""
    ({jobs.WAITING} OR EXISTS (
        SELECT FROM memory refused
        WHERE refused.workspace_id = %(workspace_id)s AND refused.vector_refused
            AND refused.deleted_at IS NULL
    ))
"""
_WHOLE_BESIDE = f"""
    SELECT 1 - near.distance AS cosine, {_SOME_LACK} AS some_lack, found.* {_MEMORIES}
"""
_ASK_SOME_LACK = f"SELECT {_SOME_LACK}"

# Exact, inside the workspace: left to itself the planner would take a vector index under a filter
# and lose nearly every right answer; `+ 0` hides the order from any index. `m` is the row of the
# vector, which has copies of all that is filtered by. Most searches filter by nothing and are
# spared `MATCHES`, which a prepared plan tries on every row. (At 10,000 rows: 7.5 ms; with
# `MATCHES` 9.2; with the distances materialised as well 11.3; the bare scan 6.0.)
_SCANNED = f"""
    SELECT m.memory_id, (m.embedding <=> %(vector)s) + 0 AS distance
    FROM memory_vector m
    WHERE m.workspace_id = %(workspace_id)s AND m.generation = %(generation)s AND {VISIBLE}
"""
# Of equally near ones the newer is among the first: where they lie on disk decides nothing.
_FIRST = "ORDER BY distance, m.created_at DESC, m.memory_id LIMIT %(limit)s"
_EXACT = f"WITH near AS ({_SCANNED} {_FIRST})"
_EXACT_MATCHING = f"WITH near AS ({_SCANNED} AND {MATCHES} {_FIRST})"
# Of one conversation, as every search in a chat is: spared the rest of `MATCHES` too.
_EXACT_IN_THREAD = f"WITH near AS ({_SCANNED} AND m.thread_id = %(thread_id)s {_FIRST})"

# By the workspace's own index, or the thread's. Its predicate is proven only by literals, so
# workspace, generation and thread stand in the text, and so must the dimension. So does the limit:
# a plan that is kept expected a tenth of a thread to be asked for, and sorted all of it instead.
# What is not alive is passed over while the index is read on; the settings for that are made by a
# condition that is the same for all rows, and so is tried before the first is read. The index gives
# up after `hnsw.max_scan_tuples`, 20,000: behind 25,000 that were replaced, 1 of 60 was found. So
# where fewer come than were asked for, and only then, all are looked at.
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
         {_FIRST})
    )
"""
_BY_INDEX_OF_THREAD = _BY_INDEX.replace(
    "AND m.generation", "AND m.thread_id = {thread_id} AND m.generation"
)
# How many places of the index a search considers; `python -m bench.growth` shows what share of the
# exact ten it finds. Deeper lists need more, and larger indexes: of made-up vectors 300 places find
# .993 of the exact ten among 100,000, 150 find .998 among 10,000; of the real ones of three public
# sets 150 find .991 of 22,000.
_LEAST_EFFORT = 150
_MOST_EFFORT = 1_000  # more the index does not take
_EFFORT_AT_100_000 = 300
# Where everybody sees less of what an index holds, the search is exact: slower, and right.
LEAST_SHARED = 0.5


async def candidates(
    db: Db,
    caller: Caller,
    point: Point,
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Candidate]:
    """The live memories closest to a vector by cosine, closest first.

    A filter other than of a thread that has an index, or another time than now, is answered
    exactly: under a filter an index loses answers.
    """
    ask = Ask(caller, point, wanted, limit, now, view)
    return await ask.answered(db, _IN_ORDER, args_row(Candidate))


async def nearest(
    db: Db, caller: Caller, point: Point, wanted: Filter, *, limit: int, now: datetime
) -> list[Near]:
    """As `candidates`, with the memories themselves."""
    ask = Ask(caller, point, wanted, limit, now)
    return await ask.answered(db, _WHOLE, kwargs_row(_near))


async def nearest_beside(
    db: Db,
    caller: Caller,
    point: Point,
    wanted: Filter,
    job_kind: str,
    *,
    limit: int,
    now: datetime,
) -> tuple[list[Near], bool]:
    """As `nearest`, and whether some may lack a vector: one statement instead of two.

    The job of that kind makes the vectors that are owed.
    """
    ask = Ask(caller, point, wanted, limit, now)
    rows = await ask.answered(db, _WHOLE_BESIDE, dict_row, kind=job_kind)
    if not rows:
        values = {"workspace_id": caller.workspace_id, "kind": job_kind}
        asked = await (await db.execute(_ASK_SOME_LACK, values)).fetchone()
        return [], bool(asked and asked[0])
    some_lack = [row.pop("some_lack") for row in rows]
    return [_near(**row) for row in rows], some_lack[0]


def _near(cosine: float, **row: Any) -> Near:
    return Near(memory_from_row(**row), cosine)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is looked for near a vector, by the index where that loses nothing."""

    caller: Caller
    point: Point
    wanted: Filter
    limit: int
    now: datetime
    view: View = CURRENT

    async def answered(
        self, db: Db, answer: LiteralString, row_factory: BaseRowFactory[Row], **more: Any
    ) -> list[Row]:
        """The rows of an answer, which reads what was found as `near`."""
        indexed = self._index()
        values = {
            "generation": self.point.generation,
            "vector": HalfVector(self.point.vector),
            **matching(self.wanted),
            "limit": self.limit,
            **visible_to(self.caller, self.now, self.view),
            **more,
        }
        if indexed is None:
            return await _numbered(_exact(self.wanted), answer).run(db, values, row_factory)
        values["effort"] = effort(indexed, self.limit)
        found = _BY_INDEX if self.wanted.thread_id is None else _BY_INDEX_OF_THREAD
        return await _numbered(found, answer).run(
            db,
            values,
            row_factory,
            dimension=len(self.point.vector),
            workspace_id=self.caller.workspace_id,
            generation=self.point.generation,
            thread_id=self.wanted.thread_id,
            limit=self.limit,
        )

    def _index(self) -> Indexed | None:
        """The index that holds what is wanted and little that the caller does not see, if any.

        What it holds beyond that is a filter to it, and under a filter an index loses answers: what
        everybody sees must be half of a workspace's, and a thread's is for who is in the thread.
        """
        wanted, caller = self.wanted, self.caller
        if self.view != CURRENT or caller.is_visiting:
            return None
        if wanted.is_open or (wanted.is_of_thread_alone and wanted.thread_id == caller.thread_id):
            found = self.point.indexed.get(wanted.thread_id)
            return found if found and found.shared >= LEAST_SHARED else None
        return None


@cache
def _numbered(found: LiteralString, answer: LiteralString) -> Numbered:
    return Numbered(f"{found} {answer}")


def effort(indexed: Indexed, limit: int) -> int:
    """The places to consider: they grow with the square root of how many the index holds.

    Where some of what it holds is not in sight there are more, so that as many are.
    """
    by_size = _EFFORT_AT_100_000 * sqrt(indexed.size / 100_000)
    in_sight = max(2 * limit, by_size, _LEAST_EFFORT)
    return min(round(in_sight / indexed.shared), _MOST_EFFORT)


def _exact(wanted: Filter) -> LiteralString:
    if wanted.is_open:
        return _EXACT
    return _EXACT_IN_THREAD if wanted.is_of_thread_alone else _EXACT_MATCHING


async def cosines(
    db: Db, workspace_id: WorkspaceId, point: Point, ids: Sequence[MemoryId]
) -> dict[MemoryId, float]:
    """How near to a vector each of these memories is, those that have one."""
    values = {
        "workspace_id": workspace_id,
        "generation": point.generation,
        "vector": HalfVector(point.vector),
        "ids": IdArray(ids),
    }
    return dict(await (await db.execute(COSINES, values)).fetchall())


_ALIKE = """
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
    WHERE pair.cosine >= %(least)s
"""


async def alike(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    ids: Sequence[MemoryId],
    *,
    least: float,
) -> list[tuple[MemoryId, MemoryId, float]]:
    """The pairs among these memories whose vectors are at least so near, and how near."""
    values = {
        "workspace_id": workspace_id,
        "generation": generation,
        "ids": IdArray(ids),
        "least": least,
    }
    return await (await db.execute(_ALIKE, values)).fetchall()


_OF_MEMORY = """
    SELECT v.embedding FROM memory_vector v
    JOIN memory m ON m.workspace_id = v.workspace_id AND m.id = v.memory_id
    WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = %(memory_id)s
        AND v.content_version = m.content_version
    ORDER BY v.generation DESC
    LIMIT 1
"""


async def of_memory(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> list[float]:
    """A memory's vector, of its newest model; empty while it has none."""
    values = {"workspace_id": workspace_id, "memory_id": memory_id}
    row = await (await db.execute(_OF_MEMORY, values)).fetchone()
    return row[0].to_list() if row else []
