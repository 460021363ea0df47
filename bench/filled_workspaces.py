"""Create and fill workspaces, and wait until the server has processed them."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from bench import server_process
from bench.http_client import open_connection
from bench.seed import Tenant, fill
from bench.server_process import Opened
from recollect.core.domain import ThreadId
from recollect.embedded import attach
from recollect.embeddings.index_job import plan_indexes
from recollect.engine import Engine
from recollect.keywords.common_words_job import plan_counts
from recollect.tenancy.keys import create_key
from recollect.tenancy.queries import workspaces as workspaces_queries

# An index over a million vectors takes half an hour, and much longer if memory is short.
_IDLE_TIMEOUT_SECONDS = 7_200
_SAMPLE_SECONDS = 0.5


async def create_workspaces(engine: Engine, port: int, workspaces: int) -> list[Tenant]:
    """Create workspaces with one real memory each, so that the server creates their generation."""
    async with engine.pool.everywhere() as db:
        [default] = await workspaces_queries.find_workspaces(db, None)
        for number in range(1, workspaces):
            await workspaces_queries.add_workspace(db, default.org_id, f"workspace {number}")
    connection = await open_connection(port)
    for key in await _keys(engine):
        status, answer = await connection.send(
            "POST", "/v1/memories", key=key, body={"content": "Ada takes her tea without milk."}
        )
        assert status == 201, answer
    connection.close()
    await _wait_for_generations(engine, workspaces)
    return await tenants(engine)


async def _wait_for_generations(engine: Engine, workspaces: int) -> None:
    """Wait until all have a generation: a busy machine embeds some time after the save."""
    async with asyncio.timeout(_IDLE_TIMEOUT_SECONDS):
        while len(await _generations(engine)) < workspaces:  # noqa: ASYNC110 - the server creates them
            await asyncio.sleep(0.2)


async def _keys(engine: Engine) -> list[str]:
    async with engine.pool.everywhere() as db:
        found = await workspaces_queries.list_workspaces(db)
    return [(await create_key(engine, workspace=str(each.id))).text for each in found]


_TENANTS = """
    SELECT g.workspace_id, w.org_id, u.id, g.number
    FROM generation g
    JOIN workspace w ON w.id = g.workspace_id
    JOIN app_user u ON u.org_id = w.org_id
    WHERE g.state = 'serving'
"""


async def tenants(engine: Engine) -> list[Tenant]:
    """Return every workspace with a generation, and a key for it."""
    return [
        Tenant(workspace_id, org_id, user_id, await _key(engine, workspace_id), number)
        for workspace_id, org_id, user_id, number in await _generations(engine)
    ]


async def _generations(engine: Engine) -> list[Any]:
    async with engine.pool.everywhere() as db:
        return await (await db.execute(_TENANTS)).fetchall()


async def _key(engine: Engine, workspace_id: UUID) -> str:
    return (await create_key(engine, workspace=str(workspace_id))).text


_OPEN_JOBS = "SELECT count(*) FROM job WHERE status <> 'done'"


async def wait_until_idle(url: str) -> None:
    """Wait until the server has no jobs left."""
    async with asyncio.timeout(_IDLE_TIMEOUT_SECONDS):
        while await _number(url, _OPEN_JOBS):  # noqa: ASYNC110 - another process runs them
            await asyncio.sleep(0.2)


async def fill_to(data_dir: Path, size: int, thread_id: ThreadId | None = None) -> None:
    """Fill up to this many memories, without a running server, which would index each one."""
    with await asyncio.to_thread(attach, data_dir) as attached:
        url = attached.admin_url
        async with server_process.engine(attached) as engine:
            if (there := await count(url)) >= size:
                return
            await _drop_indexes(url)
            targets = [replace(each, thread_id=thread_id) for each in await tenants(engine)]
            await fill(url, targets, size - there, engine.embedders.configured(None))


async def _drop_indexes(url: str) -> None:
    """Drop the vector indexes; the server builds them again."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        for (name,) in await (await db.execute("SELECT name FROM vector_index")).fetchall():
            await db.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(name)))
        await db.execute("DELETE FROM vector_index")


async def count(url: str) -> int:
    """Return the number of memories."""
    return await _number(url, "SELECT count(*) FROM memory")


async def _number(url: str, query: Any) -> int:
    async with await psycopg.AsyncConnection.connect(url) as db:
        row = await (await db.execute(query)).fetchone()
    assert row
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Maintenance:
    """The cost of building the indexes and counting the words."""

    seconds: float
    postgres_mib: float


async def run_maintenance(opened: Opened) -> Maintenance:
    """Run at once the maintenance that a worker would start within half a minute."""
    began = perf_counter()
    await plan_indexes(opened.engine)
    await plan_counts(opened.engine)
    working = asyncio.create_task(wait_until_idle(opened.attached.admin_url))
    peak = 0.0
    while not working.done():
        peak = max(peak, server_process.postgres_mib(opened.server.data_dir))
        await asyncio.wait([working], timeout=_SAMPLE_SECONDS)
    await working
    return Maintenance(perf_counter() - began, peak)
