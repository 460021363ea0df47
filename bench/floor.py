"""The floor: the minimum cost of an operation, on the same database and model.

The embedder is called in this process, and one hand-written statement goes straight to PostgreSQL,
without row-level security. Same texts, same rows, same fsync.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import Any
from uuid import uuid4

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector_async

from bench.seed import Tenant
from recollect.core.domain import new_code
from recollect.keywords.tokenizer import terms
from recollect.memories.save import content_digest
from recollect.models.embedder import Embedder, Purpose

# `+ 0` prevents the use of a vector index: exact, like ours.
_SEARCH = """
    WITH near AS (
        SELECT memory_id, (embedding <=> %(vector)s) + 0 AS distance
        FROM memory_vector
        WHERE workspace_id = %(workspace_id)s AND generation = %(generation)s
        ORDER BY distance
        LIMIT 10
    )
    SELECT m.code, m.content, m.category, m.tags, m.metadata, m.created_at, near.distance
    FROM near
    JOIN memory m ON m.workspace_id = %(workspace_id)s AND m.id = near.memory_id
    ORDER BY near.distance
"""
_SAVE = """
    WITH kept AS (
        INSERT INTO memory (
            workspace_id, id, code, org_id, user_id, content, category, importance,
            importance_base, valid_from, lifecycle, scope, origin, content_digest, created_at,
            updated_at
        ) VALUES (
            %(workspace_id)s, %(id)s, %(code)s, %(org_id)s, %(user_id)s, %(content)s, 'general',
            0.5, 0.5, %(now)s, 'permanent', 'workspace', 'user', %(digest)s, %(now)s,
            %(now)s
        )
    ),
    filed AS (
        INSERT INTO memory_word (workspace_id, term, owner_id, memory_id, frequency, length)
        SELECT %(workspace_id)s, entry.term, %(workspace_id)s, %(id)s, entry.frequency, %(length)s
        FROM unnest(%(terms)s::text[], %(frequencies)s::integer[]) AS entry (term, frequency)
    )
    INSERT INTO memory_vector (
        workspace_id, memory_id, generation, content_version, embedding, category, tags, pinned,
        scope
    ) VALUES (
        %(workspace_id)s, %(id)s, %(generation)s, 1, %(vector)s, 'general', '{}', false,
        'workspace'
    )
"""


class Floor:
    """One plain connection per client, and the model without the product around it."""

    def __init__(self, embedder: Embedder, connections: Sequence[psycopg.AsyncConnection]) -> None:
        self._embedder = embedder
        self._connections = connections

    async def search(self, client: int, tenant: Tenant, text: str) -> tuple[float, float]:
        """Return the seconds for the question's vector and for the ten nearest memories."""
        began = perf_counter()
        [vector] = await self._embedder.embed([text], Purpose.QUERY)
        embedded = perf_counter()
        values = {
            "workspace_id": tenant.id,
            "generation": tenant.generation,
            "vector": HalfVector(vector),
        }
        cursor = await self._run(client, _SEARCH, values)
        found = await cursor.fetchall()
        ended = perf_counter()
        assert found
        return embedded - began, ended - embedded

    async def save(self, client: int, tenant: Tenant, text: str) -> tuple[float, float]:
        """Return the seconds for the text's vector and for the committed rows."""
        values = _row(tenant, text)
        began = perf_counter()
        [vector] = await self._embedder.embed([text], Purpose.PASSAGE)
        embedded = perf_counter()
        await self._run(client, _SAVE, {**values, "vector": HalfVector(vector)})
        return embedded - began, perf_counter() - embedded

    async def _run(self, client: int, query: Any, values: Mapping[str, Any]) -> Any:
        return await self._connections[client].execute(query, values, prepare=True)


async def connect(url: str, count: int) -> list[psycopg.AsyncConnection]:
    """Open autocommit connections."""
    found: list[psycopg.AsyncConnection] = []
    for _ in range(count):
        db = await psycopg.AsyncConnection.connect(url, autocommit=True)
        await register_vector_async(db)
        found.append(db)
    return found


def _row(tenant: Tenant, text: str) -> dict[str, Any]:
    found = terms(f"{text}\ngeneral")
    return {
        "workspace_id": tenant.id,
        "org_id": tenant.org_id,
        "user_id": tenant.user_id,
        "generation": tenant.generation,
        "id": uuid4(),
        "code": new_code(),
        "content": text,
        "digest": content_digest(text),
        "terms": list(found),
        "frequencies": list(found.values()),
        "length": found.total(),
        "now": datetime.now(UTC),
    }
