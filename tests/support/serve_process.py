"""A real `recollect serve` in its own process, which can be killed without warning."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2

READY_SECONDS = 60


class ServeProcess:
    """A server on a data directory, which can be started, killed and started again."""

    def __init__(self, data_dir: Path, **environment: str) -> None:
        self.data_dir = data_dir
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.key = ""
        self.process: subprocess.Popen[bytes] | None = None
        self._log = data_dir.with_name(data_dir.name + ".log")
        self.environment = {
            **{name: value for name, value in os.environ.items() if "RECOLLECT" not in name},
            "RECOLLECT_RATE_PER_MINUTE": "0",
            "RECOLLECT_LOG_LEVEL": "warning",
            **environment,
        }

    @property
    def output(self) -> str:
        return self._log.read_text("utf-8")

    def start(self) -> None:
        """Start and wait until it is ready to serve."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "recollect",
                    "serve",
                    "--data-dir",
                    str(self.data_dir),
                    "--port",
                    str(self.port),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                start_new_session=True,
            )
        self._await_ready()
        found = re.search(r"API key +(\S+)", self.output)
        self.key = self.key or (found[1] if found else "")

    def stop(self) -> int:
        """Stop the server as Ctrl-C does; return its exit code."""
        assert self.process
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)

    def kill_everything(self) -> None:
        """Kill the server, the supervisor and all PostgreSQL processes at once, like a power cut."""
        assert self.process
        for pid in _with_descendants([self.process.pid, *_supervisors(self.data_dir)]):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(60)

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers={"X-API-Key": self.key}, timeout=60)

    def _await_ready(self) -> None:
        assert self.process
        end = time.monotonic() + READY_SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.output
            try:
                if httpx2.get(f"{self.url}/health/ready", timeout=5).status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.02)
        raise AssertionError(self.output)


@contextmanager
def running_server(**environment: str) -> Generator[ServeProcess]:
    """A running server in a temporary directory."""
    base = Path(tempfile.mkdtemp(prefix="recollect-test-", dir="/tmp"))
    base.chmod(0o711)  # if tests run as root, the unprivileged PostgreSQL must pass through
    server = ServeProcess(base / "data", **environment)
    try:
        server.start()
        yield server
    finally:
        if server.process and server.process.poll() is None:
            server.stop()
        shutil.rmtree(base, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _supervisors(data_dir: Path) -> list[int]:
    return [pid for pid, command in _commands() if f"{data_dir}/" in command]


def _commands() -> list[tuple[int, str]]:
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    lines = [line.strip().split(" ", 1) for line in listed.stdout.splitlines()]
    return [(int(line[0]), line[1] if len(line) > 1 else "") for line in lines]


def _with_descendants(pids: list[int]) -> list[int]:
    """The processes and all their descendants."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    found = list(dict.fromkeys(pids))
    for each in found:
        found += [pid for pid, parent in pairs if parent == each and pid not in found]
    return found
