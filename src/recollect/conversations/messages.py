"""Messages of a thread: append, list by page, edit, delete and clear.

Messages are sorted by the time they were said; one that arrives late is inserted at its time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import uuid4

from recollect.conversations.queries import messages, segments
from recollect.conversations.queries.messages import LocatedThread, LockedThread
from recollect.core.domain import Caller, Json, MemoryId, Message, MessageId, Ref, Right, new_code
from recollect.core.errors import Invalid, NotFound, TooLarge
from recollect.db import idempotency, job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.memories.forget import remove_rows
from recollect.memories.queries import supersession

# The same as the largest request body.
MAX_BYTES = 1024 * 1024
MAX_AT_ONCE = 1_000

# The allowed clock difference. No message is dated further in the future: after one from the year
# 2099, every other message would be late.
_CLOCK_DIFFERENCE = timedelta(minutes=5)

# The job that segments a workspace's threads; see `conversations.segments`.
SEGMENT_JOB = "segment_threads"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to append."""

    role: str
    content: str
    author: str | None = None
    parts: Sequence[Any] | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    # The sender's own id. A message with the same id is stored only once per thread.
    client_id: str | None = None
    # When it was said, for late or imported messages; None means now.
    said_at: datetime | None = None
    # Its public code, if it was announced before the message was complete.
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """A message, and whether this call created it."""

    message: Message
    is_new: bool


@dataclass(frozen=True, slots=True)
class EditMessage:
    """Changes to a message; None leaves a field unchanged."""

    content: str | None = None
    parts: Sequence[Any] | None = None
    # Merged into the existing metadata, key by key.
    metadata: Json | None = None


@dataclass(frozen=True, slots=True)
class ListMessages:
    """A part of a thread: by number, or beginning after a message."""

    limit: int
    start: int = 0
    beyond: Ref | None = None
    is_newest_first: bool = False


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order, the number in the thread, and whether more follow."""

    thread_code: str
    messages: list[Message]
    total: int
    has_more: bool


async def append(
    engine: Engine, caller: Caller, thread: Ref, new: Sequence[NewMessage]
) -> list[Appended]:
    """Store all messages or none; messages sent before are returned as they are stored."""
    async with engine.writing(caller) as db:
        return await append_within(engine, db, caller, thread, new)


async def append_within(
    engine: Engine, db: Db, caller: Caller, thread: Ref, new: Sequence[NewMessage]
) -> list[Appended]:
    """Append within the caller's transaction, to commit more with it."""
    caller.require(Right.WRITE)
    _check(new)
    locked = await lock_thread(engine, db, caller, thread)
    client_ids = [each.client_id for each in new if each.client_id is not None]
    known = await messages.by_client_id(db, caller, locked.id, client_ids)
    created = _new_messages(
        locked, [each for each in new if each.client_id not in known], engine.now()
    )
    if created:
        late = [each for each in created if _is_late(locked, each)]
        late_segments = (
            await segments.segments_of_messages(db, caller.workspace_id, locked.id, late)
            if late
            else {}
        )
        await messages.insert(db, caller, locked.id, created, engine.now())
        if late_segments:
            await segments.join(db, caller.workspace_id, late_segments)
        await _record_event(
            engine, db, caller, locked, "message.created", [each.code for each in created]
        )
        await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    fresh = iter(created)
    return [_outcome(each, known, fresh) for each in new]


async def get_message(engine: Engine, caller: Caller, ref: Ref) -> Message:
    """Return one message."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, ref)


async def list_messages(
    engine: Engine, caller: Caller, thread: Ref, ask: ListMessages
) -> MessagePage:
    """Return a part of a thread, oldest first unless asked otherwise."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        beyond = None
        if ask.beyond:
            last = await messages.find(db, caller, ask.beyond, engine.now())
            if last is None or last.thread_id != located.id:
                raise Invalid("`after` is not the id of a message in this chat.", field="after")
            beyond = last.sort_position
        # One extra row shows whether a next page exists.
        if beyond is None and not ask.is_newest_first and ask.start > located.message_count // 2:
            found = await messages.late_page(
                db, caller, located.id, offset=ask.start, limit=ask.limit + 1
            )
        else:
            found = await messages.page(
                db,
                caller,
                located.id,
                beyond=beyond,
                is_newest_first=ask.is_newest_first,
                offset=ask.start,
                limit=ask.limit + 1,
            )
    return MessagePage(
        located.code, found[: ask.limit], located.message_count, len(found) > ask.limit
    )


async def edit_message(engine: Engine, caller: Caller, ref: Ref, ask: EditMessage) -> Message:
    """Change a message; equal values change nothing."""
    caller.require(Right.READ)
    async with engine.writing(caller) as db:
        return await edit_within(engine, db, caller, ref, ask)


async def edit_within(
    engine: Engine, db: Db, caller: Caller, ref: Ref, ask: EditMessage
) -> Message:
    """Change a message in the caller's transaction."""
    caller.require(Right.WRITE)
    if ask.content is not None:
        _check_content(ask.content)
    before = await _existing(engine, db, caller, ref)
    locked = await lock_thread(engine, db, caller, Ref(id=before.thread_id))
    # Read again under the lock: another edit may have come first.
    before = await _existing(engine, db, caller, Ref(id=before.id))
    after = _edited(before, ask)
    if after == before:
        return before
    after = replace(after, edited_at=engine.now())
    await messages.update(db, caller.workspace_id, after)
    if after.content != before.content:
        await _mark_segments_stale(engine, db, caller, after)
        await idempotency.forget_answers(
            db, caller.workspace_id, [(after.id, after.code)], are_gone=False
        )
    await _record_event(engine, db, caller, locked, "message.edited", [after.code])
    return after


async def delete_message(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a message and its files permanently; memories made of it by hand lose the link.

    An automatic segment with no other message is deleted too: its text comes from this message.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        message = await _existing(engine, db, caller, ref)
        locked = await lock_thread(engine, db, caller, Ref(id=message.thread_id))
        await supersession.lock_supersession(db, caller.workspace_id)
        segment_ids = await _mark_segments_stale(engine, db, caller, message)
        if not await messages.remove(
            db, caller.workspace_id, locked.id, [message.id], engine.now()
        ):
            raise NotFound("message")
        await idempotency.forget_answers(db, caller.workspace_id, [(message.id, message.code)])
        await _record_event(engine, db, caller, locked, "message.deleted", [message.code])
        emptied = await segments.emptied(db, caller.workspace_id, segment_ids)
        if emptied:
            await remove_rows(engine, db, caller, emptied)


async def clear_messages(engine: Engine, caller: Caller, thread: Ref) -> int:
    """Delete all messages of a thread and return their number; its memories stay, unlinked."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        locked = await lock_thread(engine, db, caller, thread)
        cleared = await messages.clear(db, caller.workspace_id, locked.id, engine.now())
        # Every stored response with a message of this thread also contains the thread's id.
        await idempotency.forget_answers(db, caller.workspace_id, [(locked.id, locked.code)])
        await engine.record_event(
            db,
            caller,
            "messages.cleared",
            {"count": cleared},
            thread_code=locked.code,
            subject=locked.subject,
        )
    return cleared


async def lock_thread(engine: Engine, db: Db, caller: Caller, ref: Ref) -> LockedThread:
    """Lock the thread until the transaction ends; raise `NotFound` if it does not exist."""
    locked = await messages.lock_thread(db, caller, ref, engine.now())
    if locked is None:
        raise NotFound("chat")
    return locked


async def find_thread_of(engine: Engine, db: Db, caller: Caller, ref: Ref) -> LocatedThread:
    """Return the live thread for any form of its id; raise `NotFound` if it does not exist."""
    found = await messages.locate_thread(db, caller, ref, engine.now())
    if found is None:
        raise NotFound("chat")
    return found


def _check(new: Sequence[NewMessage]) -> None:
    if not new:
        raise Invalid("`messages` must contain at least one message.", field="messages")
    if len(new) > MAX_AT_ONCE:
        raise TooLarge("messages", limit=MAX_AT_ONCE, size=len(new), unit="messages")
    for each in new:
        _check_content(each.content)


def _check_content(content: str) -> None:
    size = len(content.encode())
    if size > MAX_BYTES:
        raise TooLarge("content", limit=MAX_BYTES, size=size, unit="bytes")


def _new_messages(locked: LockedThread, new: Sequence[NewMessage], now: datetime) -> list[Message]:
    """Return the messages to store; of several with the same sender's id, only the first."""
    once = {each.client_id or object(): each for each in reversed(new)}
    kept = [each for each in new if each.client_id is None or once[each.client_id] is each]
    latest = now + _CLOCK_DIFFERENCE
    # Clocks of servers differ: a message that arrives later must not get an earlier time.
    if locked.last_at and now < locked.last_at <= latest:
        now = locked.last_at
    positions = count(locked.last_position + 1)
    return [
        Message(
            id=MessageId(uuid4()),
            code=each.code or new_code(),
            thread_id=locked.id,
            thread_code=locked.code,
            position=next(positions),
            role=each.role,
            content=each.content,
            created_at=min(each.said_at, latest) if each.said_at else now,
            author=each.author,
            parts=each.parts,
            metadata=each.metadata,
            client_id=each.client_id,
        )
        for each in kept
    ]


def _outcome(new: NewMessage, known: dict[str, Message], fresh: Iterator[Message]) -> Appended:
    if new.client_id is not None and new.client_id in known:
        return Appended(known[new.client_id], is_new=False)
    message = next(fresh)
    if new.client_id is not None:
        known[new.client_id] = message
    return Appended(message, is_new=True)


def _is_late(locked: LockedThread, message: Message) -> bool:
    """Whether the message lies before the frontier, among closed segments."""
    frontier = locked.frontier
    return frontier is not None and (message.created_at, message.position) <= (
        frontier.at,
        frontier.position,
    )


def _edited(message: Message, ask: EditMessage) -> Message:
    edited = message
    if ask.content is not None:
        edited = replace(edited, content=ask.content)
    if ask.parts is not None:
        edited = replace(edited, parts=ask.parts)
    if ask.metadata is not None:
        edited = replace(edited, metadata={**edited.metadata, **ask.metadata})
    return edited


async def _mark_segments_stale(
    engine: Engine, db: Db, caller: Caller, message: Message
) -> list[MemoryId]:
    """Mark the closed segments that contain this message as stale, and return them."""
    segment_ids = await segments.mark_stale(db, caller.workspace_id, [message.id])
    await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    return segment_ids


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Message:
    message = await messages.find(db, caller, ref, engine.now())
    if message is None:
        raise NotFound("message")
    return message


async def _record_event(
    engine: Engine, db: Db, caller: Caller, locked: LockedThread, action: str, codes: Sequence[str]
) -> None:
    await engine.record_event(
        db,
        caller,
        action,
        {"messages": list(codes)},
        thread_code=locked.code,
        subject=locked.subject,
    )
