"""A client of the Informer interface."""

from collections.abc import AsyncGenerator

import httpx2
import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from tests.support.instance import connect, key_for, make_server


@pytest.fixture
async def http(engine: Engine, caller: Caller) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a bearer token. No worker runs unless a test starts one."""
    key = await key_for(engine, caller.workspace_id)
    async with connect(make_server(engine), Authorization=f"Bearer {key}") as client:
        yield client
