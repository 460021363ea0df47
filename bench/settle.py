"""Workspaces to fill and to ask, and waiting until the server has seen to them."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql

from bench import house
from bench.house import Opened
from bench.seed import Tenant, fill
from bench.visitor import visit
from recollect.domain import ThreadId
from recollect.embedded import attach
from recollect.engine.core import Engine
from recollect.engine.counting import plan_counts
from recollect.engine.indexing import plan_indexes
from recollect.engine.keys import create_key
from recollect.store import identity

# An index over a million vectors takes half an hour, where memory is short much longer.
_QUIET_SECONDS = 7_200
_SAMPLE_SECONDS = 0.5


async def settle(engine: Engine, port: int, workspaces: int) -> list[Tenant]:
    """Workspaces with one real memory each, so that the server itself opens their vector space."""
    async with engine.pool.everywhere() as db:
        [default] = await identity.find_workspace(db, None)
        for number in range(1, workspaces):
            await identity.add_workspace(db, default.org_id, f"workspace {number}")
    visitor = await visit(port)
    for key in await _keys(engine):
        status, answer = await visitor.ask(
            "POST", "/v1/memories", key=key, body={"content": "Ada takes her tea without milk."}
        )
        assert status == 201, answer
    visitor.close()
    await _opened(engine, workspaces)
    return await tenants(engine)


async def _opened(engine: Engine, workspaces: int) -> None:
    """Wait until all have their vector space: a busy machine embeds later than it saves."""
    async with asyncio.timeout(_QUIET_SECONDS):
        while len(await _spaces(engine)) < workspaces:  # noqa: ASYNC110 - the server works on them
            await asyncio.sleep(0.2)


async def _keys(engine: Engine) -> list[str]:
    async with engine.pool.everywhere() as db:
        found = await identity.workspaces(db)
    return [(await create_key(engine, workspace=str(each.id))).text for each in found]


_TENANTS = """
    SELECT g.workspace_id, w.org_id, u.id, g.number
    FROM generation g
    JOIN workspace w ON w.id = g.workspace_id
    JOIN app_user u ON u.org_id = w.org_id
    WHERE g.state = 'serving'
"""


async def tenants(engine: Engine) -> list[Tenant]:
    """Every workspace with a vector space, and a key to it."""
    return [
        Tenant(workspace_id, org_id, user_id, await _key(engine, workspace_id), number)
        for workspace_id, org_id, user_id, number in await _spaces(engine)
    ]


async def _spaces(engine: Engine) -> list[Any]:
    async with engine.pool.everywhere() as db:
        return await (await db.execute(_TENANTS)).fetchall()


async def _key(engine: Engine, workspace_id: UUID) -> str:
    return (await create_key(engine, workspace=str(workspace_id))).text


_OPEN_JOBS = "SELECT count(*) FROM job WHERE status <> 'done'"


async def quiet(url: str) -> None:
    """Wait until the server has seen to the vectors, as it does after every start."""
    async with asyncio.timeout(_QUIET_SECONDS):
        while await _number(url, _OPEN_JOBS):  # noqa: ASYNC110 - another process works on them
            await asyncio.sleep(0.2)


async def grown(data_dir: Path, size: int, thread_id: ThreadId | None = None) -> None:
    """Fill up to so many memories. With a server at work each would go through a vector index."""
    with await asyncio.to_thread(attach, data_dir) as attached:
        url = attached.admin_url
        async with house.engine(attached) as engine:
            if (there := await count(url)) >= size:
                return
            await _drop_indexes(url)
            those = [replace(each, thread_id=thread_id) for each in await tenants(engine)]
            await fill(url, those, size - there, engine.embedders.configured(None))


async def _drop_indexes(url: str) -> None:
    """The server builds them anew when it sees that they are missing."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        for (name,) in await (await db.execute("SELECT name FROM vector_index")).fetchall():
            await db.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier(name)))
        await db.execute("DELETE FROM vector_index")


async def count(url: str) -> int:
    """How many memories there are."""
    return await _number(url, "SELECT count(*) FROM memory")


async def _number(url: str, query: Any) -> int:
    async with await psycopg.AsyncConnection.connect(url) as db:
        row = await (await db.execute(query)).fetchone()
    assert row
    return int(row[0])


@dataclass(frozen=True, slots=True)
class Care:
    """What it took to build the indexes and count the words."""

    seconds: float
    postgres_mib: float


async def looked_after(opened: Opened) -> Care:
    """Have what a worker would find to do in half a minute done now, and wait for the end of it."""
    began = perf_counter()
    await plan_indexes(opened.engine)
    await plan_counts(opened.engine)
    working = asyncio.create_task(quiet(opened.attached.admin_url))
    most = 0.0
    while not working.done():
        most = max(most, house.postgres_mib(opened.server.data_dir))
        await asyncio.wait([working], timeout=_SAMPLE_SECONDS)
    await working
    return Care(perf_counter() - began, most)
