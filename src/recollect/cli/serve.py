"""`recollect serve`: the whole product in one process."""

import argparse
import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import Generator

import uvicorn

from recollect.api.connections import KEEP_ALIVE_SECONDS
from recollect.cli.arguments import Commands, add_command
from recollect.compose import data_dir, open_database, open_engine, warm_up
from recollect.core.errors import Invalid
from recollect.core.settings import Settings
from recollect.db.migrate import migrate
from recollect.server import Server
from recollect.tenancy.keys import FirstAdmin, NewKey, create_key, first_run

# After a signal to stop: how long responses may continue, and how long the interrupted ones may
# then take to save what they have.
_SHUTDOWN_SECONDS = 10
_SAVE_SECONDS = 5

_CHECK_ADDRESS = "Set `--host` to an address of this machine and `--port` to a port you may use."


def add(commands: Commands) -> None:
    """Add the arguments of `serve`."""
    parser = add_command(
        commands,
        "serve",
        about="Serve on 127.0.0.1:8484 with an embedded PostgreSQL, the built-in embedder "
        "and workers in this process. With DATABASE_URL set, that PostgreSQL is used instead and "
        "any number of servers may share it. The first run prints a login and an API key once.",
        example="recollect serve\nrecollect serve --port 9000 --data-dir /srv/recollect",
    )
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8484)")
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Serve until a signal arrives."""
    listening = _listen(settings)
    with contextlib.closing(listening):
        async with open_database(settings, exclusive=True) as database:
            await migrate(database.url)
            async with open_engine(settings, database) as engine:
                admin = await first_run(engine)
                key = await create_key(engine, name="first") if admin else None
                await warm_up(engine)
                server = Server(settings, engine)
                async with server.running():
                    # From here on the kernel queues connections until the server accepts them.
                    listening.listen()
                    _greet(settings, listening, admin, key)
                    await _serve(server, listening)
    return 0


def _listen(settings: Settings) -> socket.socket:
    """Bind the port before anything else starts: a port in use is the most common mistake."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Event loops disable Nagle's algorithm only for sockets whose protocol is given as TCP. With
    # it, each response sent in two parts waited 40 ms for the client's acknowledgement.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        is_taken = error.errno == errno.EADDRINUSE
        todo = (
            "Stop the program that uses it or choose another `--port`."
            if is_taken
            else _CHECK_ADDRESS
        )
        raise Invalid(
            f"Cannot listen on `{settings.host}:{settings.port}`: {error.strerror}. {todo}"
        ) from error
    return listening


def _greet(
    settings: Settings, listening: socket.socket, admin: FirstAdmin | None, key: NewKey | None
) -> None:
    host, port = listening.getsockname()[:2]
    name = f"[{host}]" if ":" in host else host
    print(f"Recollect is ready at http://{name}:{port}")
    if admin and key:
        print(
            "\nThis is the first run. Save these; they are shown only once.\n"
            f"  sign in   {admin.login} / {admin.password}\n"
            f"  API key   {key.text}\n"
        )
    if not settings.database_url:
        print(f"Data is in {data_dir(settings)}")
    if host not in {"127.0.0.1", "::1"}:
        print("Other machines can reach it over plain http: put an https proxy in front of it.")
    print("Stop with Ctrl-C.", flush=True)


class _Uvicorn(uvicorn.Server):
    """Does not handle signals: uvicorn would raise them again at its end, before our cleanup."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


async def _serve(server: Server, listening: socket.socket) -> None:
    config = uvicorn.Config(
        server.app,
        loop="none",  # use the running loop
        http=server.connections.protocol,
        ws="none",  # an upgrade would replace our protocol, and no route uses WebSockets
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # otherwise any local process could fake its client address
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    serving = _Uvicorn(config)

    def stop() -> None:
        serving.force_exit = serving.should_exit  # a second signal: do not wait for responses
        serving.should_exit = server.health.is_shutting_down = True

    running = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        running.add_signal_handler(each, stop)
    await serving.serve(sockets=[listening])
    await _finish_requests(serving)


async def _finish_requests(serving: _Uvicorn) -> None:
    """Give interrupted requests time to save what they have; uvicorn does not wait for them."""
    requests = set(serving.server_state.tasks)
    if serving.force_exit:  # otherwise uvicorn has cancelled them
        for each in requests:
            each.cancel()
    if requests:
        await asyncio.wait(requests, timeout=_SAVE_SECONDS)
