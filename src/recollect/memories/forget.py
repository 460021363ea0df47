"""Forget a memory (soft), restore it, or delete it with everything derived from it (hard)."""

from collections.abc import Sequence

from recollect.core.domain import Caller, Memory, MemoryId, Ref, Right
from recollect.core.errors import NotFound
from recollect.db import idempotency, job_queue
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.memories.links import update_validity
from recollect.memories.queries import memories, supersession
from recollect.memories.queries.decay import DECAY_REASONS
from recollect.memories.save import audit_details, indexed_text


async def forget(engine: Engine, caller: Caller, ref: Ref, *, reason: str | None = None) -> Memory:
    """Hide a memory from every list, search and prompt; its row stays. Returns the memory.

    Memories that only this one superseded become current again.
    """
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        return await forget_within(engine, db, caller, ref, reason=reason)


async def forget_within(
    engine: Engine, db: Db, caller: Caller, ref: Ref, *, reason: str | None = None
) -> Memory:
    """Like `forget`, inside an open transaction that has not locked any memory yet."""
    await supersession.lock_supersession(db, caller.workspace_id)
    await memories.lock(db, caller, ref)
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    if reason in DECAY_REASONS:
        # Quoted, to tell a caller's text from the maintenance job's own reason: what the job
        # forgets keeps superseding older statements.
        reason = f'"{reason}"'
    await memories.soft_delete(db, caller.workspace_id, memory.id, reason=reason, now=engine.now())
    await postings.remove(db, caller.workspace_id, [memory.id])
    await engine.record_event(
        db,
        caller,
        "memory.forgotten",
        audit_details(memory),
        thread_code=memory.thread_code,
        subject=memory.subject,
        reason=reason,
        is_private=memory.is_restricted,
    )
    await _update_superseded(engine, db, caller, memory)
    return memory


async def restore(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Restore a forgotten memory unchanged; it supersedes the same memories as before."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await supersession.lock_supersession(db, caller.workspace_id)
        memory_id = await memories.lock(db, caller, ref)
        if memory_id is None or not await memories.undelete(
            db, caller.workspace_id, memory_id, engine.now()
        ):
            raise NotFound("memory")
        memory = await memories.find(db, caller, Ref(id=memory_id), engine.now())
        if memory is None:
            raise NotFound("memory")
        await postings.insert(db, caller.workspace_id, memory.id, terms(indexed_text(memory)))
        if memory.wants_vector and not memory.has_vector:
            await job_queue.enqueue(db, caller.workspace_id, [generations.EMBED_JOB], engine.now())
        await engine.record_event(
            db,
            caller,
            "memory.restored",
            audit_details(memory),
            thread_code=memory.thread_code,
            subject=memory.subject,
            is_private=memory.is_restricted,
        )
        await _update_superseded(engine, db, caller, memory)
    return memory


async def _update_superseded(engine: Engine, db: Db, caller: Caller, memory: Memory) -> None:
    await update_validity(
        engine, db, caller, await supersession.find_superseded(db, caller.workspace_id, [memory.id])
    )


async def remove(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a memory, its postings and its vectors permanently, even if it is forgotten."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        await supersession.lock_supersession(db, caller.workspace_id)
        memory_id = await memories.lock(db, caller, ref)
        if memory_id is None:
            raise NotFound("memory")
        await remove_rows(engine, db, caller, [memory_id])


async def remove_rows(engine: Engine, db: Db, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Delete memories whose rows are locked, and record an audit event for each.

    The caller must call `supersession.lock_supersession` before it locks the rows.
    """
    traces = await memories.traces(db, caller.workspace_id, ids)
    superseded = await supersession.find_superseded(db, caller.workspace_id, ids)
    await supersession.inherit_links(db, caller.workspace_id, ids)
    await postings.remove(db, caller.workspace_id, ids)
    await memories.remove(db, caller.workspace_id, ids)
    deleted = [(trace.id, trace.code) for trace in traces]
    await idempotency.forget_answers(db, caller.workspace_id, deleted)
    for trace in traces:
        await engine.record_event(
            db,
            caller,
            "memory.deleted",
            {"memory": trace.code, "version": trace.version, "hash": trace.digest},
            thread_code=trace.thread_code,
            subject=trace.subject,
            is_private=trace.is_restricted,
        )
    await update_validity(engine, db, caller, superseded)
