"""Search memories by BM25, using the statistics of the memories that the caller can see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from psycopg.rows import tuple_row

from recollect.core.domain import CURRENT, Caller, Filter, MemoryId, ThreadId, View
from recollect.db.arrays import FloatArray, IdArray, IdBytes, id_bytes, read_ids
from recollect.db.pool import Db, PreparedQuery
from recollect.db.visibility import (
    IN_SCOPE,
    OWN_IN_SHARED,
    SCOPE_OWNER,
    SCOPE_OWNERS,
    SHARED_SCOPE_OWNERS,
    VISIBLE,
    scope_values,
    visibility_values,
)
from recollect.keywords.bm25 import POSTED, Bm25Score, Floats, LaterWords, Word, postings_of
from recollect.keywords.queries.keyword_match import KeywordMatch, speaker_of
from recollect.keywords.queries.like_patterns import containing_patterns
from recollect.keywords.queries.postings import INDEX_OWNER
from recollect.keywords.queries.read_limits import MAX_POSTINGS, MAX_POSTINGS_TOTAL, too_common
from recollect.memories.queries.memories import MATCHES_FILTER, filter_values

# Memories that the caller cannot see are not counted: a score must not reveal whether another
# person's memory has a word. If there is no term to read, one row with the number of texts remains.
_POSTINGS = PreparedQuery(f"""
    SELECT asked.term, totals.texts, found.*
    FROM (
        SELECT coalesce(sum(documents), 0)::bigint AS texts FROM keyword_total
        WHERE workspace_id = %(workspace_id)s AND owner_id = ANY({SCOPE_OWNERS})
    ) AS totals
    LEFT JOIN unnest(%(read)s::text[]) AS asked (term) ON true
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT memory_id AS id, frequency, length
            FROM memory_word
            WHERE workspace_id = %(workspace_id)s AND term = asked.term
                AND owner_id = ANY({SCOPE_OWNERS})
            LIMIT %(max_postings)s
        ) AS posting
    ) AS found
""")
# The same for a caller who sees only their own rows. Rows of others are not counted here either.
# The ids are sorted, because the index scan sorts them again for each term: a search among 20,000
# own rows took 33 ms unsorted and takes 13 ms sorted.
_POSTINGS_OF_OWN = PreparedQuery(f"""
    WITH own AS MATERIALIZED (SELECT ARRAY({OWN_IN_SHARED} ORDER BY m.id) AS ids)
    SELECT asked.term, totals.texts + cardinality(own.ids), found.*
    FROM own
    CROSS JOIN (
        SELECT coalesce(sum(documents), 0)::bigint AS texts FROM keyword_total
        WHERE workspace_id = %(workspace_id)s AND owner_id = ANY({SCOPE_OWNERS})
    ) AS totals
    LEFT JOIN unnest(%(read)s::text[]) AS asked (term) ON true
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT memory_id AS id, frequency, length
            FROM memory_word
            WHERE workspace_id = %(workspace_id)s AND term = asked.term
                AND owner_id = ANY({SCOPE_OWNERS})
            UNION ALL
            SELECT memory_id, frequency, length
            FROM memory_word
            WHERE workspace_id = %(workspace_id)s AND term = asked.term
                AND owner_id = ANY({SHARED_SCOPE_OWNERS}) AND memory_id = ANY(own.ids)
            LIMIT %(max_postings)s
        ) AS posting
    ) AS found
""")


async def _score(db: Db, caller: Caller, query: Sequence[Word]) -> tuple[Bm25Score, Sequence[str]]:
    """Return the scores of the query's words, and the terms whose postings were not all read.

    The second part are terms too common to read, and terms read only in part. They are looked up
    for each memory that is found.
    """
    scope = scope_values(caller)
    terms = {term for word in query for term in word.terms}
    counts = await _common_counts(db, scope, list(terms))
    rest = too_common(query, counts)
    read = terms - rest
    max_postings = min(MAX_POSTINGS, MAX_POSTINGS_TOTAL // max(1, len(read)))
    values = scope | {"read": list(read), "max_postings": max_postings}
    postings = _POSTINGS_OF_OWN if caller.sees_only_own else _POSTINGS
    rows = await postings.run(db, values, tuple_row, binary=True)
    scores = Bm25Score(query, postings_of(rows, max_postings), counts, texts=rows[0][1])
    return scores, [*rest, *scores.sampled]


# What is needed to rank a memory `m`, and the key of its postings.
MEMORY_COLUMNS = f"""
    m.importance, m.importance_base, m.thread_id, m.created_at, left(m.content, 42) AS opening,
    m.content ILIKE ALL(%(phrases)s) AS has_phrases, {INDEX_OWNER} AS owner_id
"""
CANDIDATE_COLUMNS = """
    seen.id, seen.importance, seen.importance_base, seen.thread_id, seen.created_at, seen.opening,
    seen.has_phrases
"""
# For a memory in `seen`: the frequencies of the terms that were not read.
LATER_TERMS = """
    SELECT array_agg(asked.term) AS terms, array_agg(posting.frequency) AS frequencies,
        array_agg(posting.length) AS lengths
    FROM unnest(%(rest)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT frequency, length FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = asked.term AND owner_id = seen.owner_id
            AND memory_id = seen.id
        LIMIT 1
    ) AS posting
"""
# For a memory in `seen`: the memories said right before and after it, up to three steps away. If it
# has no thread and begins like "Ana: ...", the neighbours are the memories saved before and after
# it with the same scope owner. Memories that the caller cannot see do not count as steps.
_NEIGHBOURS = f"""
    SELECT array_agg(near.id) AS neighbours, array_agg(near.steps) AS steps
    FROM (
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = seen.thread_id
                AND (m.created_at, m.id) < (seen.created_at, seen.id) AND {IN_SCOPE}
            ORDER BY m.created_at DESC, m.id DESC
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = seen.thread_id
                AND (m.created_at, m.id) > (seen.created_at, seen.id) AND {IN_SCOPE}
            ORDER BY m.created_at, m.id
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND ({SCOPE_OWNER}) = seen.owner_id
                AND m.thread_id IS NULL AND m.deleted_at IS NULL
                AND (m.created_at, m.id) < (seen.created_at, seen.id)
                AND seen.thread_id IS NULL AND seen.opening LIKE '%%:%%'
            ORDER BY m.created_at DESC, m.id DESC
            LIMIT 3) AS m)
        UNION ALL
        (SELECT m.id, row_number() OVER () AS steps FROM (
            SELECT m.id FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND ({SCOPE_OWNER}) = seen.owner_id
                AND m.thread_id IS NULL AND m.deleted_at IS NULL
                AND (m.created_at, m.id) > (seen.created_at, seen.id)
                AND seen.thread_id IS NULL AND seen.opening LIKE '%%:%%'
            ORDER BY m.created_at, m.id
            LIMIT 3) AS m)
    ) AS near
"""

# Whether a memory `m` may be found: the caller sees it and it matches the filter. If
# `lacking_generation` is NULL, no vector matches and the last condition is true.
_FINDABLE = f"""
    {VISIBLE} AND {MATCHES_FILTER}
    AND (NOT %(wants_vector_only)s OR m.wants_vector)
    AND NOT EXISTS (
        SELECT FROM memory_vector v
        WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
            AND v.generation = %(lacking_generation)s::integer
            AND v.content_version = m.content_version)
"""

# The best matches that the caller may find, and their neighbours.
_BEST = PreparedQuery(f"""
    WITH seen AS MATERIALIZED (
        SELECT first.id, first.score, found.*
        FROM unnest(%(ids)s::uuid[], %(scores)s::float8[]) AS first (id, score)
        CROSS JOIN LATERAL (
            SELECT {MEMORY_COLUMNS}
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = first.id AND {_FINDABLE}
            LIMIT 1
        ) AS found
        ORDER BY found.has_phrases DESC, first.score DESC, found.importance DESC,
            found.created_at DESC, first.id
        LIMIT %(limit)s
    )
    SELECT {CANDIDATE_COLUMNS}, later.*, beside.*
    FROM seen
    CROSS JOIN LATERAL ({LATER_TERMS}) AS later
    LEFT JOIN LATERAL ({_NEIGHBOURS}) AS beside ON %(with_neighbours)s
""")
# Usually only a few of the best may not be found, such as superseded ones. With a filter, or if
# these spare candidates are not enough, any match may be among the best.
_SPARE = 20
# Among this many memories with equal scores, the most important and newest are selected.
_MAX_EQUALS = 1_000
# The maximum number of candidates that are checked one by one, at about ten microseconds each. If
# that is not enough, the filter leaves few memories, and the best are selected among those. With
# 400,000 memories that have the word, 100 of a rare kind took 4,600 ms one by one; this takes 310.
_MAX_CHECKED = 10_000

# All memories that may be found, whatever their words.
_FINDABLE_IDS = PreparedQuery(f"""
    SELECT array_send(array_agg(findable.id))
    FROM (
        SELECT m.id FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND {_FINDABLE}
            AND (NOT %(with_phrases_only)s OR m.content ILIKE ALL(%(phrases)s))
        LIMIT %(max_postings)s
    ) AS findable
""")
# The caller can see all these ids, so the shared scope owners can be read too.
_POSTINGS_AMONG = PreparedQuery(f"""
    SELECT asked.term, NULL, found.*
    FROM unnest(%(sampled)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT {POSTED}
        FROM (
            SELECT word.memory_id AS id, word.frequency, word.length
            FROM unnest(%(ids)s::uuid[]) AS findable (id)
            JOIN memory_word word
                ON word.workspace_id = %(workspace_id)s AND word.term = asked.term
                AND word.owner_id = ANY({SCOPE_OWNERS} || {SHARED_SCOPE_OWNERS})
                AND word.memory_id = findable.id
        ) AS posting
    ) AS found
""")


async def _find(
    db: Db, scores: Bm25Score, values: Mapping[str, Any], *, is_narrowed: bool
) -> list[tuple[Any, ...]]:
    """Return the rows of `_BEST` with the highest scores; those with the phrases come first."""
    limit: int = values["limit"]
    max_checked = max(_MAX_CHECKED, limit + _SPARE)
    rows: list[tuple[Any, ...]] = []
    for count in [max_checked] if is_narrowed else [limit + _SPARE, max_checked]:
        rows = await _fetch_best(db, scores.best(count, equals=_MAX_EQUALS), values)
        if count >= len(scores) or sum(row[_HAS_PHRASES] for row in rows) >= limit:
            return rows
    # If only memories with the phrases are missing, those without them cannot be added.
    with_phrases_only = len(rows) >= limit
    findable = await _score_findable(db, scores, {**values, "with_phrases_only": with_phrases_only})
    others = await _fetch_best(db, findable.best(max_checked), values)
    known = {row[0]: row for row in (*others, *rows)}
    return sorted(known.values(), key=lambda row: not row[_HAS_PHRASES])[:limit]


async def _score_findable(db: Db, scores: Bm25Score, values: Mapping[str, Any]) -> Bm25Score:
    """Return the scores of the findable memories only, with sampled terms read completely."""
    [(sent,)] = await _FINDABLE_IDS.run(
        db, {**values, "max_postings": MAX_POSTINGS}, tuple_row, binary=True
    )
    ids = read_ids(sent) if sent else id_bytes([])
    if not scores.sampled:
        return scores.among(ids, {})
    parameters = {**values, "sampled": scores.sampled, "ids": IdArray(ids)}
    rows = await _POSTINGS_AMONG.run(db, parameters, tuple_row, binary=True)
    return scores.among(ids, postings_of(rows, MAX_POSTINGS))


async def _fetch_best(
    db: Db, best: tuple[IdBytes, Floats], values: Mapping[str, Any]
) -> list[tuple[Any, ...]]:
    ids, scores = best
    parameters = {**values, "ids": IdArray(ids), "scores": FloatArray(scores)}
    return await _BEST.run(db, parameters, tuple_row)


class WordStatistics(NamedTuple):
    """A candidate memory, and the frequencies of the terms that were not read."""

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
class KeywordLeads:
    """The best memories by their own words, their neighbours, and the scores of the words."""

    seen: Sequence[WordStatistics] = ()
    # The neighbours of a lead: the lead, the neighbour, and the distance in steps (1 to 3).
    beside: Sequence[tuple[MemoryId, MemoryId, int]] = ()
    scores: Bm25Score = field(default_factory=lambda: Bm25Score((), {}, {}, 0))
    # The terms whose postings were not all read.
    rest: Sequence[str] = ()


async def find_leads(
    db: Db,
    caller: Caller,
    query: Sequence[Word],
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> KeywordLeads:
    """Return the best live memories by BM25, as input for `find_around`; needs no vector."""
    return await _find_leads(
        db, caller, query, wanted, phrases, limit, now, view, with_neighbours=True
    )


async def _find_leads(
    db: Db,
    caller: Caller,
    query: Sequence[Word],
    wanted: Filter,
    phrases: Sequence[str],
    limit: int,
    now: datetime,
    view: View,
    *,
    with_neighbours: bool = False,
    lacking_generation: int | None = None,
    wants_vector_only: bool = False,
) -> KeywordLeads:
    if not query:
        return KeywordLeads()
    scores, rest = await _score(db, caller, query)
    values = {
        "rest": rest,
        "phrases": containing_patterns(phrases),
        "lacking_generation": lacking_generation,
        "wants_vector_only": wants_vector_only,
        "with_neighbours": with_neighbours,
        **filter_values(wanted),
        "limit": limit,
        **visibility_values(caller, now, view),
    }
    is_narrowed = bool(phrases) or not wanted.is_open or lacking_generation is not None
    rows = await _find(db, scores, values, is_narrowed=is_narrowed)
    seen = [WordStatistics(*row) for *row, _, _ in rows]
    beside = [
        (memory_id, neighbour, step)
        for memory_id, *_, neighbours, steps in rows
        if neighbours
        for neighbour, step in zip(neighbours, steps, strict=True)
    ]
    return KeywordLeads(seen, beside, scores, rest)


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
) -> list[KeywordMatch]:
    """Return live memories by BM25, best first.

    `lacking_generation` keeps only memories without a vector in that generation;
    `wants_vector_only` leaves out memories that were saved without a vector on purpose.
    """
    found = await _find_leads(
        db,
        caller,
        query,
        wanted,
        (),
        limit,
        now,
        view,
        lacking_generation=lacking_generation,
        wants_vector_only=wants_vector_only,
    )
    return sorted(weigh(found, found.seen, {}), key=lambda each: each.order)


_HAS_PHRASES = WordStatistics._fields.index("has_phrases")


def weigh(
    found: KeywordLeads, seen: Sequence[WordStatistics], cosines: Mapping[MemoryId, float]
) -> list[KeywordMatch]:
    """Return the memories, scored by their own words and those of their neighbours."""
    ids = [each.id for each in seen]
    later = [
        LaterWords(row, *entry)
        for row, each in enumerate(seen)
        if each.terms and each.frequencies and each.lengths
        for entry in zip(each.terms, each.frequencies, each.lengths, strict=True)
    ]
    own = found.scores.of(ids, later)
    scores = _with_neighbours(ids, own.scores, found.beside).sum(axis=1).tolist()
    coverage = found.scores.coverage(own).tolist()
    return [
        KeywordMatch(
            each.id,
            score,
            covered,
            each.has_phrases,
            each.importance,
            each.importance_base,
            each.thread_id,
            each.created_at,
            speaker_of(each.opening),
            cosines.get(each.id),
        )
        for each, score, covered in zip(seen, scores, coverage, strict=True)
    ]


# A word one, two or three steps away counts this share of its score.
_NEIGHBOUR_SHARES = (0.6, 0.4, 0.2)


def _with_neighbours(
    ids: Sequence[MemoryId], own: Floats, beside: Sequence[tuple[MemoryId, MemoryId, int]]
) -> Floats:
    """Return the score of each word: its own, or a share of a neighbouring lead's if higher.

    Memories right before and after a memory tell what it is about. Only its own words make a memory
    a lead.
    """
    rows = {memory_id: row for row, memory_id in enumerate(ids)}
    found = own.copy()
    for lead, neighbour, steps in beside:
        at = rows.get(neighbour)
        if at is not None and lead in rows:
            np.maximum(found[at], _NEIGHBOUR_SHARES[steps - 1] * own[rows[lead]], out=found[at])
    return found


_COMMON_COUNTS = f"""
    SELECT term, sum(memories)::bigint FROM common_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s)
        AND owner_id = ANY({SCOPE_OWNERS})
    GROUP BY term
"""


async def _common_counts(db: Db, scope: Mapping[str, Any], terms: Sequence[str]) -> dict[str, int]:
    return dict(
        await (await db.execute(_COMMON_COUNTS, {**scope, "terms": list(terms)})).fetchall()
    )


_IN_USE = f"""
    SELECT asked.term
    FROM unnest(%(terms)s::text[]) AS asked (term)
    CROSS JOIN LATERAL (
        SELECT FROM memory_word
        WHERE workspace_id = %(workspace_id)s AND term = asked.term
            AND owner_id = ANY({SCOPE_OWNERS})
        LIMIT 1
    ) AS used
"""


async def in_use(db: Db, caller: Caller, terms: Sequence[str]) -> set[str]:
    """Return the terms that any memory visible to the caller has."""
    cursor = await db.execute(_IN_USE, {**scope_values(caller), "terms": list(terms)})
    return {row[0] for row in await cursor.fetchall()}
