"""A test instance: an engine on a real database, with callers in their own workspaces."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx2

from recollect.core.domain import Caller, Right, WorkspaceId
from recollect.core.settings import Settings
from recollect.db.pool import Pool
from recollect.engine import Clock as AnyClock
from recollect.engine import Engine
from recollect.models.embedder import Embedder
from recollect.models.embedder_registry import Embedders
from recollect.server import Server
from recollect.tenancy.keys import create_key
from recollect.tenancy.queries import orgs, users, workspaces
from tests.support.pgbouncer import uses_pgbouncer
from tests.support.waiting import until


@asynccontextmanager
async def open_engine(
    url: str, embedders: Embedders, now: AnyClock, **options: Any
) -> AsyncGenerator[Engine]:
    """An engine on this database."""
    async with open_pool(url, size=8) as pool:
        yield Engine(pool=pool, embedders=embedders, now=now, **options)


@asynccontextmanager
async def open_pool(url: str, *, size: int) -> AsyncGenerator[Pool]:
    """A connection pool, set up for PgBouncer if this run uses it."""
    pool = Pool(url, size=size, behind_pgbouncer=uses_pgbouncer())
    await pool.open()
    try:
        yield pool
    finally:
        await pool.close()


async def new_caller(engine: Engine, *, embedder: str | None = None) -> Caller:
    """Create a user with their own org and workspace."""
    async with engine.pool.everywhere() as db:
        org_id = await orgs.add_org(db, "an org")
        user_id = await users.add_user(
            db, org_id, f"user-{uuid4().hex}", password_hash=None, is_admin=True
        )
        workspace_id = await workspaces.add_workspace(
            db, org_id, "default", embedder=embedder, is_default=True
        )
    return Caller(
        org_id=org_id,
        user_id=user_id,
        workspace_id=workspace_id,
        rights=frozenset(Right),
        label="test",
    )


async def in_new_workspace(engine: Engine, caller: Caller) -> Caller:
    """The same user in a new workspace of the same org."""
    async with engine.pool.everywhere() as db:
        workspace_id = await workspaces.add_workspace(db, caller.org_id, uuid4().hex)
    return Caller(
        org_id=caller.org_id,
        user_id=caller.user_id,
        workspace_id=workspace_id,
        rights=caller.rights,
        label="test",
    )


async def key_for(engine: Engine, workspace_id: WorkspaceId, **options: Any) -> str:
    """Create an API key for a workspace."""
    new = await create_key(engine, workspace=str(workspace_id), **options)
    return new.text


@dataclass(frozen=True, slots=True)
class ApiClient:
    """An HTTP client of the whole application, with its caller and key."""

    http: httpx2.AsyncClient
    caller: Caller
    key: str


def connect(server: Server, **headers: str) -> httpx2.AsyncClient:
    """An in-process HTTP client of the whole application."""
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app, client=("127.0.0.1", 50_000)),
        base_url="http://recollect.test",
        headers=headers,
    )


def make_server(engine: Engine, **settings: Any) -> Server:
    """The whole application. Without a rate limit and workers unless the settings say so."""
    defaults: dict[str, Any] = {"rate_per_minute": 0, "workers": 0, "pgbouncer": uses_pgbouncer()}
    return Server(Settings(**(defaults | settings)), engine)


def single_embedder(embedder: Embedder) -> Embedders:
    """One embedder for everything."""
    return Embedders(embedder)


async def wait_until_blocked(engine: Engine, count: int = 1) -> None:
    """Wait until `count` connections wait for a lock."""

    async def is_blocked() -> bool:
        async with engine.pool.everywhere() as db:
            found = await db.execute(
                "SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                " WHERE NOT l.granted AND a.datname = current_database()"
            )
        return found.rowcount >= count

    await until(is_blocked)
