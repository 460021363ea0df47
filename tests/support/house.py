"""A house to test in: an engine on a real database, with callers in workspaces of their own."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2

from recollect.domain import Caller, Right, WorkspaceId
from recollect.engine.core import Clock as AnyClock
from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.models.embed import Embedder
from recollect.models.registry import Embedders
from recollect.server import Server
from recollect.settings import Settings
from recollect.store import identity
from recollect.store.pool import Pool
from tests.support.pgbouncer import is_wanted
from tests.support.waiting import until


@asynccontextmanager
async def open_house(
    url: str, embedders: Embedders, now: AnyClock, **options: Any
) -> AsyncGenerator[Engine]:
    """An engine on this database."""
    async with open_pool(url, size=8) as pool:
        yield Engine(pool=pool, embedders=embedders, now=now, **options)


@asynccontextmanager
async def open_pool(url: str, *, size: int) -> AsyncGenerator[Pool]:
    """Connections to this database, as the run reaches it."""
    pool = Pool(url, size=size, behind_pgbouncer=is_wanted())
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


async def new_caller(engine: Engine, *, embedder: str | None = None) -> Caller:
    """Somebody in an org and a workspace of their own."""
    async with engine.pool.everywhere() as db:
        org_id = await identity.add_org(db, "an org")
        user_id = await identity.add_user(
            db, org_id, f"user-{uuid4().hex}", password_hash=None, is_admin=True
        )
        workspace_id = await identity.add_workspace(
            db, org_id, "default", embedder=embedder, is_default=True
        )
    return Caller(
        org_id=org_id,
        user_id=user_id,
        workspace_id=workspace_id,
        rights=frozenset(Right),
        label="test",
    )


async def neighbour(engine: Engine, caller: Caller) -> Caller:
    """The same user in another workspace of the same org."""
    async with engine.pool.everywhere() as db:
        workspace_id = await identity.add_workspace(db, caller.org_id, uuid4().hex)
    return Caller(
        org_id=caller.org_id,
        user_id=caller.user_id,
        workspace_id=workspace_id,
        rights=caller.rights,
        label="test",
    )


async def key_for(engine: Engine, workspace_id: WorkspaceId, **options: Any) -> str:
    """A key to a workspace."""
    new = await create_key(engine, workspace=str(workspace_id), **options)
    return new.text


@dataclass(frozen=True, slots=True)
class Visitor:
    """A client with a key, in front of the composed application."""

    http: httpx2.AsyncClient
    caller: Caller
    key: str


def visit(server: Server, **headers: str) -> httpx2.AsyncClient:
    """A client of the composed application, in process."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app, client=("127.0.0.1", 50_000)),
        base_url="http://recollect.test",
        headers=headers,
    )


def serve(engine: Engine, **settings: Any) -> Server:
    """The composed application, with no rate limit unless asked for."""
    quiet: dict[str, Any] = {"rate_per_minute": 0, "workers": 0, "pgbouncer": is_wanted()}
    return Server(Settings(**(quiet | settings)), engine)


def only(embedder: Embedder) -> Embedders:
    """One embedder for everything."""
    return Embedders(embedder)


async def until_blocked(engine: Engine, count: int = 1) -> None:
    """Wait until so many wait for a row, or a turn, that another holds."""

    async def is_blocked() -> bool:
        async with engine.pool.everywhere() as db:
            found = await db.execute(
                "SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                " WHERE NOT l.granted AND a.datname = current_database()"
            )
        return found.rowcount >= count

    await until(is_blocked)
