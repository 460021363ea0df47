"""Measure the cost of the router: a scripted upstream called directly and through us, in one run.

    python -m bench.router [--memories 10000] [--turns 500] [--data-dir DIR]

Added time to the first token without recall (which a response header reports), the cost of a
streamed chunk, 200 concurrent streams, and memory over many turns. `--turns 10000` is the full
memory measurement; the other numbers need only a short run. `bench/README.md` explains the lines.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter

import uvloop

from bench import filled_workspaces, server_process
from bench.command import print_machine
from bench.seed import fill
from bench.server_process import ServerProcess
from bench.texts import questions
from recollect.embedded import attach

_MODEL = "m1"
_FIRST_TOKENS = 200
_CHUNKS = 2_000
_CHUNK_ROUNDS = 10
_STREAMS = 200
_STREAM_CHUNKS = 100
_STREAM_PAUSE_MS = 20
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint to call."""

    port: int
    key: str = ""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One streamed answer as the client saw it, in seconds."""

    first: float
    total: float
    longest_gap: float
    chunks: int
    # The recall time reported by the router.
    recalled: float


async def stream(target: Target, text: str, *, chunks: int, pause_ms: int = 0) -> Streamed:
    """Send a request on a new connection and read the whole answer with minimal work."""
    body = {
        "model": _MODEL,
        "stream": True,
        "max_tokens": chunks,
        "seed": pause_ms,
        "messages": [{"role": "user", "content": text}],
    }
    sent = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port)
    began = perf_counter()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\n"
        + f"Authorization: Bearer {target.key}\r\nContent-Length: {len(sent)}\r\n\r\n".encode()
        + sent
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head[:15]:
        raise RuntimeError(f"The answer was {head[:15]!r}.")
    recalled = float(head.partition(b"x-recollect-memory-ms:")[2].partition(b"\r\n")[0] or 0)
    first, last, gap, seen, tail = 0.0, 0.0, 0.0, 0, b""
    while b"[DONE]" not in tail:
        piece = await reader.read(65_536)
        if not piece:
            raise RuntimeError("The stream broke off.")
        now = perf_counter()
        first = first or now
        gap = max(gap, now - last) if last else 0.0
        last = now
        seen += piece.count(b'"delta"')
        tail = tail[-16:] + piece
    writer.close()
    return Streamed(first - began, last - began, gap, seen, recalled / 1000)


@asynccontextmanager
async def upstream() -> AsyncGenerator[Target]:
    """Start the scripted endpoint in a separate process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.upstream"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout
    assert process.stdin
    try:
        yield Target(int(await process.stdout.readline()))
    finally:
        process.stdin.close()
        await process.wait()


async def first_token(direct: Target, ours: Target) -> None:
    """Send each request once through us and once directly."""
    texts = list(islice(questions("router"), _FIRST_TOKENS + 20))
    direct_times: list[float] = []
    routed: list[Streamed] = []
    for text in texts:
        direct_times.append((await stream(direct, text, chunks=1)).first)
        routed.append(await stream(ours, text, chunks=1))
    floor = quantile(direct_times[20:], 0.5)
    total = [each.first for each in routed[20:]]
    added = [each.first - each.recalled - floor for each in routed[20:]]
    print(f"time to first token   direct p50 {floor * 1e3:6.1f} ms")
    print(f"  through us          {_ms(total)}")
    print(f"  recall              {_ms([each.recalled for each in routed[20:]])}")
    print(f"  added besides       {_ms(added)}   (target: p50 < 10, p95 < 25)")


async def chunk(direct: Target, ours: Target, server: ServerProcess) -> None:
    """Stream long answers one at a time: the added time and the CPU time per chunk."""
    direct_times: list[float] = []
    routed: list[float] = []
    used = 0.0
    for number in range(_CHUNK_ROUNDS):
        for target, times in ((direct, direct_times), (ours, routed)):
            before = _cpu(server)
            found = await stream(target, f"Round {number}.", chunks=_CHUNKS)
            times.append((found.total - found.first) / _CHUNKS)
            used += _cpu(server) - before if target is ours else 0.0
    added = quantile(routed, 0.5) - quantile(direct_times, 0.5)
    cpu = used / _CHUNK_ROUNDS / _CHUNKS
    print(
        f"a streamed chunk      direct {quantile(direct_times, 0.5) * 1e3:.3f} ms, through us "
        f"{quantile(routed, 0.5) * 1e3:.3f} ms: {added * 1e3:.3f} ms more, {cpu * 1e3:.3f} ms of a "
        "core   (target: < 0.2)"
    )


async def streams(direct: Target, ours: Target) -> None:
    """Stream many answers at once, with a pause before each chunk; print the longest gaps."""
    for name, target in (("direct", direct), ("through us", ours)):
        texts = [f"Stream {number} of {name}." for number in range(_STREAMS)]
        began = perf_counter()
        found = await asyncio.gather(
            *(
                stream(target, text, chunks=_STREAM_CHUNKS, pause_ms=_STREAM_PAUSE_MS)
                for text in texts
            )
        )
        took = perf_counter() - began
        assert all(each.chunks >= _STREAM_CHUNKS for each in found)
        gaps = [each.longest_gap for each in found]
        print(
            f"{_STREAMS} streams, {name:<11} {took:5.1f} s for "
            f"{_STREAM_CHUNKS * _STREAM_PAUSE_MS / 1000:.1f} s of streaming; first token "
            f"{_ms([each.first for each in found])}; longest gap {_ms(gaps)}"
        )


async def growth(ours: Target, server: ServerProcess, turns: int) -> None:
    """Print the memory of the server over many turns, eight at a time."""
    texts = questions("growth")
    marks: list[float] = []
    for start in range(0, turns, 8):
        batch = islice(texts, min(8, turns - start))
        await asyncio.gather(*(stream(ours, text, chunks=20) for text in batch))
        if start % max(turns // 5 // 8 * 8, 8) == 0:
            marks.append(server_process.server_mib(server))
    marks.append(server_process.server_mib(server))
    sizes = ", ".join(f"{mark:.0f}" for mark in marks)
    print(f"memory over {turns:,} turns: {sizes} MiB")


def quantile(times: Sequence[float], share: float) -> float:
    """Return this quantile of the times."""
    return sorted(times)[min(int(len(times) * share), len(times) - 1)]


def _ms(times: Sequence[float]) -> str:
    return f"p50 {quantile(times, 0.5) * 1e3:6.1f} ms, p95 {quantile(times, 0.95) * 1e3:6.1f} ms"


def _cpu(server: ServerProcess) -> float:
    """Return the CPU seconds that the server has used so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


async def _fill(data_dir: Path, memories: int) -> None:
    server = await server_process.start(data_dir)
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            async with server_process.engine(attached) as engine:
                if await filled_workspaces.count(attached.admin_url) >= memories:
                    return
                tenants = await filled_workspaces.create_workspaces(engine, server.port, 1)
                embedder = engine.embedders.configured(None)
                await fill(attached.admin_url, tenants, memories - 1, embedder)
    finally:
        await server_process.stop(server)


async def _run(memories: int, turns: int, given: Path | None) -> None:
    with server_process.base(given) as base:
        data_dir = base / f"router-{memories}"
        await _fill(data_dir, memories)
        async with upstream() as direct:
            url = f"http://127.0.0.1:{direct.port}/v1"
            server = await server_process.start(data_dir, RECOLLECT_CHAT_URL=url)
            try:
                with await asyncio.to_thread(attach, data_dir) as attached:
                    await filled_workspaces.wait_until_idle(attached.admin_url)
                    async with server_process.engine(attached) as engine:
                        [tenant] = await filled_workspaces.tenants(engine)
                ours = Target(server.port, tenant.key)
                print(f"{memories:,} memories, load {os.getloadavg()[0]:.1f}", flush=True)
                await first_token(direct, ours)
                await chunk(direct, ours, server)
                await streams(direct, ours)
                await growth(ours, server, turns)
            finally:
                await server_process.stop(server)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memories", type=int, default=10_000, help="(default 10000)")
    parser.add_argument("--turns", type=int, default=500, help="for memory (default 500)")
    parser.add_argument("--data-dir", type=Path, help="keep the database here for the next run")
    args = parser.parse_args()
    print_machine()
    uvloop.run(_run(args.memories, args.turns, args.data_dir))


if __name__ == "__main__":
    main()
