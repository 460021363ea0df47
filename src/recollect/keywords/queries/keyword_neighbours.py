"""Complete a keyword search with the memories nearest to the query vector."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.rows import tuple_row

from recollect.core.domain import CURRENT, Caller, Filter, View
from recollect.db.arrays import IdArray
from recollect.db.pool import Db
from recollect.db.visibility import VISIBLE
from recollect.embeddings.queries import vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.keywords.queries.keyword_match import KeywordMatch
from recollect.keywords.queries.keyword_search import (
    CANDIDATE_COLUMNS,
    LATER_TERMS,
    MEMORY_COLUMNS,
    KeywordLeads,
    WordStatistics,
    weigh,
)
from recollect.keywords.queries.like_patterns import containing_patterns
from recollect.memories.queries.memories import SAID_AT, DateRanges, date_values

# The nearest memories from the time ranges of the query. Among many memories, they may not be among
# the nearest of all.
_NEAREST_IN_RANGES = f"""
    , said AS MATERIALIZED ({SAID_AT}),
    nearest_in_ranges AS (
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
    nearest AS (
        SELECT * FROM near
        UNION ALL
        SELECT * FROM nearest_in_ranges WHERE memory_id NOT IN (SELECT memory_id FROM near)
    )
"""
_NEAREST = ", nearest AS (SELECT * FROM near)"

# The cosine of each lead, and the other nearest memories with the same columns as the leads.
_NEAREST_MATCHES = f"""
    , seen AS MATERIALIZED (
        SELECT nearest.memory_id AS id, 1 - nearest.distance AS cosine, found.*
        FROM nearest
        CROSS JOIN LATERAL (
            SELECT {MEMORY_COLUMNS}
            FROM memory m
            WHERE m.workspace_id = %(workspace_id)s AND m.id = nearest.memory_id AND {VISIBLE}
            LIMIT 1
        ) AS found
        WHERE NOT nearest.memory_id = ANY(%(ids)s)
    )
    SELECT {CANDIDATE_COLUMNS}, later.*, seen.cosine, NULL::float8 AS typical
    FROM seen
    CROSS JOIN LATERAL ({LATER_TERMS}) AS later
    UNION ALL
    SELECT known.id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, known.cosine, NULL
    FROM ({vectors.COSINES}) AS known
    UNION ALL
    SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        {vectors.TYPICAL_COSINE}
"""
_AROUND = f"{_NEAREST} {_NEAREST_MATCHES}"
_AROUND_IN_RANGES = f"{_NEAREST_IN_RANGES} {_NEAREST_MATCHES}"


_OPENING = WordStatistics._fields.index("opening")


class NeighbourMatches(NamedTuple):
    """The leads and the memories found by meaning, scored with their neighbours; unordered."""

    matches: list[KeywordMatch]
    # The average cosine between the query vector and the memories that the caller can see.
    typical: float = 0.0


async def find_around(
    db: Db,
    caller: Caller,
    leads: KeywordLeads,
    point: QueryVector | None,
    wanted: Filter,
    *,
    phrases: Sequence[str] = (),
    spans: DateRanges = (),
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> NeighbourMatches:
    """Return the leads, and the live memories nearest to a vector, with or without common words.

    With `spans`, also the nearest memories created in these time ranges. One statement fetches
    everything that is still missing. Without a vector, only the leads are returned.
    """
    if point is None:
        return NeighbourMatches(weigh(leads, leads.seen, {}))
    ask = vectors.VectorQuery(caller, point, wanted, limit, now, view)
    rows = await ask.run(
        db,
        _AROUND_IN_RANGES if spans else _AROUND,
        tuple_row,
        ids=IdArray([each.id for each in leads.seen]),
        rest=list(leads.rest),
        phrases=containing_patterns(phrases),
        **date_values(spans),
    )
    cosines = {memory_id: cosine for memory_id, *_, cosine, _ in rows if memory_id}
    others = [WordStatistics(*row) for *row, _, _ in rows if row[_OPENING] is not None]
    [typical] = (typical for memory_id, *_, typical in rows if not memory_id)
    return NeighbourMatches(weigh(leads, [*leads.seen, *others], cosines), typical)
