"""The composed application on a real socket, for clients that cannot be handed an ASGI app."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn

from recollect.domain import Caller
from recollect.engine.core import Clock
from recollect.models.chats import Chats
from recollect.models.registry import Embedders
from tests.support.dashboard import cookie_for
from tests.support.house import key_for, new_caller, open_house, serve
from tests.support.upstream import Endpoint


@dataclass(frozen=True, slots=True)
class Live:
    """Where it listens, and a key and a cookie to a workspace of its own."""

    url: str
    port: int
    key: str
    cookie: str
    caller: Caller


@contextmanager
def live_server(
    database_url: str, embedders: Embedders, now: Clock, **settings: Any
) -> Generator[Live]:
    """A server on a loopback port, in a thread with an event loop of its own."""
    ready: Future[tuple[Live, uvicorn.Server]] = Future()

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
def on_a_port(app: Any) -> Generator[str]:
    """The URL of a small application of the test's own, such as a stub of somebody's endpoint."""
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
def speaking() -> Generator[Endpoint]:
    """A chat endpoint that says what a test tells it to."""
    endpoint = Endpoint()
    with on_a_port(endpoint) as url:
        endpoint.url = url
        yield endpoint


@asynccontextmanager
async def _listening(
    database_url: str, embedders: Embedders, now: Clock, settings: dict[str, Any]
) -> AsyncGenerator[tuple[Live, uvicorn.Server, socket.socket]]:
    with socket.socket(proto=socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # from here on connections queue, so nobody waits for the start
        port = listener.getsockname()[1]
        chats: Chats = settings.pop("chats", None) or Chats()
        async with (
            open_house(database_url, embedders, now, chats=chats) as engine,
            aclosing(chats),
        ):
            caller = await new_caller(engine)
            key = await key_for(engine, caller.workspace_id)
            cookie = await cookie_for(engine, caller.user_id)
            config = uvicorn.Config(
                serve(engine, **settings).app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
            )
            live = Live(f"http://127.0.0.1:{port}", port, key, cookie, caller)
            yield live, uvicorn.Server(config), listener
