"""`recollect serve` with few file descriptors and clients that exhaust them."""

import contextlib
import re
import resource
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from cli_support import FASTER

from tests.support.serve_process import ServeProcess, running_server

MAX_FILES = 512
HEALTH = b"GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def small() -> Iterator[ServeProcess]:
    """A server that may open at most 512 files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (MAX_FILES, hard))
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(running_server(**FASTER))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        yield running


def health_seconds(instance: ServeProcess, times: int = 5) -> list[float]:
    """Return the duration of a few health requests; none may fail."""
    took: list[float] = []
    for _ in range(times):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", instance.port), timeout=10) as line:
            line.sendall(HEALTH)
            assert line.recv(12) == b"HTTP/1.1 200"
        took.append(time.monotonic() - began)
    return took


def peak_mebibytes(instance: ServeProcess) -> float:
    """Return the peak memory of the process."""
    assert instance.process
    status = Path(f"/proc/{instance.process.pid}/status").read_text("utf-8")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\nX-Long: ",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na:",
    ],
    ids=["header", "trailer"],
)
def test_long_headers_do_not_exhaust_memory_or_time(small: ServeProcess, start: bytes) -> None:
    health_seconds(small)
    before = peak_mebibytes(small)

    def send() -> None:
        with (
            socket.create_connection(("127.0.0.1", small.port), timeout=10) as line,
            contextlib.suppress(BrokenPipeError, ConnectionResetError),
        ):
            line.sendall(start)
            for _ in range(1_000):
                line.sendall(b"a" * 64 * 1024)

    senders = [threading.Thread(target=send) for _ in range(3)]
    for each in senders:
        each.start()
    took = health_seconds(small, 20)
    for each in senders:
        each.join(60)

    assert statistics.median(took) < 0.2
    assert max(took) < 2  # the machine may be busy with other tests
    assert peak_mebibytes(small) - before < 50


def test_unfinished_headers_do_not_block_other_clients(small: ServeProcess) -> None:
    with ExitStack() as stack:
        for _ in range(MAX_FILES + 100):
            line = stack.enter_context(
                socket.create_connection(("127.0.0.1", small.port), timeout=10)
            )
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                line.sendall(b"GET / HTTP/1.1\r\nX-")
        took = health_seconds(small, 20)
        with small.client() as http:
            saved = http.post("/v1/memories", json={"content": "Ada lives in London"})

    assert statistics.median(took) < 0.2
    assert saved.status_code == 201
    assert small.output.count("connection.refused") < 10
