"""Fixtures for all tests: a real database, an exact embedder and a clock under test control."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.database import TestDatabases, make_home, remove_home
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    ApiClient,
    connect,
    key_for,
    make_server,
    new_caller,
    open_engine,
    single_embedder,
)

_HOME = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the main process, which starts the xdist workers
        config.stash[_HOME] = make_home()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _HOME in config.stash:
        remove_home(config.stash[_HOME])


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def databases() -> Generator[TestDatabases]:
    found = TestDatabases()
    yield found
    found.close()


@pytest.fixture(scope="session")
def database_url(databases: TestDatabases) -> str:
    """The database of this test process. Tests share it; each has its own workspace."""
    return databases.clone()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
async def engine(database_url: str, embedder: StubEmbedder, clock: Clock) -> AsyncGenerator[Engine]:
    async with open_engine(database_url, single_embedder(embedder), clock) as engine:
        yield engine


@pytest.fixture
async def caller(engine: Engine) -> Caller:
    return await new_caller(engine)


@pytest.fixture
def server(engine: Engine) -> Server:
    return make_server(engine)


@pytest.fixture
async def client(engine: Engine, server: Server, caller: Caller) -> AsyncGenerator[ApiClient]:
    key = await key_for(engine, caller.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        yield ApiClient(http, caller, key)
