"""Memories as key-value pairs: find by key, list, and search in every field."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import kwargs_row

from recollect.core.domain import Caller, Memory, MemoryId, Scope
from recollect.db.pool import Db
from recollect.db.visibility import VISIBLE, visibility_values
from recollect.keywords.queries.like_patterns import containing_pattern
from recollect.memories.queries.memories import COLUMNS, memory_from_row

_WITH_THREAD = """
    FROM memory m
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
"""

# A key is unique within its scope and scope owner (user, project or agent). The expression matches
# the index `memory_key`, so that rows of other owners are not read.
_HAS_KEY = """
    m.key = %(key)s AND m.scope = %(scope)s
    AND CASE m.scope
        WHEN 'project' THEN m.project_id WHEN 'agent' THEN m.agent_id ELSE m.user_id
    END = %(scope_owner)s
"""

# Saves of the same key and scope owner run one at a time: two at the same moment would each find
# nothing. A lock and not a unique index, because keys from other interfaces, and of rows saved with
# `forces_new`, need not be unique.
_LOCK_KEY = """
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(
        '/', 'key', %(workspace_id)s::text, %(scope)s::text, %(scope_owner)s::text, %(key)s::text),
        0))
"""


async def lock_key(db: Db, caller: Caller, key: str, scope: Scope) -> None:
    """Wait for other saves of this key, and block them until the transaction ends."""
    await db.execute(
        _LOCK_KEY, _key_values(caller, key, scope) | {"workspace_id": caller.workspace_id}
    )


def _key_values(caller: Caller, key: str, scope: Scope) -> dict[str, Any]:
    owners = {Scope.PROJECT: caller.project_id, Scope.AGENT: caller.agent_id}
    return {"key": key, "scope": scope, "scope_owner": owners.get(scope, caller.user_id)}


_FIND = f"""
    SELECT {COLUMNS} {_WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {_HAS_KEY} AND {VISIBLE}
    ORDER BY m.updated_at DESC, m.created_at DESC, m.id
    LIMIT 1
"""


async def find(db: Db, caller: Caller, key: str, scope: Scope, now: datetime) -> Memory | None:
    """Return the caller's memory with that key; of several, the one changed last."""
    values = _key_values(caller, key, scope) | visibility_values(caller, now)
    found = await _fetch(db, _FIND, values)
    return found[0] if found else None


@dataclass(frozen=True, slots=True)
class KeyValueFilter:
    """Which memories to list; None matches everything."""

    key: str | None = None
    scopes: Sequence[Scope] | None = None
    category: str | None = None
    # The category to assume for a row without one.
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
    wanted: KeyValueFilter,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
    now: datetime,
) -> list[Memory]:
    """Return visible memories, newest first, starting after the given position."""
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
        **visibility_values(caller, now),
    }
    return await _fetch(db, _PAGE, values)


# Matches parts of words, so it reads the whole workspace.
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
    """Return visible memories that contain every fragment in any field, ignoring case."""
    if not fragments:
        return []
    patterns = [containing_pattern(fragment) for fragment in fragments]
    values = {"patterns": patterns, "limit": limit, **visibility_values(caller, now)}
    rows = await (await db.execute(_CONTAINING, values)).fetchall()
    return [MemoryId(row[0]) for row in rows]


async def _fetch(db: Db, query: Any, values: dict[str, Any]) -> list[Memory]:
    async with db.cursor(row_factory=kwargs_row(memory_from_row)) as cursor:
        await cursor.execute(query, values)
        return await cursor.fetchall()
