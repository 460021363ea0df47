"""Chats of the dashboard: begun, found, ended; and a turn of talk in one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from recollect.domain import (
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
from recollect.engine.chats import ChangeChat, change_chat
from recollect.engine.core import Engine
from recollect.engine.forget import remove_rows
from recollect.engine.inject import Remembered
from recollect.engine.kinds import INSTRUCTIONS
from recollect.engine.messages import ListMessages, list_messages
from recollect.engine.threads import OpenThread, get_thread, open_thread
from recollect.engine.turn import Ask, Mode
from recollect.errors import Conflict, Invalid, NotFound
from recollect.store import events, idempotency, links, listen, memories, segments, threads
from recollect.store.threads import Place

# On which one server tells the others whose answer, in which chat, is to be broken off.
STOP = "recollect_stop"
_STOP_ASKED = "answer.stop_asked"
AGENT = "dashboard"
PLAIN = "chat"

# So much of a chat goes with each turn; what came before is in its memories.
_MOST_SAID = 40
_MOST_LETTERS = 60_000
_LONGEST_TITLE = 60
_COMPACT = "Summarise our conversation so far."


@dataclass(frozen=True, slots=True)
class Say:
    """What somebody says, and what kind of turn they want."""

    content: str
    kind: str = PLAIN
    model: str | None = None
    # Nothing is recalled for it, nothing of it is kept.
    is_temporary: bool = False


@dataclass(frozen=True, slots=True)
class Shown:
    """A memory that a model was shown, and why."""

    memory: Memory
    score: float | None
    why: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """A message, and the memories behind it."""

    message: Message
    shown: Sequence[Shown] = field(default_factory=tuple[Shown, ...])


async def begin_chat(engine: Engine, caller: Caller, title: str | None) -> Thread:
    """A new chat in the caller's workspace."""
    return await open_thread(engine, caller, OpenThread(agent=AGENT, name=title))


async def list_talks(
    engine: Engine,
    caller: Caller,
    *,
    words: str | None,
    after: Place | None,
    limit: int,
) -> tuple[list[Thread], Place | None]:
    """Chats, the latest first, and the place behind which more may follow.

    With words, those that hold them: a search looks through so many messages at a time, and can
    come back with few or none and a place to go on from.
    """
    caller.require(Right.READ)
    now, many = engine.now(), limit + 1  # one row more shows whether a next page exists
    looked: Place | None = None
    async with engine.reading(caller) as db:
        if words:
            found, looked = await threads.chats_holding(
                db, caller, words, agent=AGENT, after=after, limit=many, now=now
            )
        else:
            found = await threads.chats(db, caller, agent=AGENT, after=after, limit=many, now=now)
    if len(found) > limit:
        last = found[limit - 1]
        return found[:limit], (last.updated_at, last.id)
    return found, looked


async def end_chat(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a chat with all that was said in it; what the workspace learnt there stays.

    What was remembered of the chat for itself alone goes with it: nobody could see it any more. So
    do the summaries of a chat that came from elsewhere.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        thread = await threads.find(db, caller, ref, engine.now())
        if thread is None:
            raise NotFound("chat")
        await threads.lock(db, caller.workspace_id, thread.id)
        await links.take_turn(db, caller.workspace_id)
        inside = replace(caller, thread_id=thread.id)
        ids = await memories.ids_of_thread(db, inside, thread.id)
        known = await memories.find_all(db, inside, ids, engine.now(), HISTORY)
        cut = await segments.cut_memories(db, caller.workspace_id, thread.id)
        own = [each.id for each in known.values() if each.scope is Scope.THREAD or each.id in cut]
        await remove_rows(engine, db, inside, own)
        await threads.remove(db, caller.workspace_id, thread.id)
        # Every answer that shows a message of this chat names the chat, or its address does.
        await idempotency.forget_answers(db, caller.workspace_id, [(thread.id, thread.code)])
        await engine.note(
            db, caller, "session.deleted", {}, thread_code=thread.code, subject=thread.subject
        )


async def said_in(
    engine: Engine, caller: Caller, ref: Ref, *, before: Ref | None, limit: int
) -> tuple[list[Told], bool]:
    """What was said in a chat before a message, or last, oldest first; and whether more was."""
    ask = ListMessages(limit=limit, beyond=before, is_newest_first=True)
    page = await list_messages(engine, caller, ref, ask)
    told = await with_memories(engine, caller, page.messages[::-1])
    return told, page.has_more


async def with_memories(engine: Engine, caller: Caller, said: Sequence[Message]) -> list[Told]:
    """Messages with the memories that were shown to the model, those that are still there."""
    noted = {each.id: _noted(each) for each in said}
    ids = [MemoryId(UUID(note["memory"])) for notes in noted.values() for note in notes]
    known: Mapping[MemoryId, Memory] = {}
    if ids:
        async with engine.reading(caller) as db:
            known = await memories.find_all(db, caller, ids, engine.now(), HISTORY)
    return [
        Told(
            each,
            [
                _shown(known[MemoryId(UUID(note["memory"]))], note)
                for note in noted[each.id]
                if MemoryId(UUID(note["memory"])) in known
            ],
        )
        for each in said
    ]


def shown_of(remembered: Remembered) -> list[Shown]:
    """The memories that a turn was told, and why."""
    found = {str(hit.memory.id): hit.memory for hit in remembered.recalled}
    found |= {str(each.id): each for each in remembered.pinned}
    return [_shown(found[note["memory"]], note) for note in remembered.noted]


def _noted(message: Message) -> list[dict[str, Any]]:
    found = message.metadata.get("injected")
    return cast("list[dict[str, Any]]", found) if isinstance(found, list) else []


def _shown(memory: Memory, note: Mapping[str, Any]) -> Shown:
    by = str(note.get("by"))
    score = note.get("score")
    return Shown(memory, score, {"by": by} | ({} if score is None else {"score": score}))


async def prepare(engine: Engine, caller: Caller, ref: Ref, say: Say) -> tuple[Caller, Ask]:
    """The turn to run, and as whom: what was said before, what is said now, what is wanted.

    Saying the same again after an answer failed to come is the same turn, not another one. What is
    remembered of this chat alone is told once the chat itself is too long to be.
    """
    thread = await get_thread(engine, caller, ref)
    content = say.content.strip() or (_COMPACT if say.kind == "compaction" else "")
    if not content:
        raise Invalid("`content` must not be empty.", field="content")
    if engine.chats.find(say.model) is None:
        raise NotFound("model") if say.model else Conflict("No chat model is configured.")
    page = await list_messages(
        engine, caller, ref, ListMessages(limit=_MOST_SAID, is_newest_first=True)
    )
    recent = _recent(page.messages)
    messages = [{"role": each.role, "content": each.content} for each in recent]
    if not messages or messages[-1] != {"role": "user", "content": content}:
        messages.append({"role": "user", "content": content})
    if say.kind in INSTRUCTIONS:
        messages.insert(0, {"role": "system", "content": INSTRUCTIONS[say.kind]})
    body: dict[str, Any] = {"messages": messages, "stream": True}
    if say.model:
        body["model"] = say.model
    if thread.name is None and not say.is_temporary:
        await change_chat(engine, caller, ref, ChangeChat(name=_title(content)))
    ask = Ask(
        raw=b"",
        body=body,
        mode=Mode.OFF if say.is_temporary else Mode.ON,
        thread=None if say.is_temporary else f"chat_{thread.code}",
        kind=say.kind,
        is_awaited=not say.is_temporary,
        makes_artifacts=not say.is_temporary,
        in_front=frozenset(each.id for each in recent),
    )
    letters = sum(len(each.content) for each in page.messages)
    is_all_told = not page.has_more and letters <= _MOST_LETTERS
    return (replace(caller, thread_id=None) if is_all_told else caller), ask


async def stop_elsewhere(engine: Engine, caller: Caller) -> None:
    """Have whichever other server answers the caller in their chat break that off.

    Those that hear nothing of it, because PgBouncer stands between, find it written down.
    """
    async with engine.writing(caller) as db:
        await engine.note(
            db, caller, _STOP_ASKED, {"thread": str(caller.thread_id)}, is_private=True
        )
        await listen.tell(db, STOP, f"{caller.workspace_id} {caller.user_id} {caller.thread_id}")


async def stops_asked(
    engine: Engine, workspace_id: WorkspaceId, since: datetime
) -> list[tuple[UserId, ThreadId, datetime]]:
    """Whose answer, in which chat, was to be broken off elsewhere, and when; by their clock."""
    async with engine.pool.reading(workspace_id) as db:
        found = await events.since(db, workspace_id, _STOP_ASKED, since)
    return [(each.user_id, ThreadId(UUID(str(each.details["thread"]))), each.at) for each in found]


def _recent(newest_first: Sequence[Message]) -> list[Message]:
    """The last messages that fit, oldest first."""
    kept: list[Message] = []
    room = _MOST_LETTERS
    for each in newest_first:
        room -= len(each.content)
        if room < 0 and kept:
            break
        if each.role in {"user", "assistant"} and each.content.strip():
            kept.append(each)
    return kept[::-1]


def _title(content: str) -> str:
    line = " ".join(content.split())
    if len(line) <= _LONGEST_TITLE:
        return line
    return line[: _LONGEST_TITLE - 1].rsplit(" ", 1)[0] + "…"
