"""Postings of memories and BM25 over them, on the statistics of what the caller sees."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from psycopg.rows import tuple_row
from psycopg.types.json import Jsonb

from recollect.domain import CURRENT, Caller, Filter, MemoryId, ThreadId, View, WorkspaceId
from recollect.store import vectors
from recollect.store.arrays import FloatArray, IdArray, IdBytes, id_bytes, read_ids
from recollect.store.bm25 import POSTED, Floats, Further, Word, Worth, postings_of
from recollect.store.memories import MATCHES, SAID, Spans, during, matching
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


class Match(NamedTuple):
    """A memory found by its words, with just enough to rank it."""

    id: MemoryId
    # BM25, unbounded; good for order alone.
    score: float
    # The share of the query's weight that the memory's words carry, 0 to 1.
    coverage: float
    # Whether it holds every phrase the query has in quotes.
    has_phrases: bool
    importance: float
    importance_base: float
    thread_id: ThreadId | None
    created_at: datetime
    # Who said it, where its text begins as "Ana: ...".
    speaker: str | None = None
    # How near it is to the vector asked for; None without either.
    cosine: float | None = None

    @property
    def order(self) -> tuple[bool, float, float, float, MemoryId]:
        """What has the phrases first, then by words, importance and age."""
        return (
            not self.has_phrases,
            -self.score,
            -self.importance,
            -self.created_at.timestamp(),
            self.id,
        )


# A name has four words at most: "What I want for dinner: soup" was said by nobody of that name.
_SPEAKER = re.compile(r"([^\s:]+(?:\ [^\s:]+){0,3}):\s")

# What a caller does not see counts for nothing: nobody learns from a score whether somebody else's
# memory has a word. With no term to read there is a row all the same, with the number of texts.
_POSTINGS = Numbered(f"""
    SELECT asked.term, tally.texts, found.*
    FROM (
        SELECT coalesce(sum(documents), 0)::bigint AS texts FROM word_tally
        WHERE workspace_id = %(workspace_id)s AND place = ANY({PLACES})
    ) AS tally
    LEFT JOIN unnest(%(read)s::text[]) AS asked (term) ON true
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT memory_id AS id, frequency, length
            FROM memory_word
            WHERE workspace_id = %(workspace_id)s AND term = asked.term AND place = ANY({PLACES})
            LIMIT %(most)s
        ) AS posting
    ) AS found
""")


async def _worth(db: Db, caller: Caller, query: Sequence[Word]) -> tuple[Worth, Sequence[str]]:
    """What the query's words are worth in what has them, and the terms too common to read through.

    A term that was read in part is also of those: whatever is found is asked for it.
    """
    sight = in_sight_of(caller)
    terms = {term for word in query for term in word.terms}
    counts = await _common(db, sight, list(terms))
    rest = too_common(query, counts)
    read = terms - rest
    most = min(MOST_POSTINGS, _POSTINGS_IN_ALL // max(1, len(read)))
    values = sight | {"read": list(read), "most": most}
    rows = await _POSTINGS.run(db, values, tuple_row, binary=True)
    worth = Worth(query, postings_of(rows, most), counts, texts=rows[0][1])
    return worth, [*rest, *worth.sampled]


# What it takes to weigh a memory `m`, and where its postings lie.
_ROW = f"""
    m.importance, m.importance_base, m.thread_id, m.created_at, left(m.content, 42) AS opening,
    m.content ILIKE ALL(%(phrases)s) AS has_phrases, {_OWN_PLACE} AS place
"""
_SEEN = """
    seen.id, seen.importance, seen.importance_base, seen.thread_id, seen.created_at, seen.opening,
    seen.has_phrases
"""
# Of one that was `seen`, the terms too common to be read through.
_FURTHER = """
    SELECT array_agg(asked.term) AS terms, array_agg(posting.frequency) AS frequencies,
        array_agg(posting.length) AS lengths
    FROM unnest(%(rest)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT frequency, length FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = asked.term AND place = seen.place
            AND memory_id = seen.id
        LIMIT 1
    ) AS posting
"""
# What was said right before and after one that was `seen`, up to three away. Without a thread, what
# begins as "Ana: ..." has the ones saved before and after it in the same place for neighbours: what
# is in another's sight alone does not even count as something in between.
_BESIDE = f"""
    SELECT array_agg(near.id) AS neighbours, array_agg(near.steps) AS steps
    FROM (
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = seen.thread_id
                AND (m.created_at, m.id) < (seen.created_at, seen.id) AND {IN_SIGHT}
            ORDER BY m.created_at DESC, m.id DESC
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = seen.thread_id
                AND (m.created_at, m.id) > (seen.created_at, seen.id) AND {IN_SIGHT}
            ORDER BY m.created_at, m.id
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND ({PLACE}) = seen.place
                AND m.thread_id IS NULL AND m.deleted_at IS NULL
                AND (m.created_at, m.id) < (seen.created_at, seen.id)
                AND seen.thread_id IS NULL AND seen.opening LIKE '%%:%%'
            ORDER BY m.created_at DESC, m.id DESC
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND ({PLACE}) = seen.place
                AND m.thread_id IS NULL AND m.deleted_at IS NULL
                AND (m.created_at, m.id) > (seen.created_at, seen.id)
                AND seen.thread_id IS NULL AND seen.opening LIKE '%%:%%'
            ORDER BY m.created_at, m.id
            LIMIT 3) AS m)
    ) AS near
"""

# Whether a memory `m` may be found: by who sees it, and by what is asked for beside its words. With
# no generation that it shall lack, no vector is met.
_FINDABLE = f"""
    {VISIBLE} AND {MATCHES}
    AND (NOT %(wants_vector_only)s OR m.wants_vector)
    AND NOT EXISTS (
        SELECT FROM memory_vector v
        WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
            AND v.generation = %(lacking)s::integer
            AND v.content_version = m.content_version)
"""

# The best matches that the caller may find, and what stands beside them.
_BEST = Numbered(f"""
    WITH seen AS MATERIALIZED (
        SELECT first.id, first.score, found.*
        FROM unnest(%(ids)s::uuid[], %(scores)s::float8[]) AS first (id, score)
        CROSS JOIN LATERAL (
            SELECT {_ROW}
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = first.id AND {_FINDABLE}
            LIMIT 1
        ) AS found
        ORDER BY found.has_phrases DESC, first.score DESC, found.importance DESC,
            found.created_at DESC, first.id
        LIMIT %(limit)s
    )
    SELECT {_SEEN}, further.*, beside.*
    FROM seen
    CROSS JOIN LATERAL ({_FURTHER}) AS further
    LEFT JOIN LATERAL ({_BESIDE}) AS beside ON %(looks_beside)s
""")
# Few of the best are not to be found, such as what was replaced. Under a filter, or when these are
# not enough, any match may be among the best.
_SPARE = 20
# Of those that are worth the same, the more important and the newer ones are found among so many.
_EQUALS = 1_000
# But no more of them are looked at one by one, at some ten microseconds each. Where these are not
# enough, the filter leaves few memories, and the best are found among those: of 400,000 with the
# word that was asked for, the 100 of a seldom kind took 4,600 ms one by one, and 310 so.
_LOOKED_AT = 10_000

# What may be found, whatever its words.
_LEFT = Numbered(f"""
    SELECT array_send(array_agg(findable.id))
    FROM (
        SELECT m.id FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND {_FINDABLE}
            AND (NOT %(phrased_only)s OR m.content ILIKE ALL(%(phrases)s))
        LIMIT %(most)s
    ) AS findable
""")
_POSTINGS_LEFT = Numbered(f"""
    SELECT asked.term, NULL, found.*
    FROM unnest(%(sampled)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT word.memory_id AS id, word.frequency, word.length
            FROM unnest(%(ids)s::uuid[]) AS findable (id)
            JOIN memory_word word
                ON word.workspace_id = %(workspace_id)s AND word.term = asked.term
                AND word.place = ANY({PLACES}) AND word.memory_id = findable.id
        ) AS posting
    ) AS found
""")


async def _find(
    db: Db, worth: Worth, values: Mapping[str, Any], *, is_narrowed: bool
) -> list[tuple[Any, ...]]:
    """The rows of `_BEST` that are worth most, what has the phrases first."""
    limit: int = values["limit"]
    many = max(_LOOKED_AT, limit + _SPARE)
    rows: list[tuple[Any, ...]] = []
    for most in [many] if is_narrowed else [limit + _SPARE, many]:
        rows = await _best(db, worth.best(most, equals=_EQUALS), values)
        if most >= len(worth) or sum(row[_HAS_PHRASES] for row in rows) >= limit:
            return rows
    # Where only phrases are lacking, nothing without them can still come in.
    left = await _left(db, worth, {**values, "phrased_only": len(rows) >= limit})
    others = await _best(db, left.best(many), values)
    known = {row[0]: row for row in (*others, *rows)}
    return sorted(known.values(), key=lambda row: not row[_HAS_PHRASES])[:limit]


async def _left(db: Db, worth: Worth, values: Mapping[str, Any]) -> Worth:
    """The same in what may be found, of which a term that was read in part is read whole."""
    [(sent,)] = await _LEFT.run(db, {**values, "most": MOST_POSTINGS}, tuple_row, binary=True)
    ids = read_ids(sent) if sent else id_bytes([])
    if not worth.sampled:
        return worth.among(ids, {})
    told = {**values, "sampled": worth.sampled, "ids": IdArray(ids)}
    rows = await _POSTINGS_LEFT.run(db, told, tuple_row, binary=True)
    return worth.among(ids, postings_of(rows, MOST_POSTINGS))


async def _best(
    db: Db, best: tuple[IdBytes, Floats], values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    ids, scores = best
    told = {**values, "ids": IdArray(ids), "scores": FloatArray(scores)}
    return await _BEST.run(db, told, tuple_row)


class Seen(NamedTuple):
    """A memory looked at, and how often it has which of the terms that were not read."""

    id: MemoryId
    importance: float
    importance_base: float
    thread_id: ThreadId | None
    created_at: datetime
    opening: str
    has_phrases: bool
    terms: Sequence[str] | None
    frequencies: Sequence[int] | None
    lengths: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Leads:
    """The best by their own words, what is beside each, and what the words are worth."""

    seen: Sequence[Seen] = ()
    # What stands up to three steps from a lead: the lead, the neighbour, how many steps.
    beside: Sequence[tuple[MemoryId, MemoryId, int]] = ()
    worth: Worth = field(default_factory=lambda: Worth((), {}, {}, 0))
    # The terms too common to be read through.
    rest: Sequence[str] = ()


async def leads(
    db: Db,
    caller: Caller,
    query: Sequence[Word],
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> Leads:
    """The live memories that are best by BM25, for `around` to weigh; no vector is needed yet."""
    return await _leads(db, caller, query, wanted, phrases, limit, now, view, looks_beside=True)


async def _leads(
    db: Db,
    caller: Caller,
    query: Sequence[Word],
    wanted: Filter,
    phrases: Sequence[str],
    limit: int,
    now: datetime,
    view: View,
    *,
    looks_beside: bool = False,
    lacking: int | None = None,
    wants_vector_only: bool = False,
) -> Leads:
    if not query:
        return Leads()
    worth, rest = await _worth(db, caller, query)
    values = {
        "rest": rest,
        "phrases": _patterns(phrases),
        "lacking": lacking,
        "wants_vector_only": wants_vector_only,
        "looks_beside": looks_beside,
        **matching(wanted),
        "limit": limit,
        **visible_to(caller, now, view),
    }
    is_narrowed = bool(phrases) or not wanted.is_open or lacking is not None
    rows = await _find(db, worth, values, is_narrowed=is_narrowed)
    seen = [Seen(*row) for *row, _, _ in rows]
    beside = [
        (memory_id, neighbour, step)
        for memory_id, *_, neighbours, steps in rows
        if neighbours
        for neighbour, step in zip(neighbours, steps, strict=True)
    ]
    return Leads(seen, beside, worth, rest)


async def search(
    db: Db,
    caller: Caller,
    query: Sequence[Word],
    wanted: Filter,
    *,
    lacking_generation: int | None = None,
    wants_vector_only: bool = False,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Match]:
    """Live memories by BM25, best first.

    `lacking_generation` keeps only memories without a vector in that generation;
    `wants_vector_only` leaves out those that were saved to be unsearchable by meaning.
    """
    found = await _leads(
        db,
        caller,
        query,
        wanted,
        (),
        limit,
        now,
        view,
        lacking=lacking_generation,
        wants_vector_only=wants_vector_only,
    )
    return sorted(_weighed(found, found.seen, {}), key=lambda each: each.order)


# The nearest of those that were said when the question asks about: among many they are not of the
# nearest of all.
_NEAR_THEN = f"""
    , said AS MATERIALIZED ({SAID}),
    near_then AS (
        SELECT said.id AS memory_id, found.embedding <=> %(vector)s AS distance
        FROM said
        CROSS JOIN LATERAL (
            SELECT v.embedding FROM memory_vector v
            WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = said.id
                AND v.generation = %(generation)s
            LIMIT 1
        ) AS found
        ORDER BY distance, said.created_at DESC, said.id
        LIMIT %(limit)s
    ),
    met AS (
        SELECT * FROM near
        UNION ALL
        SELECT * FROM near_then WHERE memory_id NOT IN (SELECT memory_id FROM near)
    )
"""
_MET = ", met AS (SELECT * FROM near)"

# How near the leads are, and the others that are as near, each as the leads were seen.
_SEEN_BESIDE = f"""
    , seen AS MATERIALIZED (
        SELECT met.memory_id AS id, 1 - met.distance AS cosine, found.*
        FROM met
        CROSS JOIN LATERAL (
            SELECT {_ROW}
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = met.memory_id AND {VISIBLE}
            LIMIT 1
        ) AS found
        WHERE NOT met.memory_id = ANY(%(ids)s)
    )
    SELECT {_SEEN}, further.*, seen.cosine, NULL::float8 AS typical
    FROM seen
    CROSS JOIN LATERAL ({_FURTHER}) AS further
    UNION ALL
    SELECT known.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, known.cosine, NULL
    FROM ({vectors.COSINES}) AS known
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {vectors.TYPICAL}
"""
_AROUND = f"{_MET} {_SEEN_BESIDE}"
_AROUND_THEN = f"{_NEAR_THEN} {_SEEN_BESIDE}"


class Around(NamedTuple):
    """The leads and those found by meaning, each with what was said around it; in no order."""

    matches: list[Match]
    # How near any memory in sight is to the vector, on average.
    typical: float = 0.0


async def around(
    db: Db,
    caller: Caller,
    leads: Leads,
    point: Point | None,
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    spans: Spans = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> Around:
    """The leads, and the live memories closest to a vector whether or not a word of theirs matches.

    With `spans` also the closest that were made then. One statement for all that is still to be
    known; without a vector there is nothing.
    """
    if point is None:
        return Around(_weighed(leads, leads.seen, {}))
    ask = vectors.Ask(caller, point, wanted, limit, now, view)
    rows = await ask.answered(
        db,
        _AROUND_THEN if spans else _AROUND,
        tuple_row,
        ids=IdArray([each.id for each in leads.seen]),
        rest=list(leads.rest),
        phrases=_patterns(phrases),
        **during(spans),
    )
    cosines = {memory_id: cosine for memory_id, *_, cosine, _ in rows if memory_id}
    others = [Seen(*row) for *row, _, _ in rows if row[_OPENING] is not None]
    [typical] = (typical for memory_id, *_, typical in rows if not memory_id)
    return Around(_weighed(leads, [*leads.seen, *others], cosines), typical)


_OPENING = Seen._fields.index("opening")
_HAS_PHRASES = Seen._fields.index("has_phrases")


def _weighed(found: Leads, seen: Sequence[Seen], cosines: Mapping[MemoryId, float]) -> list[Match]:
    """What was seen, with what the words in it and around it are worth."""
    ids = [each.id for each in seen]
    further = [
        Further(row, *told)
        for row, each in enumerate(seen)
        if each.terms and each.frequencies and each.lengths
        for told in zip(each.terms, each.frequencies, each.lengths, strict=True)
    ]
    own = found.worth.of(ids, further)
    scores = _with_neighbours(ids, own.worth, found.beside).sum(axis=1).tolist()
    coverage = found.worth.coverage(own).tolist()
    return [
        Match(
            each.id,
            score,
            covered,
            each.has_phrases,
            each.importance,
            each.importance_base,
            each.thread_id,
            each.created_at,
            _speaker(each.opening),
            cosines.get(each.id),
        )
        for each, score, covered in zip(seen, scores, coverage, strict=True)
    ]


def _speaker(opening: str) -> str | None:
    """Who said it, where a text begins as "Ana: ..."."""
    found = _SPEAKER.match(opening)
    return found[1] if found else None


# How much of what a word is worth one, two or three steps away it is worth here.
_SHARES = (0.6, 0.4, 0.2)


def _with_neighbours(
    ids: Sequence[MemoryId], own: Floats, beside: Sequence[tuple[MemoryId, MemoryId, int]]
) -> Floats:
    """What the words are worth, each by the best of its own value and a share of a lead's nearby.

    What was said right before and after a memory tells what it is about. Only a memory's own words
    make it a lead.
    """
    places = {memory_id: place for place, memory_id in enumerate(ids)}
    found = own.copy()
    for lead, neighbour, steps in beside:
        at = places.get(neighbour)
        if at is not None and lead in places:
            np.maximum(found[at], _SHARES[steps - 1] * own[places[lead]], out=found[at])
    return found


# How many postings a search reads through: with more, a common word in a large workspace would
# cost more than it tells. The rarest words are read first and always one; the rest only add to
# what those have found.
READABLE = 3_000
# And so many of one term: where 100,000 memories have it, it is worth about the same in all. They
# are any of these, since ids are random. 400,000 took 330 ms to be read and scored, these take 50.
MOST_POSTINGS = 100_000
# And so many of all terms: a pasted text of 170 everyday words in a workspace of 10,000, too small
# for its words to be counted, took 1.8 s and 180 MiB.
_POSTINGS_IN_ALL = 400_000


def too_common(query: Sequence[Word], common: Mapping[str, int]) -> frozenset[str]:
    """The terms too common to be read through: a word's forms together, each part by itself."""
    asked = [each for word in query for each in (word.forms, *((part,) for part in word.parts))]
    costs = sorted((sum(common.get(term, 0) for term in each), each) for each in asked)
    spent = 0
    read: set[str] = set()
    for cost, each in costs:
        spent += cost
        if not read or spent <= READABLE:
            read.update(each)
    # A form that a readable word shares is read for that one's sake.
    return frozenset(term for each in asked for term in each) - read


_COMMON = f"""
    SELECT term, sum(memories)::bigint FROM common_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s) AND place = ANY({PLACES})
    GROUP BY term
"""


async def _common(db: Db, sight: Mapping[str, Any], terms: Sequence[str]) -> dict[str, int]:
    return dict(await (await db.execute(_COMMON, {**sight, "terms": list(terms)})).fetchall())


_IN_USE = f"""
    SELECT asked.term
    FROM unnest(%(terms)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = asked.term AND place = ANY({PLACES})
        LIMIT 1
    ) AS used
"""


async def in_use(db: Db, caller: Caller, terms: Sequence[str]) -> set[str]:
    """Those of the terms that something in sight of the caller has."""
    cursor = await db.execute(_IN_USE, {**in_sight_of(caller), "terms": list(terms)})
    return {row[0] for row in await cursor.fetchall()}


# The last resort, for a part of a word: it reads the whole workspace. With more parts that would be
# in vain: a longer question of which no word is known is in a language that nobody uses here, and
# hardly any text has something of each of its words.
_MOST_FRAGMENTS = 3
_SUBSTRING = f"""
    SELECT m.id, m.importance, m.importance_base, m.thread_id, m.created_at,
        left(m.content, 42) AS opening
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
    """Live memories whose text holds every fragment, in whatever word, in any case.

    One to three are looked for; with more of them nothing is found.
    """
    if not 0 < len(fragments) <= _MOST_FRAGMENTS:
        return []
    values = {
        "fragments": _patterns(fragments),
        **matching(wanted),
        "limit": limit,
        **visible_to(caller, now, view),
    }
    rows = await (await db.execute(_SUBSTRING, values)).fetchall()
    ids = [row[0] for row in rows]
    cosines = await vectors.cosines(db, caller.workspace_id, point, ids) if point and ids else {}
    return [
        Match(
            memory_id,
            0.0,
            1.0,
            has_phrases=True,
            importance=importance,
            importance_base=base,
            thread_id=thread_id,
            created_at=created_at,
            speaker=_speaker(opening),
            cosine=cosines.get(memory_id),
        )
        for memory_id, importance, base, thread_id, created_at, opening in rows
    ]


def _patterns(texts: Sequence[str]) -> list[str]:
    return [containing_pattern(text) for text in texts]


def containing_pattern(text: str) -> str:
    """A LIKE pattern in which the text stands for nothing but itself."""
    escaped = text.replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
    return f"%{escaped}%"


# By their numbers: of a table that has just grown the planner knows nothing, and compared each row
# with each.
_FOLD = """
    WITH held AS MATERIALIZED (
        SELECT t.id FROM word_tally t
        WHERE t.workspace_id = %(workspace_id)s
            AND t.id = ANY(ARRAY(
                SELECT id
                FROM (
                    SELECT id, count(*) OVER (PARTITION BY place) AS increments
                    FROM word_tally
                    WHERE workspace_id = %(workspace_id)s
                ) AS each
                WHERE increments > 1))
        FOR UPDATE SKIP LOCKED
    ),
    folded AS (
        DELETE FROM word_tally
        WHERE workspace_id = %(workspace_id)s AND id = ANY(ARRAY(SELECT id FROM held))
        RETURNING place, documents, length
    )
    INSERT INTO word_tally (workspace_id, place, documents, length)
    SELECT %(workspace_id)s, place, sum(documents), sum(length) FROM folded
    GROUP BY place
"""


# Who deletes the increments of a place while they are added up would miss their sum.
_HOLD_TALLY = """
    SELECT pg_advisory_xact_lock(hashtextextended('tally/' || %(workspace_id)s::text, 0))
"""


async def hold_tally(db: Db, workspace_id: WorkspaceId) -> None:
    """Have nobody fold the increments of a workspace until the transaction ends."""
    await db.execute(_HOLD_TALLY, {"workspace_id": workspace_id})


async def fold_tally(db: Db, workspace_id: WorkspaceId) -> None:
    """Replace the increments of each place of a workspace by their sum."""
    await hold_tally(db, workspace_id)
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


# The workspaces that are a tenth larger or smaller than when their words were counted. Also those
# with a place where a word is said to be in more memories than there are: what one user or thread
# has lost may be little of a workspace, and all that their searches see.
_CHANGED = """
    FROM word_census census
    FULL JOIN (
        SELECT workspace_id, sum(documents) AS documents FROM word_tally GROUP BY workspace_id
    ) AS tally USING (workspace_id)
    WHERE ((tally.documents BETWEEN 0.9 * census.documents AND 1.1 * census.documents) IS NOT TRUE
        OR workspace_id IN (
            SELECT common.workspace_id
            FROM common_word common
            LEFT JOIN (
                SELECT workspace_id, place, sum(documents) AS documents FROM word_tally
                GROUP BY workspace_id, place
            ) AS own USING (workspace_id, place)
            WHERE common.memories > 1.1 * coalesce(own.documents, 0)))
"""
# everywhere: finds the workspaces whose words are worth counting.
_UNCOUNTED = f"SELECT workspace_id {_CHANGED} AND tally.documents >= %(least)s"
# everywhere: finds the workspaces whose words need no counting any more. One that is about as large
# as when it was counted keeps its counts: it may come and go around the least size.
_DWINDLED = f"""
    SELECT workspace_id {_CHANGED}
        AND coalesce(tally.documents, 0) < %(least)s AND census.documents IS NOT NULL
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
_FORGET_CENSUS = "DELETE FROM word_census WHERE workspace_id = %(workspace_id)s"
# A word of fewer memories is never worth leaving unread.
_COMMON_FROM = 1_000


async def uncounted(db: Db, least: int) -> list[WorkspaceId]:
    """Workspaces of at least so many memories whose words were not counted, or are outdated."""
    rows = await (await db.execute(_UNCOUNTED, {"least": least})).fetchall()
    return [WorkspaceId(row[0]) for row in rows]


async def dwindled(db: Db, least: int) -> list[WorkspaceId]:
    """Workspaces whose words were counted and that have come to fewer memories than that."""
    rows = await (await db.execute(_DWINDLED, {"least": least})).fetchall()
    return [WorkspaceId(row[0]) for row in rows]


async def count_common(db: Db, workspace_id: WorkspaceId) -> None:
    """Note how many memories have each of the common words of each place of a workspace."""
    values = {"workspace_id": workspace_id, "least": _COMMON_FROM}
    await db.execute(_FORGET_COMMON, values)
    await db.execute(_COUNT_COMMON, values)
    await db.execute(_CENSUS, values)


async def forget_counts(db: Db, workspace_id: WorkspaceId) -> None:
    """Let go of what was counted: searches read every word through."""
    values = {"workspace_id": workspace_id}
    await db.execute(_FORGET_COMMON, values)
    await db.execute(_FORGET_CENSUS, values)
