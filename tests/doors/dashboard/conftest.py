"""A browser of somebody who is signed in, and a chat with something said in it."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from recollect.domain import Caller, Message, Thread
from recollect.engine.core import Engine
from recollect.models.librarian import NAME, Librarian
from recollect.server import Server
from tests.support.chats import new_chat, say
from tests.support.dashboard import browse
from tests.support.house import serve
from tests.support.live import speaking
from tests.support.upstream import Endpoint, chats_of

Object = dict[str, Any]
DEADLINE = "The project deadline is March 15, 2026"


@dataclass(frozen=True)
class Desk:
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
        """A memory of the workspace."""
        body = {"content": content, **more}
        answer = await self.http.post(f"{self.workspace}/memories", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def remember_here(self, **body: Any) -> Object:
        """A memory of the chat."""
        answer = await self.http.post(f"{self.chat}/memory", json=body)
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def listed(self, **query: Any) -> list[Object]:
        """The workspace's memories."""
        answer = await self.http.get(f"{self.workspace}/memories", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    async def listed_here(self) -> list[Object]:
        """The chat's memories."""
        return (await self.http.get(f"{self.chat}/memories")).json()["memories"]


@pytest.fixture
async def desk(engine: Engine, server: Server, caller: Caller) -> AsyncGenerator[Desk]:
    thread = await new_chat(engine, caller)
    [message] = await say(engine, caller, thread, DEADLINE)
    async with await browse(server, engine, caller) as http:
        yield Desk(http, engine, caller, server, thread, message)


@pytest.fixture(scope="session")
def endpoint() -> Generator[Endpoint]:
    with speaking() as endpoint:
        yield endpoint


@pytest.fixture
async def modelled(desk: Desk, endpoint: Endpoint) -> AsyncGenerator[Desk]:
    """The same, with a chat model that says what the test tells it to."""
    endpoint.reset()
    chats = chats_of(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)}, model="m1")
    engine = replace(desk.engine, chats=chats)
    server = serve(engine)
    async with await browse(server, engine, desk.caller) as http:
        yield replace(desk, http=http, engine=engine, server=server)
    await chats.aclose()
