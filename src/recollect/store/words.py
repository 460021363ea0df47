"""Postings of memories and BM25 over them, on the statistics of what the caller sees."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pgvector import HalfVector
from psycopg.rows import class_row, tuple_row
from psycopg.types.json import Jsonb

from recollect.domain import CURRENT, Caller, Filter, MemoryId, ThreadId, View, WorkspaceId
from recollect.store.memories import MATCHES, matching
from recollect.store.pool import Db, Numbered
from recollect.store.vectors import Point
from recollect.store.visible import IN_SIGHT, PLACE, PLACES, VISIBLE, in_sight_of, visible_to

# What has a scope of nothing, as an import may bring, is nobody's: it has a place of its own.
_OWN_PLACE = f"coalesce({PLACE}, m.id)"

# In one statement: the place is what the memory's scope is of, as its row has it.
_INSERT = f"""
    WITH indexed AS (
        SELECT m.id, {_OWN_PLACE} AS place
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
    ),
    filed AS (
        INSERT INTO memory_word (workspace_id, term, place, memory_id, frequency, length)
        SELECT %(workspace_id)s, entry.term, indexed.place, indexed.id, entry.frequency, %(length)s
        FROM indexed
        CROSS JOIN unnest(%(terms)s::text[], %(frequencies)s::integer[]) AS entry (term, frequency)
    ),
    kept AS (
        INSERT INTO memory_terms (workspace_id, memory_id, place, terms, length)
        SELECT %(workspace_id)s, id, place, %(terms)s, %(length)s FROM indexed
    )
    INSERT INTO word_tally (workspace_id, place, documents, length)
    SELECT %(workspace_id)s, place, 1, %(length)s FROM indexed
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
    await db.execute(_INSERT, values)


# The postings in the order of the index, whose pages are then written one after the other.
_INSERT_ALL = f"""
    WITH indexed AS MATERIALIZED (
        SELECT m.id, {_OWN_PLACE} AS place, entry.terms, entry.length
        FROM jsonb_to_recordset(%(entries)s) AS entry (memory_id uuid, terms jsonb, length integer)
        JOIN memory m ON m.workspace_id = %(workspace_id)s AND m.id = entry.memory_id
    ),
    filed AS (
        INSERT INTO memory_word (workspace_id, term, place, memory_id, frequency, length)
        SELECT %(workspace_id)s, posting.key, indexed.place, indexed.id, posting.value::integer,
            indexed.length
        FROM indexed
        CROSS JOIN LATERAL jsonb_each_text(indexed.terms) AS posting
        ORDER BY posting.key
    ),
    kept AS (
        INSERT INTO memory_terms (workspace_id, memory_id, place, terms, length)
        SELECT %(workspace_id)s, id, place, ARRAY(SELECT jsonb_object_keys(terms)), length
        FROM indexed
    )
    INSERT INTO word_tally (workspace_id, place, documents, length)
    SELECT %(workspace_id)s, place, count(*), sum(length) FROM indexed GROUP BY place
"""


async def insert_all(
    db: Db, workspace_id: WorkspaceId, memories: Mapping[MemoryId, Mapping[str, int]]
) -> None:
    """Index the terms of many new memories at once."""
    # As one document: arrays of postings took the driver longer to write than all the rest.
    entries = [
        {"memory_id": str(memory_id), "terms": dict(terms), "length": sum(terms.values())}
        for memory_id, terms in memories.items()
    ]
    await db.execute(_INSERT_ALL, {"workspace_id": workspace_id, "entries": Jsonb(entries)})


_REMOVE_TERMS = """
    DELETE FROM memory_terms
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(ids)s)
    RETURNING memory_id, place, terms, length
"""
_REMOVE_POSTINGS = """
    DELETE FROM memory_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s) AND place = %(place)s
        AND memory_id = %(memory_id)s
"""
_TALLY_REMOVED = """
    INSERT INTO word_tally (workspace_id, place, documents, length)
    VALUES (%(workspace_id)s, %(place)s, -1, -%(length)s)
"""


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Take memories out of the index; those not in it are passed over."""
    cursor = await db.execute(_REMOVE_TERMS, {"workspace_id": workspace_id, "ids": list(ids)})
    for memory_id, place, terms, length in await cursor.fetchall():
        values = {
            "workspace_id": workspace_id,
            "memory_id": memory_id,
            "place": place,
            "terms": terms,
            "length": length,
        }
        await db.execute(_REMOVE_POSTINGS, values)
        await db.execute(_TALLY_REMOVED, values)


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
    # How its text begins.
    opening: str
    # How near it is to the vector asked for; None without either.
    cosine: float | None = None

    @property
    def speaker(self) -> str | None:
        """Who said it, where a text begins as "Ana: ..."."""
        found = _SPEAKER.match(self.opening)
        return found[1] if found else None


_SPEAKER = re.compile(r"([^:\n]+):\s")


# BM25 with k1 = 1.2 and b = 0.75, but length counts against a text only beyond 64 terms, and not
# against the average: a statement is not too long because it has two sentences. The 64 was chosen
# while looking at LoCoMo, RealMem and LongMemEval.
# In float8 throughout: a bare 2.2 is numeric, and its arithmetic took most of a search's time.
SATURATED = """
    posting.frequency * 2.2::float8 / (posting.frequency + 1.2::float8 * (
        0.25::float8 + 0.75::float8 * greatest(1.0::float8, posting.length / 64.0::float8)))
"""

# The query's words are numbered, and one may have several forms (surface, stem): a word counts
# once, by the form that fits best, and weighs what its commonest form does. A word that no memory
# has weighs most: a question about unknown things is covered little. Of the terms in `rest`, which
# are too common to be read through, only the number of memories is known here. It stands behind a
# `tally` of all there is and the `posting`s read, of memories or of something else.
WEIGHED = f"""
    read AS (
        SELECT term, count(*) AS memories FROM posting GROUP BY term
    ),
    counted AS (
        SELECT asked.term, asked.word,
            greatest(asked.memories, coalesce(read.memories, 0)) AS memories
        FROM unnest(%(terms)s::text[], %(words)s::integer[], %(counts)s::bigint[])
            AS asked (term, word, memories)
        LEFT JOIN read ON read.term = asked.term
    ),
    form AS (
        SELECT term, word,
            ln(1 + (greatest(documents, memories) - memories + 0.5::float8)
                / (memories + 0.5::float8)) AS weight
        FROM counted
        CROSS JOIN tally
    ),
    word AS (
        SELECT word, min(weight) AS weight FROM form GROUP BY word
    ),
    matched AS MATERIALIZED (
        SELECT posting.memory_id, form.word, word.weight,
            word.weight * max({SATURATED}) AS value
        FROM posting
        JOIN form ON form.term = posting.term
        JOIN word ON word.word = form.word
        GROUP BY posting.memory_id, form.word, word.weight
    ),
    scored AS (
        SELECT memory_id, sum(value) AS score FROM matched GROUP BY memory_id
    )
"""
# What a caller does not see counts for nothing: nobody learns from a score whether somebody else's
# memory has a word.
_MATCHED = f"""
    WITH tally AS (
        SELECT greatest(sum(documents), 1)::float8 AS documents
        FROM word_tally
        WHERE workspace_id = %(workspace_id)s AND place = ANY({PLACES})
    ),
    posting AS MATERIALIZED (
        SELECT term, memory_id, frequency, length
        FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = ANY(%(read)s) AND place = ANY({PLACES})
    ),
    {WEIGHED}
"""

# The best matches that the caller may find. Under a filter any match may be among them; without
# one only few fall out.
_BEST = f"""
    best AS MATERIALIZED (
        SELECT first.memory_id, first.score, found.*
        FROM (
            SELECT memory_id, score FROM scored
            ORDER BY score DESC
            LIMIT %(looked_up)s
        ) AS first
        CROSS JOIN LATERAL (
            SELECT m.thread_id, m.created_at, m.importance, left(m.content, 42) AS opening,
                m.content ILIKE ALL(%(phrases)s) AS has_phrases
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = first.memory_id
                AND {VISIBLE} AND {MATCHES}
                AND (NOT %(wants_vector_only)s OR m.wants_vector)
                AND (NOT %(without_vector_only)s OR NOT EXISTS (
                    SELECT FROM memory_vector v
                    WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
                        AND v.generation = %(lacking)s
                        AND v.content_version = m.content_version))
            LIMIT 1
        ) AS found
        ORDER BY found.has_phrases DESC, first.score DESC, found.importance DESC,
            found.created_at DESC, first.memory_id
        LIMIT %(limit)s
    )
"""

# All words of those looked at: what was read through, and the rest looked up one by one.
_OWN = f"""
    own AS MATERIALIZED (
        SELECT matched.memory_id, matched.word, matched.weight, matched.value
        FROM target
        JOIN matched ON matched.memory_id = target.memory_id
        UNION ALL
        SELECT posting.memory_id, form.word, word.weight, word.weight * max({SATURATED})
        FROM memory_word posting
        JOIN form ON form.term = posting.term
        JOIN word ON word.word = form.word
        WHERE posting.workspace_id = %(workspace_id)s AND posting.term = ANY(%(rest)s)
            AND posting.place = ANY({PLACES})
            AND posting.memory_id = ANY(ARRAY(SELECT memory_id FROM target))
        GROUP BY posting.memory_id, form.word, word.weight
    )
"""
_ALL_WEIGHT = "(SELECT greatest(sum(weight), 1e-9) FROM word)"

_SEARCH = Numbered(f"""
    {_MATCHED}, {_BEST},
    target AS (SELECT memory_id FROM best),
    {_OWN}
    SELECT best.memory_id AS id, sum(own.value) AS score,
        sum(own.weight) / {_ALL_WEIGHT} AS coverage, best.has_phrases, best.importance,
        best.thread_id, best.created_at, best.opening
    FROM best
    JOIN own ON own.memory_id = best.memory_id
    GROUP BY best.memory_id, best.has_phrases, best.importance, best.thread_id, best.created_at,
        best.opening
    ORDER BY best.has_phrases DESC, score DESC, best.importance DESC, best.created_at DESC, id
""")


async def search(
    db: Db,
    caller: Caller,
    query: Sequence[Sequence[str]],
    wanted: Filter,
    *,
    lacking_generation: int | None = None,
    wants_vector_only: bool = False,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """Live memories by BM25, best first; the query is a list of words, each as its forms.

    `lacking_generation` keeps only memories without a vector in that generation;
    `wants_vector_only` leaves out those that were saved to be unsearchable by meaning.
    """
    if not any(query):
        return []
    values = await _asked(db, caller, query, (), wanted, limit, now, view)
    is_narrowed = lacking_generation is not None
    values |= {
        "lacking": lacking_generation,
        "without_vector_only": is_narrowed,
        "wants_vector_only": wants_vector_only,
    }
    if is_narrowed:
        values["looked_up"] = _ALL
    return await _SEARCH.run(db, values, class_row(Match))


_COSINE = """
    (SELECT 1 - (v.embedding <=> %(vector)s::halfvec)
     FROM memory_vector v
     WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
        AND v.generation = %(generation)s) AS cosine
"""

_LEADS = Numbered(f"""
    {_MATCHED}, {_BEST}
    SELECT ARRAY(SELECT memory_id FROM best ORDER BY score DESC) AS ids,
        ARRAY(
            SELECT word.weight
            FROM unnest(%(words)s::integer[]) WITH ORDINALITY AS asked (word, number)
            JOIN word ON word.word = asked.word
            ORDER BY asked.number
        ) AS weights
""")


@dataclass(frozen=True, slots=True)
class Leads:
    """The best by their own words, best first, and what the words asked for weigh."""

    ids: Sequence[MemoryId] = ()
    # Every form of every word, and beside it the word's number and weight.
    terms: Sequence[str] = ()
    words: Sequence[int] = ()
    weights: Sequence[float] = ()


async def leads(
    db: Db,
    caller: Caller,
    query: Sequence[Sequence[str]],
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> Leads:
    """The live memories that are best by BM25, for `around` to look at closely."""
    if not any(query):
        return Leads()
    values = await _asked(db, caller, query, phrases, wanted, limit, now, view)
    values |= {"lacking": None, "without_vector_only": False, "wants_vector_only": False}
    [(ids, weights)] = await _LEADS.run(db, values, tuple_row)
    return Leads(ids, values["terms"], values["words"], weights)


# What was said right before and after a memory tells what it is about: each of the question's
# words counts by the best of its own value there and a share of its value in the neighbours, up to
# three away. Without a thread, what begins as "Ana: ..." has the ones saved before and after it
# for neighbours. Only a memory's own words make it a lead.
_AROUND = Numbered(f"""
    WITH form AS (
        SELECT * FROM unnest(%(terms)s::text[], %(words)s::integer[], %(weights)s::float8[])
            AS form (term, word, weight)
    ),
    target AS MATERIALIZED (
        SELECT named.memory_id, named.number, found.*
        FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS named (memory_id, number)
        CROSS JOIN LATERAL (
            SELECT m.importance, m.thread_id, m.created_at, left(m.content, 42) AS opening,
                m.content ILIKE ALL(%(phrases)s) AS has_phrases, {_COSINE}
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = named.memory_id AND {VISIBLE}
            LIMIT 1
        ) AS found
    ),
    own AS MATERIALIZED (
        SELECT posting.memory_id, form.word, form.weight, form.weight * max({SATURATED}) AS value
        FROM memory_word posting
        JOIN form ON form.term = posting.term
        WHERE posting.workspace_id = %(workspace_id)s AND posting.term = ANY(%(terms)s)
            AND posting.place = ANY({PLACES}) AND posting.memory_id = ANY(%(ids)s)
        GROUP BY posting.memory_id, form.word, form.weight
    ),
    beside AS MATERIALIZED (
        SELECT giver.memory_id AS from_id, near.id AS to_id,
            (ARRAY[0.6, 0.4, 0.2])[near.steps]::float8 AS share
        FROM (SELECT * FROM target WHERE number <= %(givers)s) AS giver
        CROSS JOIN LATERAL (
            (SELECT m.id, row_number() OVER () AS steps FROM (
                SELECT m.id FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = giver.thread_id
                    AND (m.created_at, m.id) < (giver.created_at, giver.memory_id) AND {IN_SIGHT}
                ORDER BY m.created_at DESC, m.id DESC
                LIMIT 3) AS m)
            UNION ALL
            (SELECT m.id, row_number() OVER () AS steps FROM (
                SELECT m.id FROM memory m
                WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = giver.thread_id
                    AND (m.created_at, m.id) > (giver.created_at, giver.memory_id) AND {IN_SIGHT}
                ORDER BY m.created_at, m.id
                LIMIT 3) AS m)
            UNION ALL
            (SELECT m.id, m.steps FROM (
                SELECT m.id, m.thread_id, row_number() OVER () AS steps FROM (
                    SELECT m.* FROM memory m
                    WHERE m.workspace_id = %(workspace_id)s AND m.deleted_at IS NULL
                        AND (m.created_at, m.id) < (giver.created_at, giver.memory_id)
                        AND giver.thread_id IS NULL AND giver.opening LIKE '%%:%%'
                    ORDER BY m.created_at DESC, m.id DESC
                    LIMIT %(walked)s) AS m
                WHERE {IN_SIGHT}
                LIMIT 3) AS m
            WHERE m.thread_id IS NULL)
            UNION ALL
            (SELECT m.id, m.steps FROM (
                SELECT m.id, m.thread_id, row_number() OVER () AS steps FROM (
                    SELECT m.* FROM memory m
                    WHERE m.workspace_id = %(workspace_id)s AND m.deleted_at IS NULL
                        AND (m.created_at, m.id) > (giver.created_at, giver.memory_id)
                        AND giver.thread_id IS NULL AND giver.opening LIKE '%%:%%'
                    ORDER BY m.created_at, m.id
                    LIMIT %(walked)s) AS m
                WHERE {IN_SIGHT}
                LIMIT 3) AS m
            WHERE m.thread_id IS NULL)
        ) AS near
    ),
    gathered AS (
        SELECT said.memory_id, said.word, max(said.value) AS value, max(said.own_weight) AS own
        FROM (
            SELECT memory_id, word, value, weight AS own_weight FROM own
            UNION ALL
            SELECT beside.to_id, own.word, own.value * beside.share, NULL
            FROM beside
            JOIN own ON own.memory_id = beside.from_id
        ) AS said
        GROUP BY said.memory_id, said.word
    ),
    summed AS (
        SELECT memory_id, sum(value) AS score, sum(own) AS covered
        FROM gathered
        GROUP BY memory_id
    )
    SELECT target.memory_id AS id, coalesce(summed.score, 0) AS score,
        coalesce(summed.covered, 0) / greatest(%(weight)s::float8, 1e-9) AS coverage,
        target.has_phrases, target.importance, target.thread_id, target.created_at,
        target.opening, target.cosine
    FROM target
    LEFT JOIN summed ON summed.memory_id = target.memory_id
""")
# How many of the leads tell their neighbours. On the public sets 50 were as good as 200.
_GIVERS = 100
# How far neighbours are looked for past what was saved in between and is not in sight.
_WALKED = 30


async def around(
    db: Db,
    caller: Caller,
    found: Leads,
    also: Sequence[MemoryId],
    point: Point | None,
    *,
    phrases: Sequence[str] = (),
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """The leads and those named in `also`, each with what was said around it; in no order.

    `also` names memories that were found by other means, alive and wanted; they are looked at
    whether or not a word of theirs matches. `point` is what their cosines are of.
    """
    weights = dict(zip(found.words, found.weights, strict=True))
    values = {
        "terms": list(found.terms),
        "words": list(found.words),
        "weights": list(found.weights),
        "weight": sum(weights.values()),
        "ids": list(dict.fromkeys([*found.ids, *also])),
        "givers": min(_GIVERS, len(found.ids)),
        "walked": _WALKED,
        "phrases": _patterns(phrases),
        **_cosine_of(point),
        **visible_to(caller, now, view),
    }
    return await _AROUND.run(db, values, class_row(Match))


_ALL = 2**31 - 1
# How many postings a search reads through: with more, a common word in a large workspace would
# cost more than it tells. The rarest words are read first and always one; the rest only add to
# what those have found.
READABLE = 3_000


async def _asked(
    db: Db,
    caller: Caller,
    query: Sequence[Sequence[str]],
    phrases: Sequence[str],
    wanted: Filter,
    limit: int,
    now: datetime,
    view: View,
) -> dict[str, Any]:
    """The values that `_MATCHED` and `_BEST` name."""
    forms = [(term, number) for number, word in enumerate(query) for term in word]
    common = await _common(db, caller, [term for term, _ in forms])
    rest = too_common(query, common)
    is_narrowed = bool(phrases) or not wanted.is_open
    return {
        "terms": [term for term, _ in forms],
        "words": [number for _, number in forms],
        "counts": [common.get(term, 0) if term in rest else 0 for term, _ in forms],
        "read": [term for term, _ in forms if term not in rest],
        "rest": list(rest),
        "phrases": _patterns(phrases),
        **matching(wanted),
        "looked_up": _ALL if is_narrowed else limit + 100,
        "limit": limit,
        **visible_to(caller, now, view),
    }


def too_common(query: Sequence[Sequence[str]], common: Mapping[str, int]) -> frozenset[str]:
    """The terms of those words that are too common to be read through beside the others."""
    costs = sorted((sum(common.get(term, 0) for term in word), word) for word in query)
    spent = 0
    rest: set[str] = set()
    for place, (cost, word) in enumerate(costs):
        spent += cost
        if place > 0 and spent > READABLE:
            rest.update(word)
    # A form that a readable word shares is read for that one's sake.
    return frozenset(rest.difference(*(word for _, word in costs if not rest.issuperset(word))))


_COMMON = f"""
    SELECT term, sum(memories)::bigint FROM common_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s) AND place = ANY({PLACES})
    GROUP BY term
"""


async def _common(db: Db, caller: Caller, terms: Sequence[str]) -> dict[str, int]:
    values = in_sight_of(caller) | {"terms": list(terms)}
    return dict(await (await db.execute(_COMMON, values)).fetchall())


# The last resort, for a part of a word: it reads the whole workspace.
_SUBSTRING = f"""
    SELECT m.id, 0.0::float8 AS score, 1.0::float8 AS coverage, true AS has_phrases,
        m.importance, m.thread_id, m.created_at, left(m.content, 42) AS opening, {_COSINE}
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
    point: Point | None,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """Live memories whose text holds every fragment, in whatever word, in any case."""
    if not fragments:
        return []
    values = {
        "fragments": _patterns(fragments),
        **_cosine_of(point),
        **matching(wanted),
        "limit": limit,
        **visible_to(caller, now, view),
    }
    async with db.cursor(row_factory=class_row(Match)) as cursor:
        await cursor.execute(_SUBSTRING, values)
        return await cursor.fetchall()


def _cosine_of(point: Point | None) -> dict[str, Any]:
    """The values `_COSINE` names."""
    if point is None:
        return {"vector": None, "generation": None}
    return {"vector": HalfVector(point.vector), "generation": point.generation}


def _patterns(texts: Sequence[str]) -> list[str]:
    return [containing_pattern(text) for text in texts]


def containing_pattern(text: str) -> str:
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
        RETURNING place, documents, length
    )
    INSERT INTO word_tally (workspace_id, place, documents, length)
    SELECT %(workspace_id)s, place, sum(documents), sum(length) FROM folded
    GROUP BY place
"""


async def fold_tally(db: Db, workspace_id: WorkspaceId) -> None:
    """Replace the increments of each place of a workspace by their sum."""
    await db.execute(_FOLD, {"workspace_id": workspace_id})


# everywhere: finds the workspaces whose increments are worth folding.
_CROWDED = """
    SELECT workspace_id FROM word_tally
    GROUP BY workspace_id
    HAVING count(*) > count(DISTINCT place) + 100
"""


async def crowded_tallies(db: Db) -> list[WorkspaceId]:
    """Workspaces with many increments, of all there are."""
    return [WorkspaceId(row[0]) for row in await (await db.execute(_CROWDED)).fetchall()]


# Counted again when a workspace has grown by a tenth, so that the counts are near the truth.
# everywhere: finds the workspaces whose words are worth counting.
_UNCOUNTED = """
    SELECT tally.workspace_id
    FROM (
        SELECT workspace_id, sum(documents) AS documents FROM word_tally GROUP BY workspace_id
    ) AS tally
    LEFT JOIN word_census census ON census.workspace_id = tally.workspace_id
    WHERE tally.documents >= %(least)s
        AND tally.documents > 1.1 * coalesce(census.documents, 0)
"""
_FORGET_COMMON = "DELETE FROM common_word WHERE workspace_id = %(workspace_id)s"
_COUNT_COMMON = """
    INSERT INTO common_word (workspace_id, term, place, memories)
    SELECT %(workspace_id)s, term, place, count(*)
    FROM memory_word
    WHERE workspace_id = %(workspace_id)s
    GROUP BY term, place
    HAVING count(*) >= %(least)s
"""
_CENSUS = """
    INSERT INTO word_census (workspace_id, documents)
    SELECT %(workspace_id)s, coalesce(sum(documents), 0)
    FROM word_tally
    WHERE workspace_id = %(workspace_id)s
    ON CONFLICT (workspace_id) DO UPDATE SET documents = EXCLUDED.documents
"""
# A word of fewer memories is never worth leaving unread.
_COMMON_FROM = 1_000


async def uncounted(db: Db, least: int) -> list[WorkspaceId]:
    """Workspaces of at least so many memories that have grown since their words were counted."""
    rows = await (await db.execute(_UNCOUNTED, {"least": least})).fetchall()
    return [WorkspaceId(row[0]) for row in rows]


async def count_common(db: Db, workspace_id: WorkspaceId) -> None:
    """Note how many memories have each of the common words of each place of a workspace."""
    values = {"workspace_id": workspace_id, "least": _COMMON_FROM}
    await db.execute(_FORGET_COMMON, values)
    await db.execute(_COUNT_COMMON, values)
    await db.execute(_CENSUS, values)
