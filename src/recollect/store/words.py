"""Postings of memories and BM25 over them, on the workspace's own statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import dict_row

from recollect.domain import Filter, Memory, MemoryId, WorkspaceId
from recollect.store.memories import COLUMNS, LIVE, MATCHES, matching, memory_from_row
from recollect.store.pool import Db

_INSERT_POSTINGS = """
    INSERT INTO memory_word (workspace_id, term, memory_id, frequency, length)
    SELECT %(workspace_id)s, entry.term, %(memory_id)s, entry.frequency, %(length)s
    FROM unnest(%(terms)s::text[], %(frequencies)s::integer[]) AS entry (term, frequency)
"""
_INSERT_TERMS = """
    INSERT INTO memory_terms (workspace_id, memory_id, terms, length)
    VALUES (%(workspace_id)s, %(memory_id)s, %(terms)s, %(length)s)
"""
_TALLY = """
    INSERT INTO word_tally (workspace_id, documents, length)
    VALUES (%(workspace_id)s, %(documents)s, %(length)s)
"""


async def insert(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, terms: Mapping[str, int]
) -> None:
    """Index a memory's terms with their frequencies."""
    values = {
        "workspace_id": workspace_id,
        "memory_id": memory_id,
        "terms": list(terms),
        "frequencies": list(terms.values()),
        "length": sum(terms.values()),
    }
    await db.execute(_INSERT_POSTINGS, values)
    await db.execute(_INSERT_TERMS, values)
    await db.execute(_TALLY, values | {"documents": 1})


_REMOVE_TERMS = """
    DELETE FROM memory_terms
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(ids)s)
    RETURNING memory_id, terms, length
"""
_REMOVE_POSTINGS = """
    DELETE FROM memory_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s) AND memory_id = %(memory_id)s
"""


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Take memories out of the index; those not in it are passed over."""
    cursor = await db.execute(_REMOVE_TERMS, {"workspace_id": workspace_id, "ids": list(ids)})
    for memory_id, terms, length in await cursor.fetchall():
        values = {"workspace_id": workspace_id, "memory_id": memory_id, "terms": terms}
        await db.execute(_REMOVE_POSTINGS, values)
        await db.execute(_TALLY, values | {"documents": -1, "length": -length})


@dataclass(frozen=True, slots=True)
class Match:
    """A memory found by its words."""

    memory: Memory
    # BM25, unbounded; good for order alone.
    score: float
    # The share of the query's weight that the memory's words carry, 0 to 1.
    coverage: float


# k1 = 1.2 and b = 0.75, as everywhere. `%(words)s` numbers the query's words, of which one may have
# several forms (surface, stem): any of them covers the word, which weighs what its commonest form
# does. A form that no memory has weighs most: a question about unknown things is covered little.
_SEARCH = f"""
    WITH tally AS (
        SELECT greatest(sum(documents), 1)::float8 AS documents,
            greatest(sum(length), 1)::float8 AS length
        FROM word_tally
        WHERE workspace_id = %(workspace_id)s
    ),
    posting AS MATERIALIZED (
        SELECT term, memory_id, frequency, length
        FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s)
    ),
    form AS (
        SELECT asked.term, asked.word,
            ln(1 + (tally.documents - count(posting.term) + 0.5) / (count(posting.term) + 0.5))
                AS weight
        FROM tally
        CROSS JOIN unnest(%(terms)s::text[], %(words)s::integer[]) AS asked (term, word)
        LEFT JOIN posting ON posting.term = asked.term
        GROUP BY asked.term, asked.word, tally.documents
    ),
    word AS (
        SELECT word, min(weight) AS weight FROM form GROUP BY word
    ),
    matched AS (
        SELECT posting.memory_id, form.word,
            sum(form.weight * posting.frequency * 2.2 / (posting.frequency + 1.2 * (
                0.25 + 0.75 * posting.length * tally.documents / tally.length))) AS score
        FROM posting
        JOIN form ON form.term = posting.term
        CROSS JOIN tally
        GROUP BY posting.memory_id, form.word
    ),
    scored AS (
        SELECT matched.memory_id, sum(matched.score) AS score, sum(word.weight) AS covered
        FROM matched
        JOIN word ON word.word = matched.word
        GROUP BY matched.memory_id
    )
    SELECT found.*, scored.score,
        scored.covered / (SELECT greatest(sum(weight), 1e-9) FROM word) AS coverage
    FROM scored
    CROSS JOIN LATERAL (
        SELECT {COLUMNS}
        FROM memory m
        LEFT JOIN thread t ON t.workspace_id = %(workspace_id)s AND t.id = m.thread_id
        WHERE m.workspace_id = %(workspace_id)s AND m.id = scored.memory_id
            AND {LIVE} AND {MATCHES}
            AND (NOT %(wants_vector_only)s OR m.wants_vector)
            AND (NOT %(without_vector_only)s OR NOT EXISTS (
                SELECT FROM memory_vector v
                WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
                    AND v.generation = %(generation)s
                    AND v.content_version = m.content_version))
        LIMIT 1
    ) AS found
    ORDER BY scored.score DESC, found.importance DESC, found.created_at DESC, found.id
    LIMIT %(limit)s
"""


async def search(
    db: Db,
    workspace_id: WorkspaceId,
    query: Sequence[Sequence[str]],
    wanted: Filter,
    *,
    lacking_generation: int | None = None,
    wants_vector_only: bool = False,
    limit: int,
    now: datetime,
) -> list[Match]:
    """Live memories by BM25, best first; the query is a list of words, each as its forms.

    `lacking_generation` keeps only memories without a vector in that generation;
    `wants_vector_only` leaves out those that were saved to be unsearchable by meaning.
    """
    forms = [(term, number) for number, word in enumerate(query) for term in word]
    if not forms:
        return []
    async with db.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            _SEARCH,
            {
                "workspace_id": workspace_id,
                "terms": [term for term, _ in forms],
                "words": [number for _, number in forms],
                **matching(wanted),
                "generation": lacking_generation,
                "without_vector_only": lacking_generation is not None,
                "wants_vector_only": wants_vector_only,
                "limit": limit,
                "now": now,
            },
        )
        return [_match(row) for row in await cursor.fetchall()]


_FOLD = """
    WITH folded AS (
        DELETE FROM word_tally
        WHERE workspace_id = %(workspace_id)s
            AND id IN (
                SELECT id FROM word_tally
                WHERE workspace_id = %(workspace_id)s
                FOR UPDATE SKIP LOCKED
            )
        RETURNING documents, length
    )
    INSERT INTO word_tally (workspace_id, documents, length)
    SELECT %(workspace_id)s, sum(documents), sum(length) FROM folded
    HAVING count(*) > 0
"""


async def fold_tally(db: Db, workspace_id: WorkspaceId) -> None:
    """Replace the increments of a workspace by their sum."""
    await db.execute(_FOLD, {"workspace_id": workspace_id})


# everywhere: finds the workspaces whose increments are worth folding.
_CROWDED = """
    SELECT workspace_id FROM word_tally
    GROUP BY workspace_id
    HAVING count(*) > 100
"""


async def crowded_tallies(db: Db) -> list[WorkspaceId]:
    """Workspaces with many increments, of all there are."""
    return [WorkspaceId(row[0]) for row in await (await db.execute(_CROWDED)).fetchall()]


def _match(row: dict[str, Any]) -> Match:
    score, coverage = row.pop("score"), row.pop("coverage")
    return Match(memory_from_row(**row), score, coverage)
