"""A workspace's memories as people look through them: where from, and what became of them."""

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

# Who put a memory there, in the words of the page: a person, a model, or a kind of turn.
_SOURCE = """
    CASE WHEN m.origin = 'user' THEN 'user'
        WHEN m.origin_label LIKE 'auto\\_%%' THEN m.origin_label
        ELSE 'model'
    END
"""


@dataclass(frozen=True, slots=True)
class BrowseFilter:
    """Which memories; None leaves that side open."""

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
    """Live memories, newest first, from just behind a place on."""
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


_FIRST = f"""
    SELECT m.created_at FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
    ORDER BY m.created_at, m.id
    LIMIT 1
"""


async def oldest_moment(db: Db, caller: Caller, now: datetime) -> datetime | None:
    """When the oldest memory was learnt, one that was replaced since included."""
    cursor = await db.execute(_FIRST, visibility_values(caller, now, HISTORY))
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
    """The code of the first message that each of these memories was made of."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    rows = await (await db.execute(_SOURCES, values)).fetchall()
    return {MemoryId(row[0]): row[1] for row in rows}


@dataclass(frozen=True, slots=True)
class Facet:
    """Something memories can be told apart by, and how many there are of it."""

    kind: str
    name: str
    # For a chat: what people call it.
    title: str | None
    count: int


# The memories are looked through once; each of the four takes its own from there.
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
    """By what the live memories can be told apart, commonest first."""
    async with db.cursor(row_factory=class_row(Facet)) as cursor:
        await cursor.execute(_FACETS, visibility_values(caller, now))
        return await cursor.fetchall()


@dataclass(frozen=True, slots=True)
class MemoryAction:
    """Something that was done to a memory, when and by whom."""

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
    """What was done to a memory, newest first."""
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
    """The memories that this one took the place of, newest first."""
    cursor = await db.execute(_REPLACED, {**scope_values(caller), "id": memory_id})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]
