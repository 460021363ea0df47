"""Postings of memories and BM25 over them, on the workspace's own statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from psycopg.rows import class_row

from recollect.domain import CURRENT, Caller, Filter, MemoryId, ThreadId, View, WorkspaceId
from recollect.store.memories import MATCHES, SPEAKER, matching
from recollect.store.pool import Db
from recollect.store.visible import IN_SIGHT, SOME_RESTRICTED, VISIBLE, visible_to

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
    """A memory found by its words, with just enough to rank it."""

    id: MemoryId
    # BM25, unbounded; good for order alone.
    score: float
    # The share of the query's weight that the memory's words carry, 0 to 1.
    coverage: float
    # Whether it holds every phrase the query has in quotes.
    has_phrases: bool
    importance: float
    thread_id: ThreadId | None
    created_at: datetime
    speaker: str | None


# BM25 with k1 = 1.2 and b = 0.75, but length counts against a text only beyond 64 terms, and not
# against the average: a statement is not too long because it has two sentences. The 64 was chosen
# while looking at LoCoMo, RealMem and LongMemEval.
# `%(words)s` numbers the query's words, of which one may have several forms (surface, stem): a word
# counts once, by the form that fits best, and weighs what its commonest form does. A word that no
# memory has weighs most: a question about unknown things is covered little.
_MATCHED = """
    WITH tally AS (
        SELECT greatest(sum(documents), 1)::float8 AS documents
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
    matched AS MATERIALIZED (
        SELECT posting.memory_id, form.word,
            word.weight * max(posting.frequency * 2.2 / (posting.frequency + 1.2 * (
                0.25 + 0.75 * greatest(1.0, posting.length / 64.0)))) AS value
        FROM posting
        JOIN form ON form.term = posting.term
        JOIN word ON word.word = form.word
        GROUP BY posting.memory_id, form.word, word.weight
    ),
    scored AS (
        SELECT matched.memory_id, sum(matched.value) AS score, sum(word.weight) AS covered
        FROM matched
        JOIN word ON word.word = matched.word
        GROUP BY matched.memory_id
    )
"""

_SEARCH = f"""
    {_MATCHED},
    best AS (
        SELECT memory_id, score, covered FROM scored
        ORDER BY score DESC
        LIMIT CASE WHEN {SOME_RESTRICTED} THEN NULL ELSE %(looked_up)s::bigint END
    )
    SELECT best.memory_id AS id, best.score,
        best.covered / (SELECT greatest(sum(weight), 1e-9) FROM word) AS coverage,
        found.has_phrases, found.importance, found.thread_id, found.created_at, found.speaker
    FROM best
    CROSS JOIN LATERAL (
        SELECT m.importance, m.thread_id, m.created_at, {SPEAKER} AS speaker,
            m.content ILIKE ALL(%(phrases)s) AS has_phrases
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = best.memory_id
            AND {VISIBLE} AND {MATCHES}
            AND (NOT %(wants_vector_only)s OR m.wants_vector)
            AND (NOT %(without_vector_only)s OR NOT EXISTS (
                SELECT FROM memory_vector v
                WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
                    AND v.generation = %(generation)s
                    AND v.content_version = m.content_version))
        LIMIT 1
    ) AS found
    ORDER BY found.has_phrases DESC, best.score DESC, found.importance DESC,
        found.created_at DESC, best.memory_id
    LIMIT %(limit)s
"""


async def search(
    db: Db,
    caller: Caller,
    query: Sequence[Sequence[str]],
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    lacking_generation: int | None = None,
    wants_vector_only: bool = False,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """Live memories by BM25, best first; the query is a list of words, each as its forms.

    Those that hold every phrase come before those that do not. `lacking_generation` keeps only
    memories without a vector in that generation; `wants_vector_only` leaves out those that were
    saved to be unsearchable by meaning.
    """
    forms = [(term, number) for number, word in enumerate(query) for term in word]
    if not forms:
        return []
    is_narrowed = wanted != Filter() or bool(phrases) or lacking_generation is not None
    async with db.cursor(row_factory=class_row(Match)) as cursor:
        await cursor.execute(
            _SEARCH,
            {
                "terms": [term for term, _ in forms],
                "words": [number for _, number in forms],
                "phrases": [_containing(phrase) for phrase in phrases],
                **matching(wanted),
                "generation": lacking_generation,
                "without_vector_only": lacking_generation is not None,
                "wants_vector_only": wants_vector_only,
                # Under a filter any match may be among the best; without one only few fall out.
                "looked_up": 2**31 - 1 if is_narrowed else limit * 4 + 100,
                "limit": limit,
                **visible_to(caller, now, view),
            },
        )
        return await cursor.fetchall()


# A memory of a conversation is also found by what was said right before and after it: each word
# counts by the best of its own value, half of a direct neighbour's, a quarter of the next one's.
_IN_CONVERSATION = f"""
    {_MATCHED},
    best AS MATERIALIZED (
        SELECT scored.memory_id, place.thread_id, place.created_at
        FROM (SELECT memory_id, score FROM scored ORDER BY score DESC) AS scored
        CROSS JOIN LATERAL (
            SELECT m.thread_id, m.created_at FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = scored.memory_id AND ({IN_SIGHT})
            LIMIT 1
        ) AS place
        ORDER BY scored.score DESC
        LIMIT %(heads)s
    ),
    reach AS MATERIALIZED (
        SELECT memory_id AS from_id, memory_id AS to_id, 1.0::float8 AS share FROM best
        UNION ALL
        SELECT best.memory_id, beside.id, 0.5 ^ beside.steps
        FROM best
        CROSS JOIN LATERAL (
            (SELECT m.id, row_number() OVER () AS steps FROM (
                SELECT m.id FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = best.thread_id
                    AND (m.created_at, m.id) < (best.created_at, best.memory_id)
                ORDER BY m.created_at DESC, m.id DESC
                LIMIT 2) AS m)
            UNION ALL
            (SELECT m.id, row_number() OVER () AS steps FROM (
                SELECT m.id FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = best.thread_id
                    AND (m.created_at, m.id) > (best.created_at, best.memory_id)
                ORDER BY m.created_at, m.id
                LIMIT 2) AS m)
        ) AS beside
        WHERE best.thread_id IS NOT NULL
    ),
    gathered AS (
        SELECT said.memory_id, said.word, max(said.value) AS value FROM (
            SELECT reach.to_id AS memory_id, matched.word, matched.value * reach.share AS value
            FROM reach
            JOIN matched ON matched.memory_id = reach.from_id
            UNION ALL
            SELECT matched.memory_id, matched.word, matched.value
            FROM matched
            WHERE matched.memory_id IN (SELECT to_id FROM reach)
        ) AS said
        GROUP BY said.memory_id, said.word
    ),
    summed AS (
        SELECT gathered.memory_id, sum(gathered.value) AS score, sum(word.weight) AS covered
        FROM gathered
        JOIN word ON word.word = gathered.word
        GROUP BY gathered.memory_id
    )
    SELECT summed.memory_id AS id, summed.score,
        summed.covered / (SELECT greatest(sum(weight), 1e-9) FROM word) AS coverage,
        found.has_phrases, found.importance, found.thread_id, found.created_at, found.speaker
    FROM summed
    CROSS JOIN LATERAL (
        SELECT m.importance, m.thread_id, m.created_at, {SPEAKER} AS speaker,
            m.content ILIKE ALL(%(phrases)s) AS has_phrases
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = summed.memory_id
            AND {VISIBLE} AND {MATCHES}
        LIMIT 1
    ) AS found
    ORDER BY found.has_phrases DESC, summed.score DESC, found.importance DESC,
        found.created_at DESC, summed.memory_id
"""


async def search_conversations(
    db: Db,
    caller: Caller,
    query: Sequence[Sequence[str]],
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """As `search`, with what was said around each memory in its thread; best first."""
    forms = [(term, number) for number, word in enumerate(query) for term in word]
    if not forms:
        return []
    is_narrowed = wanted != Filter() or bool(phrases)
    async with db.cursor(row_factory=class_row(Match)) as cursor:
        await cursor.execute(
            _IN_CONVERSATION,
            {
                "terms": [term for term, _ in forms],
                "words": [number for _, number in forms],
                "phrases": [_containing(phrase) for phrase in phrases],
                **matching(wanted),
                # Under a filter any match may be among the best; without one only few fall out.
                "heads": 2**31 - 1 if is_narrowed else limit,
                **visible_to(caller, now, view),
            },
        )
        return await cursor.fetchall()


# The last resort, for a part of a word: it reads the whole workspace.
_SUBSTRING = f"""
    SELECT m.id, 0.0::float8 AS score, 1.0::float8 AS coverage, true AS has_phrases,
        m.importance, m.thread_id, m.created_at, {SPEAKER} AS speaker
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.content ILIKE ALL(%(fragments)s)
        AND {VISIBLE} AND {MATCHES}
    ORDER BY m.importance DESC, m.created_at DESC, m.id
    LIMIT %(limit)s
"""


async def containing(
    db: Db,
    caller: Caller,
    fragments: Sequence[str],
    wanted: Filter,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """Live memories whose text holds every fragment, in whatever word, in any case."""
    if not fragments:
        return []
    async with db.cursor(row_factory=class_row(Match)) as cursor:
        await cursor.execute(
            _SUBSTRING,
            {
                "fragments": [_containing(fragment) for fragment in fragments],
                **matching(wanted),
                "limit": limit,
                **visible_to(caller, now, view),
            },
        )
        return await cursor.fetchall()


def _containing(text: str) -> str:
    """A LIKE pattern in which the text stands for nothing but itself."""
    escaped = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


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
