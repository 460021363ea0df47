"""The official `statebase` client, unmodified, sync and async, every method, over a real socket."""

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
from tests.support.house import only
from tests.support.live import Live, live_server

pytestmark = pytest.mark.anyio

ASKED = "where does Ada live?"
NOW = "2026-03-01T12:00:00.000000Z"
TOMORROW = "2026-03-02T12:00:00.000000Z"


@pytest.fixture
def live(database_url: str) -> Generator[Live]:
    embedder = StubEmbedder(
        {ASKED: at_cosine(1.0), "Ada lives in London": at_cosine(0.9), "tea": at_cosine(0.2)}
    )
    with live_server(database_url, only(embedder), Clock()) as found:
        yield found


class Both:
    """One script for both clients: calls are awaited where they must be."""

    def __init__(self, client: StateBase | AsyncStateBase) -> None:
        self._client = client
        self.called: set[str] = set()

    async def __call__(self, name: str, *given: Any, **named: Any) -> Any:
        self.called.add(name)
        found: Any = self._client
        for part in name.split("."):
            found = getattr(found, part)
        answer: Callable[..., Any] | Awaitable[Any] = found(*given, **named)
        return await answer if inspect.isawaitable(answer) else answer


@pytest.fixture(params=[StateBase, AsyncStateBase])
async def client(request: pytest.FixtureRequest, live: Live) -> AsyncGenerator[Both]:
    made = request.param(api_key=live.key, base_url=live.url + "/")
    both = Both(made)
    yield both
    await both("close")


def methods(*kinds: type) -> set[str]:
    return {
        name
        for kind in kinds
        for name, found in vars(kind).items()
        if inspect.isfunction(found) and not name.startswith("_")
    }


async def test_N10_N11_every_method_of_the_official_client_works(client: Both) -> None:
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
    loose = await client("memory.add", "tea", type="preference")
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
    assert (loose.session_id, loose.type, loose.tags, loose.metadata) == ("", "preference", [], {})

    hits = await client("memory.search", ASKED)
    everything = await client("memory.search", ASKED, threshold=0.0, limit=1000)
    narrowed = await client(
        "memory.search", ASKED, session_id=session.id, types="fact,event", threshold=0.0
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
    back = await client("sessions.rollback", session.id, 0)
    assert isinstance(back, StateGetResponse)
    assert (back.state, back.version) == ({"step": 1}, 2)
    fork = await client("sessions.fork", session.id, 1)
    assert fork.state == {"step": 1, "done": True}
    assert fork.metadata == {"channel": "mail", "forked_from": session.id, "forked_version": 1}
    assert (await client("sessions.fork", session.id)).state == {"step": 1}

    context = await client("sessions.get_context", session.id, query=ASKED, memory_limit=1)
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
    assert [hit.content for hit in await client("memory.search", ASKED, threshold=0.0)] == ["tea"]
    assert (await client("health"))["status"] == "healthy"

    kinds = (
        {"sessions": SessionsClient, "memory": MemoryClient}
        if isinstance(client._client, StateBase)
        else {"sessions": AsyncSessionsClient, "memory": AsyncMemoryClient}
    )
    offered = {f"{part}.{name}" for part, kind in kinds.items() for name in methods(kind)}
    offered |= methods(type(client._client))
    assert offered - client.called <= {"close"}


async def test_N10_the_tags_of_either_client_narrow_a_search(live: Live) -> None:
    with StateBase(api_key=live.key, base_url=live.url) as plain:
        plain.memory.add("Ada lives in London", tags=["home"])
        plain.memory.add("tea", tags=["taste"])
        by_text = plain.memory.search(ASKED, tags="home, work", threshold=0.0)
    async with AsyncStateBase(api_key=live.key, base_url=live.url) as waiting:
        by_list = await waiting.memory.search(ASKED, tags=["taste", "work"], threshold=0.0)

    assert [hit.content for hit in by_text] == ["Ada lives in London"]
    assert [hit.content for hit in by_list] == ["tea"]


@pytest.mark.parametrize("key", ["", "sb_wrong"])
async def test_N01_the_official_client_is_refused_with_a_wrong_key(live: Live, key: str) -> None:
    with (
        StateBase(api_key=key, base_url=live.url) as client,
        pytest.raises(httpx.HTTPStatusError, match="401"),
    ):
        client.memory.search(ASKED)


def spoken(live: Live, request: bytes) -> bytes:
    """What the server says to these very bytes."""
    with socket.create_connection(("127.0.0.1", live.port), timeout=10) as line:
        line.settimeout(10)
        answer = b""
        with suppress(BrokenPipeError, ConnectionResetError):  # it has heard enough
            line.sendall(request)
        with suppress(ConnectionResetError):
            while b"}" not in answer and (part := line.recv(65_536)):
                answer += part
        return answer


async def test_a_chunked_body_over_the_limit_is_refused_on_the_wire(live: Live) -> None:
    piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    head = (
        "POST /v1/memories HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"X-API-Key: {live.key}\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    answer = spoken(live, head.encode() + piece * 17)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"payload_too_large"' in answer


async def test_hostile_addresses_are_answered_on_the_wire(live: Live) -> None:
    lines = {
        b"GET /v1/memory?user_id=%00": b"400",
        b"GET /v1/memory/%00": b"400",
        b"GET /v1/memory/%ff%fe": b"404",
        b"GET /v1/memory/" + b"a" * 20_000: b"400",
        b"HEAD /v1/memory": b"405",
        b"OPTIONS /v1/memory": b"405",
        b"GET /v1/memory": b"200",
    }
    rest = f" HTTP/1.1\r\nHost: a\r\nX-API-Key: {live.key}\r\nConnection: close\r\n\r\n".encode()

    answers = {line: spoken(live, line + rest) for line in lines}

    assert {line: answer.split(b" ")[1] for line, answer in answers.items()} == lines
    assert all(answer.lower().count(b"x-request-id:") == 1 for answer in answers.values())
