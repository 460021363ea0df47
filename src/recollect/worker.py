"""Claims jobs and runs them: leased, kept alive while they run, retried, and buried visibly."""

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from uuid import uuid4

import structlog

from recollect.domain import WorkspaceId
from recollect.engine import (
    counting,
    documents,
    indexing,
    learning,
    maintain,
    segments,
    spaces,
    wear,
)
from recollect.engine.core import Engine
from recollect.engine.learn import distil_lessons
from recollect.engine.reader import read_documents
from recollect.engine.spaces import Heartbeat
from recollect.errors import Unavailable
from recollect.logs import frames
from recollect.measure import Measures
from recollect.store import jobs
from recollect.store.jobs import Job
from recollect.tasks import end

Run = Callable[[Engine, WorkspaceId, Heartbeat], Awaitable[None]]

# What each kind of job does. A job names its workspace; nothing in its payload can.
HANDLERS: Mapping[str, Run] = {
    spaces.TEND.kind: spaces.tend_vectors,
    spaces.DROP: spaces.drop_vectors,
    wear.WEAR.kind: wear.wear_down,
    indexing.INDEX.kind: indexing.index_vectors,
    learning.DISTIL.kind: distil_lessons,
    counting.COUNT.kind: counting.count_words,
    segments.SEGMENT: segments.segment_threads,
    documents.READ.kind: read_documents,
}

LEASE = timedelta(seconds=60)
MOST_ATTEMPTS = 5
# Whoever is not woken by NOTIFY finds the work within this time.
POLL_SECONDS = 2.0
_DOWN_SECONDS = 3.0
_LONGEST_BACKOFF_SECONDS = 300.0
_TICK_SECONDS = 30.0
_SURVEYED_EVERY = timedelta(hours=12)

_log = structlog.get_logger(__name__)
_dice = random.SystemRandom()


class LeaseLost(Exception):
    """Another worker has the job by now: stop at once and touch nothing."""


class Worker:
    """Runs up to `slots` jobs at once until it is told to stop."""

    def __init__(
        self,
        engine: Engine,
        *,
        slots: int,
        measures: Measures | None = None,
        handlers: Mapping[str, Run] = HANDLERS,
    ) -> None:
        self._engine = engine
        self._slots = slots
        self._measures = measures or Measures()
        self._handlers = handlers
        self._name = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"
        self._running: set[asyncio.Task[None]] = set()
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Look for work now."""
        self._due.set()

    async def run(self) -> None:
        """Work until cancelled; then let go of what is running, which another takes up."""
        ticker = asyncio.create_task(self._tick())
        try:
            while True:
                self._due.clear()
                await self._survive(self._claim)
                await self._wait()
        finally:
            await end([ticker, *self._running])

    async def run_until_empty(self) -> int:
        """Do every job that is due, then return how many there were: for tests and commands."""
        done = 0
        while True:
            async with self._engine.pool.everywhere() as db:
                claimed = await self._due_jobs(db, self._slots)
            if not claimed:
                return done
            await asyncio.gather(*(self._perform(job) for job in claimed))
            done += len(claimed)

    async def _claim(self) -> None:
        free = self._slots - len(self._running)
        if free <= 0:
            return
        async with self._engine.pool.everywhere() as db:
            claimed = await self._due_jobs(db, free)
        for job in claimed:
            task = asyncio.create_task(self._perform(job))
            self._running.add(task)
            task.add_done_callback(self._ended)

    async def _due_jobs(self, db: jobs.Db, limit: int) -> list[Job]:
        return await jobs.claim(
            db,
            list(self._handlers),
            worker=self._name,
            limit=limit,
            lease=LEASE,
            now=self._engine.now(),
        )

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._due.set()

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(POLL_SECONDS):
                await self._due.wait()
        except TimeoutError:
            pass

    async def _perform(self, job: Job) -> None:
        heart = asyncio.create_task(self._keep(job))
        try:
            await self._handlers[job.kind](self._engine, job.workspace_id, lambda: self._beat(job))
        except asyncio.CancelledError:
            # Told to stop: another takes it up now, and not when the lease has run out.
            await asyncio.shield(self._put_back(job))
            raise
        except LeaseLost:
            _log.warning("job.lost", kind=job.kind, job=str(job.id))
        except Unavailable as failure:
            await self._defer(job, failure)
        except Exception as error:  # noqa: BLE001 - whatever a job does, the worker goes on
            await self._failed(job, error)
        else:
            async with self._engine.pool.writing(job.workspace_id) as db:
                await jobs.finish(db, job, worker=self._name, now=self._engine.now())
            self._measures.job(job.kind, "done")
        finally:
            heart.cancel()

    async def _keep(self, job: Job) -> None:
        """Renew the lease while a handler is busy with something long, such as a slow model."""
        while True:
            await asyncio.sleep(LEASE.total_seconds() / 3)
            await self._survive(lambda: self._beat(job))

    async def _beat(self, job: Job) -> None:
        async with self._engine.pool.writing(job.workspace_id) as db:
            is_ours = await jobs.extend(
                db, job, worker=self._name, lease=LEASE, now=self._engine.now()
            )
        if not is_ours:
            raise LeaseLost

    async def _put_back(self, job: Job) -> None:
        await self._survive(lambda: self._retry(job, "stopped", timedelta(), counts=False))

    async def _defer(self, job: Job, failure: Unavailable) -> None:
        """A dependency is down: try later, as often as it takes, without using up tries."""
        pause = failure.retry_after or timedelta(seconds=_DOWN_SECONDS * _dice.uniform(0.5, 1.5))
        await self._retry(job, failure.message, pause, counts=False)
        self._measures.job(job.kind, "deferred")

    async def _retry(self, job: Job, error: str, pause: timedelta, *, counts: bool) -> None:
        now = self._engine.now()
        async with self._engine.pool.writing(job.workspace_id) as db:
            await jobs.retry(
                db,
                job,
                worker=self._name,
                error=error,
                run_after=now + pause,
                counts=counts,
                now=now,
            )

    async def _failed(self, job: Job, error: Exception) -> None:
        # The type and the place, never the message: it could quote a memory.
        told = f"{type(error).__name__} at {(frames(error) or ['?'])[-1]}"
        _log.error("job.failed", kind=job.kind, job=str(job.id), error=told)
        is_over = job.attempts >= MOST_ATTEMPTS
        if is_over:
            async with self._engine.pool.writing(job.workspace_id) as db:
                await jobs.bury(db, job, worker=self._name, error=told, now=self._engine.now())
        else:
            seconds = min(2.0**job.attempts, _LONGEST_BACKOFF_SECONDS) * _dice.uniform(0.5, 1.5)
            await self._retry(job, told, timedelta(seconds=seconds), counts=True)
        self._measures.job(job.kind, "buried" if is_over else "retried")

    async def _tick(self) -> None:
        surveyed: datetime | None = None
        while True:
            now = self._engine.now()
            is_due = surveyed is None or now - surveyed >= _SURVEYED_EVERY
            if is_due and await self._survive(lambda: maintain.survey(self._engine)):
                surveyed = now
            await self._survive(lambda: maintain.tidy(self._engine))
            await asyncio.sleep(_TICK_SECONDS)

    async def _survive(self, act: Callable[[], Awaitable[None]]) -> bool:
        """Whether it went well; a database that is away comes back, and a worker outlives the rest.

        A workspace may be gone between being found and being looked after, a standby may take over:
        nobody would notice a worker that had ended on that.
        """
        try:
            await act()
        except (Unavailable, LeaseLost):
            _log.warning("worker.waits", worker=self._name)
            return False
        except Exception as error:  # noqa: BLE001 - tried again, by whoever calls this in turns
            _log.error("worker.failed", kind=type(error).__name__, at=frames(error))
            return False
        return True
