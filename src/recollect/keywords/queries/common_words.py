"""How many memories have each common word of a large workspace, counted by a job."""

from recollect.core.domain import WorkspaceId
from recollect.db.pool import Db

# Workspaces that have grown or shrunk by a tenth since their words were counted. Also those with a
# scope owner for which a word's count exceeds the number of memories: what one user or thread has
# lost may be little for the workspace, but everything that their searches see.
_CHANGED = """
    FROM common_word_run counted
    FULL JOIN (
        SELECT workspace_id, sum(documents) AS documents FROM keyword_total GROUP BY workspace_id
    ) AS totals USING (workspace_id)
    WHERE (
        (totals.documents BETWEEN 0.9 * counted.documents AND 1.1 * counted.documents) IS NOT TRUE
        OR workspace_id IN (
            SELECT common.workspace_id
            FROM common_word common
            LEFT JOIN (
                SELECT workspace_id, owner_id, sum(documents) AS documents FROM keyword_total
                GROUP BY workspace_id, owner_id
            ) AS own USING (workspace_id, owner_id)
            WHERE common.memories > 1.1 * coalesce(own.documents, 0)))
"""
# everywhere: finds the workspaces whose words should be counted.
_TO_COUNT = f"SELECT workspace_id {_CHANGED} AND totals.documents >= %(min_memories)s"
# everywhere: finds the workspaces whose words no longer need counting. One that is about as large
# as when it was counted keeps its counts: its size may vary around the minimum.
_SHRUNKEN = f"""
    SELECT workspace_id {_CHANGED}
        AND coalesce(totals.documents, 0) < %(min_memories)s AND counted.documents IS NOT NULL
"""
_DELETE_COUNTS = "DELETE FROM common_word WHERE workspace_id = %(workspace_id)s"
_INSERT_COUNTS = """
    INSERT INTO common_word (workspace_id, term, owner_id, memories)
    SELECT %(workspace_id)s, term, owner_id, count(*)
    FROM memory_word
    WHERE workspace_id = %(workspace_id)s
    GROUP BY term, owner_id
    HAVING count(*) >= %(min_common)s
"""
_SET_COUNTED_SIZE = """
    INSERT INTO common_word_run (workspace_id, documents)
    SELECT %(workspace_id)s, coalesce(sum(documents), 0)
    FROM keyword_total
    WHERE workspace_id = %(workspace_id)s
    ON CONFLICT (workspace_id) DO UPDATE SET documents = EXCLUDED.documents
"""
_DELETE_COUNTED_SIZE = "DELETE FROM common_word_run WHERE workspace_id = %(workspace_id)s"
# A word in fewer memories is always read.
_MIN_COMMON = 1_000


async def workspaces_to_count(db: Db, min_memories: int) -> list[WorkspaceId]:
    """Return workspaces with at least `min_memories` whose counts are missing or outdated."""
    rows = await (await db.execute(_TO_COUNT, {"min_memories": min_memories})).fetchall()
    return [WorkspaceId(row[0]) for row in rows]


async def shrunken_workspaces(db: Db, min_memories: int) -> list[WorkspaceId]:
    """Return workspaces that have counts but now fewer than `min_memories` memories."""
    rows = await (await db.execute(_SHRUNKEN, {"min_memories": min_memories})).fetchall()
    return [WorkspaceId(row[0]) for row in rows]


async def count_common(db: Db, workspace_id: WorkspaceId) -> None:
    """Count, for each scope owner in a workspace, how many memories have each common word."""
    values = {"workspace_id": workspace_id, "min_common": _MIN_COMMON}
    await db.execute(_DELETE_COUNTS, values)
    await db.execute(_INSERT_COUNTS, values)
    await db.execute(_SET_COUNTED_SIZE, values)


async def forget_counts(db: Db, workspace_id: WorkspaceId) -> None:
    """Delete the counts, so that searches read all postings of every word."""
    values = {"workspace_id": workspace_id}
    await db.execute(_DELETE_COUNTS, values)
    await db.execute(_DELETE_COUNTED_SIZE, values)
