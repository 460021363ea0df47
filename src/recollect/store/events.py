"""The audit: who did what to which thing. Append-only; ids and hashes, never text."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.domain import Caller, Event, Json, UserId, WorkspaceId
from recollect.store.pool import Db
from recollect.store.visible import THREAD_IN_SIGHT, in_sight_of

_INSERT = """
    INSERT INTO event (
        workspace_id, id, action, actor, user_id, thread_code, subject, details, reason, at,
        is_private
    ) VALUES (
        %(workspace_id)s, %(id)s, %(action)s, %(actor)s, %(user_id)s, %(thread_code)s,
        %(subject)s, %(details)s, %(reason)s, %(at)s, %(is_private)s
    )
"""


async def record(
    db: Db,
    workspace_id: WorkspaceId,
    action: str,
    *,
    actor: str,
    user_id: UserId | None,
    details: Json,
    at: datetime,
    thread_code: str | None = None,
    subject: str | None = None,
    reason: str | None = None,
    is_private: bool = False,
) -> UUID:
    """Write down one act in the transaction that performs it.

    A private one is shown to nobody but who did it.
    """
    event_id = uuid4()
    await db.execute(
        _INSERT,
        {
            "workspace_id": workspace_id,
            "id": event_id,
            "action": action,
            "actor": actor,
            "user_id": user_id,
            "thread_code": thread_code,
            "subject": subject,
            "details": Jsonb(dict(details)),
            "reason": reason,
            "at": at,
            "is_private": is_private,
        },
    )
    return event_id


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are meant."""

    thread_code: str | None = None
    subject: str | None = None
    action: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


# What was done to something that not everybody sees is shown to who did it; what was done in a
# thread, to those who see the thread.
_IN_SIGHT = f"""
    (NOT is_private OR event.user_id = %(user_id)s)
    AND NOT EXISTS (
        SELECT FROM thread t
        WHERE t.workspace_id = %(workspace_id)s AND t.short_code = left(event.thread_code, 12)
            AND t.code = event.thread_code AND ({THREAD_IN_SIGHT}) IS NOT TRUE)
"""
_COLUMNS = "id, action, actor, thread_code, subject, details, at"

_PAGE = f"""
    SELECT {_COLUMNS} FROM event
    WHERE workspace_id = %(workspace_id)s AND {_IN_SIGHT}
        AND (%(thread_code)s::text IS NULL OR thread_code = %(thread_code)s)
        AND (%(subject)s::text IS NULL OR subject = %(subject)s)
        AND (%(action)s::text IS NULL OR action = %(action)s)
        AND (%(created_after)s::timestamptz IS NULL OR at > %(created_after)s)
        AND (%(created_before)s::timestamptz IS NULL OR at < %(created_before)s)
        AND (%(after_at)s::timestamptz IS NULL
             OR (at, id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY at DESC, id DESC
    LIMIT %(limit)s
"""


async def page(
    db: Db,
    caller: Caller,
    wanted: EventFilter,
    *,
    after: Event | None,
    limit: int,
) -> list[Event]:
    """Events, newest first, from just behind a given one on."""
    async with db.cursor(row_factory=class_row(Event)) as cursor:
        await cursor.execute(
            _PAGE,
            {
                **in_sight_of(caller),
                "thread_code": wanted.thread_code,
                "subject": wanted.subject,
                "action": wanted.action,
                "created_after": wanted.created_after,
                "created_before": wanted.created_before,
                "after_at": after and after.at,
                "after_id": after and after.id,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


_THREAD_CODE = f"""
    SELECT thread_code FROM event
    WHERE workspace_id = %(workspace_id)s AND left(thread_code, 12) = left(%(code)s, 12)
        AND starts_with(thread_code, %(code)s) AND {_IN_SIGHT}
    LIMIT 1
"""


async def thread_code(db: Db, caller: Caller, code: str) -> str | None:
    """The whole code behind a spelling, for a thread that may be gone: its traces stay."""
    cursor = await db.execute(_THREAD_CODE, {**in_sight_of(caller), "code": code})
    row = await cursor.fetchone()
    return row[0] if row else None


_FIND = f"""
    SELECT {_COLUMNS} FROM event
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND {_IN_SIGHT}
"""


async def find(db: Db, caller: Caller, event_id: UUID) -> Event | None:
    """One event."""
    async with db.cursor(row_factory=class_row(Event)) as cursor:
        await cursor.execute(_FIND, {**in_sight_of(caller), "id": event_id})
        return await cursor.fetchone()


@dataclass(frozen=True, slots=True)
class Asked:
    """Who did what, where and when, as one process tells another."""

    user_id: UserId
    details: Json
    at: datetime


_SINCE = """
    SELECT user_id, details, at FROM event
    WHERE workspace_id = %(workspace_id)s AND at >= %(since)s AND action = %(action)s
        AND user_id IS NOT NULL
"""


async def since(db: Db, workspace_id: WorkspaceId, action: str, at: datetime) -> list[Asked]:
    """Every such act of anybody from a moment on: for the house itself, shown to nobody."""
    async with db.cursor(row_factory=class_row(Asked)) as cursor:
        await cursor.execute(_SINCE, {"workspace_id": workspace_id, "action": action, "since": at})
        return await cursor.fetchall()
