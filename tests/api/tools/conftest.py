"""The transports of the memory tools, each as one value of the fixture `tools`."""

from collections.abc import AsyncGenerator

import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from tests.support.instance import connect, key_for
from tests.support.tools import Direct, OverHttp, OverMcp, Surface, mcp_client

SURFACES = ("function", "http", "mcp", "mcp of 2025")


@pytest.fixture(params=SURFACES)
async def tools(
    request: pytest.FixtureRequest, engine: Engine, caller: Caller, server: Server
) -> AsyncGenerator[Surface]:
    key = await key_for(engine, caller.workspace_id)
    if request.param == "function":
        yield Direct(engine, caller)
    elif request.param == "http":
        async with connect(server, Authorization=f"Bearer {key}") as http:
            yield OverHttp(http)
    else:
        mode = "legacy" if request.param == "mcp of 2025" else "auto"
        async with server.running(), mcp_client(server, key, mode=mode) as client:
            yield OverMcp(client)
