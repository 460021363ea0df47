"""Fixtures: the OpenAI interface with a scripted upstream, and a client with a key."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.memories.save import Save, save
from recollect.models.librarian import NAME, Librarian
from recollect.server import Server
from recollect.worker import Worker
from tests.support.instance import connect, key_for, make_server
from tests.support.live_server import serve_chat_endpoint
from tests.support.upstream import Endpoint, ReceivedRequest, chat_models_at

Object = dict[str, Any]


@dataclass(frozen=True)
class Routed:
    """A client of the OpenAI interface, its upstream, and the server behind it."""

    http: httpx2.AsyncClient
    upstream: Endpoint
    engine: Engine
    caller: Caller
    server: Server
    key: str

    async def chat(self, *messages: str | Object, **options: Any) -> httpx2.Response:
        """Run one turn; plain texts are user messages."""
        headers = options.pop("headers", {})
        prompt = [
            {"role": "user", "content": each} if isinstance(each, str) else each
            for each in messages
        ]
        body = {"model": "m1", "messages": prompt, **options}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def remember(self, text: str, **options: Any) -> str:
        saved = await save(self.engine, self.caller, Save(text, **options))
        return f"mem_{saved.memory.code}"

    async def drain(self) -> None:
        """Run all queued jobs."""
        await Worker(self.engine, slots=1).run_until_empty()

    @property
    def last(self) -> ReceivedRequest:
        return self.upstream.requests[-1]


@pytest.fixture(scope="session")
def endpoint() -> Generator[Endpoint]:
    with serve_chat_endpoint() as endpoint:
        yield endpoint


@pytest.fixture
async def routed(engine: Engine, caller: Caller, endpoint: Endpoint) -> AsyncGenerator[Routed]:
    endpoint.reset()
    chats = chat_models_at(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)})
    with_model = replace(engine, chat_models=chats)
    server = make_server(with_model)
    key = await key_for(with_model, caller.workspace_id)
    async with connect(server, Authorization=f"Bearer {key}") as http:
        yield Routed(http, endpoint, with_model, caller, server, key)
    await chats.aclose()
