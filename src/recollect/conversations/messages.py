"""What is said in a thread: appended once each, listed by pages, edited, deleted, cleared.

A chat is read in the order in which things were said; what arrives late stands where it was said.
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

# As much as a request may hold.
MOST_BYTES = 1024 * 1024
MOST_AT_ONCE = 1_000

# How far clocks may be apart; nothing is dated later than that. After a message from the year 2099
# everything would come late.
_CLOCKS_DIFFER = timedelta(minutes=5)

# The job that looks after a workspace's conversations; see `conversations.segments`.
SEGMENT_JOB = "segment_threads"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """Something that was said."""

    role: str
    content: str
    author: str | None = None
    parts: Sequence[Any] | None = None
    metadata: Json = field(default_factory=dict[str, Any])
    # The sender's own id for it; a message of the thread with that id is not kept again.
    client_id: str | None = None
    # When it was said, for what comes late or from elsewhere; now, if nobody says.
    said_at: datetime | None = None
    # Its public code, where somebody was told of it before it was complete.
    code: str | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """The message, and whether it was kept just now."""

    message: Message
    is_new: bool


@dataclass(frozen=True, slots=True)
class EditMessage:
    """What to change of a message; None leaves it as it is."""

    content: str | None = None
    parts: Sequence[Any] | None = None
    # Merged into what is there, key by key.
    metadata: Json | None = None


@dataclass(frozen=True, slots=True)
class ListMessages:
    """Which part of a thread to read: by number, or from just beyond a message on."""

    limit: int
    start: int = 0
    beyond: Ref | None = None
    is_newest_first: bool = False


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Messages in order, how many the thread has, and whether more follow."""

    thread_code: str
    messages: list[Message]
    total: int
    has_more: bool


async def append(
    engine: Engine, caller: Caller, thread: Ref, new: Sequence[NewMessage]
) -> list[Appended]:
    """Keep messages at once or not at all; each that was sent before is handed back as it is."""
    async with engine.writing(caller) as db:
        return await append_within(engine, db, caller, thread, new)


async def append_within(
    engine: Engine, db: Db, caller: Caller, thread: Ref, new: Sequence[NewMessage]
) -> list[Appended]:
    """The same in a transaction of the caller's, for whoever commits more with it."""
    caller.require(Right.WRITE)
    _check(new)
    held = await lock_thread(engine, db, caller, thread)
    client_ids = [each.client_id for each in new if each.client_id is not None]
    known = await messages.by_client_id(db, caller, held.id, client_ids)
    made = _made(held, [each for each in new if each.client_id not in known], engine.now())
    if made:
        late = [each for each in made if _is_late(held, each)]
        homes = (
            await segments.segments_of_messages(db, caller.workspace_id, held.id, late)
            if late
            else {}
        )
        await messages.insert(db, caller, held.id, made, engine.now())
        if homes:
            await segments.join(db, caller.workspace_id, homes)
        await _note(engine, db, caller, held, "message.created", [each.code for each in made])
        await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    fresh = iter(made)
    return [_outcome(each, known, fresh) for each in new]


async def get_message(engine: Engine, caller: Caller, ref: Ref) -> Message:
    """One message."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, ref)


async def list_messages(
    engine: Engine, caller: Caller, thread: Ref, ask: ListMessages
) -> MessagePage:
    """A part of a thread, oldest first unless asked otherwise."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        beyond = None
        if ask.beyond:
            last = await messages.find(db, caller, ask.beyond, engine.now())
            if last is None or last.thread_id != located.id:
                raise Invalid("The cursor names no message of this chat.", field="after")
            beyond = last.sort_position
        # One row more shows whether a next page exists.
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
    held = await lock_thread(engine, db, caller, Ref(id=before.thread_id))
    # Read again under the lock: another edit may have come first.
    before = await _existing(engine, db, caller, Ref(id=before.id))
    after = _edited(before, ask)
    if after == before:
        return before
    after = replace(after, edited_at=engine.now())
    await messages.update(db, caller.workspace_id, after)
    if after.content != before.content:
        await _unsettle(engine, db, caller, after)
        await idempotency.forget_answers(
            db, caller.workspace_id, [(after.id, after.code)], are_gone=False
        )
    await _note(engine, db, caller, held, "message.edited", [after.code])
    return after


async def delete_message(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a message and its files for good; memories made of it by hand lose the link and stay.

    A stretch that was cut and has nothing else goes with it: its text is the message's.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        message = await _existing(engine, db, caller, ref)
        held = await lock_thread(engine, db, caller, Ref(id=message.thread_id))
        await supersession.lock_supersession(db, caller.workspace_id)
        stretches = await _unsettle(engine, db, caller, message)
        if not await messages.remove(db, caller.workspace_id, held.id, [message.id], engine.now()):
            raise NotFound("message")
        await idempotency.forget_answers(db, caller.workspace_id, [(message.id, message.code)])
        await _note(engine, db, caller, held, "message.deleted", [message.code])
        emptied = await segments.emptied(db, caller.workspace_id, stretches)
        if emptied:
            await remove_rows(engine, db, caller, emptied)


async def clear_messages(engine: Engine, caller: Caller, thread: Ref) -> int:
    """Delete all messages of a thread; its memories stay, without references. How many it had."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        held = await lock_thread(engine, db, caller, thread)
        cleared = await messages.clear(db, caller.workspace_id, held.id, engine.now())
        # Every answer that shows a message of this thread names the thread, or its address does.
        await idempotency.forget_answers(db, caller.workspace_id, [(held.id, held.code)])
        await engine.record_event(
            db,
            caller,
            "messages.cleared",
            {"count": cleared},
            thread_code=held.code,
            subject=held.subject,
        )
    return cleared


async def lock_thread(engine: Engine, db: Db, caller: Caller, ref: Ref) -> LockedThread:
    """The thread, held until the transaction ends; raise `NotFound` where there is none."""
    held = await messages.lock_thread(db, caller, ref, engine.now())
    if held is None:
        raise NotFound("chat")
    return held


async def find_thread_of(engine: Engine, db: Db, caller: Caller, ref: Ref) -> LocatedThread:
    """The living thread of any spelling of its id."""
    found = await messages.locate_thread(db, caller, ref, engine.now())
    if found is None:
        raise NotFound("chat")
    return found


def _check(new: Sequence[NewMessage]) -> None:
    if not new:
        raise Invalid("At least one message is needed.", field="messages")
    if len(new) > MOST_AT_ONCE:
        raise TooLarge("messages", limit=MOST_AT_ONCE, size=len(new), unit="messages")
    for each in new:
        _check_content(each.content)


def _check_content(content: str) -> None:
    size = len(content.encode())
    if size > MOST_BYTES:
        raise TooLarge("content", limit=MOST_BYTES, size=size, unit="bytes")


def _made(held: LockedThread, new: Sequence[NewMessage], now: datetime) -> list[Message]:
    """The messages to keep; of two with the same id of the sender's the first."""
    once = {each.client_id or object(): each for each in reversed(new)}
    kept = [each for each in new if each.client_id is None or once[each.client_id] is each]
    latest = now + _CLOCKS_DIFFER
    # Servers' clocks differ: what arrives after a message was not said before it.
    if held.last_at and now < held.last_at <= latest:
        now = held.last_at
    positions = count(held.last_position + 1)
    return [
        Message(
            id=MessageId(uuid4()),
            code=each.code or new_code(),
            thread_id=held.id,
            thread_code=held.code,
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


def _outcome(asked: NewMessage, known: dict[str, Message], fresh: Iterator[Message]) -> Appended:
    if asked.client_id is not None and asked.client_id in known:
        return Appended(known[asked.client_id], is_new=False)
    message = next(fresh)
    if asked.client_id is not None:
        known[asked.client_id] = message
    return Appended(message, is_new=True)


def _is_late(held: LockedThread, message: Message) -> bool:
    """Whether it stands where stretches are closed already."""
    frontier = held.frontier
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


async def _unsettle(engine: Engine, db: Db, caller: Caller, message: Message) -> list[MemoryId]:
    """A closed stretch that holds this message no longer says what was said; which one it is."""
    stretches = await segments.mark_stale(db, caller.workspace_id, [message.id])
    await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    return stretches


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Message:
    message = await messages.find(db, caller, ref, engine.now())
    if message is None:
        raise NotFound("message")
    return message


async def _note(
    engine: Engine, db: Db, caller: Caller, held: LockedThread, action: str, codes: Sequence[str]
) -> None:
    await engine.record_event(
        db,
        caller,
        action,
        {"messages": list(codes)},
        thread_code=held.code,
        subject=held.subject,
    )
