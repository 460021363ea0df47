"""Chunks of documents: their words, their vectors, and the search in both.

The vectors belong to the generations of the workspace. Words are scored as for memories
(`keywords.bm25`), but with the statistics of the chunks alone: otherwise a long document would
change the scores of all memories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector
from psycopg.rows import class_row, kwargs_row

from recollect.core.domain import Caller, Chunk, ChunkId, DocumentId, DocumentKind, WorkspaceId
from recollect.db.arrays import ids_of
from recollect.db.pool import Db
from recollect.db.visibility import DOCUMENT_VISIBLE, scope_values
from recollect.embeddings.queries.vectors import QueryVector
from recollect.keywords.bm25 import POSTED, Bm25Score, LaterWords, Word, postings_of
from recollect.keywords.queries.read_limits import MAX_POSTINGS, READABLE, too_common


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A chunk to store, with its terms and their frequencies."""

    id: ChunkId
    number: int
    start: int
    content: str
    heading: str | None
    page: int | None
    terms: Mapping[str, int]


_INSERT = """
    INSERT INTO chunk (
        workspace_id, id, document_id, number, start, content, heading, page, terms
    ) VALUES (
        %(workspace_id)s, %(id)s, %(document_id)s, %(number)s, %(start)s, %(content)s,
        %(heading)s, %(page)s, %(terms)s
    )
"""
_INSERT_WORDS = """
    INSERT INTO chunk_word (workspace_id, term, chunk_id, frequency, length)
    SELECT %(workspace_id)s, entry.term, %(id)s, entry.frequency, %(length)s
    FROM unnest(%(terms)s::text[], %(frequencies)s::integer[]) AS entry (term, frequency)
"""


async def insert(
    db: Db, workspace_id: WorkspaceId, document_id: DocumentId, new: Sequence[NewChunk]
) -> None:
    """Store chunks with their words."""
    rows = [
        {
            "workspace_id": workspace_id,
            "id": each.id,
            "document_id": document_id,
            "number": each.number,
            "start": each.start,
            "content": each.content,
            "heading": each.heading,
            "page": each.page,
            "terms": list(each.terms),
            "frequencies": list(each.terms.values()),
            "length": sum(each.terms.values()),
        }
        for each in new
    ]
    async with db.cursor() as cursor:
        await cursor.executemany(_INSERT, rows)
        await cursor.executemany(_INSERT_WORDS, rows)


@dataclass(frozen=True, slots=True)
class ChunkText:
    """A chunk's text and its position in the document's text."""

    number: int
    start: int
    content: str


_OF_DOCUMENT = """
    SELECT number, start, content FROM chunk
    WHERE workspace_id = %(workspace_id)s AND document_id = %(document_id)s
        AND number >= %(first)s
    ORDER BY number
    LIMIT %(limit)s
"""


async def of_document(
    db: Db, workspace_id: WorkspaceId, document_id: DocumentId, *, first: int, limit: int
) -> list[ChunkText]:
    """Return a document's chunks in order, starting at a number."""
    values = {
        "workspace_id": workspace_id,
        "document_id": document_id,
        "first": first,
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(ChunkText)) as cursor:
        await cursor.execute(_OF_DOCUMENT, values)
        return await cursor.fetchall()


_VISIBLE_DOCUMENTS = f"""
    SELECT d.id FROM document d
    WHERE d.workspace_id = %(workspace_id)s AND d.status = 'ready' AND {DOCUMENT_VISIBLE}
"""

# Exact, as for memories: `+ 0` keeps the order from matching any index.
_NEAR = f"""
    WITH near AS (
        SELECT v.chunk_id, (v.embedding <=> %(vector)s) + 0 AS distance
        FROM chunk_vector v
        WHERE v.workspace_id = %(workspace_id)s AND v.generation = %(generation)s
            AND v.document_id IN ({_VISIBLE_DOCUMENTS})
        ORDER BY distance
        LIMIT %(limit)s
    )
    SELECT near.chunk_id, 1 - near.distance AS cosine
    FROM near
    ORDER BY near.distance, near.chunk_id
"""


async def near(db: Db, caller: Caller, point: QueryVector, *, limit: int) -> dict[ChunkId, float]:
    """Return the chunks closest to a vector with their cosines, closest first."""
    values = {
        "generation": point.generation,
        "vector": HalfVector(point.vector),
        "limit": limit,
        **scope_values(caller),
    }
    return dict(await (await db.execute(_NEAR, values)).fetchall())


_COSINES = """
    SELECT v.chunk_id, 1 - (v.embedding <=> %(vector)s)
    FROM chunk_vector v
    WHERE v.workspace_id = %(workspace_id)s AND v.generation = %(generation)s
        AND v.chunk_id = ANY(%(ids)s)
"""


async def cosines(
    db: Db, workspace_id: WorkspaceId, point: QueryVector, ids: Sequence[ChunkId]
) -> dict[ChunkId, float]:
    """Return the cosine of each of these chunks to a vector, without those that have no vector."""
    if not ids:
        return {}
    values = {
        "workspace_id": workspace_id,
        "generation": point.generation,
        "vector": HalfVector(point.vector),
        "ids": list(ids),
    }
    return dict(await (await db.execute(_COSINES, values)).fetchall())


# Which postings `w` are counted: as for memories, documents that the caller cannot see do not
# count. The postings are checked one by one only if there are such documents.
_COUNTED = f"""
    CASE WHEN EXISTS (
        SELECT FROM document d
        WHERE d.workspace_id = %(workspace_id)s
            AND (d.status = 'ready' AND {DOCUMENT_VISIBLE}) IS NOT TRUE)
    THEN EXISTS (
        SELECT FROM chunk c
        WHERE c.workspace_id = %(workspace_id)s AND c.id = w.chunk_id
            AND c.document_id IN ({_VISIBLE_DOCUMENTS}))
    ELSE true END
"""

# How many chunks have a term, counted up to the limit that is read.
_COUNT = f"""
    SELECT asked.term, counted.chunks
    FROM unnest(%(terms)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT count(*) AS chunks FROM (
            SELECT FROM chunk_word w
            WHERE w.workspace_id = %(workspace_id)s AND w.term = asked.term AND {_COUNTED}
            LIMIT %(most)s
        ) AS first
    ) AS counted
"""
# As for memories, one row with the number of texts remains if there is no term to read.
_POSTINGS = f"""
    SELECT asked.term, totals.texts, found.*
    FROM (
        SELECT coalesce(sum(d.chunk_count), 0)::bigint AS texts FROM document d
        WHERE d.workspace_id = %(workspace_id)s AND d.status = 'ready' AND {DOCUMENT_VISIBLE}
    ) AS totals
    LEFT JOIN unnest(%(read)s::text[]) AS asked (term) ON true
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT w.chunk_id AS id, w.frequency, w.length
            FROM chunk_word w
            WHERE w.workspace_id = %(workspace_id)s AND w.term = asked.term AND {_COUNTED}
            LIMIT %(most)s
        ) AS posting
    ) AS found
"""
_LATER_TERMS = """
    SELECT w.chunk_id, w.term, w.frequency, w.length
    FROM chunk_word w
    WHERE w.workspace_id = %(workspace_id)s AND w.term = ANY(%(rest)s) AND w.chunk_id = ANY(%(ids)s)
"""


async def matching(
    db: Db, caller: Caller, query: Sequence[Word], *, limit: int
) -> dict[ChunkId, float]:
    """Return the best chunks by BM25, and the share of the query's weight that each has, 0 to 1."""
    if not query:
        return {}
    terms = list(dict.fromkeys(term for word in query for term in word.terms))
    values: dict[str, Any] = {**scope_values(caller), "terms": terms, "most": READABLE + 1}
    counts: dict[str, int] = dict(await (await db.execute(_COUNT, values)).fetchall())
    rest = too_common(query, counts)
    read = [term for term in terms if term not in rest]
    values |= {"read": read, "rest": list(rest), "most": MAX_POSTINGS}
    rows = await (await db.execute(_POSTINGS, values, binary=True)).fetchall()
    worth = Bm25Score(query, postings_of(rows, MAX_POSTINGS), counts, texts=rows[0][1])
    ids = [ChunkId(each) for each in ids_of(worth.best(limit)[0])]
    further = (
        await (await db.execute(_LATER_TERMS, values | {"ids": ids})).fetchall() if rest else []
    )
    places = {each: place for place, each in enumerate(ids)}
    own = worth.of(ids, [LaterWords(places[each], *told) for each, *told in further])
    scores, coverage = own.scores.sum(axis=1).tolist(), worth.coverage(own).tolist()
    order = sorted(range(len(ids)), key=lambda place: (-scores[place], ids[place]))
    return {ids[place]: coverage[place] for place in order}


_FIND_ALL = f"""
    SELECT c.id, c.document_id, d.code AS document_code, d.name AS document_name,
        d.kind AS document_kind, c.number, c.content, c.heading, c.page, d.created_at
    FROM chunk c
    JOIN document d ON d.workspace_id = c.workspace_id AND d.id = c.document_id
    WHERE c.workspace_id = %(workspace_id)s AND c.id = ANY(%(ids)s) AND d.status = 'ready'
        AND {DOCUMENT_VISIBLE}
"""


async def find_all(db: Db, caller: Caller, ids: Sequence[ChunkId]) -> dict[ChunkId, Chunk]:
    """Return those of these chunks that the caller can see."""
    if not ids:
        return {}
    async with db.cursor(row_factory=kwargs_row(_chunk)) as cursor:
        await cursor.execute(_FIND_ALL, scope_values(caller) | {"ids": list(ids)})
        return {each.id: each for each in await cursor.fetchall()}


def _chunk(*, document_kind: str, **row: Any) -> Chunk:
    return Chunk(document_kind=DocumentKind(document_kind), **row)


@dataclass(frozen=True, slots=True)
class ChunkWithoutVector:
    """A chunk without a vector in some generation."""

    id: ChunkId
    document_id: DocumentId
    heading: str | None
    content: str

    @property
    def embedded_text(self) -> str:
        """The text to embed: the heading, which says what the chunk is about, and the content."""
        return f"{self.heading}\n\n{self.content}" if self.heading else self.content


# The job that reads a document embeds its chunks, so other jobs skip it.
_LACKING = """
    SELECT c.id, c.document_id, c.heading, c.content
    FROM chunk c
    WHERE c.workspace_id = %(workspace_id)s AND NOT c.vector_refused AND c.id > %(after)s
        AND CASE WHEN %(document_id)s::uuid IS NULL
            THEN EXISTS (
                SELECT FROM document d
                WHERE d.workspace_id = %(workspace_id)s AND d.id = c.document_id
                    AND d.status = 'ready')
            ELSE c.document_id = %(document_id)s END
        AND NOT EXISTS (
            SELECT FROM chunk_vector v
            WHERE v.workspace_id = %(workspace_id)s AND v.chunk_id = c.id
                AND v.generation = %(generation)s
        )
    ORDER BY c.id
    LIMIT %(limit)s
"""


async def chunks_without_vector(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    *,
    after: UUID,
    limit: int,
    document_id: DocumentId | None = None,
) -> list[ChunkWithoutVector]:
    """Return chunks without a vector, by id, of one document or of all that are ready."""
    values = {
        "workspace_id": workspace_id,
        "generation": generation,
        "after": after,
        "limit": limit,
        "document_id": document_id,
    }
    async with db.cursor(row_factory=class_row(ChunkWithoutVector)) as cursor:
        await cursor.execute(_LACKING, values)
        return await cursor.fetchall()


# The chunk is locked, so that no vector is stored for a chunk that is being deleted.
_INSERT_VECTOR = """
    INSERT INTO chunk_vector (workspace_id, chunk_id, generation, document_id, embedding)
    SELECT c.workspace_id, c.id, %(generation)s, c.document_id, %(embedding)s
    FROM chunk c
    WHERE c.workspace_id = %(workspace_id)s AND c.id = %(id)s
    FOR KEY SHARE
    ON CONFLICT (workspace_id, chunk_id, generation)
    DO UPDATE SET embedding = EXCLUDED.embedding
"""


async def insert_vectors(
    db: Db,
    workspace_id: WorkspaceId,
    generation: int,
    embedded: Sequence[tuple[ChunkId, NDArray[np.float32]]],
) -> None:
    """Store vectors of chunks in one generation; deleted chunks are skipped."""
    async with db.cursor() as cursor:
        await cursor.executemany(
            _INSERT_VECTOR,
            [
                {
                    "workspace_id": workspace_id,
                    "id": chunk_id,
                    "generation": generation,
                    "embedding": HalfVector(vector),
                }
                for chunk_id, vector in embedded
            ],
        )


_REFUSED = """
    UPDATE chunk SET vector_refused = true
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def mark_refused(db: Db, workspace_id: WorkspaceId, chunk_id: ChunkId) -> None:
    """Record that the embedder rejects this text."""
    await db.execute(_REFUSED, {"workspace_id": workspace_id, "id": chunk_id})


_DROP_RETIRED = """
    DELETE FROM chunk_vector v
    WHERE v.workspace_id = %(workspace_id)s AND (v.chunk_id, v.generation) IN (
        SELECT old.chunk_id, old.generation
        FROM chunk_vector old
        JOIN generation g ON g.workspace_id = old.workspace_id AND g.number = old.generation
        WHERE old.workspace_id = %(workspace_id)s AND g.state = 'retired'
        LIMIT %(limit)s
    )
"""


async def drop_retired(db: Db, workspace_id: WorkspaceId, limit: int) -> int:
    """Delete some vectors of retired generations; return how many."""
    values = {"workspace_id": workspace_id, "limit": limit}
    return (await db.execute(_DROP_RETIRED, values)).rowcount
