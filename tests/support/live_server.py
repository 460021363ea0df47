"""The whole application on a real socket, for clients that cannot use an ASGI app in process."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from recollect.api.connections import KEEP_ALIVE_SECONDS, Connections, Limits
from recollect.core.domain import Caller
from recollect.engine import Clock
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder_registry import Embedders
from tests.support.dashboard import cookie_for
from tests.support.instance import key_for, make_server, new_caller, open_engine
from tests.support.upstream import Endpoint


@dataclass(frozen=True, slots=True)
class LiveServer:
    """The address of a server, and a key and a cookie for its own workspace."""

    url: str
    port: int
    key: str
    cookie: str
    caller: Caller


@contextmanager
def live_server(
    database_url: str, embedders: Embedders, now: Clock, **settings: Any
) -> Generator[LiveServer]:
    """A server on a loopback port, in its own thread and event loop."""
    ready: Future[tuple[LiveServer, uvicorn.Server]] = Future()

    async def run() -> None:
        async with _listening(database_url, embedders, now, settings) as (live, server, listener):
            ready.set_result((live, server))
            await server.serve(sockets=[listener])

    def main() -> None:
        try:
            asyncio.run(run())
        except BaseException as error:  # noqa: BLE001 - raised again where the test waits
            if not ready.done():
                ready.set_exception(error)

    thread = threading.Thread(target=main)
    thread.start()
    live, server = ready.result(timeout=30)
    try:
        yield live
    finally:
        server.should_exit = True
        thread.join(timeout=30)


@contextmanager
def serve_app(app: Any) -> Generator[str]:
    """Serve a small ASGI application of the test, such as a stub endpoint; its URL."""
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        server = uvicorn.Server(uvicorn.Config(app, ws="none", lifespan="off", log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=30)


@contextmanager
def serve_chat_endpoint() -> Generator[Endpoint]:
    """A chat endpoint with scripted answers."""
    endpoint = Endpoint()
    with serve_app(endpoint) as url:
        endpoint.url = url
        yield endpoint


@asynccontextmanager
async def _listening(
    database_url: str, embedders: Embedders, now: Clock, settings: dict[str, Any]
) -> AsyncGenerator[tuple[LiveServer, uvicorn.Server, socket.socket]]:
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # connections now queue, so clients need not wait for the start
        port = listener.getsockname()[1]
        chats: ChatModels = settings.pop("chats", None) or ChatModels()
        async with (
            open_engine(database_url, embedders, now, chat_models=chats) as engine,
            aclosing(chats),
        ):
            caller = await new_caller(engine)
            key = await key_for(engine, caller.workspace_id)
            cookie = await cookie_for(engine, caller.user_id)
            limits: Limits | None = settings.pop("limits", None)
            server = make_server(engine, **settings)
            if limits:
                server.connections = Connections(limits, server.metrics)
            config = uvicorn.Config(
                server.app,
                http=server.connections.protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
            )
            live = LiveServer(f"http://127.0.0.1:{port}", port, key, cookie, caller)
            yield live, uvicorn.Server(config), listener
