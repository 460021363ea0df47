"""The audit log: who did what to which thing. Append-only; ids and hashes, never text."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import Caller, Event, Json, UserId, WorkspaceId
from recollect.db.pool import Db
from recollect.db.visibility import THREAD_VISIBLE, scope_values

_INSERT = """
    INSERT INTO event (
        workspace_id, id, action, actor, user_id, thread_code, subject, details, reason, at,
        is_private
    ) VALUES (
        %(workspace_id)s, %(id)s, %(action)s, %(actor)s, %(user_id)s, %(thread_code)s,
        %(subject)s, %(details)s, %(reason)s, %(at)s, %(is_private)s
    )
"""


async def insert_event(
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
    """Record one event in the transaction that performs the action.

    A private event is shown only to the user who caused it.
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
    """A filter over events."""

    thread_code: str | None = None
    subject: str | None = None
    action: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None


# Private events are visible only to the user who caused them. Events in a thread are visible to
# everyone who can see the thread.
_VISIBLE = f"""
    (NOT is_private OR event.user_id = %(user_id)s)
    AND NOT EXISTS (
        SELECT FROM thread t
        WHERE t.workspace_id = %(workspace_id)s AND t.short_code = left(event.thread_code, 12)
            AND t.code = event.thread_code AND ({THREAD_VISIBLE}) IS NOT TRUE)
"""
_COLUMNS = "id, action, actor, thread_code, subject, details, at"

_PAGE = f"""
    SELECT {_COLUMNS} FROM event
    WHERE workspace_id = %(workspace_id)s AND {_VISIBLE}
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
    event_filter: EventFilter,
    *,
    after: Event | None,
    limit: int,
) -> list[Event]:
    """Events, newest first, starting after `after`."""
    async with db.cursor(row_factory=class_row(Event)) as cursor:
        await cursor.execute(
            _PAGE,
            {
                **scope_values(caller),
                "thread_code": event_filter.thread_code,
                "subject": event_filter.subject,
                "action": event_filter.action,
                "created_after": event_filter.created_after,
                "created_before": event_filter.created_before,
                "after_at": after and after.at,
                "after_id": after and after.id,
                "limit": limit,
            },
        )
        return await cursor.fetchall()


_THREAD_CODE = f"""
    SELECT thread_code FROM event
    WHERE workspace_id = %(workspace_id)s AND left(thread_code, 12) = left(%(code)s, 12)
        AND starts_with(thread_code, %(code)s) AND {_VISIBLE}
    LIMIT 1
"""


async def thread_code(db: Db, caller: Caller, code: str) -> str | None:
    """The full code of a thread, also of a deleted one, whose events stay."""
    cursor = await db.execute(_THREAD_CODE, {**scope_values(caller), "code": code})
    row = await cursor.fetchone()
    return row[0] if row else None


_FIND = f"""
    SELECT {_COLUMNS} FROM event
    WHERE workspace_id = %(workspace_id)s AND id = %(id)s AND {_VISIBLE}
"""


async def find(db: Db, caller: Caller, event_id: UUID) -> Event | None:
    """One event, or None."""
    async with db.cursor(row_factory=class_row(Event)) as cursor:
        await cursor.execute(_FIND, {**scope_values(caller), "id": event_id})
        return await cursor.fetchone()


@dataclass(frozen=True, slots=True)
class RequestedStop:
    """A user's request to stop a turn, which another process must carry out."""

    user_id: UserId
    details: Json
    at: datetime


_SINCE = """
    SELECT user_id, details, at FROM event
    WHERE workspace_id = %(workspace_id)s AND at >= %(since)s AND action = %(action)s
        AND user_id IS NOT NULL
"""


async def list_since(
    db: Db, workspace_id: WorkspaceId, action: str, at: datetime
) -> list[RequestedStop]:
    """All events of one action since `at`, by any user. For internal use; not shown to callers."""
    async with db.cursor(row_factory=class_row(RequestedStop)) as cursor:
        await cursor.execute(_SINCE, {"workspace_id": workspace_id, "action": action, "since": at})
        return await cursor.fetchall()
