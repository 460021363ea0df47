"""`recollect serve`: the whole product in one process."""

import argparse
import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Generator

import uvicorn

from recollect.cli.arguments import Commands, add_command
from recollect.compose import data_dir, open_database, open_engine, warm
from recollect.engine.keys import Admin, NewKey, create_key, move_in
from recollect.errors import Invalid
from recollect.server import Server
from recollect.settings import Settings
from recollect.store.migrate import migrate

# How long answers may go on once we were told to leave, and how long writing down those that are
# broken off then.
_LEAVE_SECONDS = 10
_WRITE_SECONDS = 5

_ELSEWHERE = "Choose an address of this machine with `--host`, and a `--port` you may open."


def add(commands: Commands) -> None:
    """Add the arguments of `serve`."""
    parser = add_command(
        commands,
        "serve",
        about="Serve on 127.0.0.1:8484 with an embedded PostgreSQL, the built-in embedder "
        "and workers in this process. With DATABASE_URL set, that PostgreSQL is used instead and "
        "any number of servers may run beside each other. The first run prints a sign-in and a "
        "key, once.",
        example="recollect serve\nrecollect serve --port 9000 --data-dir /srv/recollect",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8484)")
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Serve until told to stop."""
    listening = _listen(settings)
    with contextlib.closing(listening):
        async with open_database(settings, exclusive=True) as database:
            await migrate(database.url)
            async with open_engine(settings, database) as engine:
                admin = await move_in(engine)
                key = await create_key(engine, name="first") if admin else None
                await warm(engine)
                server = Server(settings, engine)
                async with server.running():
                    # Whoever comes from here on is let in, if only a moment later.
                    listening.listen()
                    _greet(settings, listening, admin, key)
                    await _serve(server, listening)
    return 0


def _listen(settings: Settings) -> socket.socket:
    """Bound before anything else starts: a port in use is the commonest mistake."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because event loops turn Nagle's delay off only where they read TCP
    # here; with it, each answer of two parts waited 40 ms for the client's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        is_taken = error.errno == errno.EADDRINUSE
        todo = "Stop what is there or choose another `--port`." if is_taken else _ELSEWHERE
        raise Invalid(
            f"Cannot listen on `{settings.host}:{settings.port}`: {error.strerror}. {todo}"
        ) from error
    return listening


def _greet(
    settings: Settings, listening: socket.socket, admin: Admin | None, key: NewKey | None
) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"Recollect is ready at http://{shown}:{port}")
    if admin and key:
        print(
            "\nThis is the first run. Keep these; they are shown only now.\n"
            f"  sign in   {admin.login} / {admin.password}\n"
            f"  API key   {key.text}\n"
        )
    if not settings.database_url:
        print(f"Data is in {data_dir(settings)}")
    if host not in {"127.0.0.1", "::1"}:
        print(
            "It listens beyond this machine and speaks plain http: "
            "put a proxy with https in front of it."
        )
    print("Stop with Ctrl-C.", flush=True)


class _Uvicorn(uvicorn.Server):
    """Leaves signals to us: uvicorn raises them again when it ends, before we have cleaned up."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _serve(server: Server, listening: socket.socket) -> None:
    config = uvicorn.Config(
        server.app,
        loop="none",  # the one that runs already
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # else any process of this machine could say whose request it is
        timeout_graceful_shutdown=_LEAVE_SECONDS,
    )
    serving = _Uvicorn(config)

    def leave() -> None:
        serving.force_exit = serving.should_exit  # asked twice: do not wait for anybody
        serving.should_exit = server.health.is_leaving = True

    running = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(each, leave)
    await serving.serve(sockets=[listening])
    await _break_off(serving)


async def _break_off(serving: _Uvicorn) -> None:
    """Let the requests that are left keep what was said so far; uvicorn waits for none of them."""
    requests = set(serving.server_state.tasks)
    if serving.force_exit:  # else they have been told
        for each in requests:
            each.cancel()
    if requests:
        await asyncio.wait(requests, timeout=_WRITE_SECONDS)
