"""Fills a database with what saves would have left, past the API: there it would take hours."""

import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from bench.texts import statements
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg.types.json import Jsonb

from recollect.engine.save import content_digest
from recollect.engine.words import terms
from recollect.models.embed import Embedder, Purpose

# Each vector lies near the real one of some statement. The share of noise gives neighbours of one
# topic a cosine of about 0.6 and strangers what the model itself gives strangers.
_TOPICS = 256
_NOISE = 0.8
_BATCH = 5_000
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workspace to fill and to ask."""

    id: UUID
    org_id: UUID
    user_id: UUID
    key: str
    generation: int


@dataclass(frozen=True, slots=True)
class _Row:
    tenant: Tenant
    id: UUID
    code: str
    content: str
    at: datetime
    vector: NDArray[np.float32]


async def fill(url: str, tenants: Sequence[Tenant], count: int, embedder: Embedder) -> None:
    """Add memories until there are `count`, dealt to the workspaces in turn as they would come."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        await register_vector_async(db)
        # The rows are made to fit; checking each reference would only take time.
        await db.execute("SET session_replication_role = replica")
        async for batch in _batches(tenants, count, embedder):
            await _copy(db, batch)
        await db.commit()
        await db.set_autocommit(True)
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")


async def _batches(
    tenants: Sequence[Tenant], count: int, embedder: Embedder
) -> AsyncIterator[list[_Row]]:
    texts = statements("seed")
    topics = list(islice(statements("topics"), _TOPICS))
    centres = np.stack(await embedder.embed(topics, Purpose.PASSAGE))
    dice = random.Random(count)
    noise = np.random.default_rng(count)
    for start in range(0, count, _BATCH):
        size = min(_BATCH, count - start)
        picked = centres[noise.integers(len(centres), size=size)]
        away = noise.standard_normal(picked.shape, dtype=np.float32)
        vectors = picked + _NOISE * away / np.linalg.norm(away, axis=1, keepdims=True)
        yield [
            _row(tenants[(start + number) % len(tenants)], next(texts), vector, dice)
            for number, vector in enumerate(vectors)
        ]


def _row(tenant: Tenant, content: str, vector: NDArray[np.float32], dice: random.Random) -> _Row:
    at = datetime.now(UTC) - timedelta(seconds=dice.randrange(365 * 86_400))
    code = "".join(dice.choices(_ALPHABET, k=24))
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    return _Row(tenant, UUID(int=dice.getrandbits(128), version=4), code, content, at, unit)


_MEMORY = """
    COPY memory (
        workspace_id, id, code, org_id, user_id, content, category, kind, importance,
        importance_base, valid_from, lifecycle, scope, origin, content_digest, created_at,
        updated_at
    ) FROM STDIN WITH (FORMAT BINARY)
"""
_VECTOR = """
    COPY memory_vector (workspace_id, memory_id, generation, embedding, category, tags, pinned)
    FROM STDIN WITH (FORMAT BINARY)
"""
_WORD = """
    COPY memory_word (workspace_id, term, memory_id, frequency, length)
    FROM STDIN WITH (FORMAT BINARY)
"""
_TERMS = (
    "COPY memory_terms (workspace_id, memory_id, terms, length) FROM STDIN WITH (FORMAT BINARY)"
)
_TALLY = "COPY word_tally (workspace_id, documents, length) FROM STDIN WITH (FORMAT BINARY)"
_EVENT = """
    COPY event (workspace_id, id, action, actor, user_id, details, at)
    FROM STDIN WITH (FORMAT BINARY)
"""


async def _copy(db: psycopg.AsyncConnection, rows: Sequence[_Row]) -> None:
    words = [(row, terms(f"{row.content}\ngeneral")) for row in rows]
    await _write(
        db,
        _MEMORY,
        "uuid uuid text uuid uuid text text text float8 float8 timestamptz text text text bytea"
        " timestamptz timestamptz",
        [_memory(row) for row in rows],
    )
    await _write(
        db,
        _VECTOR,
        "uuid uuid int4 halfvec text text[] bool",
        [_vector(row) for row in rows],
    )
    await _write(
        db,
        _WORD,
        "uuid text uuid int4 int4",
        [
            (row.tenant.id, term, row.id, frequency, found.total())
            for row, found in words
            for term, frequency in found.items()
        ],
    )
    await _write(
        db,
        _TERMS,
        "uuid uuid text[] int4",
        [(row.tenant.id, row.id, list(found), found.total()) for row, found in words],
    )
    await _write(
        db,
        _TALLY,
        "uuid int4 int8",
        _tallies([(row.tenant.id, found.total()) for row, found in words]),
    )
    await _write(
        db,
        _EVENT,
        "uuid uuid text text uuid jsonb timestamptz",
        [_event(row) for row in rows],
    )


def _memory(row: _Row) -> tuple[Any, ...]:
    owner = row.tenant
    return (
        *(owner.id, row.id, row.code, owner.org_id, owner.user_id, row.content),
        *("general", "general", 0.5, 0.5, row.at, "permanent", "workspace", "user"),
        *(content_digest(row.content), row.at, row.at),
    )


def _vector(row: _Row) -> tuple[Any, ...]:
    vector = HalfVector(row.vector)
    return (row.tenant.id, row.id, row.tenant.generation, vector, "general", list[str](), False)


def _event(row: _Row) -> tuple[Any, ...]:
    details = Jsonb({"memory": row.code, "version": 1, "hash": content_digest(row.content).hex()})
    owner = row.tenant
    return (owner.id, row.id, "memory.created", owner.key[:11], owner.user_id, details, row.at)


def _tallies(lengths: Sequence[tuple[UUID, int]]) -> list[tuple[Any, ...]]:
    """One sum for each workspace, as folding leaves them."""
    sums: dict[UUID, tuple[int, int]] = {}
    for workspace_id, length in lengths:
        documents, total = sums.get(workspace_id, (0, 0))
        sums[workspace_id] = (documents + 1, total + length)
    return [(workspace_id, *each) for workspace_id, each in sums.items()]


async def _write(
    db: psycopg.AsyncConnection, query: Any, types: str, rows: Sequence[tuple[Any, ...]]
) -> None:
    async with db.cursor() as cursor, cursor.copy(query) as copy:
        copy.set_types(types.split())
        for row in rows:
            await copy.write_row(row)
