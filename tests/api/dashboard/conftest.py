"""A signed-in browser, and a chat with one message."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller, Message, Thread
from recollect.engine import Engine
from recollect.models.librarian import NAME, Librarian
from recollect.server import Server
from tests.support.conversations import add_messages, new_chat
from tests.support.dashboard import connect_signed_in
from tests.support.instance import make_server
from tests.support.live_server import serve_chat_endpoint
from tests.support.upstream import Endpoint, chat_models_at

Object = dict[str, Any]
DEADLINE = "The project deadline is March 15, 2026"


@dataclass(frozen=True)
class Dashboard:
    """Everything a test of the dashboard needs."""

    http: httpx2.AsyncClient
    engine: Engine
    caller: Caller
    server: Server
    thread: Thread
    message: Message

    @property
    def chat(self) -> str:
        return f"/chat/api/chat_{self.thread.code}"

    @property
    def workspace(self) -> str:
        return f"/chat/api/workspaces/ws_{self.caller.workspace_id}"

    async def remember(self, content: str, **more: Any) -> Object:
        """Save a memory in the workspace."""
        body = {"content": content, **more}
        response = await self.http.post(f"{self.workspace}/memories", json=body)
        assert response.status_code == 201, response.text
        return response.json()

    async def remember_in_chat(self, **body: Any) -> Object:
        """Save a memory in the chat."""
        response = await self.http.post(f"{self.chat}/memory", json=body)
        assert response.status_code == 201, response.text
        return response.json()

    async def listed(self, **query: Any) -> list[Object]:
        """Return the memories of the workspace."""
        response = await self.http.get(f"{self.workspace}/memories", params=query)
        assert response.status_code == 200, response.text
        return response.json()["items"]

    async def listed_in_chat(self) -> list[Object]:
        """Return the memories of the chat."""
        return (await self.http.get(f"{self.chat}/memories")).json()["memories"]


@pytest.fixture
async def dashboard(engine: Engine, server: Server, caller: Caller) -> AsyncGenerator[Dashboard]:
    thread = await new_chat(engine, caller)
    [message] = await add_messages(engine, caller, thread, DEADLINE)
    async with await connect_signed_in(server, engine, caller) as http:
        yield Dashboard(http, engine, caller, server, thread, message)


@pytest.fixture(scope="session")
def endpoint() -> Generator[Endpoint]:
    with serve_chat_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def with_model(dashboard: Dashboard, endpoint: Endpoint) -> AsyncGenerator[Dashboard]:
    """The same, with a chat model whose answers the test scripts."""
    endpoint.reset()
    chats = chat_models_at(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)}, model="m1")
    engine = replace(dashboard.engine, chat_models=chats)
    server = make_server(engine)
    async with await connect_signed_in(server, engine, dashboard.caller) as http:
        yield replace(dashboard, http=http, engine=engine, server=server)
    await chats.aclose()
