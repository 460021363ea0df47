"""Find or create threads by any form of their id, or by a label that the client chose."""

from dataclasses import dataclass, replace
from uuid import uuid4

from recollect.conversations.queries import threads
from recollect.core.domain import Caller, Ref, Right, Thread, ThreadId, new_code
from recollect.core.errors import Conflict
from recollect.db.pool import Db
from recollect.engine import Engine


@dataclass(frozen=True, slots=True)
class ThreadName:
    """A thread's name as the client sent it; `ref` is set when the name has the form of an id."""

    name: str
    ref: Ref | None = None
    # The agent that owns the thread if this request creates it.
    agent: str | None = None
    # The thread must belong to this agent. A thread without an agent is assigned to it; another
    # agent's thread is not used.
    is_agent_only: bool = False


async def find_thread(engine: Engine, caller: Caller, thread_name: ThreadName) -> Ref | None:
    """Return the thread with this name, or None; it never creates one."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread = await _find(engine, db, caller, thread_name)
    return Ref(id=thread.id) if thread else None


async def find_or_create_thread(
    engine: Engine, db: Db, caller: Caller, thread_name: ThreadName
) -> Thread:
    """Return the thread with this name; create it in this transaction when there is none."""
    thread = await _find(engine, db, caller, thread_name)
    thread = thread or await _create(engine, db, caller, thread_name)
    if not thread_name.is_agent_only or thread.agent == thread_name.agent:
        return thread
    return await _find_agent_thread(engine, db, caller, thread_name, thread)


async def _create(engine: Engine, db: Db, caller: Caller, thread_name: ThreadName) -> Thread:
    now = engine.now()
    new = Thread(
        id=ThreadId(uuid4()),
        code=new_code(),
        workspace_id=caller.workspace_id,
        agent=thread_name.agent,
        subject=None,
        metadata={},
        state={},
        state_version=0,
        created_at=now,
        updated_at=now,
        label=thread_name.name,
        user_id=caller.user_id,
    )
    thread, is_new = await threads.find_or_create_labelled(db, caller, new, now)
    if is_new:
        await engine.record_event(db, caller, "session.created", {}, thread_code=thread.code)
    return thread


async def _find_agent_thread(
    engine: Engine, db: Db, caller: Caller, thread_name: ThreadName, thread: Thread
) -> Thread:
    """Assign the thread to this agent if it has none; otherwise return a separate thread."""
    assert thread_name.agent
    if not thread.agent:
        thread = await threads.give_to_agent(db, thread, thread_name.agent, engine.now())
        if thread.agent == thread_name.agent:
            await engine.record_event(db, caller, "session.assigned", {}, thread_code=thread.code)
            return thread
    prefix = f"agent:{thread_name.agent}/"
    if thread_name.name.startswith(prefix):
        raise Conflict("This conversation belongs to another agent. Use another `channel_id`.")
    # Derived from the thread's label or id, not from the name in the request, so that every form
    # of the id leads to the same separate thread.
    separate = replace(thread_name, name=f"{prefix}{thread.label or thread.id}", ref=None)
    return await find_or_create_thread(engine, db, caller, separate)


async def _find(engine: Engine, db: Db, caller: Caller, thread_name: ThreadName) -> Thread | None:
    found = None
    if thread_name.ref:
        found = await threads.find(db, caller, thread_name.ref, engine.now())
    return found or await threads.find_labelled(db, caller, thread_name.name, engine.now())
