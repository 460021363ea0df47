"""The worker: claim jobs under a lease, run them, retry failures, and mark jobs as failed."""

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from recollect import maintenance
from recollect.conversations import segments
from recollect.core.domain import WorkspaceId
from recollect.core.errors import Unavailable
from recollect.core.logging import frames
from recollect.core.metrics import Metrics
from recollect.core.tasks import cancel_all
from recollect.db import job_queue
from recollect.db.job_queue import Job
from recollect.documents import documents
from recollect.documents.read_job import read_documents
from recollect.embeddings import generations, index_job
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine
from recollect.keywords import common_words_job
from recollect.learning import inbox
from recollect.learning.distil_job import distil_inbox
from recollect.memories import decay_job

Run = Callable[[Engine, WorkspaceId, Heartbeat], Awaitable[None]]

# The function that runs each kind of job. The job row, never its payload, names the workspace.
HANDLERS: Mapping[str, Run] = {
    generations.EMBED_JOB.kind: generations.embed_missing,
    generations.DROP_JOB: generations.drop_retired_vectors,
    decay_job.DECAY_JOB.kind: decay_job.run_decay,
    index_job.INDEX_JOB.kind: index_job.build_indexes,
    inbox.DISTIL_JOB.kind: distil_inbox,
    common_words_job.COUNT_JOB.kind: common_words_job.count_words,
    segments.SEGMENT_JOB: segments.segment_threads,
    documents.READ_JOB.kind: read_documents,
}

LEASE = timedelta(seconds=60)
MAX_ATTEMPTS = 5
# A worker that misses a NOTIFY finds the job within this time.
POLL_SECONDS = 2.0
_UNAVAILABLE_PAUSE_SECONDS = 3.0
_MAX_BACKOFF_SECONDS = 300.0
_TICK_SECONDS = 30.0
_SURVEY_INTERVAL = timedelta(hours=12)

_log = structlog.get_logger(__name__)
_random = random.SystemRandom()


class LeaseLost(Exception):
    """Another worker has claimed the job: stop at once and change nothing."""


class Worker:
    """Runs up to `slots` jobs at once until it is cancelled."""

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        metrics: Metrics | None = None,
        handlers: Mapping[str, Run] = HANDLERS,
    ) -> None:
        self._engine = engine
        self._slots = slots
        self._metrics = metrics or engine.metrics
        self._handlers = handlers
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
        self._running: set[asyncio.Task[None]] = set()
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Look for due jobs now."""
        self._due.set()

    async def run(self) -> None:
        """Run jobs until cancelled; then release the running jobs for another worker."""
        ticker = asyncio.create_task(self._run_maintenance())
        try:
            while True:
                self._due.clear()
                await self._run_safely(self._start_due_jobs)
                await self._wait_for_work()
        finally:
            await cancel_all([ticker, *self._running])

    async def run_until_empty(self) -> int:
        """Run every due job and return how many there were. For tests and commands."""
        done = 0
        while True:
            async with self._engine.pool.everywhere() as db:
                claimed = await self._claim_due_jobs(db, self._slots)
            if not claimed:
                return done
            await asyncio.gather(*(self._run_job(job) for job in claimed))
            done += len(claimed)

    async def _start_due_jobs(self) -> None:
        free = self._slots - len(self._running)
        if free <= 0:
            return
        async with self._engine.pool.everywhere() as db:
            claimed = await self._claim_due_jobs(db, free)
        for job in claimed:
            task = asyncio.create_task(self._run_job(job))
            self._running.add(task)
            task.add_done_callback(self._on_job_end)

    async def _claim_due_jobs(self, db: job_queue.Db, limit: int) -> list[Job]:
        return await job_queue.claim(
            db,
            list(self._handlers),
            worker=self._name,
            limit=limit,
            lease=LEASE,
            now=self._engine.now(),
        )

    def _on_job_end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._due.set()

    async def _wait_for_work(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._due.wait()
        except TimeoutError:
            pass

    async def _run_job(self, job: Job) -> None:
        heart = asyncio.create_task(self._renew_lease_periodically(job))
        try:
            await self._handlers[job.kind](
                self._engine, job.workspace_id, lambda: self._renew_lease(job)
            )
        except asyncio.CancelledError:
            # Release the job, so that another worker need not wait for the lease to expire.
            await asyncio.shield(self._release(job))
            raise
        except LeaseLost:
            _log.warning("job.lost", kind=job.kind, job=str(job.id))
        except Unavailable as failure:
            await self._defer(job, failure)
        except Exception as error:  # noqa: BLE001 - a failing job must not stop the worker
            await self._retry_or_fail(job, error)
        else:
            async with self._engine.pool.writing(job.workspace_id) as db:
                await job_queue.finish(db, job, worker=self._name, now=self._engine.now())
            self._metrics.count_job(job.kind, "done")
        finally:
            heart.cancel()

    async def _renew_lease_periodically(self, job: Job) -> None:
        """Renew the lease during a long step of a handler, such as a slow model call."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await self._run_safely(lambda: self._renew_lease(job))

    async def _renew_lease(self, job: Job) -> None:
        async with self._engine.pool.writing(job.workspace_id) as db:
            is_ours = await job_queue.renew_lease(
                db, job, worker=self._name, lease=LEASE, now=self._engine.now()
            )
        if not is_ours:
            raise LeaseLost

    async def _release(self, job: Job) -> None:
        await self._run_safely(lambda: self._retry(job, "stopped", timedelta(), counts=False))

    async def _defer(self, job: Job, failure: Unavailable) -> None:
        """Run the job later because a dependency is unavailable. This uses up no attempt."""
        pause = failure.retry_after or timedelta(
            seconds=_UNAVAILABLE_PAUSE_SECONDS * _random.uniform(0.5, 1.5)
        )
        await self._retry(job, failure.message, pause, counts=False)
        seconds = round(pause.total_seconds(), 1)
        _log.warning("job.deferred", kind=job.kind, why=failure.message, seconds=seconds)
        self._metrics.count_job(job.kind, "deferred")

    async def _retry(self, job: Job, error: str, pause: timedelta, *, counts: bool) -> None:
        now = self._engine.now()
        async with self._engine.pool.writing(job.workspace_id) as db:
            await job_queue.retry(
                db,
                job,
                worker=self._name,
                error=error,
                run_after=now + pause,
                counts=counts,
                now=now,
            )

    async def _retry_or_fail(self, job: Job, error: Exception) -> None:
        # The type and the line, never the message, which could quote a memory.
        description = f"{type(error).__name__} at {(frames(error) or ['?'])[-1]}"
        _log.error("job.failed", kind=job.kind, job=str(job.id), error=description)
        is_over = job.attempts >= MAX_ATTEMPTS
        if is_over:
            async with self._engine.pool.writing(job.workspace_id) as db:
                await job_queue.fail(
                    db, job, worker=self._name, error=description, now=self._engine.now()
                )
        else:
            seconds = min(2.0**job.attempts, _MAX_BACKOFF_SECONDS) * _random.uniform(0.5, 1.5)
            await self._retry(job, description, timedelta(seconds=seconds), counts=True)
        self._metrics.count_job(job.kind, "failed" if is_over else "retried")

    async def _run_maintenance(self) -> None:
        surveyed_at: datetime | None = None
        while True:
            now = self._engine.now()
            is_due = surveyed_at is None or now - surveyed_at >= _SURVEY_INTERVAL
            if is_due and await self._run_safely(lambda: maintenance.survey(self._engine)):
                surveyed_at = now
            await self._run_safely(lambda: maintenance.tidy(self._engine))
            await asyncio.sleep(_TICK_SECONDS)

    async def _run_safely(self, action: Callable[[], Awaitable[None]]) -> bool:
        """Run the action; log any failure and return whether it succeeded.

        The worker must survive an unavailable database, a failover to a standby, and a workspace
        that is deleted meanwhile. Nothing would restart it.
        """
        try:
            await action()
        except (Unavailable, LeaseLost):
            _log.warning("worker.waiting", worker=self._name)
            return False
        except Exception as error:  # noqa: BLE001 - the callers try again
            _log.error("worker.failed", kind=type(error).__name__, at=frames(error))
            return False
        return True
