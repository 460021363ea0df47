"""Fixtures for every test: a real database, an exact embedder, a clock that stands still."""

from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.database import TestDatabases, make_home, remove_home
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, new_caller, only, open_house, serve, visit

_HOME = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the one process that starts the others
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
    """The database of this test process: tests share it, each in a workspace of its own."""
    return databases.clone()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder() -> StubEmbedder:
    return StubEmbedder()


@pytest.fixture
async def engine(database_url: str, embedder: StubEmbedder, clock: Clock) -> AsyncGenerator[Engine]:
    async with open_house(database_url, only(embedder), clock) as house:
        yield house


@pytest.fixture
async def caller(engine: Engine) -> Caller:
    return await new_caller(engine)


@pytest.fixture
def server(engine: Engine) -> Server:
    return serve(engine)


@pytest.fixture
async def visitor(engine: Engine, server: Server, caller: Caller) -> AsyncGenerator[Visitor]:
    key = await key_for(engine, caller.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        yield Visitor(http, caller, key)
