"""Resolve the thread that a memory filter names."""

from dataclasses import replace

from recollect.conversations.queries import threads
from recollect.core.domain import Caller, Filter, Ref
from recollect.db.pool import Db


async def with_thread(db: Db, caller: Caller, wanted: Filter, thread: Ref | None) -> Filter | None:
    """Return the filter with its thread resolved, or None if the thread does not exist."""
    if thread is None:
        return wanted
    thread_id = await threads.identify(db, caller, thread)
    if thread_id is None:
        return None
    return replace(wanted, thread_id=thread_id)


def within_thread(caller: Caller, wanted: Filter) -> Caller:
    """Return the caller inside the filter's thread, so that its thread memories are visible."""
    return replace(caller, thread_id=wanted.thread_id) if wanted.thread_id else caller
