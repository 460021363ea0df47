"""Open and close threads, change their versioned state, add turns, and build their context."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from recollect.conversations.queries import threads
from recollect.core.domain import (
    Caller,
    Filter,
    Json,
    Ref,
    Right,
    StateVersion,
    Thread,
    ThreadId,
    Turn,
    new_code,
)
from recollect.core.errors import Invalid, NotFound
from recollect.db import idempotency
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.memories.forget import remove_rows
from recollect.memories.queries import memories, supersession
from recollect.search.semantic import Hit, Recall, recall


@dataclass(frozen=True, slots=True)
class OpenThread:
    """The fields of a new thread."""

    agent: str | None
    subject: str | None = None
    name: str | None = None
    pinned: bool = False
    state: Json = field(default_factory=dict[str, Any])
    metadata: Json = field(default_factory=dict[str, Any])
    lives_for: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ListThreads:
    """A filter and a page of threads."""

    limit: int
    agent: str | None = None
    subject: str | None = None
    created_after: datetime | None = None
    after: Ref | None = None


@dataclass(frozen=True, slots=True)
class AddTurn:
    """A turn to append."""

    given: Json
    answered: Json
    reasoning: str | None = None
    metadata: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ThreadContext:
    """The context a model needs to continue a thread: its state, memories and last turns."""

    thread: Thread
    hits: list[Hit]
    turns: list[Turn]


async def open_thread(engine: Engine, caller: Caller, ask: OpenThread) -> Thread:
    """Create a thread with its first state, version 0."""
    async with engine.writing(caller) as db:
        return await open_within(engine, db, caller, ask)


async def open_within(engine: Engine, db: Db, caller: Caller, ask: OpenThread) -> Thread:
    """Create a thread within the caller's transaction, to commit more with it."""
    caller.require(Right.WRITE)
    now = engine.now()
    thread = Thread(
        id=ThreadId(uuid4()),
        code=new_code(),
        workspace_id=caller.workspace_id,
        agent=ask.agent,
        subject=ask.subject,
        name=ask.name,
        pinned=ask.pinned,
        metadata=ask.metadata,
        state=ask.state,
        state_version=0,
        created_at=now,
        updated_at=now,
        expires_at=now + ask.lives_for if ask.lives_for else None,
        user_id=caller.user_id,
        project_id=caller.project_id,
        agent_id=caller.agent_id,
    )
    await threads.insert(db, thread)
    await _record_event(engine, db, caller, "session.created", thread)
    return thread


async def get_thread(engine: Engine, caller: Caller, ref: Ref) -> Thread:
    """Return one thread that has not expired."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, ref)


async def list_threads(
    engine: Engine, caller: Caller, ask: ListThreads
) -> tuple[list[Thread], bool]:
    """Return threads, newest first, and whether more follow."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        after = None
        if ask.after:
            after = await threads.find(db, caller, ask.after, engine.now())
            if after is None:
                raise Invalid(
                    "`starting_after` is not the id of an existing session.", field="starting_after"
                )
        found = await threads.page(
            db,
            caller,
            agent=ask.agent,
            subject=ask.subject,
            created_after=ask.created_after,
            after=after,
            limit=ask.limit + 1,
            now=engine.now(),
        )
    return found[: ask.limit], len(found) > ask.limit


async def close_thread(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a thread and all memories from it. An expired thread's memories stay."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        thread = await _existing(engine, db, caller, ref)
        await threads.lock(db, caller.workspace_id, thread.id)
        await supersession.lock_supersession(db, caller.workspace_id)
        inside = replace(caller, thread_id=thread.id)
        ids = await memories.ids_of_thread(db, inside, thread.id)
        await remove_rows(engine, db, caller, ids)
        await threads.remove(db, caller.workspace_id, thread.id)
        # Every stored response with content of the thread also contains the thread's id.
        await idempotency.forget_answers(db, caller.workspace_id, [(thread.id, thread.code)])
        await _record_event(engine, db, caller, "session.deleted", thread)


async def replace_state(
    engine: Engine, caller: Caller, ref: Ref, state: Json, reasoning: str | None
) -> Thread:
    """Replace the state with a new one."""
    return await _change_state(engine, caller, ref, lambda _: state, reasoning, "state.replaced")


async def merge_state(
    engine: Engine, caller: Caller, ref: Ref, changes: Json, reasoning: str | None
) -> Thread:
    """Replace the given top-level keys of the state and keep the others."""
    caller.require(Right.READ)  # the response contains the other keys
    return await _change_state(
        engine, caller, ref, lambda old: {**old, **changes}, reasoning, "state.updated"
    )


async def roll_back(engine: Engine, caller: Caller, ref: Ref, version: int) -> tuple[Thread, UUID]:
    """Make an earlier state current as a new version; also return the event that records it."""
    caller.require(Right.READ)
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        thread = await _lock(engine, db, caller, ref)
        earlier = await _version(db, thread, version)
        return await _set_state(
            engine, db, caller, thread, earlier.state, None, "state.rolled_back"
        )


async def state_history(
    engine: Engine, caller: Caller, ref: Ref, *, before: int | None, limit: int
) -> tuple[Thread, list[StateVersion], bool]:
    """Return versions of the state, newest first, and whether more follow."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread = await _existing(engine, db, caller, ref)
        found = await threads.history(
            db, caller.workspace_id, thread.id, before=before, limit=limit + 1
        )
    return thread, found[:limit], len(found) > limit


async def fork(
    engine: Engine,
    caller: Caller,
    ref: Ref,
    version: int | None,
    spell: Callable[[str], str],
) -> Thread:
    """Create a thread from a state of this one; turns and memories are not copied.

    Its metadata names the original thread, in the caller's form of ids.
    """
    caller.require(Right.READ)
    caller.require(Right.WRITE)
    async with engine.reading(caller) as db:
        thread = await _existing(engine, db, caller, ref)
        origin = thread.state_version if version is None else version
        state = (await _version(db, thread, origin)).state
    lives_for = thread.expires_at - thread.created_at if thread.expires_at else None
    lineage = {"forked_from": spell(thread.code), "forked_version": origin}
    return await open_thread(
        engine,
        caller,
        OpenThread(
            agent=thread.agent or "",
            subject=thread.subject,
            state=state,
            metadata={**thread.metadata, **lineage},
            lives_for=lives_for,
        ),
    )


async def add_turn(engine: Engine, caller: Caller, ref: Ref, ask: AddTurn) -> tuple[Thread, Turn]:
    """Append a turn; turns are numbered from 1 without gaps, even with concurrent writers."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        thread = await _lock(engine, db, caller, ref)
        turn = await threads.add_turn(
            db,
            caller.workspace_id,
            thread.id,
            turn_id=uuid4(),
            code=new_code(),
            given=ask.given,
            answered=ask.answered,
            reasoning=ask.reasoning,
            metadata=ask.metadata,
            user_id=caller.user_id,
            at=engine.now(),
        )
        await _record_event(engine, db, caller, "turn.created", thread, {"turn": turn.code})
    return thread, turn


async def list_turns(
    engine: Engine, caller: Caller, ref: Ref, *, after: Ref | None, limit: int
) -> tuple[Thread, list[Turn], bool]:
    """Return turns, newest first, and whether more follow."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread = await _existing(engine, db, caller, ref)
        before = None
        if after:
            before = await threads.turn_number(db, caller.workspace_id, thread.id, after)
            if before is None:
                raise Invalid(
                    "`starting_after` is not the id of a turn of this session.",
                    field="starting_after",
                )
        found = await threads.turns(
            db, caller.workspace_id, thread.id, before=before, limit=limit + 1
        )
    return thread, found[:limit], len(found) > limit


async def thread_context(
    engine: Engine,
    caller: Caller,
    ref: Ref,
    *,
    query: str | None,
    memory_limit: int,
    turn_limit: int,
) -> ThreadContext:
    """Return the state, the last turns, and memories matching the query, or else the newest."""
    thread, turns, _ = await list_turns(engine, caller, ref, after=None, limit=turn_limit)
    if query and query.strip():
        recalled = await recall(engine, caller, Recall(query=query, limit=memory_limit))
        return ThreadContext(thread, recalled.hits, turns)
    async with engine.reading(caller) as db:
        found = await memories.page(
            db,
            replace(caller, thread_id=thread.id),
            Filter(thread_id=thread.id),
            after=None,
            limit=memory_limit,
            now=engine.now(),
        )
    return ThreadContext(thread, [Hit(memory, 1.0, None) for memory in found], turns)


async def _change_state(
    engine: Engine,
    caller: Caller,
    ref: Ref,
    change: Callable[[Json], Json],
    reasoning: str | None,
    action: str,
) -> Thread:
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        thread = await _lock(engine, db, caller, ref)
        after, _ = await _set_state(
            engine, db, caller, thread, change(thread.state), reasoning, action
        )
        return after


async def _set_state(
    engine: Engine,
    db: Db,
    caller: Caller,
    thread: Thread,
    state: Json,
    reasoning: str | None,
    action: str,
) -> tuple[Thread, UUID]:
    after = replace(
        thread, state=state, state_version=thread.state_version + 1, updated_at=engine.now()
    )
    await threads.set_state(db, after, reasoning=reasoning, at=after.updated_at)
    event = await _record_event(engine, db, caller, action, after, {"version": after.state_version})
    return after, event


async def _lock(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Thread:
    thread = await _existing(engine, db, caller, ref)
    await threads.lock(db, caller.workspace_id, thread.id)
    # Read again under the lock: another writer may have been first.
    return await _existing(engine, db, caller, Ref(id=thread.id))


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Thread:
    thread = await threads.find(db, caller, ref, engine.now())
    if thread is None:
        raise NotFound("session")
    return thread


async def _version(db: Db, thread: Thread, version: int) -> StateVersion:
    found = await threads.history(db, thread.workspace_id, thread.id, version=version, limit=1)
    if not found:
        raise Invalid(
            "`version` is not an existing version of this session's state.", field="version"
        )
    return found[0]


async def _record_event(
    engine: Engine,
    db: Db,
    caller: Caller,
    action: str,
    thread: Thread,
    details: Json | None = None,
) -> UUID:
    return await engine.record_event(
        db, caller, action, details or {}, thread_code=thread.code, subject=thread.subject
    )
