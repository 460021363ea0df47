"""Which memories stood behind which user message, and the hidden calls of mixed rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.domain import Caller, Filter, Memory, MemoryId, WorkspaceId
from recollect.store.memories import MATCHES, find_all, matching
from recollect.store.pool import Db
from recollect.store.visible import VISIBLE, visible_to


@dataclass(frozen=True, slots=True)
class Injection:
    """What stood behind a user message: memories in order, inside a fence of this suffix."""

    place: bytes
    memory_ids: Sequence[MemoryId]
    suffix: str


_FIND = """
    SELECT place, memory_ids, suffix
    FROM injection
    WHERE workspace_id = %(workspace_id)s AND place = ANY(%(places)s)
"""
_PUT = """
    INSERT INTO injection (workspace_id, place, user_id, memory_ids, suffix, created_at)
    VALUES (%(workspace_id)s, %(place)s, %(user_id)s, %(memory_ids)s, %(suffix)s, %(now)s)
    ON CONFLICT (workspace_id, place) DO UPDATE
    SET user_id = EXCLUDED.user_id, memory_ids = EXCLUDED.memory_ids, suffix = EXCLUDED.suffix,
        created_at = EXCLUDED.created_at
"""
# everywhere: one sweep drops what no conversation comes back to any more.
_SWEEP = """
    DELETE FROM injection
    WHERE (workspace_id, place) IN (
        SELECT workspace_id, place FROM injection WHERE created_at < %(before)s LIMIT %(limit)s
    )
"""


async def find(
    db: Db, workspace_id: WorkspaceId, places: Sequence[bytes]
) -> dict[bytes, Injection]:
    """What stood at these places, by place."""
    async with db.cursor(row_factory=class_row(Injection)) as cursor:
        await cursor.execute(_FIND, {"workspace_id": workspace_id, "places": list(places)})
        return {bytes(each.place): each for each in await cursor.fetchall()}


async def put(db: Db, caller: Caller, injection: Injection, now: datetime) -> None:
    """Remember what stands at a place of the caller's conversation."""
    await db.execute(
        _PUT,
        {
            "workspace_id": caller.workspace_id,
            "user_id": caller.user_id,
            "place": injection.place,
            "memory_ids": list(injection.memory_ids),
            "suffix": injection.suffix,
            "now": now,
        },
    )


# Pinned by somebody, or what the kind says about who they are; in the order in which they came.
_STABLE = f"""
    SELECT m.id
    FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND (m.pinned OR m.kind = 'identity')
        AND {VISIBLE} AND {MATCHES}
    ORDER BY m.created_at, m.id
    LIMIT %(limit)s
"""


async def stable(
    db: Db, caller: Caller, wanted: Filter, *, limit: int, now: datetime
) -> list[Memory]:
    """The memories that every turn is told, oldest first."""
    values = {"limit": limit, **visible_to(caller, now), **matching(wanted)}
    ids = [row[0] for row in await (await db.execute(_STABLE, values)).fetchall()]
    if not ids:
        return []
    found = await find_all(db, caller, ids, now)
    return [found[each] for each in ids if each in found]


_HIDE = """
    INSERT INTO hidden_call (workspace_id, call_id, user_id, calls, results, created_at)
    VALUES (%(workspace_id)s, %(call_id)s, %(user_id)s, %(calls)s, %(results)s, %(now)s)
    ON CONFLICT (workspace_id, call_id) DO UPDATE
    SET user_id = EXCLUDED.user_id, calls = EXCLUDED.calls, results = EXCLUDED.results,
        created_at = EXCLUDED.created_at
"""
_HIDDEN = """
    SELECT call_id, calls, results
    FROM hidden_call
    WHERE workspace_id = %(workspace_id)s AND call_id = ANY(%(call_ids)s)
        AND (user_id IS NULL OR user_id = %(user_id)s)
"""
# everywhere: one sweep drops the calls that no client came back for.
_SWEEP_HIDDEN = """
    DELETE FROM hidden_call
    WHERE (workspace_id, call_id) IN (
        SELECT workspace_id, call_id FROM hidden_call WHERE created_at < %(before)s LIMIT %(limit)s
    )
"""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Calls and results that stood beside a client's call."""

    call_id: str
    calls: list[dict[str, Any]]
    results: list[dict[str, Any]]


async def hide(db: Db, caller: Caller, hidden: Hidden, now: datetime) -> None:
    """Keep calls the client does not see until it comes back."""
    await db.execute(
        _HIDE,
        {
            "workspace_id": caller.workspace_id,
            "user_id": caller.user_id,
            "call_id": hidden.call_id,
            "calls": Jsonb(hidden.calls),
            "results": Jsonb(hidden.results),
            "now": now,
        },
    )


async def hidden_beside(db: Db, caller: Caller, call_ids: Sequence[str]) -> dict[str, Hidden]:
    """What stood beside these calls of the caller's client, by call."""
    values = {"workspace_id": caller.workspace_id, "user_id": caller.user_id}
    async with db.cursor(row_factory=class_row(Hidden)) as cursor:
        await cursor.execute(_HIDDEN, {**values, "call_ids": list(call_ids)})
        return {each.call_id: each for each in await cursor.fetchall()}


async def sweep(db: Db, before: datetime, limit: int) -> None:
    """Drop what is older than any conversation lasts, in every workspace."""
    await db.execute(_SWEEP, {"before": before, "limit": limit})
    await db.execute(_SWEEP_HIDDEN, {"before": before, "limit": limit})
