"""SQL for browsing a workspace's memories, with their sources and history."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row, kwargs_row

from recollect.core.domain import (
    CURRENT,
    HISTORY,
    Caller,
    Memory,
    MemoryId,
    ThreadId,
    View,
    WorkspaceId,
)
from recollect.db.pool import Db
from recollect.db.visibility import (
    IN_SCOPE,
    THREAD_VISIBLE,
    VISIBLE,
    scope_values,
    visibility_values,
)
from recollect.memories.queries.memories import COLUMNS, memory_from_row

# The source of a memory as the UI names it: `user`, `model`, or the kind of automatic turn.
_SOURCE = """
    CASE WHEN m.origin = 'user' THEN 'user'
        WHEN m.origin_label LIKE 'auto\\_%%' THEN m.origin_label
        ELSE 'model'
    END
"""


@dataclass(frozen=True, slots=True)
class BrowseFilter:
    """A filter for memories; None means no restriction."""

    category: str | None = None
    source_type: str | None = None
    tag: str | None = None
    thread_id: ThreadId | None = None


_MATCHES = f"""
    (%(category)s::text IS NULL OR m.category = %(category)s)
    AND (%(source_type)s::text IS NULL OR {_SOURCE} = %(source_type)s)
    AND (%(tag)s::text IS NULL OR %(tag)s = ANY(m.tags))
    AND (%(thread_id)s::uuid IS NULL OR m.thread_id = %(thread_id)s)
"""
_PAGE = f"""
    SELECT {COLUMNS}
    FROM memory m
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {_MATCHES}
        AND (%(after_at)s::timestamptz IS NULL
             OR (m.created_at, m.id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY m.created_at DESC, m.id DESC
    LIMIT %(limit)s
"""


async def page(
    db: Db,
    caller: Caller,
    wanted: BrowseFilter,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Memory]:
    """Return live memories, newest first, beginning after a position."""
    after_at, after_id = after or (None, None)
    values: dict[str, Any] = {
        "category": wanted.category,
        "source_type": wanted.source_type,
        "tag": wanted.tag,
        "thread_id": wanted.thread_id,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
        **visibility_values(caller, now, view),
    }
    async with db.cursor(row_factory=kwargs_row(memory_from_row)) as cursor:
        await cursor.execute(_PAGE, values)
        return await cursor.fetchall()


_OLDEST = f"""
    SELECT m.created_at FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
    ORDER BY m.created_at, m.id
    LIMIT 1
"""


async def oldest_memory_at(db: Db, caller: Caller, now: datetime) -> datetime | None:
    """Return the creation time of the oldest memory, including superseded ones."""
    cursor = await db.execute(_OLDEST, visibility_values(caller, now, HISTORY))
    row = await cursor.fetchone()
    return row[0] if row else None


_SOURCES = """
    SELECT DISTINCT ON (l.memory_id) l.memory_id, s.code
    FROM memory_message l
    JOIN message s ON s.workspace_id = l.workspace_id AND s.id = l.message_id
    WHERE l.workspace_id = %(workspace_id)s AND l.memory_id = ANY(%(ids)s)
    ORDER BY l.memory_id, s.created_at, s.position
"""


async def source_messages(
    db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]
) -> dict[MemoryId, str]:
    """Return the code of the first source message of each memory."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    rows = await (await db.execute(_SOURCES, values)).fetchall()
    return {MemoryId(row[0]): row[1] for row in rows}


@dataclass(frozen=True, slots=True)
class Facet:
    """A value that memories can be filtered by, and the number of memories with it."""

    kind: str
    name: str
    # For a thread: its name.
    title: str | None
    count: int


# The memories are read once; the four parts count from that result.
_FACETS = f"""
    WITH live AS MATERIALIZED (
        SELECT m.category, {_SOURCE} AS source_type, m.tags, m.thread_id
        FROM memory m
        WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
    )
    SELECT 'category' AS kind, category AS name, NULL AS title, count(*) AS count
    FROM live WHERE category IS NOT NULL GROUP BY category
    UNION ALL
    SELECT 'source_type', source_type, NULL, count(*) FROM live GROUP BY source_type
    UNION ALL
    SELECT 'tag', tag, NULL, count(*) FROM live, unnest(tags) AS tag GROUP BY tag
    UNION ALL
    SELECT 'chat', t.code, t.name, count(*)
    FROM live
    JOIN thread t ON t.workspace_id = %(workspace_id)s AND t.id = live.thread_id
    WHERE {THREAD_VISIBLE}
    GROUP BY t.code, t.name
    ORDER BY 4 DESC, 2
"""


async def facets(db: Db, caller: Caller, now: datetime) -> list[Facet]:
    """Return the categories, sources, tags and threads of live memories, most frequent first."""
    async with db.cursor(row_factory=class_row(Facet)) as cursor:
        await cursor.execute(_FACETS, visibility_values(caller, now))
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class MemoryAction:
    """An action on a memory, its time, and the user or key that caused it."""

    at: datetime
    action: str
    actor: str
    version: int | None


_HISTORY = """
    SELECT e.at, e.action, coalesce(u.login, e.actor) AS actor,
        (e.details ->> 'version')::integer AS version
    FROM event e
    LEFT JOIN app_user u ON u.id = e.user_id AND e.actor = %(label)s
    WHERE e.workspace_id = %(workspace_id)s AND e.memory_code = %(code)s
        AND (NOT e.is_private OR e.user_id = %(user_id)s)
    ORDER BY e.at DESC, e.id DESC
    LIMIT %(limit)s
"""


async def history(db: Db, caller: Caller, code: str, *, limit: int) -> list[MemoryAction]:
    """Return the actions on a memory, newest first."""
    values = {
        "workspace_id": caller.workspace_id,
        "user_id": caller.user_id,
        "label": caller.label,
        "code": code,
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(MemoryAction)) as cursor:
        await cursor.execute(_HISTORY, values)
        return await cursor.fetchall()


_REPLACED = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.superseded_by = %(id)s
        AND m.deleted_at IS NULL AND {IN_SCOPE}
    ORDER BY m.created_at DESC, m.id DESC
"""


async def replaced_by(db: Db, caller: Caller, memory_id: MemoryId) -> list[MemoryId]:
    """Return the memories that this one superseded, newest first."""
    cursor = await db.execute(_REPLACED, {**scope_values(caller), "id": memory_id})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]
