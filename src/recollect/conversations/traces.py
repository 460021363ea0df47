"""Read the audit events of a workspace."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from recollect.conversations.queries import threads
from recollect.core.domain import Caller, Event, Ref, Right
from recollect.core.errors import Invalid, NotFound
from recollect.db import audit_events
from recollect.db.audit_events import EventFilter
from recollect.db.pool import Db
from recollect.engine import Engine


@dataclass(frozen=True, slots=True)
class ListEvents:
    """A filter and a page of events."""

    limit: int
    thread: Ref | None = None
    subject: str | None = None
    action: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    after: UUID | None = None


async def list_events(engine: Engine, caller: Caller, ask: ListEvents) -> tuple[list[Event], bool]:
    """Return events, newest first, and whether more follow."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        after = None
        if ask.after:
            after = await audit_events.find(db, caller, ask.after)
            if after is None:
                raise Invalid(
                    "`starting_after` is not the id of an existing trace.", field="starting_after"
                )
        thread_code = None
        if ask.thread:
            thread_code = await _thread_code(engine, db, caller, ask.thread)
            if thread_code is None:
                return [], False
        wanted = EventFilter(
            thread_code=thread_code,
            subject=ask.subject,
            action=ask.action,
            created_after=ask.created_after,
            created_before=ask.created_before,
        )
        found = await audit_events.page(db, caller, wanted, after=after, limit=ask.limit + 1)
    return found[: ask.limit], len(found) > ask.limit


async def get_event(engine: Engine, caller: Caller, event_id: UUID) -> Event:
    """Return one event."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        event = await audit_events.find(db, caller, event_id)
    if event is None:
        raise NotFound("trace")
    return event


async def _thread_code(engine: Engine, db: Db, caller: Caller, ref: Ref) -> str | None:
    if ref.code:
        return await audit_events.thread_code(db, caller, ref.code)
    thread = await threads.find(db, caller, ref, engine.now())
    return thread.code if thread else None
