"""The product behind PgBouncer in transaction mode: `make pgbouncer-test`, no part of `make test`.

The same target runs the tests of the doors, the engine, the store and the queue behind it; here is
what only PgBouncer can break.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import psycopg
import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.engine.indexing import index_vectors, plan_indexes
from recollect.engine.save import Save, save
from recollect.engine.spaces import current_space
from recollect.models.registry import Embedders
from recollect.store.migrate import migrate, migrations
from recollect.store.pool import Pool, connect, is_pooled
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import new_caller
from tests.support.pgbouncer import PgBouncer
from tests.support.running import Running, running_house

pytestmark = pytest.mark.anyio

LEAST = 50
LOOK = """
    SELECT pg_backend_pid(), count(*), coalesce(current_setting('recollect.workspace', true), ''),
        coalesce(current_setting('recollect.reach', true), '')
    FROM memory
"""


@pytest.fixture
def narrow(databases: TestDatabases) -> Generator[PgBouncer]:
    """A PgBouncer whose clients share one connection to PostgreSQL."""
    bouncer = PgBouncer(databases.admin_url, size=1)
    yield bouncer
    bouncer.close()


@pytest.fixture
async def shared(
    databases: TestDatabases, narrow: PgBouncer, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """An engine that shares the one connection with whoever else comes."""
    url = narrow.url(urlsplit(databases.clone()).path.removeprefix("/"))
    pool = Pool(url, size=4, behind_pgbouncer=True)
    await pool.open()
    yield Engine(pool=pool, embedders=Embedders(embedder), now=clock)
    await pool.close()


async def test_a_pooler_between_is_noticed(databases: TestDatabases) -> None:
    url = databases.clone()
    noticed: list[bool] = []
    for each in (url, databases.beside(url)):
        async with await connect(each) as db:
            noticed.append(await is_pooled(db))

    assert noticed == [True, False]


async def test_no_setting_of_a_transaction_reaches_the_next_client(shared: Engine) -> None:
    caller = await new_caller(shared)
    await save(shared, caller, Save("a secret of one workspace"))
    seen: list[object] = []

    for transaction in (
        shared.pool.writing(caller.workspace_id),
        shared.pool.reading(caller.workspace_id),
        shared.pool.everywhere(),
    ):
        async with transaction as db:
            inside = await (await db.execute(LOOK)).fetchone()
        async with await connect(shared.pool.url) as stranger:
            outside = await (await stranger.execute(LOOK)).fetchone()
        assert inside
        assert outside
        seen.append((inside[1], *outside[1:], inside[0] == outside[0]))

    # One row inside; outside, on the same connection to PostgreSQL, none and no setting.
    assert seen == [(1, 0, "", "", True)] * 3


async def test_a_transaction_that_fails_leaves_nothing_either(shared: Engine) -> None:
    caller = await new_caller(shared)
    await save(shared, caller, Save("a secret of one workspace"))

    with pytest.raises(ZeroDivisionError):
        async with shared.pool.writing(caller.workspace_id) as db:
            await db.execute("SELECT count(*) FROM memory")
            raise ZeroDivisionError
    async with await connect(shared.pool.url) as stranger:
        outside = await (await stranger.execute("SELECT count(*) FROM memory")).fetchone()

    assert outside == (0,)


async def test_an_index_is_built_and_its_settings_stay_with_nobody(shared: Engine) -> None:
    caller = await new_caller(shared)
    for number in range(LEAST + 10):
        await save(shared, caller, Save(f"statement {number}"))
    await plan_indexes(shared, LEAST)

    async def no_beat() -> None:
        pass

    async def room() -> tuple[Any, ...] | None:
        async with await connect(shared.pool.url) as stranger:
            return await (await stranger.execute("SHOW maintenance_work_mem")).fetchone()

    before = await room()
    await index_vectors(shared, caller.workspace_id, no_beat, LEAST)

    assert (await current_space(shared, caller.workspace_id)).indexed
    assert await room() == before


async def test_a_request_broken_off_in_the_middle_of_a_query_leaves_the_pooler_alone(
    shared: Engine,
) -> None:
    """PgBouncer 1.18 ends, for everybody, when who asks it to break a query off goes away."""
    caller = await new_caller(shared)

    async def ask() -> None:
        async with shared.pool.reading(caller.workspace_id) as db:
            await db.execute("SELECT pg_sleep(0.02)")

    for number in range(60):
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0.015 + number % 10 / 1000)
        for _ in range(2):  # as a server does at its end
            asking.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(asking, return_exceptions=True)

    await save(shared, caller, Save("all is well"))
    assert shared.pool.statistics.get("connections_lost", 0) == 0


async def test_many_processes_migrate_one_empty_database_once(databases: TestDatabases) -> None:
    url = databases.empty()

    applied = await asyncio.gather(*(migrate(url) for _ in range(8)))

    assert sum(applied) == len(migrations())
    with psycopg.connect(databases.beside(url)) as db:
        locks = db.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert locks == (0,)


async def test_workspaces_that_share_few_connections_see_their_own_memories(
    shared: Engine,
) -> None:
    callers = [await new_caller(shared) for _ in range(8)]

    async def live(number: int, caller: Caller) -> list[int]:
        counts: list[int] = []
        for turn in range(10):
            await save(shared, caller, Save(f"{number} says {turn}"))
            async with shared.reading(caller) as db:
                row = await (await db.execute("SELECT count(*) FROM memory")).fetchone()
                assert row
                counts.append(row[0])
        return counts

    seen = await asyncio.gather(*(live(number, each) for number, each in enumerate(callers)))

    assert seen == [list(range(1, 11))] * 8


@pytest.fixture(scope="module")
def houses(databases: TestDatabases) -> Generator[tuple[Running, Running, str]]:
    """Two servers beside each other on one database, both behind PgBouncer."""
    url = databases.empty()
    told = {"DATABASE_URL": url, "RECOLLECT_PGBOUNCER": "true"}
    with running_house(**told) as first, running_house(**told) as second:
        second.key = first.key
        yield first, second, url


def recollect(*arguments: str, url: str, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command behind PgBouncer, or, given PostgreSQL's own address, beside it."""
    ran = subprocess.run(
        [sys.executable, "-m", "recollect", *arguments],
        env=os.environ | {"DATABASE_URL": url, "RECOLLECT_PGBOUNCER": "true"},
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    return ran.returncode, ran.stdout


def test_what_one_server_is_told_the_other_finds(houses: tuple[Running, Running, str]) -> None:
    first, second, _ = houses
    with first.client() as here, second.client() as there:
        session = here.post("/v1/sessions", json={"agent_id": "desk"}).json()["id"]
        for number in range(20):
            text = f"Ada keeps spare key number {number} under the blue flower pot"
            told = {"session_id": session, "content": text}
            assert here.post("/v1/memory", json=told).status_code == 201
            state = {"state": {"keys": number}}
            assert there.patch(f"/v1/sessions/{session}/state", json=state).status_code == 200

        ask = {"query": "where is Ada's spare key?", "threshold": 0, "limit": 50}
        found = there.post("/v1/memory/search", json=ask).json()

    assert (len(found["data"]), found["degraded"]) == (20, False)


def test_a_repeated_request_is_carried_out_once_on_whichever_server(
    houses: tuple[Running, Running, str],
) -> None:
    first, second, _ = houses
    once = {"Idempotency-Key": "tea"}
    with first.client() as here, second.client() as there:
        told = {"content": "Ada takes her tea without milk"}
        answers = [http.post("/v1/memories", json=told, headers=once) for http in (here, there)]

    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_a_revoked_key_is_refused_by_both_within_seconds(
    houses: tuple[Running, Running, str],
) -> None:
    *servers, url = houses
    _, key = recollect("key", "create", "--name", "guest", url=url)
    headers = {"X-API-Key": key.strip()}
    for each in servers:
        assert httpx2.get(f"{each.url}/v1/memories", headers=headers).status_code == 200

    assert recollect("key", "revoke", "guest", url=url)[0] == 0

    for each in servers:
        _eventually_refused(each, headers)


def _eventually_refused(house: Running, headers: dict[str, str]) -> None:
    # Far less than the minute for which a key is believed where nobody watches.
    for _ in range(100):
        if httpx2.get(f"{house.url}/v1/memories", headers=headers).status_code == 401:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    raise AssertionError("still believed")


def test_workers_and_the_doctor_run_behind_it(houses: tuple[Running, Running, str]) -> None:
    *_, url = houses

    worked = recollect("work", "--once", url=url)
    migrated = recollect("migrate", url=url)
    code, said = recollect("doctor", url=url)

    assert worked[0] == 0
    assert "jobs done" in worked[1]
    assert migrated == (0, "already up to date\n")
    assert code == 0, said
    assert "ok    pooler          stands between" in said


def test_copies_are_made_beside_it(
    houses: tuple[Running, Running, str], databases: TestDatabases
) -> None:
    *_, url = houses
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        through = recollect("backup", "through.tar", url=url, cwd=here)
        beside = recollect("backup", "beside.tar", url=databases.beside(url), cwd=here)
        into = recollect("restore", "beside.tar", url=databases.empty(), cwd=here)
        kept = [each.name for each in here.iterdir()]

    assert through[0] == into[0] == 1
    assert "Give the address of PostgreSQL itself." in through[1]
    assert "Give the address of PostgreSQL itself." in into[1]
    assert beside[0] == 0, beside[1]
    assert kept == ["beside.tar"]
