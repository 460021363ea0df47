"""The number and total length of indexed memories per scope owner, kept as increments.

Each write adds a row with its increment, so that writers do not wait for each other. Maintenance
replaces the rows by their sum ("folds" them).
"""

from recollect.core.domain import WorkspaceId
from recollect.db.pool import Db

# Selected by an array of ids: for a table that has just grown the planner has no statistics, and a
# join compared each row with each.
_SUM_TOTALS = """
    WITH locked AS MATERIALIZED (
        SELECT t.id FROM keyword_total t
        WHERE t.workspace_id = %(workspace_id)s
            AND t.id = ANY(ARRAY(
                SELECT id
                FROM (
                    SELECT id, count(*) OVER (PARTITION BY owner_id) AS increments
                    FROM keyword_total
                    WHERE workspace_id = %(workspace_id)s
                ) AS each
                WHERE increments > 1))
        FOR UPDATE SKIP LOCKED
    ),
    folded AS (
        DELETE FROM keyword_total
        WHERE workspace_id = %(workspace_id)s AND id = ANY(ARRAY(SELECT id FROM locked))
        RETURNING owner_id, documents, length
    )
    INSERT INTO keyword_total (workspace_id, owner_id, documents, length)
    SELECT %(workspace_id)s, owner_id, sum(documents), sum(length) FROM folded
    GROUP BY owner_id
"""


# A transaction that deletes the increments of a scope owner while they are summed up would miss the
# sum.
_LOCK_TOTALS = """
    SELECT pg_advisory_xact_lock(hashtextextended('totals/' || %(workspace_id)s::text, 0))
"""


async def lock_totals(db: Db, workspace_id: WorkspaceId) -> None:
    """Prevent folding of a workspace's totals until the transaction ends."""
    await db.execute(_LOCK_TOTALS, {"workspace_id": workspace_id})


async def fold_totals(db: Db, workspace_id: WorkspaceId) -> None:
    """Replace the increments of each scope owner in a workspace by their sum."""
    await lock_totals(db, workspace_id)
    await db.execute(_SUM_TOTALS, {"workspace_id": workspace_id})


# everywhere: finds the workspaces that have enough increments to fold.
_TO_FOLD = """
    SELECT workspace_id FROM keyword_total
    GROUP BY workspace_id
    HAVING count(*) > count(DISTINCT owner_id) + 100
"""


async def workspaces_to_fold(db: Db) -> list[WorkspaceId]:
    """Return the workspaces with many increments."""
    return [WorkspaceId(row[0]) for row in await (await db.execute(_TO_FOLD)).fetchall()]
