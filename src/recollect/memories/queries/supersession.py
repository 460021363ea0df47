"""Which memories supersede which: derived from authored `updates` links between them."""

from collections.abc import Sequence
from datetime import datetime

from recollect.core.domain import MemoryId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import SCOPE_OWNER
from recollect.memories.queries.decay import FADED

# Whether a memory is superseded depends on whole chains of links, but a transaction locks only two
# rows. So every change of an `updates` link, or of a memory that may be in such a chain, takes this
# lock, one per workspace. Without it, two memories linked in opposite directions at the same moment
# would supersede each other, and a memory whose only successor is deleted would stay superseded.
_LOCK_SUPERSESSION = """
    SELECT pg_advisory_xact_lock(hashtextextended('replacing/' || %(workspace_id)s::text, 0))
"""


async def lock_supersession(db: Db, workspace_id: WorkspaceId) -> None:
    """Wait for others who change supersession. Call this before locking any memory."""
    await db.execute(_LOCK_SUPERSESSION, {"workspace_id": workspace_id})


# A memory is superseded by the source of the first authored `updates` link whose source counts. So
# supersession always follows from the links, in whatever order they were changed. A forgotten
# source no longer counts. If it was forgotten as a repetition, its links moved to the newer
# statement. A source that only decayed was no less true, so it still counts.
_COUNTS = f"(n.deleted_at IS NULL OR n.delete_reason = '{FADED}')"
_SUPERSEDES = "a.relation = 'updates' AND a.is_authored"
# A private memory cannot supersede one that others can see: everyone who sees the older statement
# must also see the newer one.
_IS_SEEN_BY_ALL = f"""
    (n.scope = 'workspace'
     OR ({SCOPE_OWNER.replace("m.", "n.")}) = ({SCOPE_OWNER.replace("m.", "t.")}))
"""
# If the source no longer counts, continue with the memories that supersede the source: forgetting
# the second of three statements does not make the first true again.
CLOSED_BY = f"""
    SELECT above.source_id, above.created_at
    FROM (
        WITH RECURSIVE above AS (
            SELECT a.source_id, a.created_at
            FROM memory_link a
            WHERE a.workspace_id = %(workspace_id)s AND a.target_id = t.id AND {_SUPERSEDES}
            UNION
            SELECT a.source_id, a.created_at
            FROM above
            JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = above.source_id
            JOIN memory_link a
                ON a.workspace_id = %(workspace_id)s AND a.target_id = n.id AND {_SUPERSEDES}
            WHERE {_COUNTS} IS NOT TRUE AND {_IS_SEEN_BY_ALL}
        )
        SELECT above.source_id, above.created_at FROM above
    ) AS above
    JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = above.source_id
    WHERE {_COUNTS} AND {_IS_SEEN_BY_ALL} AND n.id <> t.id
    ORDER BY above.created_at, above.source_id
    LIMIT 1
"""
_LOCK_MEMORIES = """
    SELECT id FROM memory
    WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)
    ORDER BY id
    FOR NO KEY UPDATE
"""
_UPDATE_VALIDITY = f"""
    UPDATE memory
    SET superseded_by = found.by, valid_until = found.at, updated_at = %(now)s,
        version = version + 1
    FROM (
        SELECT t.id, first.source_id AS by, first.created_at AS at
        FROM memory t
        LEFT JOIN LATERAL ({CLOSED_BY}) AS first ON true
        WHERE t.workspace_id = %(workspace_id)s AND t.id = ANY(%(ids)s)
    ) AS found
    WHERE memory.workspace_id = %(workspace_id)s AND memory.id = found.id
        AND (superseded_by IS DISTINCT FROM found.by
             OR (found.by IS NOT NULL AND valid_until IS DISTINCT FROM found.at))
        AND (superseded_by IS NOT NULL OR valid_until IS NULL OR valid_until > %(now)s)
    RETURNING memory.id, superseded_by
"""


async def lock_memories(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Lock these memories, so that no other transaction changes what supersedes them."""
    await db.execute(_LOCK_MEMORIES, {"workspace_id": workspace_id, "ids": list(ids)})


async def update_validity(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId], now: datetime
) -> list[MemoryId]:
    """Mark each memory as superseded or current, by its links; return those that became current.

    Includes forgotten memories, so that restoring one gives it the right state.
    """
    await lock_memories(db, workspace_id, ids)  # so that all committed links are seen
    values = {"workspace_id": workspace_id, "ids": list(ids), "now": now}
    updated = await (await db.execute(_UPDATE_VALIDITY, values)).fetchall()
    return [MemoryId(memory_id) for memory_id, superseded_by in updated if superseded_by is None]


_FIND_SUPERSEDED = f"""
    WITH RECURSIVE below AS (
        SELECT a.target_id AS id
        FROM memory_link a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(ids)s) AND {_SUPERSEDES}
        UNION
        SELECT a.target_id
        FROM below
        JOIN memory n ON n.workspace_id = %(workspace_id)s AND n.id = below.id
        JOIN memory_link a
            ON a.workspace_id = %(workspace_id)s AND a.source_id = n.id AND {_SUPERSEDES}
        WHERE {_COUNTS} IS NOT TRUE
    )
    SELECT id FROM below WHERE id <> ALL(%(ids)s)
"""


async def find_superseded(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> list[MemoryId]:
    """Return what these supersede, directly or through memories that no longer count."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    return [
        MemoryId(row[0]) for row in await (await db.execute(_FIND_SUPERSEDED, values)).fetchall()
    ]


# After the undo, a link remains between the two, as if created by similarity.
_REOPEN = f"""
    UPDATE memory_link a SET is_authored = false
    WHERE a.workspace_id = %(workspace_id)s AND a.target_id = %(id)s AND {_SUPERSEDES}
"""
_REVERSE = f"""
    WITH RECURSIVE below AS (
        SELECT unnest(%(ids)s::uuid[]) AS id
        UNION
        SELECT a.target_id
        FROM below
        JOIN memory_link a
            ON a.workspace_id = %(workspace_id)s AND a.source_id = below.id AND {_SUPERSEDES}
    )
    UPDATE memory_link a SET is_authored = false
    FROM below
    WHERE a.workspace_id = %(workspace_id)s AND a.source_id = below.id AND a.target_id = %(id)s
        AND {_SUPERSEDES}
"""


async def reopen_superseded(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId) -> None:
    """Make this memory current: links to it no longer supersede it."""
    await db.execute(_REOPEN, {"workspace_id": workspace_id, "id": memory_id})


async def reverse_links(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, ids: Sequence[MemoryId]
) -> None:
    """Stop these memories, and all they supersede, from superseding `memory_id`.

    Used before `memory_id` supersedes them: in a cycle, no statement would be current.
    """
    values = {"workspace_id": workspace_id, "id": memory_id, "ids": list(ids)}
    await db.execute(_REVERSE, values)


# Links by which others supersede the older memory are not moved. If the other memory counted, the
# older one would already be superseded. If it does not count, it says nothing about the newer one.
_MOVE_LINKS = """
    INSERT INTO memory_link AS known (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    SELECT a.workspace_id, gen_random_uuid(),
        CASE a.source_id WHEN %(id)s THEN %(newer_id)s ELSE a.source_id END,
        CASE a.target_id WHEN %(id)s THEN %(newer_id)s ELSE a.target_id END,
        a.relation, a.weight, true, a.created_at
    FROM memory_link a
    JOIN memory other ON other.workspace_id = a.workspace_id
        AND other.id = CASE a.source_id WHEN %(id)s THEN a.target_id ELSE a.source_id END
    WHERE a.workspace_id = %(workspace_id)s AND a.is_authored
        AND (a.source_id = %(id)s OR (a.target_id = %(id)s AND a.relation <> 'updates'))
        AND other.id <> %(newer_id)s
    FOR KEY SHARE OF other
    ON CONFLICT (workspace_id, source_id, target_id, relation) DO UPDATE
    SET weight = EXCLUDED.weight, is_authored = true, created_at = EXCLUDED.created_at
    WHERE NOT known.is_authored
"""


async def move_links(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, newer_id: MemoryId
) -> None:
    """Copy the older memory's authored links to the newer one; the older one keeps its own."""
    values = {"workspace_id": workspace_id, "id": memory_id, "newer_id": newer_id}
    await db.execute(_MOVE_LINKS, values)


# For memories that are about to be deleted together with their links.
INHERIT = f"""
    INSERT INTO memory_link AS known (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    WITH RECURSIVE through AS (
        SELECT a.source_id, a.target_id, a.weight, a.created_at
        FROM memory_link a
        WHERE a.workspace_id = %(workspace_id)s AND a.source_id = ANY(%(memory_ids)s)
            AND {_SUPERSEDES}
        UNION
        SELECT a.source_id, through.target_id, a.weight, a.created_at
        FROM through
        JOIN memory_link a
            ON a.workspace_id = %(workspace_id)s AND a.target_id = through.source_id
            AND {_SUPERSEDES}
        WHERE through.source_id = ANY(%(memory_ids)s)
    )
    SELECT source.workspace_id, gen_random_uuid(), source.id, target.id, 'updates', heir.weight,
        true, heir.created_at
    FROM (
        SELECT DISTINCT ON (source_id, target_id) * FROM through
        WHERE source_id <> ALL(%(memory_ids)s) AND target_id <> ALL(%(memory_ids)s)
            AND source_id <> target_id
        ORDER BY source_id, target_id, created_at
    ) AS heir
    JOIN memory source ON source.workspace_id = %(workspace_id)s AND source.id = heir.source_id
    JOIN memory target ON target.workspace_id = %(workspace_id)s AND target.id = heir.target_id
    FOR KEY SHARE OF source, target
    ON CONFLICT (workspace_id, source_id, target_id, relation) DO UPDATE
    SET weight = EXCLUDED.weight, is_authored = true, created_at = EXCLUDED.created_at
    WHERE NOT known.is_authored
"""


async def inherit_links(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> None:
    """Link newer memories directly to what these superseded, before these are deleted."""
    await db.execute(INHERIT, {"workspace_id": workspace_id, "memory_ids": list(ids)})
