"""The three tools behind each of their surfaces, so that one list of behaviours runs on all."""

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

from recollect.domain import Caller, WorkspaceId
from recollect.doors.tools import tools
from recollect.engine.core import Engine
from recollect.errors import Failure
from recollect.server import Server

Object = dict[str, Any]

HERE = "http://127.0.0.1:8484"
A_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
TYPES = ("fact", "preference", "decision", "identity", "event", "observation", "goal", "todo")


class Refused(Exception):
    """A tool error, with the text a model reads."""


class Surface(Protocol):
    """One way to call the tools."""

    async def call(self, name: str, **arguments: Any) -> Object:
        """The structured result; raise `Refused` on a tool error."""
        ...


class Direct:
    """The functions themselves."""

    def __init__(self, engine: Engine, caller: Caller) -> None:
        self._engine = engine
        self._caller = caller

    async def call(self, name: str, **arguments: Any) -> Object:
        try:
            result = await tools.call(self._engine, self._caller, name, arguments)
        except Failure as failure:
            raise Refused(failure.message) from failure
        return tools.shown(result)


class OverHttp:
    """`POST /v1/tools/{name}`."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def call(self, name: str, **arguments: Any) -> Object:
        answer = await self._http.post(f"/v1/tools/{name}", json=arguments)
        body = answer.json()
        if answer.status_code == 400:
            assert set(body) == {"error"}
            assert set(body["error"]) == {"message", "type"}
            assert body["error"]["type"] == "tool_error"
            raise Refused(body["error"]["message"])
        assert answer.status_code == 200, answer.text
        return body


class OverMcp:
    """The official client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, name: str, **arguments: Any) -> Object:
        try:
            result = await self.client.call_tool(name, arguments)
        except MCPError as error:
            raise Refused(error.message) from error
        [content] = result.content
        assert isinstance(content, mcp_types.TextContent)
        if result.is_error:
            assert result.structured_content is None
            raise Refused(content.text)
        answer: Object = result.structured_content
        if name == "memory_recall":
            assert content.text == answer["summary"]
        return answer


@asynccontextmanager
async def mcp_client(
    server: Server, key: str, *, mode: str = "auto", path: str = "/mcp"
) -> AsyncGenerator[Client]:
    """The official client in front of a running server, in process."""
    transport = httpx2.ASGITransport(app=server.app, client=("127.0.0.1", 50_000))
    async with (
        httpx2.AsyncClient(transport=transport, headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(HERE + path, http_client=http), mode=mode) as client,
    ):
        yield client


async def remember(tools: Surface, content: str, **arguments: Any) -> str:
    """The id of a new memory."""
    saved = await tools.call("memory_save", content=content, **arguments)
    assert saved["success"]
    return saved["memory_id"]


async def recall(tools: Surface, query: str = "", **arguments: Any) -> list[Object]:
    """The memories a recall returns."""
    asked = {"query": query} if query else {}
    return (await tools.call("memory_recall", **asked, **arguments))["memories"]


async def texts(tools: Surface, query: str = "", **arguments: Any) -> list[str]:
    """Their texts, in order."""
    return [each["content"] for each in await recall(tools, query, **arguments)]


async def row(engine: Engine, memory_id: str) -> Object:
    """What is stored of a memory, forgotten or not."""
    [found] = await rows(engine, "SELECT to_jsonb(m) FROM memory m WHERE id = %s", UUID(memory_id))
    return found[0]


async def edges(engine: Engine, workspace_id: WorkspaceId) -> set[tuple[str, str, str, float]]:
    """Every link of a workspace: source, relation, target, weight."""
    found = await rows(
        engine,
        "SELECT source_id, relation, target_id, weight FROM association WHERE workspace_id = %s",
        workspace_id,
    )
    return {
        (str(source), relation, str(target), weight) for source, relation, target, weight in found
    }


def offered(refused: pytest.ExceptionInfo[Refused]) -> set[str]:
    """The values that a refusal says would do."""
    return set(re.findall(r"`(\w+)`", str(refused.value).partition(" must be ")[2]))


async def rows(engine: Engine, query: Any, *values: Any) -> list[Any]:
    """Whatever is in the database."""
    async with engine.pool.everywhere() as db:
        return await (await db.execute(query, values)).fetchall()
