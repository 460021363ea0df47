"""Periodic maintenance: delete expired rows, fold word counts, queue index and vector jobs."""

from datetime import timedelta

from recollect.chat.queries import injections, stored_responses
from recollect.conversations.queries import threads
from recollect.db import idempotency, job_queue
from recollect.documents.queries import documents
from recollect.embeddings import generations
from recollect.embeddings.index_job import drop_unused_indexes, plan_indexes
from recollect.engine import Engine
from recollect.keywords.common_words_job import plan_counts
from recollect.keywords.queries import totals
from recollect.learning.queries import inbox
from recollect.memories import decay_job
from recollect.memories.queries import assets
from recollect.tenancy.queries import sign_ins
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.tenancy.sign_in import FAILURES_FORGOTTEN_AFTER

_DONE_JOBS_RETENTION = timedelta(days=7)
# Data that a client needs to continue a conversation.
_TURNS_RETENTION = timedelta(days=30)
_BATCH = 1_000


async def tidy(engine: Engine) -> None:
    """Release abandoned jobs, delete expired rows, fold word counts, and plan indexes.

    Any number of processes may run this at the same time.
    """
    now = engine.now()
    async with engine.pool.everywhere() as db:
        await job_queue.release_abandoned(db, now)
    async with engine.pool.everywhere() as db:
        await job_queue.sweep(db, now - _DONE_JOBS_RETENTION, _BATCH)
        await idempotency.sweep(db, now)
        await injections.sweep(db, now - _TURNS_RETENTION, _BATCH)
        await stored_responses.sweep(db, now - _TURNS_RETENTION, _BATCH)
        await inbox.sweep(db, now - _TURNS_RETENTION, _BATCH)
        await assets.sweep(db, now)
        await sign_ins.delete_expired(db, now=now, tried_before=now - FAILURES_FORGOTTEN_AFTER)
        await documents.sweep(db, now)
        workspaces_to_fold = await totals.workspaces_to_fold(db)
    async with engine.pool.everywhere() as db:
        for workspace_id, ended in (await threads.empty_expired_threads(db, now, _BATCH)).items():
            await idempotency.forget_answers(db, workspace_id, ended)
    await plan_indexes(engine)
    await drop_unused_indexes(engine)
    await plan_counts(engine)
    for workspace_id in workspaces_to_fold:
        async with engine.pool.writing(workspace_id) as db:
            await totals.fold_totals(db, workspace_id)


async def survey(engine: Engine) -> None:
    """Queue the embedding and decay jobs of every workspace."""
    async with engine.pool.everywhere() as db:
        found = await workspaces_queries.list_workspaces(db)
    for workspace in found:
        async with engine.pool.writing(workspace.id) as db:
            await job_queue.enqueue(
                db, workspace.id, [generations.EMBED_JOB, decay_job.DECAY_JOB], engine.now()
            )
