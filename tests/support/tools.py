"""The three tools through each of their surfaces, so that the same tests run on all of them."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from uuid import UUID

import httpx2
import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from recollect.api.tools.tool import to_json
from recollect.api.tools.tools import TOOLS
from recollect.core.domain import Caller, WorkspaceId
from recollect.core.errors import Failure
from recollect.engine import Engine
from recollect.server import Server

Object = dict[str, Any]

HERE = "http://127.0.0.1:8484"
A_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TYPES = ("fact", "preference", "decision", "identity", "event", "observation", "goal", "todo")


class ToolRefused(Exception):
    """A tool error with the text that the model reads."""


class Surface(Protocol):
    """One way to call the tools."""

    async def call(self, name: str, **arguments: Any) -> Object:
        """The structured result. Raises `ToolRefused` on a tool error."""
        ...


class Direct:
    """Calls the functions directly."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def call(self, name: str, **arguments: Any) -> Object:
        try:
            result = await TOOLS[name].call(self._engine, self._caller, arguments)
        except Failure as failure:
            raise ToolRefused(failure.message) from failure
        return to_json(result)


class OverHttp:
    """`POST /v1/tools/{name}`."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, name: str, **arguments: Any) -> Object:
        response = await self._http.post(f"/v1/tools/{name}", json=arguments)
        body = response.json()
        if response.status_code == 400:
            assert set(body) == {"error"}
            assert set(body["error"]) == {"message", "type"}
            assert body["error"]["type"] == "tool_error"
            raise ToolRefused(body["error"]["message"])
        assert response.status_code == 200, response.text
        return body


class OverMcp:
    """Calls the tools with the official MCP client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> Object:
        try:
            result = await self.client.call_tool(name, arguments)
        except MCPError as error:
            raise ToolRefused(error.message) from error
        [content] = result.content
        assert isinstance(content, mcp_types.TextContent)
        if result.is_error:
            assert result.structured_content is None
            raise ToolRefused(content.text)
        answer: Object = result.structured_content
        if name == "memory_recall":
            assert content.text == answer["summary"]
        return answer


@asynccontextmanager
async def mcp_client(
    server: Server, key: str, *, mode: str = "auto", path: str = "/mcp"
) -> AsyncGenerator[Client]:
    """The official MCP client of a running server, in process."""
    transport = httpx2.ASGITransport(app=server.app, client=("127.0.0.1", 50_000))
    async with (
        httpx2.AsyncClient(transport=transport, headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(HERE + path, http_client=http), mode=mode) as client,
    ):
        yield client


async def save_memory(tools: Surface, content: str, **arguments: Any) -> str:
    """Save a memory; return its id."""
    saved = await tools.call("memory_save", content=content, **arguments)
    assert saved["success"]
    return saved["memory_id"]


async def recall(tools: Surface, query: str = "", **arguments: Any) -> list[Object]:
    """The memories that a recall returns."""
    query_argument = {"query": query} if query else {}
    return (await tools.call("memory_recall", **query_argument, **arguments))["memories"]


async def recall_texts(tools: Surface, query: str = "", **arguments: Any) -> list[str]:
    """The texts of the recalled memories, in order."""
    return [each["content"] for each in await recall(tools, query, **arguments)]


async def memory_row(engine: Engine, memory_id: str) -> Object:
    """The database row of a memory, forgotten or not."""
    [found] = await fetch_rows(
        engine, "SELECT to_jsonb(m) FROM memory m WHERE id = %s", UUID(memory_id)
    )
    return found[0]


async def links_of(engine: Engine, workspace_id: WorkspaceId) -> set[tuple[str, str, str, float]]:
    """Every link of a workspace: source, relation, target, weight."""
    found = await fetch_rows(
        engine,
        "SELECT source_id, relation, target_id, weight FROM memory_link WHERE workspace_id = %s",
        workspace_id,
    )
    return {
        (str(source), relation, str(target), weight) for source, relation, target, weight in found
    }


def allowed_values(refused: pytest.ExceptionInfo[ToolRefused]) -> set[str]:
    """The allowed values that an error message lists."""
    return set(re.findall(r"`(\w+)`", str(refused.value).partition(" must be ")[2]))


async def fetch_rows(engine: Engine, query: Any, *values: Any) -> list[Any]:
    """Run any query over all workspaces; return its rows."""
    async with engine.pool.everywhere() as db:
        return await (await db.execute(query, values)).fetchall()
