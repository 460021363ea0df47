"""Fill a database with the rows that saves would create; through the API this would take hours.

The engine computes terms, digests and audit events; the rows are copied in; vectors are generated.
"""

import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
from numpy.typing import NDArray
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.types.json import Jsonb

from bench.texts import statements
from recollect.core.domain import Memory, MemoryId, OrgId, Scope, ThreadId, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.keywords.queries import totals
from recollect.keywords.tokenizer import terms
from recollect.memories.save import audit_details, content_digest, indexed_text, kind_of
from recollect.models.embedder import Embedder, Purpose

# Each vector is a real vector of a statement, moved along a difference between two real vectors.
# Uniform noise would be unlike the output of a model, and no index could handle it. With this much
# noise, neighbours of one topic have a cosine of about 0.6.
_TOPICS = 1_024
_NOISE = 0.8
_BATCH = 1_000
# One memory in this many has a tag, for filtered searches.
_TAGGED = 100
TAG = "seldom"
_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, slots=True)
class Tenant:
    """A workspace to fill and to search."""

    id: WorkspaceId
    org_id: OrgId
    user_id: UserId
    key: str
    generation: int
    # The chat its memories belong to; None: the workspace.
    thread_id: ThreadId | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    memory: Memory
    terms: Counter[str]
    vector: NDArray[np.float32]
    generation: int

    @property
    def scope_owner_id(self) -> UUID:
        """The scope owner of the memory."""
        return self.memory.thread_id or self.memory.workspace_id


async def fill(url: str, tenants: Sequence[Tenant], count: int, embedder: Embedder) -> None:
    """Add memories, distributed over the workspaces in turn."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        await register_vector_async(db)
        # The rows are consistent; checking each foreign key would only take time.
        await db.execute("SET session_replication_role = replica")
        added = 0
        async for batch in _batches(tenants, count, embedder):
            for table, columns in _TABLES.items():
                await _copy(db, table, columns, batch)
            await db.commit()
            added += len(batch)
            if added % 100_000 == 0:
                print(f"  {added:,} of {count:,}", flush=True)
        for tenant in tenants:
            await totals.fold_totals(db, tenant.id)
        await db.commit()
        await db.set_autocommit(True)
        await db.execute("VACUUM ANALYZE")
        await db.execute("CHECKPOINT")


async def _copy(
    db: Db,
    table: str,
    columns: tuple[Sequence[str], Callable[[_Row], Iterable[Sequence[Any]]]],
    batch: Sequence[_Row],
) -> None:
    names, rows_of = columns
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    async with db.cursor() as cursor, cursor.copy(into) as copy:
        for row in batch:
            for values in rows_of(row):
                await copy.write_row(values)


def _memory(row: _Row) -> Iterable[Sequence[Any]]:
    m = row.memory
    yield (
        *(m.workspace_id, m.id, m.code, m.org_id, m.user_id, m.content, m.category, m.kind),
        *(0.5, 0.5, m.valid_from, "permanent", m.scope, m.thread_id, "user"),
        *(content_digest(m.content), m.created_at, m.updated_at, list(m.tags)),
    )


def _vector(row: _Row) -> Iterable[Sequence[Any]]:
    m = row.memory
    yield (
        *(m.workspace_id, m.id, row.generation, 1, HalfVector(row.vector), m.category, m.kind),
        *(list(m.tags), False, m.valid_from, m.created_at, m.scope, m.user_id, m.thread_id),
    )


def _postings(row: _Row) -> Iterable[Sequence[Any]]:
    m = row.memory
    length = row.terms.total()
    for term, frequency in row.terms.items():
        yield m.workspace_id, term, row.scope_owner_id, m.id, frequency, length


def _terms(row: _Row) -> Iterable[Sequence[Any]]:
    m = row.memory
    yield m.workspace_id, m.id, row.scope_owner_id, list(row.terms), row.terms.total()


def _total(row: _Row) -> Iterable[Sequence[Any]]:
    yield row.memory.workspace_id, row.scope_owner_id, 1, row.terms.total()


def _event(row: _Row) -> Iterable[Sequence[Any]]:
    m = row.memory
    details = Jsonb(audit_details(m))
    yield m.workspace_id, m.id, "memory.created", "seed", m.user_id, details, m.created_at


# The rows of a save, by table.
_TABLES = {
    "memory": (
        (
            *("workspace_id", "id", "code", "org_id", "user_id", "content", "category", "kind"),
            *("importance", "importance_base", "valid_from", "lifecycle", "scope"),
            *("thread_id", "origin"),
            *("content_digest", "created_at", "updated_at", "tags"),
        ),
        _memory,
    ),
    "memory_vector": (
        (
            *("workspace_id", "memory_id", "generation", "content_version", "embedding"),
            *("category", "kind", "tags", "pinned", "valid_from", "created_at", "scope"),
            *("user_id", "thread_id"),
        ),
        _vector,
    ),
    "memory_word": (
        ("workspace_id", "term", "owner_id", "memory_id", "frequency", "length"),
        _postings,
    ),
    "memory_terms": (("workspace_id", "memory_id", "owner_id", "terms", "length"), _terms),
    "keyword_total": (("workspace_id", "owner_id", "documents", "length"), _total),
    "event": (
        ("workspace_id", "id", "action", "actor", "user_id", "details", "at"),
        _event,
    ),
}


async def _batches(
    tenants: Sequence[Tenant], count: int, embedder: Embedder
) -> AsyncGenerator[list[_Row]]:
    texts = statements(f"seed {count}")
    topics = list(islice(statements("topics"), _TOPICS))
    centres = np.stack(await embedder.embed(topics, Purpose.PASSAGE))
    dice = random.Random(count)
    noise = np.random.default_rng(count)
    for start in range(0, count, _BATCH):
        size = min(_BATCH, count - start)
        picked = centres[noise.integers(len(centres), size=size)]
        directions = _directions(centres, size, noise) + 0.5 * _directions(centres, size, noise)
        near = picked + _NOISE * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        units = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
        yield [
            _row(tenants[(start + number) % len(tenants)], next(texts), unit, dice)
            for number, unit in enumerate(units)
        ]


def _directions(
    centres: NDArray[np.float32], size: int, noise: np.random.Generator
) -> NDArray[np.float32]:
    """Return random differences between two real vectors."""
    starts = noise.integers(len(centres), size=size)
    ends = starts + noise.integers(1, len(centres), size=size)
    return centres[ends % len(centres)] - centres[starts]


def _row(tenant: Tenant, content: str, vector: NDArray[np.float32], dice: random.Random) -> _Row:
    at = datetime.now(UTC) - timedelta(seconds=dice.randrange(365 * 86_400))
    memory = Memory(
        id=MemoryId(UUID(int=dice.getrandbits(128), version=4)),
        code="".join(dice.choices(_ALPHABET, k=24)),
        workspace_id=tenant.id,
        org_id=tenant.org_id,
        user_id=tenant.user_id,
        thread_id=tenant.thread_id,
        scope=Scope.THREAD if tenant.thread_id else Scope.WORKSPACE,
        content=content,
        category="general",
        kind=kind_of("general"),
        tags=(TAG,) if dice.randrange(_TAGGED) == 0 else (),
        valid_from=at,
        created_at=at,
        updated_at=at,
    )
    return _Row(memory, terms(indexed_text(memory)), vector, tenant.generation)
