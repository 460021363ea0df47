"""How long a search in one chat takes, by the number of its memories: over HTTP, as a client asks.

    python -m bench.chat_search --sizes 10000,100000
    python -m bench.chat_search --sizes 10000 --data-dir DIR

What the columns mean and how to read them: `bench/README.md`.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import psycopg
import uvloop

from bench import house, settle
from bench.command import begin, numbers
from bench.house import Opened, Server
from bench.seed import Tenant
from bench.texts import questions
from bench.visitor import Visitor, visit
from recollect.domain import ThreadId
from recollect.engine.core import Engine
from recollect.models.embed import Purpose

# Until every connection of the server has its plans.
_WARM = 50
_LISTED = 100


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure."""

    sizes: Sequence[int]
    questions: int
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class Chat:
    """Where to ask."""

    id: str
    key: str


def main() -> None:
    options = _options()
    begin(f"; {options.questions} questions a size\n")
    print(
        "| memories | embed p50 | p99 | search p50 | p95 | p99 | list at 0 p50 "
        "| list in the middle p50 | ms |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---|", flush=True)
    uvloop.run(_run(options))


async def _run(options: Options) -> None:
    with house.base(options.data_dir) as base:
        for size in sorted(options.sizes):
            data_dir = base / f"chat-{size}"
            async with house.opened(data_dir) as opened:
                thread_id, _ = await _chat(opened)
            await settle.grown(data_dir, size, thread_id)
            async with house.opened(data_dir) as opened:
                await settle.looked_after(opened)
                print(await _measured(opened, size, options), flush=True)


async def _chat(opened: Opened) -> tuple[ThreadId, Chat]:
    """The chat to fill; one that a run before this has left is asked again."""
    url, engine, server = opened.attached.admin_url, opened.engine, opened.server
    [tenant] = await settle.tenants(engine) or await settle.settle(engine, server.port, 1)
    return await _newest(url, tenant) or await _created(server, url, tenant)


async def _created(server: Server, url: str, tenant: Tenant) -> tuple[ThreadId, Chat]:
    visitor = await _bearer(server)
    status, answer = await visitor.ask("POST", "/api/chats", key=tenant.key, body={"name": "long"})
    visitor.close()
    assert status == 201, answer
    made = await _newest(url, tenant)
    assert made
    return made


async def _newest(url: str, tenant: Tenant) -> tuple[ThreadId, Chat] | None:
    newest = (
        "SELECT id, short_code FROM thread WHERE workspace_id = %s ORDER BY created_at DESC LIMIT 1"
    )
    async with await psycopg.AsyncConnection.connect(url) as db:
        row = await (await db.execute(newest, [tenant.id])).fetchone()
    return row and (ThreadId(row[0]), Chat(f"chat-{row[1]}", tenant.key))


async def _bearer(server: Server) -> Visitor:
    visitor = await visit(server.port)
    visitor.is_bearer = True
    return visitor


async def _measured(opened: Opened, size: int, options: Options) -> str:
    _, chat = await _chat(opened)
    asked = list(islice(questions("chat search"), _WARM + options.questions))
    embeds = await _embedded(opened.engine, asked)
    visitor = await _bearer(opened.server)
    search = f"/api/chats/{chat.id}/memories/search"
    for question in asked[:_WARM]:
        await _timed(visitor, chat, "POST", search, {"query": question})
    # None that was asked before: the server remembers the vectors of questions.
    searches = [
        await _timed(visitor, chat, "POST", search, {"query": question})
        for question in asked[_WARM:]
    ]
    lists: list[float] = []
    for start in (0, size // 2):
        path = f"/api/chats/{chat.id}/memories?start={start}&limit={_LISTED}"
        times = [await _timed(visitor, chat, "GET", path) for _ in range(20)]
        lists.append(_share(times, 0.5))
    visitor.close()
    shown = [_share(embeds, share) for share in (0.5, 0.99)]
    shown += [_share(searches, share) for share in (0.5, 0.95, 0.99)] + lists
    return f"| {size:,} | " + " | ".join(f"{each:.1f}" for each in shown) + " | |"


async def _embedded(engine: Engine, asked: Sequence[str]) -> list[float]:
    """What embedding each takes by itself: the floor under a search."""
    embedder = engine.embedders.configured(None)
    times: list[float] = []
    for text in asked:
        began = perf_counter()
        await embedder.embed([text], Purpose.QUERY)
        times.append((perf_counter() - began) * 1_000)
    return times[_WARM:]


async def _timed(visitor: Visitor, chat: Chat, method: str, path: str, body: Any = None) -> float:
    began = perf_counter()
    status, answer = await visitor.ask(method, path, key=chat.key, body=body)
    took = perf_counter() - began
    assert status == 200, answer
    return took * 1_000


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[round(share * (len(times) - 1))]


def _options() -> Options:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=numbers, default=[10_000], help="memories (default 10000)")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--data-dir", type=Path, help="keep the databases here (default: none)")
    told = parser.parse_args()
    return Options(told.sizes, told.questions, told.data_dir)


if __name__ == "__main__":
    main()
