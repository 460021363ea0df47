"""The maintenance job of memories: update importance, forget decayed and repeated memories.

With a fixed clock, running it once or a thousand times leaves the same rows. It forgets and never
deletes; `restore` brings a forgotten memory back.
"""

from datetime import timedelta
from uuid import UUID

from recollect.core.domain import WorkspaceId
from recollect.db import audit_events
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.memories.decay import decayed_importance, idle
from recollect.memories.queries import decay, memories, supersession
from recollect.memories.queries.decay import FADED, REPEATED, DecayingMemory, RepeatedStatement

DECAY_JOB = NewJob("decay")

# A memory is pruned when its importance is low and it has not been used for this long.
_PRUNE_BELOW = 0.1
_PRUNE_AFTER = timedelta(days=90)

_BATCH = 1_000
_ACTOR = "maintenance"


async def run_decay(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Merge repeated statements, then update importances and forget decayed memories.

    In this order, because a merge changes the importance and access count of the newer statement.
    """
    await _merge_repeated(engine, workspace_id, beat)
    after = UUID(int=0)
    while True:
        async with engine.pool.writing(workspace_id) as db:
            batch = await decay.decaying_memories(db, workspace_id, after=after, limit=_BATCH)
            if not batch:
                break
            await _update_importance(engine, db, workspace_id, batch)
        after = batch[-1].id
        await beat()


async def _update_importance(
    engine: Engine, db: Db, workspace_id: WorkspaceId, batch: list[DecayingMemory]
) -> None:
    current = [(each, _current_importance(each, engine)) for each in batch]
    changed = [
        (each, value)
        for each, value in current
        if value != each.importance or _is_pruned(each, value, engine)
    ]
    if not changed:
        return
    locked = await decay.lock_unchanged(db, workspace_id, [each for each, _ in changed])
    changed = [(each, value) for each, value in changed if each.id in locked]
    await decay.set_importance(db, workspace_id, changed)
    for each, value in changed:
        if _is_pruned(each, value, engine):
            await _forget(engine, db, workspace_id, each, FADED)


def _current_importance(each: DecayingMemory, engine: Engine) -> float:
    return decayed_importance(
        each.importance_base,
        touched_at=each.touched_at,
        last_accessed_at=each.last_accessed_at,
        accesses=each.access_count,
        now=engine.now(),
    )


def _is_pruned(each: DecayingMemory, importance: float, engine: Engine) -> bool:
    unused = idle(each.touched_at, each.last_accessed_at, engine.now())
    return importance < _PRUNE_BELOW and unused > _PRUNE_AFTER


async def _merge_repeated(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    while True:
        async with engine.pool.writing(workspace_id) as db:
            await supersession.lock_supersession(db, workspace_id)
            batch = await decay.repeated_statements(
                db, workspace_id, now=engine.now(), limit=_BATCH
            )
            for each in batch:
                await _merge_one(engine, db, workspace_id, each)
        if len(batch) < _BATCH:
            return
        await beat()


async def _merge_one(
    engine: Engine, db: Db, workspace_id: WorkspaceId, each: RepeatedStatement
) -> None:
    """Forget a statement in favour of the newer one, which takes over its links and accesses."""
    superseded = await supersession.find_superseded(db, workspace_id, [each.id])
    if superseded:
        await supersession.reverse_links(db, workspace_id, each.newer_id, superseded)
    await supersession.move_links(db, workspace_id, each.id, each.newer_id)
    await decay.merge_access(db, workspace_id, each.id, each.newer_id)
    await _forget(engine, db, workspace_id, each, REPEATED)
    if superseded:
        await supersession.update_validity(db, workspace_id, superseded, engine.now())


async def _forget(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    each: DecayingMemory | RepeatedStatement,
    reason: str,
) -> None:
    """Forget a memory whose row is locked. Memories that it superseded stay superseded."""
    now = engine.now()
    await memories.soft_delete(db, workspace_id, each.id, reason=reason, now=now)
    await postings.remove(db, workspace_id, [each.id])
    await audit_events.insert_event(
        db,
        workspace_id,
        "memory.forgotten",
        actor=_ACTOR,
        user_id=None,
        details={"memory": each.code},
        at=now,
        reason=reason,
        is_private=each.is_restricted,
    )
