"""Create, list and delete the dashboard's chats, and prepare their turns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from recollect.chat.informer_chats import ChangeChat, change_chat
from recollect.chat.injection import InjectedMemories
from recollect.chat.turn_request import MemoryMode, TurnRequest
from recollect.conversations.messages import ListMessages, list_messages
from recollect.conversations.queries import segments, threads
from recollect.conversations.queries.threads import ThreadPosition
from recollect.conversations.threads import OpenThread, get_thread, open_thread
from recollect.core.domain import (
    HISTORY,
    Caller,
    Memory,
    MemoryId,
    Message,
    Ref,
    Right,
    Scope,
    Thread,
    ThreadId,
    UserId,
    WorkspaceId,
)
from recollect.core.errors import Conflict, Invalid, NotFound
from recollect.core.turn_kinds import INSTRUCTIONS
from recollect.db import audit_events, idempotency, notifications
from recollect.engine import Engine
from recollect.memories.forget import remove_rows
from recollect.memories.queries import memories, supersession

# The notification channel on which one server asks the others to stop an answer.
STOP = "recollect_stop"
_STOP_REQUESTED = "answer.stop_asked"
AGENT = "dashboard"
PLAIN = "chat"

# Each turn includes this much of the chat. Earlier messages are covered by memories.
_MAX_MESSAGES = 40
_MAX_CHARACTERS = 60_000
_MAX_TITLE_CHARACTERS = 60
_COMPACT = "Summarise our conversation so far."


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """A user's message, and the kind of turn they ask for."""

    content: str
    kind: str = PLAIN
    model: str | None = None
    # Nothing is recalled for it, and nothing of it is stored.
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """A memory that was injected into a prompt, and why."""

    memory: Memory
    score: float | None
    why: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MessageWithMemories:
    """A message, and the memories that were injected for it."""

    message: Message
    shown: Sequence[ShownMemory] = field(default_factory=tuple[ShownMemory, ...])


async def create_dashboard_chat(engine: Engine, caller: Caller, title: str | None) -> Thread:
    """Create a chat in the caller's workspace."""
    return await open_thread(engine, caller, OpenThread(agent=AGENT, name=title))


async def list_dashboard_chats(
    engine: Engine,
    caller: Caller,
    *,
    words: str | None,
    after: ThreadPosition | None,
    limit: int,
) -> tuple[list[Thread], ThreadPosition | None]:
    """Return chats, the latest first, and the position after which more may follow.

    With `words`, return the chats that contain them. A search reads a limited number of messages
    at a time, so it may return few or no chats and still a position to continue from.
    """
    caller.require(Right.READ)
    now, count = engine.now(), limit + 1  # one row more shows whether a next page exists
    searched_up_to: ThreadPosition | None = None
    async with engine.reading(caller) as db:
        if words:
            found, searched_up_to = await threads.chats_holding(
                db, caller, words, agent=AGENT, after=after, limit=count, now=now
            )
        else:
            found = await threads.chats(db, caller, agent=AGENT, after=after, limit=count, now=now)
    if len(found) > limit:
        last = found[limit - 1]
        return found[:limit], (last.updated_at, last.id)
    return found, searched_up_to


async def delete_dashboard_chat(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a chat with its messages; memories that the workspace learnt from it stay.

    Memories with the scope of this chat are deleted too, because no caller could see them any
    more. So are the segment summaries of an imported chat.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        thread = await threads.find(db, caller, ref, engine.now())
        if thread is None:
            raise NotFound("chat")
        await threads.lock(db, caller.workspace_id, thread.id)
        await supersession.lock_supersession(db, caller.workspace_id)
        inside = replace(caller, thread_id=thread.id)
        ids = await memories.ids_of_thread(db, inside, thread.id)
        known = await memories.find_all(db, inside, ids, engine.now(), HISTORY)
        summaries = await segments.cut_memories(db, caller.workspace_id, thread.id)
        own = [
            each.id for each in known.values() if each.scope is Scope.THREAD or each.id in summaries
        ]
        await remove_rows(engine, db, inside, own)
        await threads.remove(db, caller.workspace_id, thread.id)
        # A stored response that contains a message of this chat names the chat in its body or path.
        await idempotency.forget_answers(db, caller.workspace_id, [(thread.id, thread.code)])
        await engine.record_event(
            db, caller, "session.deleted", {}, thread_code=thread.code, subject=thread.subject
        )


async def list_chat_messages(
    engine: Engine, caller: Caller, ref: Ref, *, before: Ref | None, limit: int
) -> tuple[list[MessageWithMemories], bool]:
    """Return the messages before `before`, or the last ones, oldest first; and if more exist."""
    ask = ListMessages(limit=limit, beyond=before, is_newest_first=True)
    page = await list_messages(engine, caller, ref, ask)
    return await with_memories(engine, caller, page.messages[::-1]), page.has_more


async def with_memories(
    engine: Engine, caller: Caller, messages: Sequence[Message]
) -> list[MessageWithMemories]:
    """Return the messages with the memories that were injected for them and still exist."""
    injected = {each.id: _injected(each) for each in messages}
    ids = [MemoryId(UUID(entry["memory"])) for entries in injected.values() for entry in entries]
    known: Mapping[MemoryId, Memory] = {}
    if ids:
        async with engine.reading(caller) as db:
            known = await memories.find_all(db, caller, ids, engine.now(), HISTORY)
    return [
        MessageWithMemories(
            each,
            [
                _shown(known[MemoryId(UUID(entry["memory"]))], entry)
                for entry in injected[each.id]
                if MemoryId(UUID(entry["memory"])) in known
            ],
        )
        for each in messages
    ]


def shown_of(injected: InjectedMemories) -> list[ShownMemory]:
    """Return the memories that were injected into a turn, and why."""
    found = {str(hit.memory.id): hit.memory for hit in injected.recalled}
    found |= {str(each.id): each for each in injected.pinned}
    return [_shown(found[entry["memory"]], entry) for entry in injected.summary]


def _injected(message: Message) -> list[dict[str, Any]]:
    found = message.metadata.get("injected")
    return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []


def _shown(memory: Memory, entry: Mapping[str, Any]) -> ShownMemory:
    by = str(entry.get("by"))
    score = entry.get("score")
    return ShownMemory(memory, score, {"by": by} | ({} if score is None else {"score": score}))


async def prepare_turn(
    engine: Engine, caller: Caller, ref: Ref, new: ChatMessage
) -> tuple[Caller, TurnRequest]:
    """Return the turn to run, with the recent messages of the chat, and its caller.

    The same message again, after an answer that failed, repeats the turn and adds no new one.
    While the whole chat fits into the prompt, the returned caller does not see the memories of
    this chat's own scope: they would repeat it.
    """
    thread = await get_thread(engine, caller, ref)
    content = new.content.strip() or (_COMPACT if new.kind == "compaction" else "")
    if not content:
        raise Invalid("`content` must not be empty.", field="content")
    if engine.chat_models.find(new.model) is None:
        raise NotFound("model") if new.model else Conflict("No chat model is configured.")
    page = await list_messages(
        engine, caller, ref, ListMessages(limit=_MAX_MESSAGES, is_newest_first=True)
    )
    recent = _recent(page.messages)
    messages = [{"role": each.role, "content": each.content} for each in recent]
    if not messages or messages[-1] != {"role": "user", "content": content}:
        messages.append({"role": "user", "content": content})
    if new.kind in INSTRUCTIONS:
        messages.insert(0, {"role": "system", "content": INSTRUCTIONS[new.kind]})
    body: dict[str, Any] = {"messages": messages, "stream": True}
    if new.model:
        body["model"] = new.model
    if thread.name is None and not new.is_temporary:
        await change_chat(engine, caller, ref, ChangeChat(name=_title(content)))
    ask = TurnRequest(
        raw=b"",
        body=body,
        mode=MemoryMode.OFF if new.is_temporary else MemoryMode.ON,
        thread=None if new.is_temporary else f"chat_{thread.code}",
        kind=new.kind,
        is_awaited=not new.is_temporary,
        makes_artifacts=not new.is_temporary,
        prompt_message_ids=frozenset(each.id for each in recent),
    )
    characters = sum(len(each.content) for each in page.messages)
    is_complete = not page.has_more and characters <= _MAX_CHARACTERS
    return (replace(caller, thread_id=None) if is_complete else caller), ask


async def stop_elsewhere(engine: Engine, caller: Caller) -> None:
    """Ask the other servers to stop the answer to this caller in this chat.

    The request is stored too: a server behind PgBouncer gets no notification and polls for it.
    """
    async with engine.writing(caller) as db:
        await engine.record_event(
            db, caller, _STOP_REQUESTED, {"thread": str(caller.thread_id)}, is_private=True
        )
        await notifications.notify(
            db, STOP, f"{caller.workspace_id} {caller.user_id} {caller.thread_id}"
        )


async def requested_stops(
    engine: Engine, workspace_id: WorkspaceId, since: datetime
) -> list[tuple[UserId, ThreadId, datetime]]:
    """Return the requests to stop an answer: user, chat, and time by the other server's clock."""
    async with engine.pool.reading(workspace_id) as db:
        found = await audit_events.list_since(db, workspace_id, _STOP_REQUESTED, since)
    return [(each.user_id, ThreadId(UUID(str(each.details["thread"]))), each.at) for each in found]


def _recent(newest_first: Sequence[Message]) -> list[Message]:
    """Return the last messages that fit, oldest first."""
    recent: list[Message] = []
    room = _MAX_CHARACTERS
    for each in newest_first:
        room -= len(each.content)
        if room < 0 and recent:
            break
        if each.role in {"user", "assistant"} and each.content.strip():
            recent.append(each)
    return recent[::-1]


def _title(content: str) -> str:
    line = " ".join(content.split())
    if len(line) <= _MAX_TITLE_CHARACTERS:
        return line
    return line[: _MAX_TITLE_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"
