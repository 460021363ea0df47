"""Fixtures for background work, in separate databases: a worker claims the jobs of every test."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.instance import make_server, new_caller
from tests.support.live_server import serve_app
from tests.support.scenario import Scenario
from tests.support.upstream import Endpoint, chat_models_at


@pytest.fixture(scope="module")
def database_url(databases: TestDatabases) -> str:
    """A separate database for each module."""
    return databases.clone()


@pytest.fixture
async def scenario(engine: Engine, clock: Clock) -> AsyncGenerator[Scenario]:
    endpoint = Endpoint()
    with serve_app(endpoint) as url:
        chats = chat_models_at(url, model="m1")
        instance = replace(
            engine,
            chat_models=chats,
            learning_deadline=timedelta(seconds=0.3),
            summary_deadline=timedelta(seconds=0.3),
            synthesis_deadline=timedelta(seconds=0.3),
            segment_rules=None,
        )
        found = Scenario(instance, make_server(instance), endpoint, clock)
        endpoint.default = found.answer
        yield found
        await chats.aclose()


@pytest.fixture
async def ada(caller: Caller) -> Caller:
    return caller


@pytest.fixture
async def ben(engine: Engine, ada: Caller) -> Caller:
    """A colleague in the same workspace."""
    return await add_colleague(engine, ada)


@pytest.fixture
async def cid(engine: Engine) -> Caller:
    """A user in another workspace."""
    return await new_caller(engine)
