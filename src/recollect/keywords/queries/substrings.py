"""Search memories for parts of words, without an index."""

from collections.abc import Sequence
from datetime import datetime

from recollect.core.domain import CURRENT, Caller, Filter, View
from recollect.db.pool import Db
from recollect.db.visibility import VISIBLE, visibility_values
from recollect.embeddings.queries import vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.keywords.queries.keyword_match import KeywordMatch, speaker_of
from recollect.keywords.queries.like_patterns import containing_patterns
from recollect.memories.queries.memories import MATCHES_FILTER, filter_values

# The last resort, for parts of words: it reads the whole workspace. More fragments would not help:
# a longer query without any known word is in a language that this workspace does not use, and
# hardly any text contains a fragment of each of its words.
_MAX_FRAGMENTS = 3
_SUBSTRING = f"""
    SELECT m.id, m.importance, m.importance_base, m.thread_id, m.created_at,
        left(m.content, 42) AS opening
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.content ILIKE ALL(%(fragments)s)
        AND {VISIBLE} AND {MATCHES_FILTER}
    ORDER BY m.importance DESC, m.created_at DESC, m.id
    LIMIT %(limit)s
"""


async def containing(
    db: Db,
    caller: Caller,
    fragments: Sequence[str],
    wanted: Filter,
    point: QueryVector | None,
    *,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[KeywordMatch]:
    """Return live memories whose text contains every fragment, ignoring case.

    Works for one to three fragments; with more, nothing is found.
    """
    if not 0 < len(fragments) <= _MAX_FRAGMENTS:
        return []
    values = {
        "fragments": containing_patterns(fragments),
        **filter_values(wanted),
        "limit": limit,
        **visibility_values(caller, now, view),
    }
    rows = await (await db.execute(_SUBSTRING, values)).fetchall()
    ids = [row[0] for row in rows]
    cosines = await vectors.cosines(db, caller.workspace_id, point, ids) if point and ids else {}
    return [
        KeywordMatch(
            memory_id,
            0.0,
            1.0,
            has_phrases=True,
            importance=importance,
            importance_base=base,
            thread_id=thread_id,
            created_at=created_at,
            speaker=speaker_of(opening),
            cosine=cosines.get(memory_id),
        )
        for memory_id, importance, base, thread_id, created_at, opening in rows
    ]
