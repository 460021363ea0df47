"""A visitor of the informer door."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import httpx2
import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.server import Server
from tests.support.house import key_for, serve, visit


@pytest.fixture
async def http(engine: Engine, caller: Caller) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a bearer token; nothing is cut by itself unless a test works off the queue."""
    key = await key_for(engine, caller.workspace_id)
    async with visit(serve(engine), Authorization=f"Bearer {key}") as client:
        yield client


@pytest.fixture
def uncut(engine: Engine) -> Engine:
    return replace(engine, segment_rules=None)


@pytest.fixture
def front(engine: Engine) -> Server:
    return serve(engine)
