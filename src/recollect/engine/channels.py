"""Conversations as other systems name them: found by any id, or by a label of the client's own."""

from dataclasses import dataclass, replace
from uuid import uuid4

from recollect.domain import Caller, Ref, Right, Thread, ThreadId, new_code
from recollect.engine.core import Engine
from recollect.errors import Conflict
from recollect.store import threads
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Channel:
    """A conversation by name; `ref` is what the name would be an id of, if it can be one."""

    name: str
    ref: Ref | None = None
    # Whose conversation it is, should it begin now.
    agent: str | None = None
    # It must be that agent's: one that is nobody's becomes theirs, another agent's is left alone.
    is_kept_apart: bool = False


async def find_channel(engine: Engine, caller: Caller, channel: Channel) -> Ref | None:
    """The thread of that name; None when there is none, and none is made."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread = await _find(engine, db, caller, channel)
    return Ref(id=thread.id) if thread else None


async def enter_channel(engine: Engine, db: Db, caller: Caller, channel: Channel) -> Thread:
    """The thread of that name, made in this transaction when there is none."""
    thread = await _find(engine, db, caller, channel)
    thread = thread or await _begin(engine, db, caller, channel)
    if not channel.is_kept_apart or thread.agent == channel.agent:
        return thread
    return await _of_agent(engine, db, caller, channel, thread)


async def _begin(engine: Engine, db: Db, caller: Caller, channel: Channel) -> Thread:
    now = engine.now()
    wished = Thread(
        id=ThreadId(uuid4()),
        code=new_code(),
        workspace_id=caller.workspace_id,
        agent=channel.agent,
        subject=None,
        metadata={},
        state={},
        state_version=0,
        created_at=now,
        updated_at=now,
        label=channel.name,
        user_id=caller.user_id,
    )
    thread, is_new = await threads.find_or_create_labelled(db, caller, wished, now)
    if is_new:
        await engine.note(db, caller, "session.created", {}, thread_code=thread.code)
    return thread


async def _of_agent(
    engine: Engine, db: Db, caller: Caller, channel: Channel, thread: Thread
) -> Thread:
    """The thread itself, if it is no agent's and becomes this one's; else one beside it."""
    assert channel.agent
    if not thread.agent:
        thread = await threads.give_to_agent(db, thread, channel.agent, engine.now())
        if thread.agent == channel.agent:
            await engine.note(db, caller, "session.assigned", {}, thread_code=thread.code)
            return thread
    own = f"agent:{channel.agent}/"
    if channel.name.startswith(own):
        raise Conflict("This conversation is another agent's. Choose another `channel_id`.")
    # By what the thread is called and not by how it was spelt: every spelling leads here.
    beside = replace(channel, name=f"{own}{thread.label or thread.id}", ref=None)
    return await enter_channel(engine, db, caller, beside)


async def _find(engine: Engine, db: Db, caller: Caller, channel: Channel) -> Thread | None:
    found = None
    if channel.ref:
        found = await threads.find(db, caller, channel.ref, engine.now())
    return found or await threads.find_labelled(db, caller, channel.name, engine.now())
