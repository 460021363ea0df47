"""The job queue: no job is lost, none runs twice, and failed jobs stay visible."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from recollect.core import tasks
from recollect.core.domain import Caller, WorkspaceId
from recollect.core.errors import Unavailable
from recollect.db import job_queue
from recollect.db.job_queue import ListedJob, NewJob
from recollect.db.notifications import listen
from recollect.db.pool import Db, Pool
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine
from recollect.maintenance import tidy
from recollect.worker import MAX_ATTEMPTS, Worker
from tests.support.clock import Clock
from tests.support.instance import new_caller
from tests.support.pgbouncer import uses_pgbouncer

pytestmark = pytest.mark.anyio


async def enqueue(engine: Engine, caller: Caller, *new: NewJob) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await job_queue.enqueue(db, caller.workspace_id, new, engine.now())


async def list_jobs(engine: Engine, caller: Caller, kind: str) -> list[ListedJob]:
    async with engine.pool.everywhere() as db:
        found = await job_queue.list_jobs(db, status=None, limit=10_000)
    return [job for job in found if job.workspace_id == caller.workspace_id and job.kind == kind]


async def job_states(engine: Engine, caller: Caller, kind: str) -> list[str]:
    return sorted(job.status for job in await list_jobs(engine, caller, kind))


class Recorder:
    """A handler that records the workspaces it ran for."""

    def __init__(self) -> None:
        self.ran: list[WorkspaceId] = []

    async def __call__(self, _: Engine, workspace_id: WorkspaceId, __: Heartbeat) -> None:
        self.ran.append(workspace_id)


def unique_kind(request: pytest.FixtureRequest) -> str:
    """A job kind for this test only: the database is shared, and workers claim in all workspaces."""
    return request.node.name[:60]


async def test_S47_a_job_runs_in_its_own_workspace_whatever_its_payload(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    recorder, other = Recorder(), await new_caller(engine)
    forged = {"workspace_id": str(other.workspace_id), "workspace": str(other.workspace_id)}
    await enqueue(engine, caller, NewJob(unique_kind(request), payload=forged))

    await Worker(engine, slots=1, handlers={unique_kind(request): recorder}).run_until_empty()

    assert recorder.ran == [caller.workspace_id]


async def test_a_job_exists_exactly_when_its_transaction_commits(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    class RolledBackError(Exception):
        pass

    with pytest.raises(RolledBackError):
        async with engine.pool.writing(caller.workspace_id) as db:
            await job_queue.enqueue(
                db, caller.workspace_id, [NewJob(unique_kind(request))], engine.now()
            )
            raise RolledBackError

    assert await list_jobs(engine, caller, unique_kind(request)) == []


async def test_a_job_with_the_key_of_a_queued_one_is_not_added(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(
        engine, caller, NewJob(unique_kind(request), "a"), NewJob(unique_kind(request), "b")
    )
    await enqueue(engine, caller, NewJob(unique_kind(request), "a"))

    assert await job_states(engine, caller, unique_kind(request)) == ["pending", "pending"]


async def test_two_workers_never_run_the_same_job_twice(
    engine: Engine, request: pytest.FixtureRequest
) -> None:
    callers = [await new_caller(engine) for _ in range(20)]
    for caller in callers:
        await enqueue(engine, caller, *(NewJob(unique_kind(request), str(n)) for n in range(5)))
    recorder = Recorder()
    workers = [Worker(engine, slots=4, handlers={unique_kind(request): recorder}) for _ in range(2)]

    done = await asyncio.gather(*(worker.run_until_empty() for worker in workers))

    assert sum(done) == len(recorder.ran) == 100
    assert all(done)  # both workers ran jobs
    assert {who: recorder.ran.count(who) for who in recorder.ran} == {
        caller.workspace_id: 5 for caller in callers
    }


async def test_a_job_whose_worker_died_is_run_by_another(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    async with engine.pool.everywhere() as db:
        [lost] = await job_queue.claim(
            db,
            [unique_kind(request)],
            worker="dead",
            limit=1,
            lease=timedelta(seconds=60),
            now=engine.now(),
        )
    recorder = Recorder()
    other_worker = Worker(engine, slots=1, handlers={unique_kind(request): recorder})
    await tidy(engine)
    assert await other_worker.run_until_empty() == 0

    clock.advance(timedelta(seconds=61))
    await tidy(engine)
    await other_worker.run_until_empty()

    assert recorder.ran == [caller.workspace_id]
    assert await job_states(engine, caller, unique_kind(request)) == ["done"]
    # The dead worker wakes up late and must change nothing.
    async with engine.pool.writing(caller.workspace_id) as db:
        assert not await job_queue.finish(db, lost, worker="dead", now=engine.now())


async def test_heartbeats_keep_a_job_longer_than_its_lease(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    beats = 0

    async def long_job(_: Engine, __: WorkspaceId, beat: Heartbeat) -> None:
        nonlocal beats
        while beats < 3:
            await beat()
            beats += 1

    await Worker(engine, slots=1, handlers={unique_kind(request): long_job}).run_until_empty()

    assert beats == 3
    assert await job_states(engine, caller, unique_kind(request)) == ["done"]


async def test_a_poison_job_fails_and_the_others_finish(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    poisoned = await new_caller(engine)
    await enqueue(engine, caller, *(NewJob(unique_kind(request), str(n)) for n in range(99)))
    await enqueue(engine, poisoned, NewJob(unique_kind(request)))

    async def handler(_: Engine, workspace_id: WorkspaceId, __: Heartbeat) -> None:
        if workspace_id == poisoned.workspace_id:
            raise ValueError("Ada's secret")

    worker = Worker(engine, slots=4, handlers={unique_kind(request): handler})
    for _ in range(MAX_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(hours=1))

    assert await job_states(engine, caller, unique_kind(request)) == ["done"] * 99
    [failed] = await list_jobs(engine, poisoned, unique_kind(request))
    assert (failed.status, failed.attempts) == ("failed", MAX_ATTEMPTS)
    assert failed.last_error
    assert failed.last_error.startswith("ValueError at test_job_queue.py")
    assert "Ada" not in failed.last_error


async def test_a_failed_job_can_be_retried(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))

    async def broken(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        raise ValueError

    worker = Worker(engine, slots=1, handlers={unique_kind(request): broken})
    for _ in range(MAX_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(hours=1))
    [failed] = await list_jobs(engine, caller, unique_kind(request))

    async with engine.pool.everywhere() as db:
        retried = await job_queue.retry_failed(db, failed.id, engine.now())
    recorder = Recorder()
    await Worker(engine, slots=1, handlers={unique_kind(request): recorder}).run_until_empty()

    assert retried == 1
    assert await job_states(engine, caller, unique_kind(request)) == ["done"]


async def test_an_unavailable_dependency_uses_up_no_attempts_and_its_hint_is_honoured(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))

    async def unavailable(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        raise Unavailable("embedder", retry_after=timedelta(seconds=40))

    worker = Worker(engine, slots=1, handlers={unique_kind(request): unavailable})
    for _ in range(2 * MAX_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(seconds=41))

    [job] = await list_jobs(engine, caller, unique_kind(request))
    assert (job.status, job.attempts) == ("pending", 0)
    assert job.run_after == clock.at - timedelta(seconds=1)


async def test_a_job_queued_while_its_duplicate_runs_runs_once_more(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    run_count = 0

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        nonlocal run_count
        run_count += 1
        if run_count == 1:
            await enqueue(engine, caller, NewJob(unique_kind(request)))

    await Worker(engine, slots=1, handlers={unique_kind(request): handler}).run_until_empty()

    assert run_count == 2
    assert await job_states(engine, caller, unique_kind(request)) == ["done", "done"]


async def test_a_failed_job_gives_way_to_a_duplicate_queued_meanwhile(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    run_count = 0

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        nonlocal run_count
        run_count += 1
        if run_count == 1:
            await enqueue(engine, caller, NewJob(unique_kind(request)))
            raise ValueError

    await Worker(engine, slots=1, handlers={unique_kind(request): handler}).run_until_empty()

    assert run_count == 2
    assert await job_states(engine, caller, unique_kind(request)) == ["done", "done"]


async def test_a_released_job_gives_way_to_a_duplicate_being_queued(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    async with engine.pool.everywhere() as db:
        [job] = await claim_one(engine, db, unique_kind(request))

    async def put_back() -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await job_queue.retry(
                db,
                job,
                worker="one",
                error="stopped",
                run_after=engine.now(),
                counts=False,
                now=engine.now(),
            )

    async with (
        asyncio.timeout(10),
        asyncio.TaskGroup() as tasks,
        engine.pool.writing(caller.workspace_id) as db,
    ):
        await job_queue.enqueue(
            db, caller.workspace_id, [NewJob(unique_kind(request))], engine.now()
        )
        tasks.create_task(put_back())
        await wait_for_a_blocked_transaction(engine, caller)

    assert await job_states(engine, caller, unique_kind(request)) == ["done", "pending"]


async def test_a_job_waits_for_its_running_duplicate_but_other_keys_run(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    def named(name: str) -> NewJob:
        return NewJob(unique_kind(request), name, {"name": name})

    await enqueue(engine, caller, named("a"))
    async with engine.pool.everywhere() as db:
        [running] = await claim_one(engine, db, unique_kind(request))
    await enqueue(engine, caller, named("a"), named("b"))

    async with engine.pool.everywhere() as db:
        meanwhile = [await claim_one(engine, db, unique_kind(request)) for _ in range(2)]
        await job_queue.finish(db, running, worker="one", now=engine.now())
        after = await claim_one(engine, db, unique_kind(request))

    assert [[job.payload["name"] for job in each] for each in (*meanwhile, after)] == [
        ["b"],
        [],
        ["a"],
    ]


async def test_two_abandoned_jobs_with_one_key_become_one(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    for _ in range(2):
        await enqueue(engine, caller, NewJob(unique_kind(request)))
        # An older release that runs duplicates in parallel may use the same database.
        async with engine.pool.writing(caller.workspace_id) as db:
            await db.execute(
                "UPDATE job SET status = 'running', locked_until = %s WHERE kind = %s",
                [engine.now() + timedelta(minutes=1), unique_kind(request)],
            )
    clock.advance(timedelta(minutes=2))

    await tidy(engine)

    assert await job_states(engine, caller, unique_kind(request)) == ["done", "pending"]


async def test_failed_jobs_with_the_same_key_are_retried_one_at_a_time(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    for _ in range(2):
        await enqueue(engine, caller, NewJob(unique_kind(request)))
        async with engine.pool.everywhere() as db:
            [job] = await claim_one(engine, db, unique_kind(request))
        async with engine.pool.writing(caller.workspace_id) as db:
            await job_queue.fail(db, job, worker="one", error="broken", now=engine.now())

    async with engine.pool.everywhere() as db:
        await job_queue.retry_failed(db, None, engine.now())

    assert await job_states(engine, caller, unique_kind(request)) == ["failed", "pending"]


async def claim_one(engine: Engine, db: job_queue.Db, kind: str) -> list[job_queue.Job]:
    return await job_queue.claim(
        db, [kind], worker="one", limit=1, lease=timedelta(minutes=1), now=engine.now()
    )


async def wait_for_a_blocked_transaction(engine: Engine, caller: Caller) -> None:
    """Wait until another transaction is blocked by the one that the test keeps open."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    while True:
        async with engine.pool.reading(caller.workspace_id) as db:
            if await (await db.execute(waiting)).fetchone() != (0,):
                return


async def test_a_commit_wakes_the_worker_and_cancellation_stops_it(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    done = asyncio.Event()

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        done.set()

    worker = Worker(engine, slots=1, handlers={unique_kind(request): handler})
    tasks = [
        asyncio.create_task(worker.run()),
        asyncio.create_task(listen(engine.pool.url, {job_queue.CHANNEL: lambda _: worker.wake()})),
    ]
    await enqueue(engine, caller, NewJob(unique_kind(request)))

    async with asyncio.timeout(10):
        await done.wait()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2


async def test_a_cancelled_worker_releases_its_job_at_once(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    started = asyncio.Event()

    async def endless(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(
        Worker(engine, slots=1, handlers={unique_kind(request): endless}).run()
    )
    async with asyncio.timeout(10):
        await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    recorder = Recorder()
    await Worker(engine, slots=1, handlers={unique_kind(request): recorder}).run_until_empty()

    assert recorder.ran == [caller.workspace_id]


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `asyncio.wait_for` of Python 3.11 does, with which the driver waits."""
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN_SECONDS", 0.01)
    cancelled = 0

    async def stubborn() -> None:
        nonlocal cancelled
        while cancelled < 2:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled += 1

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)

    await asyncio.wait_for(tasks.cancel_all([task]), timeout=5)

    assert (task.done(), cancelled) == (True, 2)


async def test_a_worker_survives_unexpected_errors(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    class Standby(Pool):
        """A database server that rejects writes for a moment, like a standby during failover."""

        is_read_only = True
        refused = asyncio.Event()

        @asynccontextmanager
        async def everywhere(self) -> AsyncGenerator[Db]:
            async with super().everywhere() as db:
                if self.is_read_only:
                    await db.execute("SET LOCAL transaction_read_only = on")
                    self.refused.set()
                yield db

    done = asyncio.Event()

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        done.set()

    pool = Standby(engine.pool.url, size=2, behind_pgbouncer=uses_pgbouncer())
    await pool.open()
    instance = replace(engine, pool=pool)
    await enqueue(engine, caller, NewJob(unique_kind(request)))
    working = Worker(instance, slots=1, handlers={unique_kind(request): handler})
    task = asyncio.create_task(working.run())
    async with asyncio.timeout(10):
        await pool.refused.wait()
        pool.is_read_only = False
        await done.wait()
    await tasks.cancel_all([task])
    await pool.close()
