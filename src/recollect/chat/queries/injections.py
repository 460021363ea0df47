"""The SQL for injections (the memories added to each user message) and calls of built-in tools."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import Caller, Filter, Memory, MemoryId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import VISIBLE, visibility_values
from recollect.memories.queries.memories import MATCHES_FILTER, filter_values, find_all


@dataclass(frozen=True, slots=True)
class Injection:
    """The memories injected after a user message, in order, in a fence with this suffix.

    `conversation_digest` is the digest of the conversation up to that message.
    """

    conversation_digest: bytes
    memory_ids: Sequence[MemoryId]
    suffix: str


_FIND = """
    SELECT conversation_digest, memory_ids, suffix
    FROM injection
    WHERE workspace_id = %(workspace_id)s AND conversation_digest = ANY(%(digests)s)
"""
_PUT = """
    INSERT INTO injection (
        workspace_id, conversation_digest, user_id, memory_ids, suffix, created_at
    ) VALUES (
        %(workspace_id)s, %(conversation_digest)s, %(user_id)s, %(memory_ids)s, %(suffix)s, %(now)s
    )
    ON CONFLICT (workspace_id, conversation_digest) DO UPDATE
    SET user_id = EXCLUDED.user_id, memory_ids = EXCLUDED.memory_ids, suffix = EXCLUDED.suffix,
        created_at = EXCLUDED.created_at
"""
# everywhere: one sweep deletes old injections, in all workspaces.
_SWEEP = """
    DELETE FROM injection
    WHERE (workspace_id, conversation_digest) IN (
        SELECT workspace_id, conversation_digest FROM injection
        WHERE created_at < %(before)s
        LIMIT %(limit)s
    )
"""


async def find(
    db: Db, workspace_id: WorkspaceId, digests: Sequence[bytes]
) -> dict[bytes, Injection]:
    """Return the stored injections for these digests, by digest."""
    async with db.cursor(row_factory=class_row(Injection)) as cursor:
        await cursor.execute(_FIND, {"workspace_id": workspace_id, "digests": list(digests)})
        return {bytes(each.conversation_digest): each for each in await cursor.fetchall()}


async def store_injection(db: Db, caller: Caller, injection: Injection, now: datetime) -> None:
    """Store the injection for a user message of the caller; replace the one before."""
    await db.execute(
        _PUT,
        {
            "workspace_id": caller.workspace_id,
            "user_id": caller.user_id,
            "conversation_digest": injection.conversation_digest,
            "memory_ids": list(injection.memory_ids),
            "suffix": injection.suffix,
            "now": now,
        },
    )


# Pinned memories and those of kind `identity`, oldest first.
_STABLE = f"""
    SELECT m.id
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND (m.pinned OR m.kind = 'identity')
        AND {VISIBLE} AND {MATCHES_FILTER}
    ORDER BY m.created_at, m.id
    LIMIT %(limit)s
"""


async def stable_memories(
    db: Db, caller: Caller, wanted: Filter, *, limit: int, now: datetime
) -> list[Memory]:
    """Return the memories that are injected into every turn, oldest first."""
    values = {"limit": limit, **visibility_values(caller, now), **filter_values(wanted)}
    ids = [row[0] for row in await (await db.execute(_STABLE, values)).fetchall()]
    if not ids:
        return []
    found = await find_all(db, caller, ids, now)
    return [found[each] for each in ids if each in found]


_HIDE = """
    INSERT INTO builtin_call (workspace_id, call_id, user_id, calls, results, created_at)
    VALUES (%(workspace_id)s, %(call_id)s, %(user_id)s, %(calls)s, %(results)s, %(now)s)
    ON CONFLICT (workspace_id, call_id) DO UPDATE
    SET user_id = EXCLUDED.user_id, calls = EXCLUDED.calls, results = EXCLUDED.results,
        created_at = EXCLUDED.created_at
"""
_CALLS = """
    SELECT call_id, calls, results
    FROM builtin_call
    WHERE workspace_id = %(workspace_id)s AND call_id = ANY(%(call_ids)s)
        AND (user_id IS NULL OR user_id = %(user_id)s)
"""
# everywhere: one sweep deletes old built-in calls that no client continued, in all workspaces.
_SWEEP_CALLS = """
    DELETE FROM builtin_call
    WHERE (workspace_id, call_id) IN (
        SELECT workspace_id, call_id FROM builtin_call WHERE created_at < %(before)s LIMIT %(limit)s
    )
"""


@dataclass(frozen=True, slots=True)
class BuiltinCalls:
    """Calls of built-in tools and their results, made in the same round as a client's call."""

    call_id: str
    calls: list[dict[str, Any]]
    results: list[dict[str, Any]]


async def store_builtin_calls(db: Db, caller: Caller, made: BuiltinCalls, now: datetime) -> None:
    """Store calls that the client does not see, until it sends the result of its own call."""
    await db.execute(
        _HIDE,
        {
            "workspace_id": caller.workspace_id,
            "user_id": caller.user_id,
            "call_id": made.call_id,
            "calls": Jsonb(made.calls),
            "results": Jsonb(made.results),
            "now": now,
        },
    )


async def find_builtin_calls(
    db: Db, caller: Caller, call_ids: Sequence[str]
) -> dict[str, BuiltinCalls]:
    """Return the built-in calls of the same rounds as these client calls, by call id."""
    values = {"workspace_id": caller.workspace_id, "user_id": caller.user_id}
    async with db.cursor(row_factory=class_row(BuiltinCalls)) as cursor:
        await cursor.execute(_CALLS, {**values, "call_ids": list(call_ids)})
        return {each.call_id: each for each in await cursor.fetchall()}


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Delete injections and built-in calls from before this time, `limit` of each, everywhere."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})
    await db.execute(_SWEEP_CALLS, {"before": before, "limit": limit})
