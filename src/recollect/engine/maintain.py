"""Housekeeping that no request waits for: sweeping, folding, and looking after vector spaces."""

from datetime import timedelta

from recollect.engine import spaces, wear
from recollect.engine.core import Engine
from recollect.engine.counting import plan_counts
from recollect.engine.indexing import drop_strays, plan_indexes
from recollect.engine.signin import FORGIVEN
from recollect.store import (
    assets,
    documents,
    idempotency,
    identity,
    injections,
    jobs,
    lessons,
    responses,
    sign_ins,
    threads,
    words,
)

_DONE_KEPT = timedelta(days=7)
# What a conversation needs to go on where it was left.
_TURNS_KEPT = timedelta(days=30)
_BATCH = 1_000


async def tidy(engine: Engine) -> None:
    """Put back abandoned jobs, sweep what is over, fold the word counts. Safe to run anywhere."""
    now = engine.now()
    async with engine.pool.everywhere() as db:
        await jobs.release_abandoned(db, now)
    async with engine.pool.everywhere() as db:
        await jobs.sweep(db, now - _DONE_KEPT, _BATCH)
        await idempotency.sweep(db, now)
        await injections.sweep(db, now - _TURNS_KEPT, _BATCH)
        await responses.sweep(db, now - _TURNS_KEPT, _BATCH)
        await lessons.sweep(db, now - _TURNS_KEPT, _BATCH)
        await assets.sweep(db, now)
        await sign_ins.sweep(db, now=now, tried_before=now - FORGIVEN)
        await documents.sweep(db, now)
        crowded = await words.crowded_tallies(db)
    async with engine.pool.everywhere() as db:
        for workspace_id, ended in (await threads.empty_expired(db, now, _BATCH)).items():
            await idempotency.forget_answers(db, workspace_id, ended)
    await plan_indexes(engine)
    await drop_strays(engine)
    await plan_counts(engine)
    for workspace_id in crowded:
        async with engine.pool.writing(workspace_id) as db:
            await words.fold_tally(db, workspace_id)


async def survey(engine: Engine) -> None:
    """Have every workspace looked after: its vectors, and what time does to its memories."""
    async with engine.pool.everywhere() as db:
        found = await identity.workspaces(db)
    for workspace in found:
        async with engine.pool.writing(workspace.id) as db:
            await jobs.enqueue(db, workspace.id, [spaces.TEND, wear.WEAR], engine.now())
