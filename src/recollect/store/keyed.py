"""Memories as key and value: found again by key, listed, and searched in every field."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from recollect.domain import Caller, Memory, MemoryId, Scope
from recollect.store.memories import COLUMNS, memory_from_row
from recollect.store.pool import Db
from recollect.store.visible import VISIBLE, visible_to
from recollect.store.words import containing_pattern

_WITH_THREAD = """
    FROM memory m
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
"""

# The place of a key is its scope and what that scope is of: a user, a project or an agent. As
# `memory_key` has it: what stands in another place is not even read.
_IN_PLACE = """
    m.key = %(key)s AND m.scope = %(scope)s
    AND CASE m.scope
        WHEN 'project' THEN m.project_id WHEN 'agent' THEN m.agent_id ELSE m.user_id
    END = %(place)s
"""

# Saves of one key in one place come one at a time; two at the same instant would else each find
# nothing. By a lock and not by a unique index: keys of other doors, and of rows that were forced,
# need not be unique.
_HOLD = """
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(
        '/', 'key', %(workspace_id)s::text, %(scope)s::text, %(place)s::text, %(key)s::text), 0))
"""


async def hold(db: Db, caller: Caller, key: str, scope: Scope) -> None:
    """Wait for other saves of this key in this place, until the transaction ends."""
    await db.execute(_HOLD, _place(caller, key, scope) | {"workspace_id": caller.workspace_id})


def _place(caller: Caller, key: str, scope: Scope) -> dict[str, Any]:
    places = {Scope.PROJECT: caller.project_id, Scope.AGENT: caller.agent_id}
    return {"key": key, "scope": scope, "place": places.get(scope, caller.user_id)}


_FIND = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {_IN_PLACE} AND {VISIBLE}
    ORDER BY m.updated_at DESC, m.created_at DESC, m.id
    LIMIT 1
"""


async def find(db: Db, caller: Caller, key: str, scope: Scope, now: datetime) -> Memory | None:
    """The memory of that key in the caller's place; of several, the last one changed."""
    values = _place(caller, key, scope) | visible_to(caller, now)
    found = await _fetch(db, _FIND, values)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which of them; None leaves that side open."""

    key: str | None = None
    scopes: Sequence[Scope] | None = None
    category: str | None = None
    # What a row without a category counts as.
    uncategorised: str | None = None
    tags: Sequence[str] | None = None
    pinned: bool | None = None
    project_id: UUID | None = None
    agent_id: UUID | None = None
    thread_id: UUID | None = None


_PAGE = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
        AND (%(key)s::text IS NULL OR m.key = %(key)s)
        AND (%(scopes)s::text[] IS NULL OR m.scope = ANY(%(scopes)s))
        AND (%(category)s::text IS NULL
             OR coalesce(m.category, %(uncategorised)s) = %(category)s)
        AND (%(tags)s::text[] IS NULL OR m.tags @> %(tags)s)
        AND (%(pinned)s::boolean IS NULL OR m.pinned = %(pinned)s)
        AND (%(project_id)s::uuid IS NULL OR m.project_id = %(project_id)s)
        AND (%(agent_id)s::uuid IS NULL OR m.agent_id = %(agent_id)s)
        AND (%(thread_id)s::uuid IS NULL OR m.thread_id = %(thread_id)s)
        AND (%(after_at)s::timestamptz IS NULL
             OR (m.created_at, m.id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY m.created_at DESC, m.id DESC
    LIMIT %(limit)s
"""


async def page(
    db: Db,
    caller: Caller,
    wanted: Wanted,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
    now: datetime,
) -> list[Memory]:
    """Visible memories, newest first, from just behind a place on."""
    after_at, after_id = after or (None, None)
    values = {
        "key": wanted.key,
        "scopes": None if wanted.scopes is None else [scope.value for scope in wanted.scopes],
        "category": wanted.category,
        "uncategorised": wanted.uncategorised,
        "tags": None if wanted.tags is None else list(wanted.tags),
        "pinned": wanted.pinned,
        "project_id": wanted.project_id,
        "agent_id": wanted.agent_id,
        "thread_id": wanted.thread_id,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
        **visible_to(caller, now),
    }
    return await _fetch(db, _PAGE, values)


# For a part of a word: it reads the whole workspace.
_CONTAINING = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
        AND concat_ws(E'\\n', m.key, m.summary, m.content, m.category,
                      array_to_string(m.tags, E'\\n')) ILIKE ALL(%(patterns)s)
    ORDER BY m.pinned DESC, m.importance DESC, m.updated_at DESC, m.id
    LIMIT %(limit)s
"""


async def containing(
    db: Db, caller: Caller, fragments: Sequence[str], *, limit: int, now: datetime
) -> list[MemoryId]:
    """Visible memories with every fragment somewhere in their fields, in any case."""
    if not fragments:
        return []
    patterns = [containing_pattern(fragment) for fragment in fragments]
    values = {"patterns": patterns, "limit": limit, **visible_to(caller, now)}
    rows = await (await db.execute(_CONTAINING, values)).fetchall()
    return [MemoryId(row[0]) for row in rows]


async def _fetch(db: Db, query: Any, values: dict[str, Any]) -> list[Memory]:
    async with db.cursor(row_factory=kwargs_row(memory_from_row)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
