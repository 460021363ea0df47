"""The rows of `memory`: insert, find, list, update, forget, delete."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg import sql
from psycopg.rows import args_row, class_row, kwargs_row
from psycopg.types.json import Jsonb

from recollect.core.domain import (
    CURRENT,
    HISTORY,
    NO_FILTER,
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
from recollect.db.pool import Db, Pool
from recollect.db.visibility import IN_SCOPE, SCOPE_OWNER, VISIBLE, scope_values, visibility_values

# The columns of a memory, in the order of an exported line. Every statement that reads or writes
# whole memories is made from these lists; add a new column at the end of one of them.
_OWNER_COLUMNS = ("id", "code", "user_id", "project_id", "agent_id", "thread_id")
# An edit may change these.
_EDITABLE_COLUMNS = (
    "subject",
    "content",
    "summary",
    "key",
    "category",
    "kind",
    "tags",
    "metadata",
    "importance",
    "importance_base",
    "pinned",
    "expires_at",
    "valid_from",
    "valid_until",
)
# An edit leaves these as they are, apart from `updated_at`.
_FIXED_COLUMNS = (
    "superseded_by",
    "lifecycle",
    "scope",
    "origin",
    "origin_label",
    "source_note",
    "reason",
    "quote",
    "wants_vector",
    "created_at",
    "updated_at",
    "last_accessed_at",
    "access_count",
    "deleted_at",
)
MEMORY_COLUMNS = (*_OWNER_COLUMNS, *_EDITABLE_COLUMNS, *_FIXED_COLUMNS)

# All columns of a `Memory`. The statement names its workspace as the constant %(workspace_id)s, so
# that the planner reads one partition and does not plan for all. `has_vector` covers any
# generation: while a new model's generation is filled, the old one still serves. It is a subquery
# with LIMIT, evaluated per row: with EXISTS, the planner may first read the vectors of the whole
# workspace, which took 9 to 14 ms per page in a workspace of 50,000; this takes 1 ms.
COLUMNS = f"""
    m.workspace_id, m.org_id, {", ".join(f"m.{name}" for name in MEMORY_COLUMNS)}, m.version,
    t.code AS thread_code, t.label AS thread_label,
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


MATCHES_FILTER = """
    (%(thread_id)s::uuid IS NULL OR m.thread_id = %(thread_id)s)
    AND (%(agent)s::text IS NULL OR m.thread_id IN (
        SELECT named.id FROM thread named
        WHERE named.workspace_id = %(workspace_id)s AND named.agent = %(agent)s))
    AND (%(subject)s::text IS NULL OR m.subject = %(subject)s
         OR (%(includes_subjectless)s AND m.subject IS NULL))
    AND (%(categories)s::text[] IS NULL
         OR coalesce(m.category, %(uncategorised)s) = ANY(%(categories)s))
    AND (%(kinds)s::text[] IS NULL OR coalesce(m.kind, 'fact') = ANY(%(kinds)s))
    AND (%(tags)s::text[] IS NULL OR m.tags && %(tags)s)
    AND (%(pinned)s::boolean IS NULL OR m.pinned = %(pinned)s)
"""


def filter_values(wanted: Filter) -> dict[str, Any]:
    """Return the parameters of `MATCHES_FILTER`."""
    return {
        "thread_id": wanted.thread_id,
        "agent": wanted.agent,
        "subject": wanted.subject,
        "includes_subjectless": wanted.includes_subjectless,
        "categories": None if wanted.categories is None else list(wanted.categories),
        "uncategorised": wanted.uncategorised,
        "kinds": None if wanted.kinds is None else list(wanted.kinds),
        "tags": None if wanted.tags is None else list(wanted.tags),
        "pinned": wanted.pinned,
    }


_INSERT = f"""
    INSERT INTO memory (workspace_id, org_id, content_digest, {", ".join(MEMORY_COLUMNS)})
    VALUES (
        %(workspace_id)s, %(org_id)s, %(content_digest)s,
        {", ".join(f"%({name})s" for name in MEMORY_COLUMNS)}
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
    """Return the memory with this id, in any form; superseded memories are found too."""
    query = _FIND_BY_ID if ref.id else _FIND_BY_CODE
    found = await _fetch(
        db,
        query,
        {"id": ref.id, "code": ref.code, **visibility_values(caller, now, view)},
    )
    return found[0] if found else None


FOUND = f"""
    {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.id = ANY(%(ids)s) AND {VISIBLE}
"""
_FIND_ALL = f"SELECT {COLUMNS} {FOUND}"
_FIND_ALL_MATCHING = f"{_FIND_ALL} AND {MATCHES_FILTER}"


async def find_all(
    db: Db,
    caller: Caller,
    ids: Sequence[MemoryId],
    now: datetime,
    view: View = CURRENT,
    wanted: Filter = NO_FILTER,
) -> dict[MemoryId, Memory]:
    """Return the live memories among the ids that match the filter."""
    values = {"ids": list(ids), **visibility_values(caller, now, view)}
    query = _FIND_ALL if wanted.is_open else _FIND_ALL_MATCHING
    found = await _fetch(db, query, values | filter_values(wanted))
    return {memory.id: memory for memory in found}


_LOCK_BY_ID = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.id = %(id)s AND {IN_SCOPE}
    FOR UPDATE
"""
_LOCK_BY_CODE = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.short_code = left(%(code)s, 12)
        AND starts_with(m.code, %(code)s) AND {IN_SCOPE}
    FOR UPDATE
"""


async def lock(db: Db, caller: Caller, ref: Ref) -> MemoryId | None:
    """Lock the row, even of a forgotten memory, until the transaction ends."""
    query = _LOCK_BY_ID if ref.id else _LOCK_BY_CODE
    cursor = await db.execute(query, {**scope_values(caller), "id": ref.id, "code": ref.code})
    row = await cursor.fetchone()
    return MemoryId(row[0]) if row else None


_PAGE = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES_FILTER}
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
    """Return live memories, newest first, starting after the given position."""
    after_at, after_id = after or (None, None)
    return await _fetch_planned(
        db,
        _PAGE,
        {
            **filter_values(wanted),
            "after_at": after_at,
            "after_id": after_id,
            "limit": limit,
            **visibility_values(caller, now, view),
        },
    )


_POSITION = f"""
    SELECT m.created_at, m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s
        AND (m.id = %(id)s
             OR (m.short_code = left(%(code)s, 12) AND starts_with(m.code, %(code)s)))
        AND {IN_SCOPE}
"""


async def position_of(db: Db, caller: Caller, ref: Ref) -> tuple[datetime, UUID] | None:
    """Return the position of a memory in the list, even if it was forgotten since."""
    cursor = await db.execute(_POSITION, {**scope_values(caller), "id": ref.id, "code": ref.code})
    row = await cursor.fetchone()
    return (row[0], row[1]) if row else None


_UPDATE = f"""
    UPDATE memory SET
        {", ".join(f"{name} = %({name})s" for name in _EDITABLE_COLUMNS)},
        content_digest = %(content_digest)s, updated_at = %(updated_at)s, version = %(version)s,
        vector_refused = vector_refused AND content = %(content)s,
        content_version = content_version + CASE WHEN content = %(content)s THEN 0 ELSE 1 END
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s
"""


async def update(db: Db, memory: Memory, content_digest: bytes) -> None:
    """Write the editable fields of a memory whose row is locked."""
    await db.execute(_UPDATE, _parameters(memory, content_digest))


_SOFT_DELETE = """
    UPDATE memory
    SET deleted_at = %(now)s, delete_reason = %(reason)s, updated_at = %(now)s,
        version = version + 1
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND deleted_at IS NULL
"""


async def soft_delete(
    db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, *, reason: str | None, now: datetime
) -> bool:
    """Forget a memory; False if it was already forgotten."""
    values = {"workspace_id": workspace_id, "id": memory_id, "reason": reason, "now": now}
    return (await db.execute(_SOFT_DELETE, values)).rowcount > 0


_UNDELETE = """
    UPDATE memory
    SET deleted_at = NULL, delete_reason = NULL, updated_at = %(now)s, version = version + 1
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND deleted_at IS NOT NULL
"""


async def undelete(db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, now: datetime) -> bool:
    """Undo `soft_delete`; False if the memory was not forgotten."""
    values = {"workspace_id": workspace_id, "id": memory_id, "now": now}
    return (await db.execute(_UNDELETE, values)).rowcount > 0


_REMOVE = "DELETE FROM memory WHERE workspace_id = %(workspace_id)s AND id = ANY(%(ids)s)"


async def remove(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> int:
    """Delete rows. Vectors follow by foreign key; postings need `postings.remove`."""
    values = {"workspace_id": workspace_id, "ids": list(ids)}
    return (await db.execute(_REMOVE, values)).rowcount


@dataclass(frozen=True, slots=True)
class DeletedTrace:
    """What the audit log records of a deleted memory."""

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


async def traces(db: Db, workspace_id: WorkspaceId, ids: Sequence[MemoryId]) -> list[DeletedTrace]:
    """Return code and hash of memories, including forgotten ones."""
    async with db.cursor(row_factory=class_row(DeletedTrace)) as cursor:
        await cursor.execute(_TRACES, {"workspace_id": workspace_id, "ids": list(ids)})
        return await cursor.fetchall()


_OF_THREAD = f"""
    SELECT m.id FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.thread_id = %(thread_id)s AND {IN_SCOPE}
    ORDER BY m.id
    FOR UPDATE
"""


async def ids_of_thread(db: Db, caller: Caller, thread_id: ThreadId) -> list[MemoryId]:
    """Lock the caller's memories from a thread, including forgotten ones; return their ids."""
    cursor = await db.execute(_OF_THREAD, {**scope_values(caller), "thread_id": thread_id})
    return [MemoryId(row[0]) for row in await cursor.fetchall()]


# Only among what the caller can see: a shifted time must not reveal other memories.
_LAST_OF_SECOND = f"""
    SELECT max(m.created_at) FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND m.deleted_at IS NULL
        AND m.created_at >= %(at)s AND m.created_at < %(at)s + interval '1 second' AND {IN_SCOPE}
"""


async def first_free_moment(db: Db, caller: Caller, at: datetime) -> datetime:
    """Return `at`, or the moment after the last existing memory in the same second.

    An importer may know only one time for a whole conversation: its memories stay in order.
    """
    row = await (await db.execute(_LAST_OF_SECOND, {**scope_values(caller), "at": at})).fetchone()
    return row[0] + timedelta(microseconds=1) if row and row[0] else at


# Rows that another transaction has locked are skipped, then updated one at a time without holding
# other locks. Otherwise two transactions could wait for each other, and PostgreSQL would end the
# deadlock by failing one of them, possibly the other's edit. The wait is short: otherwise deleting
# a thread with thousands of memories would delay every search that finds them.
_TOUCH = sql.SQL("""
    WITH locked AS (
        SELECT m.id FROM memory m
        WHERE m.workspace_id = {workspace_id} AND m.id = ANY({ids})
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE memory SET access_count = access_count + 1, last_accessed_at = {now}
    FROM locked
    WHERE memory.workspace_id = {workspace_id} AND memory.id = locked.id
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
    """Count a recall of these memories.

    A crash may lose the count. Raises `Unavailable` if another transaction locks a row for long.
    """
    named = {"workspace_id": sql.Literal(workspace_id), "now": sql.Literal(now)}
    statement = _TOUCH.format(**named, ids=sql.Literal(list(ids)))
    touched = {row[0] for row in await pool.update_counters(workspace_id, statement)}
    for memory_id in ids:
        if memory_id not in touched:
            await pool.update_counters(
                workspace_id, _TOUCH_ONE.format(**named, id=sql.Literal(memory_id))
            )


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
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES_FILTER}
    ORDER BY {_ORDERS}
    LIMIT %(limit)s OFFSET %(offset)s
"""
_COUNT = f"""
    SELECT count(*) FROM memory m
    WHERE m.workspace_id = %(workspace_id)s AND {VISIBLE} AND {MATCHES_FILTER}
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
    """Return live memories by `recent`, `importance` or `most_accessed`; ties newest first."""
    return await _fetch_planned(
        db,
        _BROWSE,
        {
            **filter_values(wanted),
            "order": order,
            "offset": offset,
            "limit": limit,
            **visibility_values(caller, now, view),
        },
    )


async def count(db: Db, caller: Caller, wanted: Filter, now: datetime, view: View = CURRENT) -> int:
    """Return the number of live memories that match."""
    values = {**filter_values(wanted), **visibility_values(caller, now, view)}
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
    """Return the most recently created live memories, newest first."""
    values = {"limit": limit, **visibility_values(caller, now, view)}
    return [MemoryId(row[0]) for row in await (await db.execute(_NEWEST, values)).fetchall()]


# Memories created in the given time ranges. It reads one range after the other, by the index on
# `created_at`.
SAID_AT = f"""
    SELECT DISTINCT said.*
    FROM unnest(%(begins)s::timestamptz[], %(ends)s::timestamptz[]) AS span (begins, ends)
    CROSS JOIN LATERAL (
        SELECT m.id, m.importance, m.thread_id, m.created_at FROM memory m
        WHERE m.workspace_id = %(workspace_id)s
            AND m.created_at >= span.begins AND m.created_at < span.ends
            AND {VISIBLE} AND {MATCHES_FILTER}
        ORDER BY m.created_at DESC, m.id DESC
        LIMIT %(max_said)s
    ) AS said
"""
_SAID_NEWEST_FIRST = f"{SAID_AT} ORDER BY created_at DESC, id DESC LIMIT %(max_said)s"

# Pairs of start and end; the end is excluded.
DateRanges = Sequence[tuple[datetime, datetime]]


class SaidMemory(NamedTuple):
    """A memory from a requested time, with just enough fields to rank it."""

    id: MemoryId
    importance: float
    thread_id: ThreadId | None
    created_at: datetime


def date_values(spans: DateRanges) -> dict[str, Any]:
    """Return the parameters of `SAID_AT`, apart from those for visibility and filter."""
    return {
        "begins": [begins for begins, _ in spans],
        "ends": [ends for _, ends in spans],
        "max_said": _MAX_SAID,
    }


# Only the newest of a time range are read. A day rarely has more.
_MAX_SAID = 1_000


async def said_between(
    db: Db,
    caller: Caller,
    spans: DateRanges,
    wanted: Filter,
    *,
    now: datetime,
    view: View = CURRENT,
) -> list[SaidMemory]:
    """Return live memories created in the given time ranges, newest first."""
    values = {**date_values(spans), **filter_values(wanted), **visibility_values(caller, now, view)}
    async with db.cursor(row_factory=args_row(SaidMemory)) as cursor:
        return await (await cursor.execute(_SAID_NEWEST_FIRST, values)).fetchall()


# Matches the expression of the index `memory_digest`, so that rows of other owners are not read.
_SAME_TEXT = f"""
    SELECT {COLUMNS} {WITH_THREAD}
    WHERE m.workspace_id = %(workspace_id)s AND m.content_digest = %(content_digest)s
        AND m.scope = %(scope)s
        AND {SCOPE_OWNER} = %(scope_owner)s
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
    """Return the oldest live memory with that scope, person and normalised text."""
    owners = {
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
            "scope_owner": owners.get(scope, caller.workspace_id),
            "subject": subject,
            **visibility_values(caller, now),
        },
    )
    return found[0] if found else None


# Not `asdict`, which makes a deep copy of every value.
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
    """Like `_fetch`, but planned for each call. Used for lists and counts.

    As a prepared statement, PostgreSQL uses one plan for all workspaces from the eighth run on:
    next to 300 small workspaces it sorted all rows of one with 50,000, and a page took 50 to 100 ms
    instead of 1.
    """
    return await _fetch(db, query, values, prepare=False)


def memory_from_row(**row: Any) -> Memory:
    """Build a `Memory` from a row of `COLUMNS`."""
    row["lifecycle"] = Lifecycle(row["lifecycle"])
    row["scope"] = Scope(row["scope"])
    row["origin"] = Origin(row["origin"])
    row["tags"] = tuple(row["tags"])
    return Memory(**row)
