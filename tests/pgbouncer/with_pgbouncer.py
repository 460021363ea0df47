"""Recollect behind PgBouncer in transaction mode: `make pgbouncer-test`, not part of `make test`.

That target also runs the tests of the interfaces, the subjects and the job queue behind PgBouncer.
This module tests what only PgBouncer can break.
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

from recollect.core.domain import Caller
from recollect.db.migrate import migrate, migrations
from recollect.db.pool import Pool, connect, is_pooled
from recollect.embeddings.generations import current_generations
from recollect.embeddings.index_job import build_indexes, plan_indexes
from recollect.engine import Engine
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller
from tests.support.pgbouncer import PgBouncer
from tests.support.serve_process import ServeProcess, running_server

pytestmark = pytest.mark.anyio

MIN_ROWS = 50
VISIBLE = """
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
    """An engine that shares the one connection with all other clients."""
    url = narrow.url(urlsplit(databases.clone()).path.removeprefix("/"))
    pool = Pool(url, size=4, behind_pgbouncer=True)
    await pool.open()
    yield Engine(pool=pool, embedders=Embedders(embedder), now=clock)
    await pool.close()


async def test_a_pooler_is_detected(databases: TestDatabases) -> None:
    url = databases.clone()
    detected: list[bool] = []
    for each in (url, databases.without_pgbouncer(url)):
        async with await connect(each) as db:
            detected.append(await is_pooled(db))

    assert detected == [True, False]


async def test_settings_of_a_transaction_do_not_reach_the_next_client(shared: Engine) -> None:
    caller = await new_caller(shared)
    await save(shared, caller, Save("a secret of one workspace"))
    seen: list[object] = []

    for transaction in (
        shared.pool.writing(caller.workspace_id),
        shared.pool.reading(caller.workspace_id),
        shared.pool.everywhere(),
    ):
        async with transaction as db:
            inside = await (await db.execute(VISIBLE)).fetchone()
        async with await connect(shared.pool.url) as client:
            outside = await (await client.execute(VISIBLE)).fetchone()
        assert inside
        assert outside
        seen.append((inside[1], *outside[1:], inside[0] == outside[0]))

    # One row inside. Outside, on the same connection to PostgreSQL: no rows and no settings.
    assert seen == [(1, 0, "", "", True)] * 3


async def test_a_failed_transaction_leaves_no_settings(shared: Engine) -> None:
    caller = await new_caller(shared)
    await save(shared, caller, Save("a secret of one workspace"))

    with pytest.raises(ZeroDivisionError):
        async with shared.pool.writing(caller.workspace_id) as db:
            await db.execute("SELECT count(*) FROM memory")
            raise ZeroDivisionError
    async with await connect(shared.pool.url) as client:
        outside = await (await client.execute("SELECT count(*) FROM memory")).fetchone()

    assert outside == (0,)


async def test_settings_of_an_index_build_do_not_reach_other_clients(shared: Engine) -> None:
    caller = await new_caller(shared)
    for number in range(MIN_ROWS + 10):
        await save(shared, caller, Save(f"statement {number}"))
    await plan_indexes(shared, MIN_ROWS)

    async def no_heartbeat() -> None:
        pass

    async def work_memory() -> tuple[Any, ...] | None:
        async with await connect(shared.pool.url) as client:
            return await (await client.execute("SHOW maintenance_work_mem")).fetchone()

    before = await work_memory()
    await build_indexes(shared, caller.workspace_id, no_heartbeat, MIN_ROWS)

    assert (await current_generations(shared, caller.workspace_id)).indexed
    assert await work_memory() == before


async def test_a_request_cancelled_during_a_query_does_not_crash_the_pooler(
    shared: Engine,
) -> None:
    """PgBouncer 1.18 crashes when the client of a cancel request disconnects."""
    caller = await new_caller(shared)

    async def ask() -> None:
        async with shared.pool.reading(caller.workspace_id) as db:
            await db.execute("SELECT pg_sleep(0.02)")

    for number in range(60):
        asking = asyncio.create_task(ask())
        await asyncio.sleep(0.015 + number % 10 / 1000)
        for _ in range(2):  # as a server does when it stops
            asking.cancel()
            await asyncio.sleep(0)
        await asyncio.gather(asking, return_exceptions=True)

    await save(shared, caller, Save("all is well"))
    assert shared.pool.statistics.get("connections_lost", 0) == 0


async def test_concurrent_migrations_of_one_database_run_once(databases: TestDatabases) -> None:
    url = databases.empty()

    applied = await asyncio.gather(*(migrate(url) for _ in range(8)))

    assert sum(applied) == len(migrations())
    with psycopg.connect(databases.without_pgbouncer(url)) as db:
        locks = db.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
    assert locks == (0,)


async def test_workspaces_on_shared_connections_see_only_their_memories(
    shared: Engine,
) -> None:
    callers = [await new_caller(shared) for _ in range(8)]

    async def save_and_count(number: int, caller: Caller) -> list[int]:
        counts: list[int] = []
        for turn in range(10):
            await save(shared, caller, Save(f"{number} says {turn}"))
            async with shared.reading(caller) as db:
                row = await (await db.execute("SELECT count(*) FROM memory")).fetchone()
                assert row
                counts.append(row[0])
        return counts

    seen = await asyncio.gather(
        *(save_and_count(number, each) for number, each in enumerate(callers))
    )

    assert seen == [list(range(1, 11))] * 8


@pytest.fixture(scope="module")
def servers(databases: TestDatabases) -> Generator[tuple[ServeProcess, ServeProcess, str]]:
    """Two servers on one database, both behind PgBouncer."""
    url = databases.empty()
    variables = {"DATABASE_URL": url, "RECOLLECT_PGBOUNCER": "true"}
    with running_server(**variables) as first, running_server(**variables) as second:
        second.key = first.key
        yield first, second, url


def recollect(*arguments: str, url: str, cwd: Path | None = None) -> tuple[int, str]:
    """Run a command behind PgBouncer, or directly if `url` is PostgreSQL's own address."""
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


def test_one_server_finds_memories_saved_on_the_other(
    servers: tuple[ServeProcess, ServeProcess, str],
) -> None:
    first, second, _ = servers
    with first.client() as here, second.client() as there:
        session = here.post("/v1/sessions", json={"agent_id": "desk"}).json()["id"]
        for number in range(20):
            text = f"Ada keeps spare key number {number} under the blue flower pot"
            body = {"session_id": session, "content": text}
            assert here.post("/v1/memory", json=body).status_code == 201
            state = {"state": {"keys": number}}
            assert there.patch(f"/v1/sessions/{session}/state", json=state).status_code == 200

        ask = {"query": "where is Ada's spare key?", "threshold": 0, "limit": 50}
        found = there.post("/v1/memory/search", json=ask).json()

    assert (len(found["data"]), found["degraded"]) == (20, False)


def test_a_repeated_request_runs_once_across_servers(
    servers: tuple[ServeProcess, ServeProcess, str],
) -> None:
    first, second, _ = servers
    once = {"Idempotency-Key": "tea"}
    with first.client() as here, second.client() as there:
        body = {"content": "Ada takes her tea without milk"}
        answers = [http.post("/v1/memories", json=body, headers=once) for http in (here, there)]

    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


def test_both_servers_reject_a_revoked_key_within_seconds(
    servers: tuple[ServeProcess, ServeProcess, str],
) -> None:
    *both, url = servers
    _, key = recollect("key", "create", "--name", "guest", url=url)
    headers = {"X-API-Key": key.strip()}
    for each in both:
        assert httpx2.get(f"{each.url}/v1/memories", headers=headers).status_code == 200

    assert recollect("key", "revoke", "guest", url=url)[0] == 0

    for each in both:
        _wait_until_rejected(each, headers)


def _wait_until_rejected(server: ServeProcess, headers: dict[str, str]) -> None:
    # Much shorter than the minute for which a key is cached without notifications.
    for _ in range(100):
        if httpx2.get(f"{server.url}/v1/memories", headers=headers).status_code == 401:
            return
        subprocess.run(["sleep", "0.1"], check=True)
    raise AssertionError("the key still works")


def test_workers_and_doctor_run_behind_pgbouncer(
    servers: tuple[ServeProcess, ServeProcess, str],
) -> None:
    *_, url = servers

    worked = recollect("work", "--once", url=url)
    migrated = recollect("migrate", url=url)
    code, output = recollect("doctor", url=url)

    assert worked[0] == 0
    assert "jobs done" in worked[1]
    assert migrated == (0, "already up to date\n")
    assert code == 0, output
    assert "ok    pooler          in use" in output


def test_backup_and_restore_need_a_direct_connection(
    servers: tuple[ServeProcess, ServeProcess, str], databases: TestDatabases
) -> None:
    *_, url = servers
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        through = recollect("backup", "through.tar", url=url, cwd=here)
        direct = recollect("backup", "direct.tar", url=databases.without_pgbouncer(url), cwd=here)
        into = recollect("restore", "direct.tar", url=databases.empty(), cwd=here)
        kept = [each.name for each in here.iterdir()]

    assert through[0] == into[0] == 1
    assert "Give the address of PostgreSQL itself." in through[1]
    assert "Give the address of PostgreSQL itself." in into[1]
    assert direct[0] == 0, direct[1]
    assert kept == ["direct.tar"]
