"""Queries on the ledger of model calls: a row is inserted at the start and closed at the end.

Failed calls are recorded too.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.core.domain import WorkspaceId
from recollect.db.pool import Db

_OPEN = """
    INSERT INTO model_call (
        workspace_id, id, purpose, model, state, reserved_tokens, started_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(purpose)s, %(model)s, 'open', %(reserved)s, %(now)s
    )
"""
_CLOSE = """
    UPDATE model_call
    SET state = %(state)s, input_tokens = %(input_tokens)s, output_tokens = %(output_tokens)s,
        cost = %(cost)s, ended_at = %(now)s
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND state = 'open'
"""
# An open call counts with its reserved tokens, so that two concurrent calls cannot both use the
# last of the budget.
_SPENT = """
    SELECT coalesce(sum(
        CASE WHEN state = 'open' THEN reserved_tokens ELSE input_tokens + output_tokens END
    ), 0)::bigint
    FROM model_call
    WHERE workspace_id = %(workspace_id)s AND started_at >= %(since)s
"""
_LOCK = """
    SELECT pg_advisory_xact_lock(hashtextextended(%(workspace_id)s::text || ' budget', 0))
"""


async def insert_call(
    db: Db,
    workspace_id: WorkspaceId,
    call_id: UUID,
    *,
    purpose: str,
    model: str,
    reserved: int,
    now: datetime,
) -> None:
    """Insert an open call."""
    await db.execute(
        _OPEN,
        {
            "workspace_id": workspace_id,
            "id": call_id,
            "purpose": purpose,
            "model": model[:200],
            "reserved": reserved,
            "now": now,
        },
    )


async def close_call(
    db: Db,
    workspace_id: WorkspaceId,
    call_id: UUID,
    *,
    is_done: bool,
    input_tokens: int,
    output_tokens: int,
    cost: float | None,
    now: datetime,
) -> None:
    """Close a call as done or failed, with its tokens and cost."""
    await db.execute(
        _CLOSE,
        {
            "workspace_id": workspace_id,
            "id": call_id,
            "state": "done" if is_done else "failed",
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cost": cost,
            "now": now,
        },
    )


async def tokens_spent(db: Db, workspace_id: WorkspaceId, since: datetime) -> int:
    """Return the tokens used or reserved since a time."""
    values = {"workspace_id": workspace_id, "since": since}
    row = await (await db.execute(_SPENT, values)).fetchone()
    return int(row[0]) if row else 0


async def lock_budget(db: Db, workspace_id: WorkspaceId) -> None:
    """Lock the workspace's budget against other reservations until the transaction ends."""
    await db.execute(_LOCK, {"workspace_id": workspace_id})


@dataclass(frozen=True, slots=True)
class UsageLine:
    """The calls to one model for one purpose on one day."""

    day: datetime
    purpose: str
    model: str
    state: str
    calls: int
    input_tokens: int
    output_tokens: int
    # By the price table at that time; None if it had no price for the model.
    cost: float | None


# everywhere: the operator sees the usage of all workspaces.
_DAILY_USAGE = """
    SELECT date_trunc('day', started_at) AS day, purpose, model, state, count(*) AS calls,
        sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
        sum(cost)::float8 AS cost
    FROM model_call
    WHERE started_at >= %(since)s
    GROUP BY 1, 2, 3, 4
    ORDER BY 1 DESC, 2, 3, 4
"""


async def daily_usage(db: Db, since: datetime) -> list[UsageLine]:
    """Return the calls and tokens of all workspaces by day, purpose and model."""
    async with db.cursor(row_factory=class_row(UsageLine)) as cursor:
        await cursor.execute(_DAILY_USAGE, {"since": since})
        return await cursor.fetchall()


_WORKSPACE_USAGE = """
    SELECT date_trunc('day', started_at, 'UTC') AS day, purpose, model, state, count(*) AS calls,
        sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
        sum(cost)::float8 AS cost
    FROM model_call
    WHERE workspace_id = %(workspace_id)s AND started_at >= %(since)s
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
"""


async def workspace_usage(db: Db, workspace_id: WorkspaceId, since: datetime) -> list[UsageLine]:
    """Return the calls and tokens of a workspace by day, purpose and model, oldest first."""
    async with db.cursor(row_factory=class_row(UsageLine)) as cursor:
        await cursor.execute(_WORKSPACE_USAGE, {"workspace_id": workspace_id, "since": since})
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class RecallTimes:
    """How many turns of a day recalled memories, and how long that took in milliseconds."""

    day: datetime
    count: int
    p50: float
    p95: float


# Each assistant message stores how long the recall of its turn took.
_RECALL_TIMES = """
    SELECT date_trunc('day', m.created_at, 'UTC') AS day, count(*) AS count,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY (m.metadata ->> 'recall_ms')::float) AS p50,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY (m.metadata ->> 'recall_ms')::float) AS p95
    FROM message m
    WHERE m.workspace_id = %(workspace_id)s AND m.created_at >= %(since)s
        AND m.role = 'assistant' AND jsonb_typeof(m.metadata -> 'recall_ms') = 'number'
    GROUP BY 1
    ORDER BY 1
"""


async def recall_times(db: Db, workspace_id: WorkspaceId, since: datetime) -> list[RecallTimes]:
    """Return how long the recalls of turns took, by day, oldest first."""
    async with db.cursor(row_factory=class_row(RecallTimes)) as cursor:
        await cursor.execute(_RECALL_TIMES, {"workspace_id": workspace_id, "since": since})
        return await cursor.fetchall()
