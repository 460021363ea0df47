"""MCP over HTTP at `/mcp`, without sessions: every POST carries its own key."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar

from fastapi import Request, Response
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from recollect.api.apps import KEY_OR_BEARER, new_app, new_router, set_up
from recollect.api.errors import ErrorReply
from recollect.api.gateway import MIB, Interface, key_or_bearer, replay
from recollect.api.tools.errors import ToolsErrorObject, answer_mcp
from recollect.api.tools.mcp_messages import check_message, error_reply
from recollect.api.tools.mcp_server import mcp_server
from recollect.core.domain import Caller
from recollect.core.errors import Invalid
from recollect.engine import Engine

MAX_BYTES = 4 * MIB

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

# Set for each request and read by the tool that it calls. The SDK propagates the context.
_current_caller: ContextVar[Caller] = ContextVar("current_caller")


class Mcp:
    """The `/mcp` interface, and the session manager that must run while it serves."""

    def __init__(self, engine: Engine, host_names: Sequence[str]) -> None:
        self._sessions = StreamableHTTPSessionManager(
            mcp_server(engine, _get_caller),
            stateless=True,
            json_response=True,
            security_settings=_security([*_LOOPBACK, *host_names]),
            max_request_body_size=MAX_BYTES,
        )
        router = new_router(ToolsErrorObject)
        # Both forms, because a redirect would lose the key or the body.
        for path in ("/mcp", "/mcp/"):
            router.add_api_route(path, self._handle_message, methods=["POST"])
        app = new_app(
            "Recollect: MCP",
            "The Model Context Protocol over Streamable HTTP, without sessions.",
            router.routes,
        )
        set_up(app, engine, answer_mcp, KEY_OR_BEARER)
        self.interface = Interface(
            "mcp", ("/mcp",), app, answer_mcp, key_or_bearer, MAX_BYTES, refuse_body=_refuse
        )

    async def run(self, is_open: asyncio.Event) -> None:
        """Serve until cancelled. Call it only once.

        Run it as a separate task: the SDK wraps any exception in its block in an exception group.
        """
        async with self._sessions.run():
            is_open.set()
            await asyncio.Event().wait()

    async def _handle_message(self, request: Request) -> Response:
        """Handle one JSON-RPC message."""
        body = await request.body()
        check_message(body)
        return _ForwardedResponse(self._forward, body)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        token = _current_caller.set(scope["state"]["caller"])
        try:
            await self._sessions.handle_request(scope, receive, send)
        finally:
            _current_caller.reset(token)


class _ForwardedResponse(Response):
    """A response that another ASGI application writes. It receives the body already read."""

    def __init__(self, app: ASGIApp, body: bytes) -> None:
        super().__init__()
        self._app = app
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, replay(self._body, receive), send)


def _refuse(body: bytes, failure: Invalid) -> ErrorReply | None:
    """Return an error with the request's own id: clients drop their session on a status of 400."""
    error = None if failure.is_syntax else error_reply(body, failure)
    if error is None or error.id is None:
        return None
    return ErrorReply(200, error.model_dump(by_alias=True, exclude_unset=True))


async def _get_caller() -> Caller:
    return _current_caller.get()


def _security(host_names: Sequence[str]) -> TransportSecuritySettings:
    """Allow only these names as host and origin, which prevents DNS rebinding."""
    hosts = [host for name in host_names for host in (name, f"{name}:*")]
    origins = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)
