"""MCP over HTTP at `/mcp`: every POST stands for itself and brings its key."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

from fastapi import Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.domain import Caller
from recollect.doors.front import MIB, Door, Reply, key_or_bearer, replay
from recollect.doors.furnish import KEY_OR_BEARER, furnish, new_app, new_router
from recollect.doors.tools.errors import ErrorObject, answer_mcp
from recollect.doors.tools.mcp_messages import check, refusal
from recollect.doors.tools.mcp_server import mcp_server
from recollect.engine.core import Engine
from recollect.errors import Invalid

MOST_BYTES = 4 * MIB

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Set for each request by this door, read by the tool it calls; the SDK hands it on.
_asking: ContextVar[Caller] = ContextVar("asking")


class Mcp:
    """The door to `/mcp`, and what must run while it is open."""

    def __init__(self, engine: Engine, names: Sequence[str]) -> None:
        self._sessions = StreamableHTTPSessionManager(
            mcp_server(engine, _whoever_asks),
            stateless=True,
            json_response=True,
            security_settings=_security([*_LOOPBACK, *names]),
            max_request_body_size=MOST_BYTES,
        )
        router = new_router(ErrorObject)
        # Both spellings: a redirect would lose the key, or the body.
        for path in ("/mcp", "/mcp/"):
            router.add_api_route(path, self._speak, methods=["POST"])
        app = new_app(
            "Recollect: MCP",
            "The Model Context Protocol over Streamable HTTP, without sessions.",
            router.routes,
        )
        furnish(app, engine, answer_mcp, KEY_OR_BEARER)
        self.door = Door(
            "mcp", ("/mcp",), app, answer_mcp, key_or_bearer, MOST_BYTES, refuse=_refuse
        )

    async def run(self, is_open: asyncio.Event) -> None:
        """Serve until cancelled; once.

        A task of its own: the SDK would wrap whatever goes wrong in its block into a group.
        """
        async with self._sessions.run():
            is_open.set()
            await asyncio.Event().wait()

    async def _speak(self, request: Request) -> Response:
        """One JSON-RPC message."""
        body = await request.body()
        check(body)
        return _Handed(self._hand_on, body)

    async def _hand_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = _asking.set(scope["state"]["caller"])
        try:
            await self._sessions.handle_request(scope, receive, send)
        finally:
            _asking.reset(token)


class _Handed(Response):
    """An answer that another application writes to a body that was read."""

    def __init__(self, app: ASGIApp, read: bytes) -> None:
        super().__init__()
        self._app = app
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, replay(self._read, receive), send)


def _refuse(body: bytes, failure: Invalid) -> Reply | None:
    """The answer under the request's own id: a client gives up its session at a status of 400."""
    answer = None if failure.is_syntax else refusal(body, failure)
    if answer is None or answer.id is None:
        return None
    return Reply(200, answer.model_dump(by_alias=True, exclude_unset=True))


async def _whoever_asks() -> Caller:
    return _asking.get()


def _security(names: Sequence[str]) -> TransportSecuritySettings:
    """Only these names may be asked for, and only pages from them may ask: no rebound DNS."""
    hosts = [spelt for name in names for spelt in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
