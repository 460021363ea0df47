"""Measure how long a search in one chat takes, by the number of its memories, over HTTP.

    python -m bench.chat_search --sizes 10000,100000
    python -m bench.chat_search --sizes 10000 --data-dir DIR

`bench/README.md` explains the columns.
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

from bench import filled_workspaces, server_process
from bench.command import numbers, print_machine
from bench.http_client import HttpConnection, open_connection
from bench.seed import Tenant
from bench.server_process import Opened, ServerProcess
from bench.texts import questions
from recollect.core.domain import ThreadId
from recollect.engine import Engine
from recollect.models.embedder import Purpose

# Enough for every connection of the server to prepare its plans.
_WARM = 50
_LISTED = 100


@dataclass(frozen=True, slots=True)
class ChatSearchOptions:
    """What to measure."""

    sizes: Sequence[int]
    questions: int
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class SearchedChat:
    """A chat and the key to search it with."""

    id: str
    key: str


def main() -> None:
    options = _options()
    print_machine(f"; {options.questions} questions per size\n")
    print(
        "| memories | embed p50 | p99 | search p50 | p95 | p99 | list at 0 p50 "
        "| list in the middle p50 | ms |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---|", flush=True)
    uvloop.run(_run(options))


async def _run(options: ChatSearchOptions) -> None:
    with server_process.base(options.data_dir) as base:
        for size in sorted(options.sizes):
            data_dir = base / f"chat-{size}"
            async with server_process.opened(data_dir) as opened:
                thread_id, _ = await _chat(opened)
            await filled_workspaces.fill_to(data_dir, size, thread_id)
            async with server_process.opened(data_dir) as opened:
                await filled_workspaces.run_maintenance(opened)
                print(await _measure(opened, size, options), flush=True)


async def _chat(opened: Opened) -> tuple[ThreadId, SearchedChat]:
    """Return the chat to fill; reuse the chat of an earlier run."""
    url, engine, server = opened.attached.admin_url, opened.engine, opened.server
    [tenant] = await filled_workspaces.tenants(engine) or await filled_workspaces.create_workspaces(
        engine, server.port, 1
    )
    return await _find_chat(url, tenant) or await _create_chat(server, url, tenant)


async def _create_chat(
    server: ServerProcess, url: str, tenant: Tenant
) -> tuple[ThreadId, SearchedChat]:
    connection = await _connect_with_bearer(server)
    status, answer = await connection.send(
        "POST", "/api/chats", key=tenant.key, body={"name": "long"}
    )
    connection.close()
    assert status == 201, answer
    made = await _find_chat(url, tenant)
    assert made
    return made


async def _find_chat(url: str, tenant: Tenant) -> tuple[ThreadId, SearchedChat] | None:
    newest = (
        "SELECT id, short_code FROM thread WHERE workspace_id = %s ORDER BY created_at DESC LIMIT 1"
    )
    async with await psycopg.AsyncConnection.connect(url) as db:
        row = await (await db.execute(newest, [tenant.id])).fetchone()
    return row and (ThreadId(row[0]), SearchedChat(f"chat-{row[1]}", tenant.key))


async def _connect_with_bearer(server: ServerProcess) -> HttpConnection:
    connection = await open_connection(server.port)
    connection.is_bearer = True
    return connection


async def _measure(opened: Opened, size: int, options: ChatSearchOptions) -> str:
    _, chat = await _chat(opened)
    asked = list(islice(questions("chat search"), _WARM + options.questions))
    embeds = await _embedding_times(opened.engine, asked)
    connection = await _connect_with_bearer(opened.server)
    search = f"/api/chats/{chat.id}/memories/search"
    for question in asked[:_WARM]:
        await _time_request(connection, chat, "POST", search, {"query": question})
    # Only new questions: the server caches the vectors of questions.
    searches = [
        await _time_request(connection, chat, "POST", search, {"query": question})
        for question in asked[_WARM:]
    ]
    lists: list[float] = []
    for start in (0, size // 2):
        path = f"/api/chats/{chat.id}/memories?start={start}&limit={_LISTED}"
        times = [await _time_request(connection, chat, "GET", path) for _ in range(20)]
        lists.append(_share(times, 0.5))
    connection.close()
    cells = [_share(embeds, share) for share in (0.5, 0.99)]
    cells += [_share(searches, share) for share in (0.5, 0.95, 0.99)] + lists
    return f"| {size:,} | " + " | ".join(f"{each:.1f}" for each in cells) + " | |"


async def _embedding_times(engine: Engine, asked: Sequence[str]) -> list[float]:
    """Measure embedding alone, the lower bound of a search."""
    embedder = engine.embedders.configured(None)
    times: list[float] = []
    for text in asked:
        began = perf_counter()
        await embedder.embed([text], Purpose.QUERY)
        times.append((perf_counter() - began) * 1_000)
    return times[_WARM:]


async def _time_request(
    connection: HttpConnection, chat: SearchedChat, method: str, path: str, body: Any = None
) -> float:
    began = perf_counter()
    status, answer = await connection.send(method, path, key=chat.key, body=body)
    took = perf_counter() - began
    assert status == 200, answer
    return took * 1_000


def _share(times: Sequence[float], share: float) -> float:
    return sorted(times)[round(share * (len(times) - 1))]


def _options() -> ChatSearchOptions:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=numbers, default=[10_000], help="memories (default 10000)")
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--data-dir", type=Path, help="keep the databases here (default: none)")
    args = parser.parse_args()
    return ChatSearchOptions(args.sizes, args.questions, args.data_dir)


if __name__ == "__main__":
    main()
