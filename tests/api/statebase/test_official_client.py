"""Every method of the unmodified official `statebase` client, sync and async, over a socket."""

import inspect
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from statebase import AsyncStateBase, StateBase
from statebase.async_client import AsyncMemoryClient, AsyncSessionsClient
from statebase.client import MemoryClient, SessionsClient
from statebase.models import (
    MemoryResponse,
    MemorySearchResult,
    SessionResponse,
    StateGetResponse,
    TurnInput,
    TurnOutput,
    TurnResponse,
)

from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import single_embedder
from tests.support.live_server import LiveServer, live_server

pytestmark = pytest.mark.anyio

QUESTION = "where does Ada live?"
NOW = "2026-03-01T12:00:00.000000Z"
TOMORROW = "2026-03-02T12:00:00.000000Z"


@pytest.fixture
def live(database_url: str) -> Generator[LiveServer]:
    embedder = StubEmbedder(
        {QUESTION: at_cosine(1.0), "Ada lives in London": at_cosine(0.9), "tea": at_cosine(0.2)}
    )
    with live_server(database_url, single_embedder(embedder), Clock()) as found:
        yield found


class AnyClient:
    """Calls a method of either client by name, and awaits the result if necessary."""

    def __init__(self, client: StateBase | AsyncStateBase) -> None:
        self._client = client
        self.called: set[str] = set()

    async def __call__(self, name: str, *given: Any, **named: Any) -> Any:
        self.called.add(name)
        found: Any = self._client
        for part in name.split("."):
            found = getattr(found, part)
        result: Callable[..., Any] | Awaitable[Any] = found(*given, **named)
        return await result if inspect.isawaitable(result) else result


@pytest.fixture(params=[StateBase, AsyncStateBase])
async def client(request: pytest.FixtureRequest, live: LiveServer) -> AsyncGenerator[AnyClient]:
    original = request.param(api_key=live.key, base_url=live.url + "/")
    client = AnyClient(original)
    yield client
    await client("close")


def methods(*kinds: type) -> set[str]:
    return {
        name
        for kind in kinds
        for name, found in vars(kind).items()
        if inspect.isfunction(found) and not name.startswith("_")
    }


async def test_N10_N11_every_method_of_the_official_client_works(client: AnyClient) -> None:
    session = await client(
        "sessions.create",
        agent_id="support",
        user_id="ada",
        metadata={"channel": "mail"},
        initial_state={"step": 1},
        ttl_seconds=86_400,
    )
    other = await client("sessions.create", "sales")
    assert session == SessionResponse(
        id=session.id,
        agent_id="support",
        user_id="ada",
        created_at=NOW,
        updated_at=NOW,
        metadata={"channel": "mail"},
        state={"step": 1},
        memory_count=0,
        turn_count=0,
        ttl_expires_at=TOMORROW,
    )
    assert await client("sessions.get", session.id) == session

    memory = await client(
        "memory.add",
        "Ada lives in London",
        session_id=session.id,
        tags=["home"],
        metadata={"n": 1},
    )
    without_session = await client("memory.add", "tea", type="preference")
    assert memory == MemoryResponse(
        id=memory.id,
        content="Ada lives in London",
        type="fact",
        session_id=session.id,
        tags=["home"],
        metadata={"n": 1},
        embedding_id=memory.id.replace("mem_", "vec_"),
        vector_available=True,
        created_at=NOW,
    )
    assert (
        without_session.session_id,
        without_session.type,
        without_session.tags,
        without_session.metadata,
    ) == ("", "preference", [], {})

    hits = await client("memory.search", QUESTION)
    everything = await client("memory.search", QUESTION, threshold=0.0, limit=1000)
    narrowed = await client(
        "memory.search", QUESTION, session_id=session.id, types="fact,event", threshold=0.0
    )
    assert hits == [
        MemorySearchResult(
            id=memory.id,
            session_id=session.id,
            content="Ada lives in London",
            type="fact",
            score=hits[0].score,
        )
    ]
    assert hits[0].score == pytest.approx(0.9, abs=1e-3)
    assert [hit.content for hit in everything] == ["Ada lives in London", "tea"]
    assert narrowed == hits

    turn = await client("sessions.add_turn", session.id, "hi", "hello", reasoning="polite")
    call = await client(
        "sessions.add_tool_call", session.id, "find", {"q": "Ada"}, {"found": 1}, tool_call_id="c1"
    )
    assert turn == TurnResponse(
        id=turn.id,
        session_id=session.id,
        turn_number=1,
        input=TurnInput(type="text", content="hi"),
        output=TurnOutput(type="text", content="hello"),
        metadata={},
        reasoning="polite",
        created_at=NOW,
    )
    assert (call.turn_number, call.input.type, call.output.content) == (
        2,
        "tool_call",
        "{'found': 1}",
    )
    assert await client("sessions.list_turns", session.id) == [call, turn]
    assert await client("sessions.list_turns", session.id, starting_after=call.id) == [turn]

    updated = await client("sessions.update_state", session.id, {"done": True}, "finished")
    assert updated.state == {"step": 1, "done": True}
    assert await client("sessions.get_state", session.id) == updated
    restored = await client("sessions.rollback", session.id, 0)
    assert isinstance(restored, StateGetResponse)
    assert (restored.state, restored.version) == ({"step": 1}, 2)
    fork = await client("sessions.fork", session.id, 1)
    assert fork.state == {"step": 1, "done": True}
    assert fork.metadata == {"channel": "mail", "forked_from": session.id, "forked_version": 1}
    assert (await client("sessions.fork", session.id)).state == {"step": 1}

    context = await client("sessions.get_context", session.id, query=QUESTION, memory_limit=1)
    assert (await client("sessions.get_context", session.id))["state"] == {"step": 1}
    assert [each["content"] for each in context["memories"]] == ["Ada lives in London"]
    assert [each["id"] for each in context["recent_turns"]] == [call.id, turn.id]

    page = await client("sessions.list", agent_id="support", limit=1000, created_after="2026-01-01")
    assert sorted(each["id"] for each in page["data"]) != []
    assert other.id not in {each["id"] for each in page["data"]}
    after = await client("sessions.list", starting_after=page["first_id"], limit=1)
    assert len(after["data"]) == 1

    await client("sessions.delete", session.id)
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        await client("sessions.get", session.id)
    assert [hit.content for hit in await client("memory.search", QUESTION, threshold=0.0)] == [
        "tea"
    ]
    assert (await client("health"))["status"] == "healthy"

    kinds = (
        {"sessions": SessionsClient, "memory": MemoryClient}
        if isinstance(client._client, StateBase)
        else {"sessions": AsyncSessionsClient, "memory": AsyncMemoryClient}
    )
    offered = {f"{part}.{name}" for part, kind in kinds.items() for name in methods(kind)}
    offered |= methods(type(client._client))
    assert offered - client.called <= {"close"}


async def test_N10_tags_of_both_official_clients_filter_a_search(live: LiveServer) -> None:
    with StateBase(api_key=live.key, base_url=live.url) as sync_client:
        sync_client.memory.add("Ada lives in London", tags=["home"])
        sync_client.memory.add("tea", tags=["taste"])
        by_text = sync_client.memory.search(QUESTION, tags="home, work", threshold=0.0)
    async with AsyncStateBase(api_key=live.key, base_url=live.url) as async_client:
        by_list = await async_client.memory.search(QUESTION, tags=["taste", "work"], threshold=0.0)

    assert [hit.content for hit in by_text] == ["Ada lives in London"]
    assert [hit.content for hit in by_list] == ["tea"]


@pytest.mark.parametrize("key", ["", "sb_wrong"])
async def test_N01_the_official_client_gets_401_with_a_wrong_key(
    live: LiveServer, key: str
) -> None:
    with (
        StateBase(api_key=key, base_url=live.url) as client,
        pytest.raises(httpx.HTTPStatusError, match="401"),
    ):
        client.memory.search(QUESTION)


def send_raw(live: LiveServer, request: bytes) -> bytes:
    """Send these bytes to the server and return the raw response."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as connection:
        connection.settimeout(10)
        response = b""
        # The server may close the connection before the whole request is sent.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(request)
        with suppress(ConnectionResetError):
            while b"}" not in response and (part := connection.recv(65_536)):
                response += part
        return response


async def test_a_chunked_body_over_the_limit_is_rejected(live: LiveServer) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = (
        "POST /v1/memories HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"X-API-Key: {live.key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    response = send_raw(live, head.encode() + piece * 17)

    assert response.startswith(b"HTTP/1.1 413 ")
    assert b'"payload_too_large"' in response


async def test_hostile_paths_get_a_proper_response(live: LiveServer) -> None:
    lines = {
        b"GET /v1/memory?user_id=%00": b"400",
        b"GET /v1/memory/%00": b"400",
        b"GET /v1/memory/%ff%fe": b"404",
        b"GET /v1/memory/" + b"a" * 10_000: b"400",
        b"HEAD /v1/memory": b"405",
        b"OPTIONS /v1/memory": b"405",
        b"GET /v1/memory": b"200",
    }
    rest = f" HTTP/1.1\r\nHost: a\r\nX-API-Key: {live.key}\r\nConnection: close\r\n\r\n".encode()

    responses = {line: send_raw(live, line + rest) for line in lines}

    assert {line: response.split(b" ")[1] for line, response in responses.items()} == lines
    assert all(response.lower().count(b"x-request-id:") == 1 for response in responses.values())
