"""What the gateway guarantees for every interface: media types, sizes, malformed JSON, headers."""

import re
from collections.abc import AsyncGenerator, AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI

from recollect.api.gateway import MIB, Interface
from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from tests.support.dashboard import cookie_for
from tests.support.instance import connect, key_for, make_server
from tests.support.routes import routes_of

pytestmark = pytest.mark.anyio

JSON = {"content-type": "application/json"}
# The first path of each interface and the largest body it accepts.
MAX_BYTES = {
    "/v1/memory": MIB,
    "/v1/admin": MIB,
    "/v1/chat": 8 * MIB,
    "/api/chats": 8 * MIB,
    "/api/v1": MIB,
    "/v1/tools": MIB,
    "/agents/memories": MIB,
    "/mcp": 4 * MIB,
    "/chat/api": MIB,
}

# The sign-in page and its files, signing in, and signing out.
OPEN = {
    *(
        f"{method} {path}"
        for method in ("GET", "HEAD")
        for path in ("/", "/login", "/ui/{path:path}")
    ),
    *(f"POST {path}" for path in ("/login", "/logout", "/api/auth/login", "/api/auth/logout")),
}
MALFORMED = [
    b'{"a": "\\u0000"}',
    b'{"a": "\\ud800"}',
    b'{"a": NaN}',
    b'{"a": 1e999}',
    b'{"a": 9223372036854775808}',
    b'{"a":' * 65 + b"1" + b"}" * 65,
    b'{"a": 1, "a": 2}',
    b'{"a": ',
]


@pytest.fixture
async def client(
    engine: Engine, server: Server, caller: Caller
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a key and a session cookie, so that every interface accepts it."""
    key = await key_for(engine, caller.workspace_id)
    cookie = f"session={await cookie_for(engine, caller.user_id)}"
    async with connect(server, Authorization=f"Bearer {key}", cookie=cookie) as http:
        yield http


def paths(server: Server) -> list[str]:
    return [path_of(interface) for interface in server.interfaces]


def path_of(interface: Interface) -> str:
    return interface.prefixes[0]


class EndlessBody:
    """A body that does not end, and counts how many bytes were read."""

    def __init__(self) -> None:
        self.bytes_read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.bytes_read += MIB // 4
            yield b" " * (MIB // 4)


async def test_every_interface_has_a_limit_here(server: Server) -> None:
    assert sorted(paths(server)) == sorted(MAX_BYTES)


async def test_S07_every_route_of_every_interface_needs_a_credential(server: Server) -> None:
    found: dict[str, int] = {}
    async with connect(server) as outsider:
        for interface in server.interfaces:
            if isinstance(interface.app, FastAPI):
                for route in routes_of(interface):
                    path = re.sub(r"{[^}]*}", "x", route.path)
                    response = await outsider.request(route.method, path)
                    found[str(route)] = response.status_code
        found["POST /mcp"] = (await outsider.post("/mcp", json={})).status_code

    assert len(found) > 150
    assert {route for route, status in found.items() if status != 401} == OPEN


@pytest.mark.parametrize("path", MAX_BYTES)
async def test_S32_every_interface_refuses_a_body_that_is_not_json(
    client: httpx2.AsyncClient, path: str
) -> None:
    for media_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        response = await client.post(path, content=b"{}", headers={"content-type": media_type})

        assert response.status_code == 415


@pytest.mark.parametrize(("path", "limit"), MAX_BYTES.items())
@pytest.mark.parametrize("declared", [None, "10"], ids=["no length", "a false length"])
async def test_S60_every_interface_stops_reading_a_body_at_its_limit(
    client: httpx2.AsyncClient, path: str, limit: int, declared: str | None
) -> None:
    body = EndlessBody()
    headers = JSON if declared is None else {**JSON, "content-length": declared}

    response = await client.post(path, content=body, headers=headers)

    assert response.status_code == 413
    assert body.bytes_read <= limit + MIB // 2


@pytest.mark.parametrize("path", MAX_BYTES)
async def test_S61_every_interface_refuses_malformed_json(
    client: httpx2.AsyncClient, path: str
) -> None:
    for body in MALFORMED:
        response = await client.post(path, content=body, headers=JSON)

        assert response.status_code in {400, 422}, body
        assert "error" in response.json()


@pytest.mark.parametrize("path", MAX_BYTES)
async def test_S93_every_interface_sends_the_security_headers(
    client: httpx2.AsyncClient, engine: Engine, path: str
) -> None:
    async with connect(make_server(engine, https=True)) as outsider:
        responses = [
            await client.get(path),
            await client.post(path, content=b"{", headers=JSON),
            await outsider.get(path),
        ]

    for response in responses:
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"
    assert responses[-1].headers["strict-transport-security"] == "max-age=31536000"
