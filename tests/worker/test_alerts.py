"""Each alert of `docs/operations.md` fires when it should, and none on a healthy server."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from recollect.core.domain import Caller, WorkspaceId
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine
from recollect.server import Server
from recollect.worker import MAX_ATTEMPTS, Worker
from tests.support.alerts import alerts
from tests.support.database import TestDatabases
from tests.support.instance import connect, make_server, open_pool
from tests.support.metrics import Samples, samples
from tests.support.scenario import HANGS, Scenario, status_answer
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

ALERTS = alerts()


@pytest.fixture
def database_url(databases: TestDatabases) -> str:
    """A separate database for each test, because the metrics cover all workspaces."""
    return databases.clone()


async def read_metrics(server: Server) -> Samples:
    async with connect(server) as http:
        return samples((await http.get("/metrics")).text)


async def enqueue(scenario: Scenario, caller: Caller, kind: str) -> None:
    async with scenario.engine.pool.writing(caller.workspace_id) as db:
        await job_queue.enqueue(db, caller.workspace_id, [NewJob(kind)], scenario.engine.now())


async def fail_a_job(scenario: Scenario, caller: Caller) -> Samples:
    async def broken(_: Engine, __: WorkspaceId, ___: Heartbeat) -> None:
        raise ValueError

    await enqueue(scenario, caller, "broken")
    for _ in range(MAX_ATTEMPTS):
        await Worker(scenario.engine, slots=1, handlers={"broken": broken}).run_until_empty()
        scenario.clock.advance(timedelta(hours=1))
    return await read_metrics(scenario.server)


async def run_no_worker(scenario: Scenario, caller: Caller) -> Samples:
    await enqueue(scenario, caller, "distil")
    scenario.clock.advance(timedelta(minutes=6))
    return await read_metrics(scenario.server)


async def use_every_connection(scenario: Scenario, caller: Caller) -> Samples:
    """Hold both connections of a pool of two, so that the metrics request and two users wait."""
    is_read = asyncio.Event()

    async def use() -> None:
        async with pool.reading(caller.workspace_id):
            await is_read.wait()

    async with open_pool(scenario.engine.pool.url, size=2) as pool:
        server = make_server(replace(scenario.engine, pool=pool))
        async with pool.reading(caller.workspace_id):
            async with pool.reading(caller.workspace_id):
                look = asyncio.create_task(read_metrics(server))
                await until(lambda: pool.statistics.get("requests_waiting") == 1)
                users = [asyncio.create_task(use()) for _ in range(2)]
                await until(lambda: pool.statistics.get("requests_waiting") == 3)
            found = await look
        is_read.set()
        await asyncio.gather(*users)
    return found


async def fail_for_a_while(scenario: Scenario, caller: Caller) -> Samples:
    scenario.outage = status_answer(503)
    await scenario.queue(caller, "I live in Oslo.")
    for _ in range(11):
        await scenario.drain(after=timedelta(minutes=1))
    return await read_metrics(scenario.server)


async def hang(scenario: Scenario, caller: Caller) -> Samples:
    scenario.outage = HANGS
    await scenario.queue(caller, "I live in Oslo.")
    for _ in range(11):
        await scenario.drain(after=timedelta(minutes=1))
    return await read_metrics(scenario.server)


async def refuse(scenario: Scenario, caller: Caller) -> Samples:
    scenario.outage = status_answer(400)
    await scenario.queue(caller, "I live in Oslo.")
    await scenario.drain()
    return await read_metrics(scenario.server)


async def refuse_the_key(scenario: Scenario, caller: Caller) -> Samples:
    scenario.outage = status_answer(401)
    await scenario.queue(caller, "I live in Oslo.")
    await scenario.drain()
    return await read_metrics(scenario.server)


SITUATIONS: Mapping[Callable[[Scenario, Caller], Awaitable[Samples]], set[str]] = {
    fail_a_job: {"RecollectJobsFailed"},
    run_no_worker: {"RecollectQueueBehind"},
    use_every_connection: {"RecollectPoolTooSmall"},
    fail_for_a_while: {"RecollectLearningBehind", "RecollectModelFailing"},
    hang: {"RecollectLearntByRules", "RecollectModelFailing"},
    refuse: {"RecollectLearntByRules"},
    refuse_the_key: {"RecollectLearntByRules", "RecollectModelMisconfigured"},
}


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda each: each.__name__)
async def test_a_situation_fires_exactly_its_alerts(
    scenario: Scenario, ada: Caller, situation: Callable[[Scenario, Caller], Awaitable[Samples]]
) -> None:
    before = await read_metrics(scenario.server)

    now = await situation(scenario, ada)

    firing = {name for name, alert in ALERTS.items() if alert.fires(before, now)}
    assert firing == SITUATIONS[situation]


async def test_on_a_healthy_server_all_series_exist_and_no_alert_fires(
    scenario: Scenario, ada: Caller
) -> None:
    before = await read_metrics(scenario.server)
    await scenario.turn(ada, "I live in Oslo.")
    await scenario.drain()
    now = await read_metrics(scenario.server)

    assert [name for name, alert in ALERTS.items() if not alert.series(now)] == []
    assert [name for name, alert in ALERTS.items() if alert.fires(before, now)] == []


def test_every_alert_has_a_situation() -> None:
    assert set.union(*SITUATIONS.values()) == set(ALERTS)
