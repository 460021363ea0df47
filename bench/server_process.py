"""The server under test: start it as a user would, measure it from outside, stop it."""

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from bench.http_client import open_connection
from recollect.compose import Database, open_engine
from recollect.core.settings import Settings
from recollect.embedded import Attached, attach
from recollect.engine import Engine

_START_SECONDS = 120
_STOP_SECONDS = 30
_POLL_SECONDS = 0.005
_ADDRESS = re.compile(rb"ready at http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running `recollect serve`."""

    process: asyncio.subprocess.Process
    data_dir: Path
    port: int
    seconds_to_ready: float


async def start(data_dir: Path, **settings: str) -> ServerProcess:
    """Start the server on a free port and wait until it is ready."""
    began = perf_counter()
    with (data_dir.parent / f"{data_dir.name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "recollect", "serve"),
            *("--data-dir", str(data_dir), "--host", "127.0.0.1", "--port", "0"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=_environment() | settings,
        )
    try:
        async with asyncio.timeout(_START_SECONDS):
            port = await _read_port(process)
            await _ready(port)
    except BaseException:
        process.kill()
        raise
    return ServerProcess(process, data_dir, port, perf_counter() - began)


async def stop(server: ServerProcess) -> None:
    """Ask the server to stop; kill it after half a minute."""
    with suppress(ProcessLookupError):
        server.process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await server.process.wait()
    except TimeoutError:
        server.process.kill()
        await server.process.wait()


@contextmanager
def base(given: Path | None) -> Generator[Path]:
    """Yield the directory for the databases: the given one, or a temporary one."""
    if given:
        given.mkdir(parents=True, exist_ok=True)
        yield given.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="recollect-bench-", dir="/tmp"))
    made.chmod(0o711)  # if we are root, PostgreSQL runs as another user and must enter it
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@asynccontextmanager
async def engine(attached: Attached) -> AsyncGenerator[Engine]:
    """Open a second engine on the server's database."""
    settings = Settings(data_dir=attached.data_dir)
    async with open_engine(settings, Database(attached.url)) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Opened:
    """A running server, its database, and a second engine on it."""

    server: ServerProcess
    attached: Attached
    engine: Engine


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncGenerator[Opened]:
    """Open all three for the block."""
    server = await start(data_dir)
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            async with engine(attached) as ours:
                yield Opened(server, attached, ours)
    finally:
        await stop(server)


def server_mib(server: ServerProcess) -> float:
    """Return the resident memory of the server process."""
    return _kib(server.process.pid, "status", "VmRSS") / 1024


def postgres_mib(data_dir: Path) -> float:
    """Return the memory of PostgreSQL's processes, with shared pages counted once."""
    postmaster = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    pids = [postmaster, *(int(child) for child in children)]
    return sum(_kib(pid, "smaps_rollup", "Pss") for pid in pids) / 1024


def _kib(pid: int, file: str, field: str) -> int:
    try:
        text = Path(f"/proc/{pid}/{file}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0  # it has just ended
    found = re.search(rf"^{field}:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) if found else 0


def _environment() -> dict[str, str]:
    """Return our environment without Recollect settings, so that the server has its defaults."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RECOLLECT_") and name != "DATABASE_URL"
    }
    return inherited | {"RECOLLECT_RATE_PER_MINUTE": "0", "PYTHONUNBUFFERED": "1"}


async def _read_port(process: asyncio.subprocess.Process) -> int:
    assert process.stdout
    while line := await process.stdout.readline():
        found = _ADDRESS.search(line)
        if found:
            return int(found[1])
    raise RuntimeError("The server ended before it was ready; see its log.")


async def _ready(port: int) -> None:
    while True:
        with suppress(ConnectionError):
            connection = await open_connection(port)
            try:
                status, _ = await connection.send("GET", "/health/ready")
            finally:
                connection.close()
            if status == 200:
                return
        await asyncio.sleep(_POLL_SECONDS)
