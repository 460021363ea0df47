"""Measure one very long chat over HTTP: posting, segmentation, listing and search.

    python -m bench.long_chat --messages 100000

The embedder is an endpoint of the benchmark that responds at once. Its time is subtracted, so the
numbers are the cost without embedding. `bench/README.md` explains the columns.
"""

import argparse
import asyncio
import json
import os
import random
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import psycopg
import uvloop

from bench import filled_workspaces, server_process
from bench.command import print_machine
from bench.http_client import HttpConnection, open_connection
from bench.server_process import ServerProcess
from bench.texts import statements
from recollect.embedded import attach

_REPORT_EVERY = 10_000
_BATCH = 500
_PAGE = 100
_QUESTIONS = 100
_DIMENSION = 384
_POLL_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_MATTER = re.compile(r"matter (\d+)")


@dataclass(slots=True)
class Embeddings:
    """An embeddings endpoint in this process: texts about one matter get similar vectors."""

    port: int = 0
    seconds: float = 0.0
    _bases: dict[int, Any] = field(default_factory=dict[int, Any])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Respond on one connection until it is closed."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                asked = await reader.readexactly(length)
                began = perf_counter()
                texts = json.loads(asked)["input"]
                body = json.dumps(
                    {
                        "data": [
                            {"index": number, "embedding": self._vector(text)}
                            for number, text in enumerate(texts)
                        ]
                    }
                ).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                    + f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                self.seconds += perf_counter() - began
                await writer.drain()
        writer.close()

    def _vector(self, text: str) -> list[float]:
        found = _MATTER.search(text)
        matter = int(found[1]) if found else 0
        if matter not in self._bases:
            base = np.random.default_rng(matter).standard_normal(_DIMENSION)
            self._bases[matter] = base / np.linalg.norm(base)
        own = np.random.default_rng(len(text)).standard_normal(_DIMENSION) * 0.03
        return [round(float(each), 4) for each in self._bases[matter] + own]


@asynccontextmanager
async def embeddings() -> AsyncGenerator[Embeddings]:
    """Start the endpoint."""
    endpoint = Embeddings()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.port = server.sockets[0].getsockname()[1]
    async with server:
        yield endpoint


def generate_messages() -> Iterator[dict[str, str]]:
    """Yield alternating messages of two people, two to fourteen on one matter, then the next."""
    dice, texts, matter, number = random.Random("long chat"), statements("long chat"), 0, 0
    while True:
        matter += 1
        for _ in range(dice.randint(2, 14)):
            number += 1
            role = ("user", "assistant")[number % 2]
            yield {"role": role, "content": f"On matter {matter}: {next(texts)}"}


@dataclass(frozen=True, slots=True)
class BenchInstance:
    """The data directory and embedder of the server under test."""

    data_dir: Path
    endpoint: Embeddings

    async def open(self, *, workers: int) -> ServerProcess:
        """Start a server with the benchmark's embedder."""
        return await server_process.start(
            self.data_dir,
            RECOLLECT_WORKERS=str(workers),
            RECOLLECT_EMBEDDING_URL=f"http://127.0.0.1:{self.endpoint.port}/v1",
            RECOLLECT_EMBEDDING_MODEL="bench",
        )


async def _run(count: int, given: Path | None) -> None:
    with server_process.base(given) as base:
        async with embeddings() as endpoint:
            instance = BenchInstance(base / f"long-{count}", endpoint)
            server = await instance.open(workers=0)
            try:
                chat, key = await _post(instance, server, count)
            finally:
                await server_process.stop(server)
            server = await instance.open(workers=2)
            try:
                with await asyncio.to_thread(attach, instance.data_dir) as attached:
                    await _watch_segmentation(server, endpoint, attached.admin_url, count)
                made = await _measure_pages(server, chat, key, count)
                await _measure_search(server, chat, key, made)
                print(f"peak memory of the server: {_peak_mib(server):.0f} MiB")
            finally:
                await server_process.stop(server)


async def _post(instance: BenchInstance, server: ServerProcess, count: int) -> tuple[str, str]:
    """Post this many messages to a new chat that is not yet segmented; return its id and key."""
    with await asyncio.to_thread(attach, instance.data_dir) as attached:
        async with server_process.engine(attached) as engine:
            [tenant] = await filled_workspaces.create_workspaces(engine, server.port, 1)
    connection = await _connect_with_bearer(server)
    answer = await _ask(connection, tenant.key, "POST", "/api/chats", {"name": "long"}, status=201)
    path, began, posted = f"/api/chats/{answer['id']}/messages", perf_counter(), 0
    print(
        "| posted | seconds | ms per message | server, peak MiB |\n|---:|---:|---:|---:|",
        flush=True,
    )
    new = generate_messages()
    while posted < count:
        batch = list(islice(new, min(_BATCH, count - posted)))
        await _ask(connection, tenant.key, "POST", path, {"messages": batch}, status=201)
        posted += len(batch)
        if posted % _REPORT_EVERY == 0 or posted == count:
            took, began = perf_counter() - began, perf_counter()
            each = took * 1_000 / (posted % _REPORT_EVERY or _REPORT_EVERY)
            print(f"| {posted:,} | {took:.1f} | {each:.2f} | {_peak_mib(server):.0f} |", flush=True)
    connection.close()
    return answer["id"], tenant.key


_CLOSED = """
    SELECT coalesce(max(segmented_position), 0), bool_or(segment_due_at <= now())
    FROM thread
"""


async def _watch_segmentation(
    server: ServerProcess, endpoint: Embeddings, url: str, count: int
) -> None:
    """Print the progress of the segmentation."""
    print(
        "\n| segmented | seconds | of it embedding | other ms per message | CPU of the server"
        " | of PostgreSQL | server, peak MiB |\n|---:|---:|---:|---:|---:|---:|---:|",
        flush=True,
    )
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        before, since, mark = 0, _seconds_spent(server, endpoint), _REPORT_EVERY
        while True:
            row = await (await db.execute(_CLOSED)).fetchone()
            assert row
            closed, is_due = row
            if closed >= mark or not is_due:
                now = _seconds_spent(server, endpoint)
                took, model, ours, postgres = (b - a for a, b in zip(since, now, strict=True))
                each = [
                    value * 1_000 / max(closed - before, 1)
                    for value in (took - model, ours, postgres)
                ]
                print(
                    f"| {closed:,} | {took:.1f} | {model:.1f} | "
                    + " | ".join(f"{value:.2f}" for value in each)
                    + f" | {_peak_mib(server):.0f} |",
                    flush=True,
                )
                before, since, mark = (
                    closed,
                    now,
                    closed // _REPORT_EVERY * _REPORT_EVERY + _REPORT_EVERY,
                )
            if not is_due:
                # The last segment stays open, because the chat may continue.
                assert closed > count - 20, f"only {closed} of {count} are cut"
                return
            await asyncio.sleep(_POLL_SECONDS)


def _seconds_spent(
    server: ServerProcess, endpoint: Embeddings
) -> tuple[float, float, float, float]:
    """Return the seconds so far: clock, embedder, CPU of the server, CPU of PostgreSQL."""
    postmaster = (server.data_dir / "postgres" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return (
        perf_counter(),
        endpoint.seconds,
        _cpu(server.process.pid),
        sum(_cpu(pid) for pid in (postmaster, *children)),
    )


def _cpu(pid: int | str) -> float:
    """Return the CPU seconds of a process, including its ended children."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has just ended; its parent counts its time
    return sum(map(int, fields[11:15])) / _TICKS


async def _measure_pages(server: ServerProcess, chat: str, key: str, count: int) -> int:
    """Measure a page of messages and of memories at the start, in the middle and at the end."""
    connection = await _connect_with_bearer(server)
    first = await _ask(connection, key, "GET", f"/api/chats/{chat}/memories?limit=1")
    made = first["total"]
    print(f"\n{made:,} memories of {count:,} messages; ms for a page of {_PAGE} (p50 of 20)\n")
    print("| page | at the start | in the middle | at the end |\n|---|---:|---:|---:|")
    for name, total in (("messages", count), ("memories", made)):
        cells: list[str] = []
        for start in (0, total // 2, max(total - _PAGE, 0)):
            path = f"/api/chats/{chat}/{name}?start={start}&limit={_PAGE}"
            times = [await _time_request(connection, key, "GET", path) for _ in range(20)]
            cells.append(f"{_share(times, 0.5):.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
    connection.close()
    return made


async def _measure_search(server: ServerProcess, chat: str, key: str, made: int) -> None:
    connection = await _connect_with_bearer(server)
    dice, path = random.Random("asked"), f"/api/chats/{chat}/memories/search"
    asked = [f"What about matter {dice.randint(1, made)}?" for _ in range(_QUESTIONS + 20)]
    times = [await _time_request(connection, key, "POST", path, {"query": each}) for each in asked][
        20:
    ]
    connection.close()
    cells = ", ".join(
        f"{name} {_share(times, share):.1f}"
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    )
    print(f"\nsearch in {made:,} memories of the chat: {cells} ms")


async def _connect_with_bearer(server: ServerProcess) -> HttpConnection:
    connection = await open_connection(server.port)
    connection.is_bearer = True
    return connection


async def _ask(
    connection: HttpConnection,
    key: str,
    method: str,
    path: str,
    body: Any = None,
    *,
    status: int = 200,
) -> Any:
    answered, answer = await connection.send(method, path, key=key, body=body)
    assert answered == status, answer[:500]
    return json.loads(answer)


async def _time_request(
    connection: HttpConnection, key: str, method: str, path: str, body: Any = None
) -> float:
    began = perf_counter()
    status, answer = await connection.send(method, path, key=key, body=body)
    took = perf_counter() - began
    assert status == 200, answer[:500]
    return took * 1_000


def _peak_mib(server: ServerProcess) -> float:
    """Return the peak resident memory of the server process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[round(share * (len(times) - 1))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000, help="(default 10000)")
    parser.add_argument("--data-dir", type=Path, help="keep the database here")
    args = parser.parse_args()
    print_machine(f"; {args.messages:,} messages\n")
    uvloop.run(_run(args.messages, args.data_dir))


if __name__ == "__main__":
    main()
