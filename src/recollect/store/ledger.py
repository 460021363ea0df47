"""The ledger of model calls: a row when one begins, closed when it ends, failed ones included."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from recollect.domain import WorkspaceId
from recollect.store.pool import Db

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
# An open call counts with what it may cost: two that begin at once cannot both take the last of it.
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


async def begin(
    db: Db,
    workspace_id: WorkspaceId,
    call_id: UUID,
    *,
    purpose: str,
    model: str,
    reserved: int,
    now: datetime,
) -> None:
    """Write down that a model is asked."""
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


async def end(
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
    """Write down what came of it."""
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


async def spent(db: Db, workspace_id: WorkspaceId, since: datetime) -> int:
    """Tokens used or reserved since then."""
    values = {"workspace_id": workspace_id, "since": since}
    row = await (await db.execute(_SPENT, values)).fetchone()
    return int(row[0]) if row else 0


async def hold_budget(db: Db, workspace_id: WorkspaceId) -> None:
    """Until the transaction ends, nobody else reserves from this workspace's budget."""
    await db.execute(_LOCK, {"workspace_id": workspace_id})


@dataclass(frozen=True, slots=True)
class Line:
    """What one model was used for, on one day."""

    day: datetime
    purpose: str
    model: str
    state: str
    calls: int
    input_tokens: int
    output_tokens: int
    # By the price table of its time; None where it named no price.
    cost: float | None


# everywhere: the operator reads the whole bill.
_BILL = """
    SELECT date_trunc('day', started_at) AS day, purpose, model, state, count(*) AS calls,
        sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
        sum(cost)::float8 AS cost
    FROM model_call
    WHERE started_at >= %(since)s
    GROUP BY 1, 2, 3, 4
    ORDER BY 1 DESC, 2, 3, 4
"""


async def bill(db: Db, since: datetime) -> list[Line]:
    """Calls and tokens of every workspace by day, purpose and model."""
    async with db.cursor(row_factory=class_row(Line)) as cursor:
        await cursor.execute(_BILL, {"since": since})
        return await cursor.fetchall()


_USED = """
    SELECT date_trunc('day', started_at, 'UTC') AS day, purpose, model, state, count(*) AS calls,
        sum(input_tokens)::bigint AS input_tokens, sum(output_tokens)::bigint AS output_tokens,
        sum(cost)::float8 AS cost
    FROM model_call
    WHERE workspace_id = %(workspace_id)s AND started_at >= %(since)s
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 2, 3, 4
"""


async def used(db: Db, workspace_id: WorkspaceId, since: datetime) -> list[Line]:
    """Calls and tokens of a workspace by day, purpose and model, oldest first."""
    async with db.cursor(row_factory=class_row(Line)) as cursor:
        await cursor.execute(_USED, {"workspace_id": workspace_id, "since": since})
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class Recalls:
    """How many turns of a day recalled, and how long that took."""

    day: datetime
    count: int
    p50: float
    p95: float


# Each answer notes how long its turn looked for memories.
_RECALLED = """
    SELECT date_trunc('day', said.created_at, 'UTC') AS day, count(*) AS count,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY (said.metadata ->> 'recall_ms')::float) AS p50,
        percentile_cont(0.95) WITHIN GROUP (ORDER BY (said.metadata ->> 'recall_ms')::float) AS p95
    FROM message said
    WHERE said.workspace_id = %(workspace_id)s AND said.created_at >= %(since)s
        AND said.role = 'assistant' AND jsonb_typeof(said.metadata -> 'recall_ms') = 'number'
    GROUP BY 1
    ORDER BY 1
"""


async def recalled(db: Db, workspace_id: WorkspaceId, since: datetime) -> list[Recalls]:
    """How long turns took to recall, by day, oldest first."""
    async with db.cursor(row_factory=class_row(Recalls)) as cursor:
        await cursor.execute(_RECALLED, {"workspace_id": workspace_id, "since": since})
        return await cursor.fetchall()
