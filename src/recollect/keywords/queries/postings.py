"""Write the postings of memories: the rows of the keyword index."""

from collections.abc import Mapping, Sequence

from psycopg.types.json import Jsonb

from recollect.core.domain import MemoryId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import SCOPE_OWNER

# The column `owner_id`: the scope owner. Imported rows may lack one and are keyed by their own id.
INDEX_OWNER = f"coalesce({SCOPE_OWNER}, m.id)"

# One statement, which takes the scope owner from the memory's row.
_INSERT = f"""
    WITH indexed AS (
        SELECT m.id, {INDEX_OWNER} AS owner_id
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND m.id = %(memory_id)s
    ),
    filed AS (
        INSERT INTO memory_word (workspace_id, term, owner_id, memory_id, frequency, length)
        SELECT %(workspace_id)s, entry.term, indexed.owner_id, indexed.id, entry.frequency,
            %(length)s
        FROM indexed
        CROSS JOIN unnest(%(terms)s::text[], %(frequencies)s::integer[]) AS entry (term, frequency)
    ),
    kept AS (
        INSERT INTO memory_terms (workspace_id, memory_id, owner_id, terms, length)
        SELECT %(workspace_id)s, id, owner_id, %(terms)s, %(length)s FROM indexed
    )
    INSERT INTO keyword_total (workspace_id, owner_id, documents, length)
    SELECT %(workspace_id)s, owner_id, 1, %(length)s FROM indexed
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


# The postings are ordered by term, so that index pages are written one after the other.
_INSERT_ALL = f"""
    WITH indexed AS MATERIALIZED (
        SELECT m.id, {INDEX_OWNER} AS owner_id, entry.terms, entry.length
        FROM jsonb_to_recordset(%(entries)s) AS entry (memory_id uuid, terms jsonb, length integer)
        JOIN memory m ON m.workspace_id = %(workspace_id)s AND m.id = entry.memory_id
    ),
    filed AS (
        INSERT INTO memory_word (workspace_id, term, owner_id, memory_id, frequency, length)
        SELECT %(workspace_id)s, posting.key, indexed.owner_id, indexed.id, posting.value::integer,
            indexed.length
        FROM indexed
        CROSS JOIN LATERAL jsonb_each_text(indexed.terms) AS posting
        ORDER BY posting.key
    ),
    kept AS (
        INSERT INTO memory_terms (workspace_id, memory_id, owner_id, terms, length)
        SELECT %(workspace_id)s, id, owner_id, ARRAY(SELECT jsonb_object_keys(terms)), length
        FROM indexed
    )
    INSERT INTO keyword_total (workspace_id, owner_id, documents, length)
    SELECT %(workspace_id)s, owner_id, count(*), sum(length) FROM indexed GROUP BY owner_id
"""


async def insert_all(
    db: Db, workspace_id: WorkspaceId, memories: Mapping[MemoryId, Mapping[str, int]]
) -> None:
    """Index the terms of many new memories at once."""
    # Sent as one JSON document: the driver took longer to write arrays than all the rest together.
    entries = [
        {"memory_id": str(memory_id), "terms": dict(terms), "length": sum(terms.values())}
        for memory_id, terms in memories.items()
    ]
    await db.execute(_INSERT_ALL, {"workspace_id": workspace_id, "entries": Jsonb(entries)})


_REMOVE_TERMS = """
    DELETE FROM memory_terms
    WHERE workspace_id = %(workspace_id)s AND memory_id = ANY(%(ids)s)
    RETURNING memory_id, owner_id, terms, length
"""
_REMOVE_POSTINGS = """
    DELETE FROM memory_word
    WHERE workspace_id = %(workspace_id)s AND term = ANY(%(terms)s) AND owner_id = %(owner_id)s
        AND memory_id = %(memory_id)s
"""
_SUBTRACT_TOTALS = """
    INSERT INTO keyword_total (workspace_id, owner_id, documents, length)
    VALUES (%(workspace_id)s, %(owner_id)s, -1, -%(length)s)
"""


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Remove memories from the index; ids that are not in it are skipped."""
    cursor = await db.execute(_REMOVE_TERMS, {"workspace_id": workspace_id, "ids": list(ids)})
    for memory_id, owner_id, terms, length in await cursor.fetchall():
        values = {
            "workspace_id": workspace_id,
            "memory_id": memory_id,
            "owner_id": owner_id,
            "terms": terms,
            "length": length,
        }
        await db.execute(_REMOVE_POSTINGS, values)
        await db.execute(_SUBTRACT_TOTALS, values)
