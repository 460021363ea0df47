"""Fills a database with what saves would have left, past the API: there it would take hours.

The store's own statements write the rows; only the embedder is spared.
"""

import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector.psycopg import register_vector_async

from bench.texts import statements
from recollect.domain import Memory, MemoryId, OrgId, UserId, WorkspaceId
from recollect.engine.save import audited, content_digest, indexed_text, kind_of
from recollect.engine.words import terms
from recollect.models.embed import Embedder, Purpose
from recollect.store import events, memories, vectors, words
from recollect.store.pool import Db

# Each vector lies near the real one of some statement. This much noise gives neighbours of one
# topic a cosine of about 0.6 and strangers what the model itself gives strangers.
_TOPICS = 256
_NOISE = 0.8
_BATCH = 1_000
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workspace to fill and to ask."""

    id: WorkspaceId
    org_id: OrgId
    user_id: UserId
    key: str
    generation: int


@dataclass(frozen=True, slots=True)
class _Row:
    memory: Memory
    vector: NDArray[np.float32]
    generation: int


async def fill(url: str, tenants: Sequence[Tenant], count: int, embedder: Embedder) -> None:
    """Add memories, dealt to the workspaces in turn as they would come."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        await register_vector_async(db)
        # The rows are made to fit; checking each reference would only take time.
        await db.execute("SET session_replication_role = replica")
        number = 0
        async for batch in _batches(tenants, count, embedder):
            number += 1
            async with db.pipeline():
                for row in batch:
                    await _insert(db, row)
            await db.commit()
            # As autovacuum would: a plan made for an empty table reads all of a full one.
            if number.bit_count() == 1:
                await db.execute("ANALYZE memory")
        for tenant in tenants:
            await words.fold_tally(db, tenant.id)
        await db.commit()
        await db.set_autocommit(True)
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")


async def _batches(
    tenants: Sequence[Tenant], count: int, embedder: Embedder
) -> AsyncGenerator[list[_Row]]:
    texts = statements("seed")
    topics = list(islice(statements("topics"), _TOPICS))
    centres = np.stack(await embedder.embed(topics, Purpose.PASSAGE))
    dice = random.Random(count)
    noise = np.random.default_rng(count)
    for start in range(0, count, _BATCH):
        size = min(_BATCH, count - start)
        picked = centres[noise.integers(len(centres), size=size)]
        away = noise.standard_normal(picked.shape, dtype=np.float32)
        near = picked + _NOISE * away / np.linalg.norm(away, axis=1, keepdims=True)
        units = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
        yield [
            _row(tenants[(start + number) % len(tenants)], next(texts), unit, dice)
            for number, unit in enumerate(units)
        ]


def _row(tenant: Tenant, content: str, vector: NDArray[np.float32], dice: random.Random) -> _Row:
    at = datetime.now(UTC) - timedelta(seconds=dice.randrange(365 * 86_400))
    memory = Memory(
        id=MemoryId(UUID(int=dice.getrandbits(128), version=4)),
        code="".join(dice.choices(_ALPHABET, k=24)),
        workspace_id=tenant.id,
        org_id=tenant.org_id,
        user_id=tenant.user_id,
        content=content,
        category="general",
        kind=kind_of("general"),
        valid_from=at,
        created_at=at,
        updated_at=at,
    )
    return _Row(memory, vector, tenant.generation)


async def _insert(db: Db, row: _Row) -> None:
    memory = row.memory
    await memories.insert(db, memory, content_digest(memory.content))
    await words.insert(db, memory.workspace_id, memory.id, terms(indexed_text(memory)))
    await vectors.insert(db, memory.workspace_id, memory.id, row.generation, row.vector)
    await events.record(
        db,
        memory.workspace_id,
        "memory.created",
        actor="seed",
        user_id=memory.user_id,
        details=audited(memory),
        at=memory.created_at,
    )
