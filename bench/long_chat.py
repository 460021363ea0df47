"""One chat of very many messages: kept, cut into stretches, listed and searched, over HTTP.

    python -m bench.long_chat --messages 100000

The embedder is an endpoint of the benchmark's own that answers at once, and the time it takes is
subtracted: what is left is what the product costs besides embedding. What the columns mean and how
to read them: `bench/README.md`.
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

from bench import house, settle
from bench.command import begin
from bench.house import Server
from bench.texts import statements
from bench.visitor import Visitor, visit
from recollect.embedded import attach

_MARK = 10_000
_AT_ONCE = 500
_PAGE = 100
_ASKED = 100
_DIMENSION = 384
_POLL_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")
_MATTER = re.compile(r"matter (\d+)")


@dataclass(slots=True)
class Embeddings:
    """An embeddings endpoint in this process: what is about one matter lies close together."""

    port: int = 0
    seconds: float = 0.0
    _bases: dict[int, Any] = field(default_factory=dict[int, Any])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer on one connection until it is closed."""
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
    """The endpoint, listening."""
    endpoint = Embeddings()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0)
    endpoint.port = server.sockets[0].getsockname()[1]
    async with server:
        yield endpoint


def said() -> Iterator[dict[str, str]]:
    """Messages by two in turn, on one matter for two to fourteen of them, then on the next."""
    dice, texts, matter, number = random.Random("long chat"), statements("long chat"), 0, 0
    while True:
        matter += 1
        for _ in range(dice.randint(2, 14)):
            number += 1
            role = ("user", "assistant")[number % 2]
            yield {"role": role, "content": f"On matter {matter}: {next(texts)}"}


@dataclass(frozen=True, slots=True)
class House:
    """Where things are."""

    data_dir: Path
    endpoint: Embeddings

    async def open(self, *, workers: int) -> Server:
        """A server with the benchmark's embedder."""
        return await house.start(
            self.data_dir,
            RECOLLECT_WORKERS=str(workers),
            RECOLLECT_EMBEDDING_URL=f"http://127.0.0.1:{self.endpoint.port}/v1",
            RECOLLECT_EMBEDDING_MODEL="bench",
        )


async def _run(count: int, given: Path | None) -> None:
    with house.base(given) as base:
        async with embeddings() as endpoint:
            place = House(base / f"long-{count}", endpoint)
            server = await place.open(workers=0)
            try:
                chat, key = await _post(place, server, count)
            finally:
                await house.stop(server)
            server = await place.open(workers=2)
            try:
                with await asyncio.to_thread(attach, place.data_dir) as attached:
                    await _segmented(server, endpoint, attached.admin_url, count)
                made = await _pages(server, chat, key, count)
                await _searches(server, chat, key, made)
                print(f"peak of the server: {_peak_mib(server):.0f} MiB")
            finally:
                await house.stop(server)


async def _post(place: House, server: Server, count: int) -> tuple[str, str]:
    """A chat with so many messages, that nobody has cut yet, and the key to it."""
    with await asyncio.to_thread(attach, place.data_dir) as attached:
        async with house.engine(attached) as engine:
            [tenant] = await settle.settle(engine, server.port, 1)
    visitor = await _bearer(server)
    answer = await _ask(visitor, tenant.key, "POST", "/api/chats", {"name": "long"}, status=201)
    path, began, posted = f"/api/chats/{answer['id']}/messages", perf_counter(), 0
    print("| kept | seconds | ms a message | server, peak MiB |\n|---:|---:|---:|---:|", flush=True)
    new = said()
    while posted < count:
        batch = list(islice(new, min(_AT_ONCE, count - posted)))
        await _ask(visitor, tenant.key, "POST", path, {"messages": batch}, status=201)
        posted += len(batch)
        if posted % _MARK == 0 or posted == count:
            took, began = perf_counter() - began, perf_counter()
            each = took * 1_000 / (posted % _MARK or _MARK)
            print(f"| {posted:,} | {took:.1f} | {each:.2f} | {_peak_mib(server):.0f} |", flush=True)
    visitor.close()
    return answer["id"], tenant.key


_CLOSED = """
    SELECT coalesce(max(segmented_position), 0), bool_or(segment_due_at <= now())
    FROM thread
"""


async def _segmented(server: Server, endpoint: Embeddings, url: str, count: int) -> None:
    """Watch the server cut the chat."""
    print(
        "\n| cut | seconds | of it embedding | ms a message besides | CPU of the server"
        " | of PostgreSQL | server, peak MiB |\n|---:|---:|---:|---:|---:|---:|---:|",
        flush=True,
    )
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as db:
        before, since, mark = 0, _spent(server, endpoint), _MARK
        while True:
            row = await (await db.execute(_CLOSED)).fetchone()
            assert row
            closed, is_due = row
            if closed >= mark or not is_due:
                now = _spent(server, endpoint)
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
                before, since, mark = closed, now, closed // _MARK * _MARK + _MARK
            if not is_due:
                # The last stretch stays open: somebody may go on with it.
                assert closed > count - 20, f"only {closed} of {count} are cut"
                return
            await asyncio.sleep(_POLL_SECONDS)


def _spent(server: Server, endpoint: Embeddings) -> tuple[float, float, float, float]:
    """Seconds so far: by the clock, in the embedder, of a core by the server and by PostgreSQL."""
    postmaster = (server.data_dir / "postgres" / "postmaster.pid").read_text().split()[0]
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return (
        perf_counter(),
        endpoint.seconds,
        _cpu(server.process.pid),
        sum(_cpu(pid) for pid in (postmaster, *children)),
    )


def _cpu(pid: int | str) -> float:
    """Seconds of a core a process has used, and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has just ended, and its parent counts it
    return sum(map(int, fields[11:15])) / _TICKS


async def _pages(server: Server, chat: str, key: str, count: int) -> int:
    """A page of messages and of memories from the start, the middle and the end."""
    visitor = await _bearer(server)
    first = await _ask(visitor, key, "GET", f"/api/chats/{chat}/memories?limit=1")
    made = first["total"]
    print(f"\n{made:,} memories of {count:,} messages; ms for a page of {_PAGE} (p50 of 20)\n")
    print("| page | at the start | in the middle | at the end |\n|---|---:|---:|---:|")
    for name, total in (("messages", count), ("memories", made)):
        shown: list[str] = []
        for start in (0, total // 2, max(total - _PAGE, 0)):
            path = f"/api/chats/{chat}/{name}?start={start}&limit={_PAGE}"
            times = [await _timed(visitor, key, "GET", path) for _ in range(20)]
            shown.append(f"{_share(times, 0.5):.1f}")
        print(f"| {name} | {' | '.join(shown)} |", flush=True)
    visitor.close()
    return made


async def _searches(server: Server, chat: str, key: str, made: int) -> None:
    visitor = await _bearer(server)
    dice, path = random.Random("asked"), f"/api/chats/{chat}/memories/search"
    asked = [f"What about matter {dice.randint(1, made)}?" for _ in range(_ASKED + 20)]
    times = [await _timed(visitor, key, "POST", path, {"query": each}) for each in asked][20:]
    visitor.close()
    shown = ", ".join(
        f"{name} {_share(times, share):.1f}"
        for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
    )
    print(f"\nsearch in {made:,} memories of the chat: {shown} ms")


async def _bearer(server: Server) -> Visitor:
    visitor = await visit(server.port)
    visitor.is_bearer = True
    return visitor


async def _ask(
    visitor: Visitor, key: str, method: str, path: str, body: Any = None, *, status: int = 200
) -> Any:
    answered, answer = await visitor.ask(method, path, key=key, body=body)
    assert answered == status, answer[:500]
    return json.loads(answer)


async def _timed(visitor: Visitor, key: str, method: str, path: str, body: Any = None) -> float:
    began = perf_counter()
    status, answer = await visitor.ask(method, path, key=key, body=body)
    took = perf_counter() - began
    assert status == 200, answer[:500]
    return took * 1_000


def _peak_mib(server: Server) -> float:
    """The most memory the serving process ever had, as resident set."""
    told = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB", told, re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[round(share * (len(times) - 1))]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=10_000, help="(default 10000)")
    parser.add_argument("--data-dir", type=Path, help="keep the database here")
    asked = parser.parse_args()
    begin(f"; {asked.messages:,} messages\n")
    uvloop.run(_run(asked.messages, asked.data_dir))


if __name__ == "__main__":
    main()
