"""The queue: no job is lost, none is done twice, and what cannot be done is buried visibly."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from recollect import tasks
from recollect.domain import Caller, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.maintain import tidy
from recollect.engine.spaces import Heartbeat
from recollect.errors import Unavailable
from recollect.store import jobs
from recollect.store.jobs import Listed, NewJob
from recollect.store.listen import listen
from recollect.store.pool import Db, Pool
from recollect.worker import MOST_ATTEMPTS, Worker
from tests.support.clock import Clock
from tests.support.house import new_caller
from tests.support.pgbouncer import is_wanted

pytestmark = pytest.mark.anyio


async def enqueue(engine: Engine, caller: Caller, *new: NewJob) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await jobs.enqueue(db, caller.workspace_id, new, engine.now())


async def listed(engine: Engine, caller: Caller, kind: str) -> list[Listed]:
    async with engine.pool.everywhere() as db:
        found = await jobs.listed(db, status=None, limit=10_000)
    return [job for job in found if job.workspace_id == caller.workspace_id and job.kind == kind]


async def states(engine: Engine, caller: Caller, kind: str) -> list[str]:
    return sorted(job.status for job in await listed(engine, caller, kind))


class Recorder:
    """A handler that notes for whom it ran."""

    def __init__(self) -> None:
        self.ran: list[WorkspaceId] = []

    async def __call__(self, _: Engine, workspace_id: WorkspaceId, __: Heartbeat) -> None:
        self.ran.append(workspace_id)


def kind(request: pytest.FixtureRequest) -> str:
    """Kinds of this test alone: the database is shared, and a worker claims in every workspace."""
    return request.node.name[:60]


async def test_S47_a_job_works_in_its_own_workspace_whatever_it_says(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    recorder, other = Recorder(), await new_caller(engine)
    forged = {"workspace_id": str(other.workspace_id), "workspace": str(other.workspace_id)}
    await enqueue(engine, caller, NewJob(kind(request), payload=forged))

    await Worker(engine, slots=1, handlers={kind(request): recorder}).run_until_empty()

    assert recorder.ran == [caller.workspace_id]


async def test_a_job_exists_exactly_when_its_transaction_commits(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    class ChangedMyMindError(Exception):
        pass

    with pytest.raises(ChangedMyMindError):
        async with engine.pool.writing(caller.workspace_id) as db:
            await jobs.enqueue(db, caller.workspace_id, [NewJob(kind(request))], engine.now())
            raise ChangedMyMindError

    assert await listed(engine, caller, kind(request)) == []


async def test_a_second_job_under_a_waiting_key_adds_nothing(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request), "a"), NewJob(kind(request), "b"))
    await enqueue(engine, caller, NewJob(kind(request), "a"))

    assert await states(engine, caller, kind(request)) == ["pending", "pending"]


async def test_two_workers_never_do_one_job_twice(
    engine: Engine, request: pytest.FixtureRequest
) -> None:
    callers = [await new_caller(engine) for _ in range(20)]
    for caller in callers:
        await enqueue(engine, caller, *(NewJob(kind(request), str(n)) for n in range(5)))
    recorder = Recorder()
    workers = [Worker(engine, slots=4, handlers={kind(request): recorder}) for _ in range(2)]

    done = await asyncio.gather(*(worker.run_until_empty() for worker in workers))

    assert sum(done) == len(recorder.ran) == 100
    assert all(done)  # both were at it
    assert {who: recorder.ran.count(who) for who in recorder.ran} == {
        caller.workspace_id: 5 for caller in callers
    }


async def test_a_job_whose_worker_died_is_done_by_another(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    async with engine.pool.everywhere() as db:
        [lost] = await jobs.claim(
            db,
            [kind(request)],
            worker="dead",
            limit=1,
            lease=timedelta(seconds=60),
            now=engine.now(),
        )
    recorder = Recorder()
    heir = Worker(engine, slots=1, handlers={kind(request): recorder})
    await tidy(engine)
    assert await heir.run_until_empty() == 0

    clock.advance(timedelta(seconds=61))
    await tidy(engine)
    await heir.run_until_empty()

    assert recorder.ran == [caller.workspace_id]
    assert await states(engine, caller, kind(request)) == ["done"]
    # The dead one wakes up late and must change nothing.
    async with engine.pool.writing(caller.workspace_id) as db:
        assert not await jobs.finish(db, lost, worker="dead", now=engine.now())


async def test_a_job_longer_than_its_lease_is_kept_by_its_heartbeat(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    beats = 0

    async def long_job(_: Engine, __: WorkspaceId, beat: Heartbeat) -> None:
        nonlocal beats
        while beats < 3:
            await beat()
            beats += 1

    await Worker(engine, slots=1, handlers={kind(request): long_job}).run_until_empty()

    assert beats == 3
    assert await states(engine, caller, kind(request)) == ["done"]


async def test_one_poison_job_among_many_is_buried_and_the_others_are_done(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    poisoned = await new_caller(engine)
    await enqueue(engine, caller, *(NewJob(kind(request), str(n)) for n in range(99)))
    await enqueue(engine, poisoned, NewJob(kind(request)))

    async def handler(_: Engine, workspace_id: WorkspaceId, __: Heartbeat) -> None:
        if workspace_id == poisoned.workspace_id:
            raise ValueError("Ada's secret")

    worker = Worker(engine, slots=4, handlers={kind(request): handler})
    for _ in range(MOST_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(hours=1))

    assert await states(engine, caller, kind(request)) == ["done"] * 99
    [buried] = await listed(engine, poisoned, kind(request))
    assert (buried.status, buried.attempts) == ("buried", MOST_ATTEMPTS)
    assert buried.last_error
    assert buried.last_error.startswith("ValueError at test_queue.py")
    assert "Ada" not in buried.last_error


async def test_a_buried_job_can_be_tried_again(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))

    async def broken(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        raise ValueError

    worker = Worker(engine, slots=1, handlers={kind(request): broken})
    for _ in range(MOST_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(hours=1))
    [buried] = await listed(engine, caller, kind(request))

    async with engine.pool.everywhere() as db:
        revived = await jobs.revive(db, buried.id, engine.now())
    recorder = Recorder()
    await Worker(engine, slots=1, handlers={kind(request): recorder}).run_until_empty()

    assert revived == 1
    assert await states(engine, caller, kind(request)) == ["done"]


async def test_a_dependency_that_is_down_uses_up_no_tries_and_its_own_hint_is_honoured(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))

    async def waits(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        raise Unavailable("embedder", retry_after=timedelta(seconds=40))

    worker = Worker(engine, slots=1, handlers={kind(request): waits})
    for _ in range(2 * MOST_ATTEMPTS):
        await worker.run_until_empty()
        clock.advance(timedelta(seconds=41))

    [job] = await listed(engine, caller, kind(request))
    assert (job.status, job.attempts) == ("pending", 0)
    assert job.run_after == clock.at - timedelta(seconds=1)


async def test_work_queued_while_the_same_work_runs_is_done_once_more(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    runs = 0

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await enqueue(engine, caller, NewJob(kind(request)))

    await Worker(engine, slots=1, handlers={kind(request): handler}).run_until_empty()

    assert runs == 2
    assert await states(engine, caller, kind(request)) == ["done", "done"]


async def test_a_failed_job_makes_way_for_the_one_queued_meanwhile(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    runs = 0

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await enqueue(engine, caller, NewJob(kind(request)))
            raise ValueError

    await Worker(engine, slots=1, handlers={kind(request): handler}).run_until_empty()

    assert runs == 2
    assert await states(engine, caller, kind(request)) == ["done", "done"]


async def test_a_job_put_back_while_its_twin_is_being_queued_makes_way_for_it(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    async with engine.pool.everywhere() as db:
        [job] = await claim(engine, db, kind(request))

    async def put_back() -> None:
        async with engine.pool.writing(caller.workspace_id) as db:
            await jobs.retry(
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
        await jobs.enqueue(db, caller.workspace_id, [NewJob(kind(request))], engine.now())
        tasks.create_task(put_back())
        await somebody_waits(engine, caller)

    assert await states(engine, caller, kind(request)) == ["done", "pending"]


async def test_a_job_waits_while_its_twin_runs_and_others_of_its_kind_do_not(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    def named(name: str) -> NewJob:
        return NewJob(kind(request), name, {"name": name})

    await enqueue(engine, caller, named("a"))
    async with engine.pool.everywhere() as db:
        [running] = await claim(engine, db, kind(request))
    await enqueue(engine, caller, named("a"), named("b"))

    async with engine.pool.everywhere() as db:
        beside = [await claim(engine, db, kind(request)) for _ in range(2)]
        await jobs.finish(db, running, worker="one", now=engine.now())
        after = await claim(engine, db, kind(request))

    assert [[job.payload["name"] for job in each] for each in (*beside, after)] == [
        ["b"],
        [],
        ["a"],
    ]


async def test_two_jobs_with_one_key_whose_workers_died_become_one(
    engine: Engine, caller: Caller, clock: Clock, request: pytest.FixtureRequest
) -> None:
    for _ in range(2):
        await enqueue(engine, caller, NewJob(kind(request)))
        # A release that let twins run beside each other may be at work on the same database.
        async with engine.pool.writing(caller.workspace_id) as db:
            await db.execute(
                "UPDATE job SET status = 'running', locked_until = %s WHERE kind = %s",
                [engine.now() + timedelta(minutes=1), kind(request)],
            )
    clock.advance(timedelta(minutes=2))

    await tidy(engine)

    assert await states(engine, caller, kind(request)) == ["done", "pending"]


async def test_two_buried_jobs_with_one_key_are_tried_one_after_the_other(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    for _ in range(2):
        await enqueue(engine, caller, NewJob(kind(request)))
        async with engine.pool.everywhere() as db:
            [job] = await claim(engine, db, kind(request))
        async with engine.pool.writing(caller.workspace_id) as db:
            await jobs.bury(db, job, worker="one", error="broken", now=engine.now())

    async with engine.pool.everywhere() as db:
        await jobs.revive(db, None, engine.now())

    assert await states(engine, caller, kind(request)) == ["buried", "pending"]


async def claim(engine: Engine, db: jobs.Db, kind: str) -> list[jobs.Job]:
    return await jobs.claim(
        db, [kind], worker="one", limit=1, lease=timedelta(minutes=1), now=engine.now()
    )


async def somebody_waits(engine: Engine, caller: Caller) -> None:
    """Until another transaction of ours waits for the one that the test holds."""
    waiting = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'
    """
    while True:
        async with engine.pool.reading(caller.workspace_id) as db:
            if await (await db.execute(waiting)).fetchone() != (0,):
                return


async def test_a_running_worker_is_woken_by_the_commit_and_stops_when_told(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    done = asyncio.Event()

    async def handler(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        done.set()

    worker = Worker(engine, slots=1, handlers={kind(request): handler})
    tasks = [
        asyncio.create_task(worker.run()),
        asyncio.create_task(listen(engine.pool.url, {jobs.CHANNEL: lambda _: worker.wake()})),
    ]
    await enqueue(engine, caller, NewJob(kind(request)))

    async with asyncio.timeout(10):
        await done.wait()
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(each) for each in ended] == [asyncio.CancelledError] * 2


async def test_a_worker_stopped_in_the_middle_hands_its_job_on_at_once(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    await enqueue(engine, caller, NewJob(kind(request)))
    begun = asyncio.Event()

    async def endless(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(Worker(engine, slots=1, handlers={kind(request): endless}).run())
    async with asyncio.timeout(10):
        await begun.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    recorder = Recorder()
    await Worker(engine, slots=1, handlers={kind(request): recorder}).run_until_empty()

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

    await asyncio.wait_for(tasks.end([task]), timeout=5)

    assert (task.done(), cancelled) == (True, 2)


async def test_a_worker_outlives_what_it_did_not_expect(
    engine: Engine, caller: Caller, request: pytest.FixtureRequest
) -> None:
    class Standby(Pool):
        """A server that takes no writes for a moment, as one does that is about to be the first."""

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

    pool = Standby(engine.pool.url, size=2, behind_pgbouncer=is_wanted())
    await pool.open()
    house = replace(engine, pool=pool)
    await enqueue(engine, caller, NewJob(kind(request)))
    working = Worker(house, slots=1, handlers={kind(request): handler})
    task = asyncio.create_task(working.run())
    async with asyncio.timeout(10):
        await pool.refused.wait()
        pool.is_read_only = False
        await done.wait()
    await tasks.end([task])
    await pool.close()
