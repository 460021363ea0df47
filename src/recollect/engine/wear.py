"""Maintenance of memories: importance wears and grows, the worn-out and the repeated are hidden.

For a fixed clock, running it once or a thousand times leaves the same rows. It hides and never
deletes; `restore` brings a hidden memory back.
"""

from datetime import timedelta
from uuid import UUID

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.decay import decayed, idle
from recollect.engine.spaces import Heartbeat
from recollect.store import events, links, memories, wear, words
from recollect.store.jobs import NewJob
from recollect.store.pool import Db
from recollect.store.wear import SAID_AGAIN, WORN_OUT, Repeated, Wearing

WEAR = NewJob("wear")

# Worn out: hardly important to begin with, and unused for a season.
_PRUNED_BELOW = 0.1
_PRUNED_AFTER = timedelta(days=90)

_BATCH = 1_000
_ACTOR = "maintenance"


async def wear_down(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Hide what is said twice, then bring importances up to date and hide what is worn out.

    In this order, because what a repetition passes on counts at once.
    """
    await _merge(engine, workspace_id, beat)
    after = UUID(int=0)
    while True:
        async with engine.pool.writing(workspace_id) as db:
            batch = await wear.wearing(db, workspace_id, after=after, limit=_BATCH)
            if not batch:
                break
            await _wear(engine, db, workspace_id, batch)
        after = batch[-1].id
        await beat()


async def _wear(engine: Engine, db: Db, workspace_id: WorkspaceId, batch: list[Wearing]) -> None:
    worn = [(each, _today(each, engine)) for each in batch]
    changed = [
        (each, value)
        for each, value in worn
        if value != each.importance or _is_worn_out(each, value, engine)
    ]
    if not changed:
        return
    held = await wear.hold_unchanged(db, workspace_id, [each for each, _ in changed])
    changed = [(each, value) for each, value in changed if each.id in held]
    await wear.set_importance(db, workspace_id, changed)
    for each, value in changed:
        if _is_worn_out(each, value, engine):
            await _hide(engine, db, workspace_id, each, WORN_OUT)


def _today(each: Wearing, engine: Engine) -> float:
    return decayed(
        each.importance_base,
        touched_at=each.touched_at,
        last_accessed_at=each.last_accessed_at,
        accesses=each.access_count,
        now=engine.now(),
    )


def _is_worn_out(each: Wearing, importance: float, engine: Engine) -> bool:
    unused = idle(each.touched_at, each.last_accessed_at, engine.now())
    return importance < _PRUNED_BELOW and unused > _PRUNED_AFTER


async def _merge(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    while True:
        async with engine.pool.writing(workspace_id) as db:
            await links.take_turn(db, workspace_id)
            batch = await wear.repeated(db, workspace_id, now=engine.now(), limit=_BATCH)
            for each in batch:
                await _merge_one(engine, db, workspace_id, each)
        if len(batch) < _BATCH:
            return
        await beat()


async def _merge_one(engine: Engine, db: Db, workspace_id: WorkspaceId, each: Repeated) -> None:
    """Hide a statement for the newer one, which takes over all that hung on it."""
    replaced = await links.replaced(db, workspace_id, [each.id])
    if replaced:
        await links.turn_round(db, workspace_id, each.newer_id, replaced)
    await links.hand_on(db, workspace_id, each.id, each.newer_id)
    await wear.hand_on(db, workspace_id, each.id, each.newer_id)
    await _hide(engine, db, workspace_id, each, SAID_AGAIN)
    if replaced:
        await links.settle(db, workspace_id, replaced, engine.now())


async def _hide(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    each: Wearing | Repeated,
    reason: str,
) -> None:
    """Hide a memory that the transaction holds. What it replaced stays replaced."""
    now = engine.now()
    await memories.hide(db, workspace_id, each.id, reason=reason, now=now)
    await words.remove(db, workspace_id, [each.id])
    await events.record(
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
