"""A router in front of a scripted upstream, and somebody with a key to it."""

from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.engine.save import Save, save
from recollect.models.librarian import NAME, Librarian
from recollect.server import Server
from recollect.worker import Worker
from tests.support.house import key_for, serve, visit
from tests.support.live import speaking
from tests.support.upstream import Asked, Endpoint, chats_of

Object = dict[str, Any]


@dataclass(frozen=True)
class Routed:
    """Everything a test of the router needs."""

    http: httpx2.AsyncClient
    upstream: Endpoint
    engine: Engine
    caller: Caller
    server: Server
    key: str

    async def chat(self, *said: str | Object, **options: Any) -> httpx2.Response:
        """One turn; texts are what the user says."""
        headers = options.pop("headers", {})
        messages = [
            {"role": "user", "content": each} if isinstance(each, str) else each for each in said
        ]
        body = {"model": "m1", "messages": messages, **options}
        return await self.http.post("/v1/chat/completions", json=body, headers=headers)

    async def remember(self, text: str, **options: Any) -> str:
        saved = await save(self.engine, self.caller, Save(text, **options))
        return f"mem_{saved.memory.code}"

    async def drain(self) -> None:
        """Let the worker do everything that waits."""
        await Worker(self.engine, slots=1).run_until_empty()

    @property
    def last(self) -> Asked:
        return self.upstream.asked[-1]


@pytest.fixture(scope="session")
def endpoint() -> Generator[Endpoint]:
    with speaking() as endpoint:
        yield endpoint


@pytest.fixture
async def routed(engine: Engine, caller: Caller, endpoint: Endpoint) -> AsyncGenerator[Routed]:
    endpoint.reset()
    chats = chats_of(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)})
    house = replace(engine, chats=chats)
    server = serve(house)
    key = await key_for(house, caller.workspace_id)
    async with visit(server, Authorization=f"Bearer {key}") as http:
        yield Routed(http, endpoint, house, caller, server, key)
    await chats.aclose()
