"""Maintenance of memories: importance wears and grows, the worn-out and the repeated are hidden.

For a fixed clock, running it once or a thousand times leaves the same rows. It hides and never
deletes; `restore` brings a hidden memory back.
"""

from datetime import timedelta
from uuid import UUID

from recollect.domain import WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.decay import decayed
from recollect.engine.spaces import Heartbeat
from recollect.store import events, memories, wear, words
from recollect.store.jobs import NewJob
from recollect.store.pool import Db
from recollect.store.wear import Repeated, Wearing

WEAR = NewJob("wear")

# Worn out: hardly important to begin with, and unused for a season.
_PRUNED_BELOW = 0.1
_PRUNED_AFTER = timedelta(days=90)

_BATCH = 1_000
_ACTOR = "maintenance"


async def wear_down(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Bring a workspace's importances up to date, then hide what is worn out or said twice."""
    after = UUID(int=0)
    while True:
        async with engine.pool.writing(workspace_id) as db:
            batch = await wear.wearing(db, workspace_id, after=after, limit=_BATCH)
            if not batch:
                break
            await _wear(engine, db, workspace_id, batch)
        after = batch[-1].id
        await beat()
    await _merge(engine, workspace_id, beat)


async def _wear(engine: Engine, db: Db, workspace_id: WorkspaceId, batch: list[Wearing]) -> None:
    now = engine.now()
    worn = [(each, _today(each, engine)) for each in batch]
    changed = [(each, value) for each, value in worn if value != each.importance]
    if changed:
        await wear.set_importance(db, workspace_id, changed)
    for each, value in worn:
        unused = now - (each.last_accessed_at or each.created_at)
        if value < _PRUNED_BELOW and unused > _PRUNED_AFTER:
            await _hide(engine, db, workspace_id, each, "worn out")


def _today(each: Wearing, engine: Engine) -> float:
    return decayed(
        each.importance_base,
        created_at=each.created_at,
        last_accessed_at=each.last_accessed_at,
        accesses=each.access_count,
        now=engine.now(),
    )


async def _merge(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    while True:
        async with engine.pool.writing(workspace_id) as db:
            batch = await wear.repeated(db, workspace_id, now=engine.now(), limit=_BATCH)
            for each in batch:
                await wear.pass_on_accesses(db, workspace_id, each.newer_id, each.access_count)
                await _hide(engine, db, workspace_id, each, "said again since")
        if len(batch) < _BATCH:
            return
        await beat()


async def _hide(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    each: Wearing | Repeated,
    reason: str,
) -> None:
    now = engine.now()
    if await memories.hide(db, workspace_id, each.id, reason=reason, now=now):
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
