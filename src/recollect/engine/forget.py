"""Letting go: hiding a memory, or removing it and everything that was made from it."""

from collections.abc import Sequence

from recollect.domain import Caller, Memory, MemoryId, Ref, Right
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.link import settle
from recollect.engine.save import audited, indexed_text
from recollect.engine.words import terms
from recollect.errors import NotFound
from recollect.store import idempotency, jobs, links, memories, words
from recollect.store.pool import Db
from recollect.store.wear import BY_TIME


async def forget(engine: Engine, caller: Caller, ref: Ref, *, reason: str | None = None) -> Memory:
    """Hide a memory from every list, search and prompt; its row stays. Returns what it was.

    What it alone had replaced is current again.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        return await forget_within(engine, db, caller, ref, reason=reason)


async def forget_within(
    engine: Engine, db: Db, caller: Caller, ref: Ref, *, reason: str | None = None
) -> Memory:
    """As `forget`, in a transaction that is under way and holds no memory yet."""
    await links.take_turn(db, caller.workspace_id)
    await memories.lock(db, caller, ref)
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    if reason in BY_TIME:
        reason = f'"{reason}"'  # somebody's words: what time does leaves replaced what was
    await memories.hide(db, caller.workspace_id, memory.id, reason=reason, now=engine.now())
    await words.remove(db, caller.workspace_id, [memory.id])
    await engine.note(
        db,
        caller,
        "memory.forgotten",
        audited(memory),
        thread_code=memory.thread_code,
        subject=memory.subject,
        reason=reason,
        is_private=memory.is_restricted,
    )
    await _settle_replaced(engine, db, caller, memory)
    return memory


async def restore(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Bring a hidden memory back, as it was; what it replaces is replaced again."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await links.take_turn(db, caller.workspace_id)
        memory_id = await memories.lock(db, caller, ref)
        if memory_id is None or not await memories.unhide(
            db, caller.workspace_id, memory_id, engine.now()
        ):
            raise NotFound("memory")
        memory = await memories.find(db, caller, Ref(id=memory_id), engine.now())
        if memory is None:
            raise NotFound("memory")
        await words.insert(db, caller.workspace_id, memory.id, terms(indexed_text(memory)))
        if memory.wants_vector and not memory.has_vector:
            await jobs.enqueue(db, caller.workspace_id, [spaces.TEND], engine.now())
        await engine.note(
            db,
            caller,
            "memory.restored",
            audited(memory),
            thread_code=memory.thread_code,
            subject=memory.subject,
            is_private=memory.is_restricted,
        )
        await _settle_replaced(engine, db, caller, memory)
    return memory


async def _settle_replaced(engine: Engine, db: Db, caller: Caller, memory: Memory) -> None:
    await settle(engine, db, caller, await links.replaced(db, caller.workspace_id, [memory.id]))


async def remove(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a memory, its words and its vectors for good; a hidden one too."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        await links.take_turn(db, caller.workspace_id)
        memory_id = await memories.lock(db, caller, ref)
        if memory_id is None:
            raise NotFound("memory")
        await remove_rows(engine, db, caller, [memory_id])


async def remove_rows(engine: Engine, db: Db, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Delete memories whose rows the transaction holds, each with its line in the audit.

    It has waited for its turn to change what replaces what before it held them.
    """
    traces = await memories.traces(db, caller.workspace_id, ids)
    replaced = await links.replaced(db, caller.workspace_id, ids)
    await links.inherit(db, caller.workspace_id, ids)
    await words.remove(db, caller.workspace_id, ids)
    await memories.remove(db, caller.workspace_id, ids)
    gone = [(trace.id, trace.code) for trace in traces]
    await idempotency.forget_answers(db, caller.workspace_id, gone)
    for trace in traces:
        await engine.note(
            db,
            caller,
            "memory.deleted",
            {"memory": trace.code, "version": trace.version, "hash": trace.digest},
            thread_code=trace.thread_code,
            subject=trace.subject,
            is_private=trace.is_restricted,
        )
    await settle(engine, db, caller, replaced)
