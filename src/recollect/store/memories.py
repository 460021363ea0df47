"""The rows of `memory`: insert, find, list, change, hide, remove."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import args_row, class_row, kwargs_row
from psycopg.types.json import Jsonb

from recollect.domain import (
    ANY,
    CURRENT,
    HISTORY,
    Caller,
    Filter,
    Lifecycle,
    Memory,
    MemoryId,
    Origin,
    Ref,
    Scope,
    ThreadId,
    View,
    WorkspaceId,
)
from recollect.store.pool import Db, Pool
from recollect.store.visible import IN_SIGHT, PLACE, VISIBLE, in_sight_of, visible_to

# Everything a `Memory` has, where the statement names its workspace as %(workspace_id)s: a constant
# there lets the planner look at one partition instead of planning for all. `has_vector` speaks of
# any generation: the one that serves, or, while a new model moves in, the one that still does. By a
# LIMIT, for one row after the other: where EXISTS stands the planner may read the vectors of the
# whole workspace first, which took 9 to 14 ms of a page in one of 50,000, and a page takes 1.
COLUMNS = """
    m.id, m.code, m.workspace_id, m.org_id, m.user_id, m.project_id, m.agent_id, m.thread_id,
    t.code AS thread_code, t.label AS thread_label, m.subject, m.content, m.summary, m.key,
    m.category, m.kind, m.tags, m.metadata, m.importance, m.importance_base, m.pinned,
    m.expires_at, m.valid_from, m.valid_until, m.superseded_by, m.lifecycle, m.scope, m.origin,
    m.origin_label, m.source_note, m.reason, m.quote, m.wants_vector, m.created_at, m.updated_at,
    m.last_accessed_at, m.access_count, m.deleted_at, m.version,
    (
        SELECT true FROM memory_vector v
        WHERE v.workspace_id = %(workspace_id)s AND v.memory_id = m.id
            AND v.content_version = m.content_version
        LIMIT 1
    ) IS NOT NULL AS has_vector
"""
WITH_THREAD = """
    FROM memory m
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
"""


MATCHES = """
    (%(thread_id)s::uuid IS NULL OR m.thread_id = %(thread_id)s)
    AND (%(agent)s::text IS NULL OR m.thread_id IN (
        SELECT named.id FROM thread named
        WHERE named.workspace_id = %(workspace_id)s AND named.agent = %(agent)s))
    AND (%(subject)s::text IS NULL OR m.subject = %(subject)s
         OR (%(shared)s AND m.subject IS NULL))
    AND (%(categories)s::text[] IS NULL
         OR coalesce(m.category, %(uncategorised)s) = ANY(%(categories)s))
    AND (%(kinds)s::text[] IS NULL OR coalesce(m.kind, 'fact') = ANY(%(kinds)s))
    AND (%(tags)s::text[] IS NULL OR m.tags && %(tags)s)
    AND (%(pinned)s::boolean IS NULL OR m.pinned = %(pinned)s)
"""


def matching(wanted: Filter) -> dict[str, Any]:
    """The values `MATCHES` names."""
    return {
        "thread_id": wanted.thread_id,
        "agent": wanted.agent,
        "subject": wanted.subject,
        "shared": wanted.is_shared,
        "categories": None if wanted.categories is None else list(wanted.categories),
        "uncategorised": wanted.uncategorised,
        "kinds": None if wanted.kinds is None else list(wanted.kinds),
        "tags": None if wanted.tags is None else list(wanted.tags),
        "pinned": wanted.pinned,
    }


_INSERT = """
    INSERT INTO memory (
        workspace_id, id, code, org_id, user_id, project_id, agent_id, thread_id, subject,
        content, summary, key, category, kind, tags, metadata, importance, importance_base,
        pinned, expires_at, valid_from, valid_until, superseded_by, lifecycle, scope, origin,
        origin_label, source_note, reason, quote, wants_vector, content_digest, created_at,
        updated_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(code)s, %(org_id)s, %(user_id)s, %(project_id)s, %(agent_id)s,
        %(thread_id)s, %(subject)s, %(content)s, %(summary)s, %(key)s, %(category)s, %(kind)s,
        %(tags)s, %(metadata)s,
        %(importance)s, %(importance_base)s, %(pinned)s, %(expires_at)s, %(valid_from)s,
        %(valid_until)s, %(superseded_by)s, %(lifecycle)s, %(scope)s, %(origin)s,
        %(origin_label)s, %(source_note)s, %(reason)s, %(quote)s, %(wants_vector)s,
        %(content_digest)s, %(created_at)s, %(updated_at)s
    )
"""


async def insert(db: Db, memory: Memory, content_digest: bytes) -> None:
    """Store a new memory in its workspace."""
    await db.execute(_INSERT, _parameters(memory, content_digest))


_FIND_BY_ID = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(id)s AND {VISIBLE}
"""
_FIND_BY_CODE = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.short_code = left(%(code)s, 12)
        AND starts_with(m.code, %(code)s) AND {VISIBLE}
"""


async def find(
    db: Db, caller: Caller, ref: Ref, now: datetime, view: View = HISTORY
) -> Memory | None:
    """The memory of any spelling of its id; named outright, a replaced one is found too."""
    query = _FIND_BY_ID if ref.id else _FIND_BY_CODE
    found = await _fetch(
        db,
        query,
        {"id": ref.id, "code": ref.code, **visible_to(caller, now, view)},
    )
    return found[0] if found else None


FOUND = f"""
    {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s) AND {VISIBLE}
"""
_FIND_ALL = f"SELECT {COLUMNS} {FOUND}"
_FIND_ALL_MATCHING = f"{_FIND_ALL} AND {MATCHES}"


async def find_all(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    now: datetime,
    view: View = CURRENT,
    wanted: Filter = ANY,
) -> dict[MemoryId, Memory]:
    """Those of the ids that are alive in this workspace, and wanted."""
    values = {"ids": list(ids), **visible_to(caller, now, view)}
    query = _FIND_ALL if wanted.is_open else _FIND_ALL_MATCHING
    found = await _fetch(db, query, values | matching(wanted))
    return {memory.id: memory for memory in found}


_LOCK_BY_ID = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(id)s AND {IN_SIGHT}
    FOR UPDATE
"""
_LOCK_BY_CODE = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.short_code = left(%(code)s, 12)
        AND starts_with(m.code, %(code)s) AND {IN_SIGHT}
    FOR UPDATE
"""


async def lock(db: Db, caller: Caller, ref: Ref) -> MemoryId | None:
    """Hold the row, forgotten or not, until the transaction ends: changes come one by one."""
    query = _LOCK_BY_ID if ref.id else _LOCK_BY_CODE
    cursor = await db.execute(query, {**in_sight_of(caller), "id": ref.id, "code": ref.code})
    row = await cursor.fetchone()
    return MemoryId(row[0]) if row else None


_PAGE = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES}
        AND (%(after_at)s::timestamptz IS NULL
             OR (m.created_at, m.id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY m.created_at DESC, m.id DESC
    LIMIT %(limit)s
"""


async def page(
    db: Db,
    caller: Caller,
    wanted: Filter,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Memory]:
    """Live memories, newest first, from just behind a given row on."""
    after_at, after_id = after or (None, None)
    return await _fetch_planned(
        db,
        _PAGE,
        {
            **matching(wanted),
            "after_at": after_at,
            "after_id": after_id,
            "limit": limit,
            **visible_to(caller, now, view),
        },
    )


_PLACE = f"""
    SELECT m.created_at, m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s
        AND (m.id = %(id)s
             OR (m.short_code = left(%(code)s, 12) AND starts_with(m.code, %(code)s)))
        AND {IN_SIGHT}
"""


async def place(db: Db, caller: Caller, ref: Ref) -> tuple[datetime, UUID] | None:
    """Where a memory stands in the list; one forgotten since still marks its place."""
    cursor = await db.execute(_PLACE, {**in_sight_of(caller), "id": ref.id, "code": ref.code})
    row = await cursor.fetchone()
    return (row[0], row[1]) if row else None


_UPDATE = """
    UPDATE memory SET
        content = %(content)s, summary = %(summary)s, key = %(key)s, category = %(category)s,
        kind = %(kind)s, tags = %(tags)s, metadata = %(metadata)s, importance = %(importance)s,
        importance_base = %(importance_base)s, pinned = %(pinned)s, expires_at = %(expires_at)s,
        valid_from = %(valid_from)s, valid_until = %(valid_until)s, subject = %(subject)s,
        content_digest = %(content_digest)s, updated_at = %(updated_at)s, version = %(version)s,
        vector_refused = vector_refused AND content = %(content)s,
        content_version = content_version + CASE WHEN content = %(content)s THEN 0 ELSE 1 END
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def update(db: Db, memory: Memory, content_digest: bytes) -> None:
    """Write what may change of a memory whose row is locked."""
    await db.execute(_UPDATE, _parameters(memory, content_digest) | {"version": memory.version})


_HIDE = """
    UPDATE memory
    SET deleted_at = %(now)s, delete_reason = %(reason)s, updated_at = %(now)s,
        version = version + 1
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND deleted_at IS NULL
"""


async def hide(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, *, reason: str | None, now: datetime
) -> bool:
    """Soft-delete; False when it was hidden already."""
    values = {"workspace_id": workspace_id, "id": memory_id, "reason": reason, "now": now}
    return (await db.execute(_HIDE, values)).rowcount > 0


_UNHIDE = """
    UPDATE memory
    SET deleted_at = NULL, delete_reason = NULL, updated_at = %(now)s, version = version + 1
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND deleted_at IS NOT NULL
"""


async def unhide(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, now: datetime) -> bool:
    """Undo a soft delete; False when it was not hidden."""
    values = {"workspace_id": workspace_id, "id": memory_id, "now": now}
    return (await db.execute(_UNHIDE, values)).rowcount > 0


_REMOVE = "DELETE FROM memory WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)"


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> int:
    """Delete rows for good; vectors and terms follow by foreign key, postings by `words.remove`."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    return (await db.execute(_REMOVE, values)).rowcount


@dataclass(frozen=True, slots=True)
class Trace:
    """What the audit keeps of a memory that goes for good."""

    id: MemoryId
    code: str
    version: int
    digest: str
    thread_code: str | None
    subject: str | None
    is_restricted: bool


_TRACES = """
    SELECT m.id, m.code, m.version, encode(sha256(convert_to(m.content, 'UTF8')), 'hex') AS digest,
        t.code AS thread_code, m.subject, m.scope <> 'workspace' AS is_restricted
    FROM memory m
    LEFT JOIN thread t ON t.workspace_id = m.workspace_id AND t.id = m.thread_id
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s)
"""


async def traces(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[Trace]:
    """Address and hash of memories, hidden ones too."""
    async with db.cursor(row_factory=class_row(Trace)) as cursor:
        await cursor.execute(_TRACES, {"workspace_id": workspace_id, "ids": list(ids)})
        return await cursor.fetchall()


_OF_THREAD = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s AND {IN_SIGHT}
    ORDER BY m.id
    FOR UPDATE
"""


async def ids_of_thread(db: Db, caller: Caller, thread_id: ThreadId) -> list[MemoryId]:
    """The caller's memories that came from a thread, forgotten ones too, held to the end."""
    cursor = await db.execute(_OF_THREAD, {**in_sight_of(caller), "thread_id": thread_id})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


# Of what the caller sees: nobody learns from a time whether somebody else's memory has it too.
_LAST_OF_SECOND = f"""
    SELECT max(m.created_at) FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.deleted_at IS NULL
        AND m.created_at >= %(at)s AND m.created_at < %(at)s + interval '1 second' AND {IN_SIGHT}
"""


async def moment_after(db: Db, caller: Caller, at: datetime) -> datetime:
    """The time itself, or right after what was said at that same time and is kept already.

    Who brings in a conversation may know the time of the whole alone: it stays in order.
    """
    row = await (await db.execute(_LAST_OF_SECOND, {**in_sight_of(caller), "at": at})).fetchone()
    return row[0] + timedelta(microseconds=1) if row and row[0] else at


# What somebody else is just changing, or counting, is waited for one by one and holding nothing:
# two that wait for each other in a ring PostgreSQL ends by failing one, and that may be the change.
# And not for long: who deletes a chat of thousands would have every search of them wait.
_TOUCH = sql.SQL("""
    WITH held AS (
        SELECT m.id FROM memory m
        WHERE m.workspace_id = {workspace_id} AND m.id = ANY({ids})
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE memory SET access_count = access_count + 1, last_accessed_at = {now}
    FROM held
    WHERE memory.workspace_id = {workspace_id} AND memory.id = held.id
    RETURNING memory.id
""")
_TOUCH_ONE = sql.SQL("""
    SET LOCAL lock_timeout = '100ms';
    UPDATE memory SET access_count = access_count + 1, last_accessed_at = {now}
    WHERE workspace_id = {workspace_id} AND id = {id}
""")


async def touch(
    pool: Pool, workspace_id: WorkspaceId, ids: Sequence[MemoryId], now: datetime
) -> None:
    """Note that these were recalled; a crash may lose it, and who changes them for long.

    Raises `Unavailable` then.
    """
    named = {"workspace_id": sql.Literal(workspace_id), "now": sql.Literal(now)}
    statement = _TOUCH.format(**named, ids=sql.Literal(list(ids)))
    touched = {row[0] for row in await pool.count(workspace_id, statement)}
    for memory_id in ids:
        if memory_id not in touched:
            await pool.count(workspace_id, _TOUCH_ONE.format(**named, id=sql.Literal(memory_id)))


_ORDERS = """
    CASE %(order)s
        WHEN 'importance' THEN m.importance
        WHEN 'most_accessed' THEN m.access_count
        ELSE 0
    END DESC,
    m.created_at DESC, m.id DESC
"""
_BROWSE = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES}
    ORDER BY {_ORDERS}
    LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT = f"""
    SELECT count(*) FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES}
"""


async def browse(
    db: Db,
    caller: Caller,
    wanted: Filter,
    *,
    order: str,
    offset: int = 0,
    limit: int,
    now: datetime,
    view: View = CURRENT,
) -> list[Memory]:
    """Live memories by `recent`, `importance` or `most_accessed`; ties newest first."""
    return await _fetch_planned(
        db,
        _BROWSE,
        {
            **matching(wanted),
            "order": order,
            "offset": offset,
            "limit": limit,
            **visible_to(caller, now, view),
        },
    )


async def count(db: Db, caller: Caller, wanted: Filter, now: datetime, view: View = CURRENT) -> int:
    """How many live memories match."""
    values = {**matching(wanted), **visible_to(caller, now, view)}
    row = await (await db.execute(_COUNT, values, prepare=False)).fetchone()
    return row[0] if row else 0


_NEWEST = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE}
    ORDER BY m.created_at DESC, m.id DESC
    LIMIT %(limit)s
"""


async def newest(
    db: Db, caller: Caller, *, limit: int, now: datetime, view: View = CURRENT
) -> list[MemoryId]:
    """The live memories made last, newest first."""
    values = {"limit": limit, **visible_to(caller, now, view)}
    return [MemoryId(row[0]) for row in await (await db.execute(_NEWEST, values)).fetchall()]


# Those of a time, for whom `m` is asked for by the moments `begins` and `ends`. One span after the
# other, by the index on when they were made.
SAID = f"""
    SELECT DISTINCT said.*
    FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[]) AS span (begins, ends)
    CROSS JOIN LATERAL (
        SELECT m.id, m.importance, m.thread_id, m.created_at FROM memory m
        WHERE m.workspace_id = %(workspace_id)s
            AND m.created_at >= span.begins AND m.created_at < span.ends
            AND {VISIBLE} AND {MATCHES}
        ORDER BY m.created_at DESC, m.id DESC
        LIMIT %(most)s
    ) AS said
"""
_SAID_IN_ORDER = f"{SAID} ORDER BY created_at DESC, id DESC LIMIT %(most)s"

# Each from when to when, the end excluded.
Spans = Sequence[tuple[datetime, datetime]]


class Said(NamedTuple):
    """A memory of a time that was asked about, with just enough to rank it."""

    id: MemoryId
    importance: float
    thread_id: ThreadId | None
    created_at: datetime


def during(spans: Spans) -> dict[str, Any]:
    """The values of its own that `SAID` names, beside those of sight and filter."""
    return {
        "begins": [begins for begins, _ in spans],
        "ends": [ends for _, ends in spans],
        "most": _MOST_SAID,
    }


# So many of a time are looked at, the newest of it; more of a day nobody has said.
_MOST_SAID = 1_000


async def said(
    db: Db, caller: Caller, spans: Spans, wanted: Filter, *, now: datetime, view: View = CURRENT
) -> list[Said]:
    """The live memories made at a time, newest first."""
    values = {**during(spans), **matching(wanted), **visible_to(caller, now, view)}
    async with db.cursor(row_factory=args_row(Said)) as cursor:
        return await (await cursor.execute(_SAID_IN_ORDER, values)).fetchall()


# As `memory_digest` has it: what stands in another place is not even read.
_SAME_TEXT = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.content_digest = %(content_digest)s
        AND m.scope = %(scope)s
        AND {PLACE} = %(place)s
        AND m.subject IS NOT DISTINCT FROM %(subject)s AND {VISIBLE}
    ORDER BY m.created_at, m.id
    LIMIT 1
"""


async def find_same_text(
    db: Db,
    caller: Caller,
    content_digest: bytes,
    scope: Scope,
    *,
    subject: str | None,
    now: datetime,
) -> Memory | None:
    """The oldest live memory of that scope and person whose normalised text is the same."""
    places = {
        Scope.GLOBAL: caller.user_id,
        Scope.PROJECT: caller.project_id,
        Scope.AGENT: caller.agent_id,
        Scope.THREAD: caller.thread_id,
    }
    found = await _fetch(
        db,
        _SAME_TEXT,
        {
            "content_digest": content_digest,
            "scope": scope,
            "place": places.get(scope, caller.workspace_id),
            "subject": subject,
            **visible_to(caller, now),
        },
    )
    return found[0] if found else None


# Not `asdict`, which copies every value deeply.
_FIELDS = [each.name for each in fields(Memory)]


def _parameters(memory: Memory, content_digest: bytes) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _FIELDS} | {
        "tags": list(memory.tags),
        "metadata": Jsonb(dict(memory.metadata)),
        "content_digest": content_digest,
    }


async def _fetch(
    db: Db, query: Any, values: dict[str, Any], *, prepare: bool | None = None
) -> list[Memory]:
    async with db.cursor(row_factory=kwargs_row(memory_from_row)) as cursor:
        await cursor.execute(query, values, prepare=prepare)
        return await cursor.fetchall()


async def _fetch_planned(db: Db, query: Any, values: dict[str, Any]) -> list[Memory]:
    """As `_fetch`, planned for what is asked each time, as lists and counts are.

    Prepared, PostgreSQL takes one plan for all workspaces from the eighth run on: beside 300 small
    ones it sorted all of one of 50,000, and a page took 50 to 100 ms instead of 1.
    """
    return await _fetch(db, query, values, prepare=False)


def memory_from_row(**row: Any) -> Memory:
    """A `Memory` from a row of `COLUMNS`."""
    row["lifecycle"] = Lifecycle(row["lifecycle"])
    row["scope"] = Scope(row["scope"])
    row["origin"] = Origin(row["origin"])
    row["tags"] = tuple(row["tags"])
    return Memory(**row)
