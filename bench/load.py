"""Load, latency and the floor beside them, over HTTP, in one run.

    make bench ARGS=--quick
    python -m bench.load --sizes 10000,100000 --workspaces 1,100 --clients 1,8,32

What the columns mean and how to read them: `bench/README.md`.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from bench import house, settle, table
from bench.cells import Cell, Ours, measure, overhead
from bench.command import begin, numbers
from bench.floor import Floor, connect
from bench.house import Server
from bench.seed import Tenant, fill
from bench.table import Room
from recollect.embedded import Attached, attach
from recollect.engine.core import Engine
from recollect.models.embed import Purpose

_STARTS = 3


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure."""

    sizes: Sequence[int]
    workspaces: Sequence[int]
    clients: Sequence[int]
    seconds: float
    data_dir: Path | None
    json_file: Path | None


def main() -> None:
    options = _options()
    begin(
        f"; {options.seconds:g} s a cell and side.\n"
        "Made-up sentences; seeded vectors lie around the real ones of 1,024 of them. Saves and\n"
        "searches are real, over HTTP, and embed texts never seen before."
    )
    found = uvloop.run(_run(options))
    if options.json_file:
        options.json_file.write_text(json.dumps(found, indent=2) + "\n")


async def _run(options: Options) -> list[dict[str, Any]]:
    with house.base(options.data_dir) as base:
        return [
            await _scenario(base, size, workspaces, options)
            for size in options.sizes
            for workspaces in options.workspaces
        ]


async def _scenario(base: Path, size: int, workspaces: int, options: Options) -> dict[str, Any]:
    print(f"\n{size:,} memories in {workspaces} workspaces", flush=True)
    data_dir = base / f"{size}x{workspaces}"
    await _furnish(data_dir, size, workspaces)
    *starts, server = [await _started(data_dir, is_last=n == _STARTS - 1) for n in range(_STARTS)]
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            return await _measured(attached, server, starts, workspaces, options)
    finally:
        await house.stop(server)


async def _started(data_dir: Path, *, is_last: bool) -> Server:
    """A server on a database that was stopped before; only the last one stays."""
    server = await house.start(data_dir)
    if not is_last:
        await house.stop(server)
    return server


async def _furnish(data_dir: Path, size: int, workspaces: int) -> None:
    """A house with so many memories, unless an earlier run has left one."""
    server = await house.start(data_dir)
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            async with house.engine(attached) as engine:
                if await settle.count(attached.admin_url) >= size:
                    return
                tenants = await settle.settle(engine, server.port, workspaces)
                embedder = engine.embedders.configured(None)
                await fill(attached.admin_url, tenants, size - workspaces, embedder)
    finally:
        await house.stop(server)


async def _measured(
    attached: Attached,
    server: Server,
    starts: Sequence[Server],
    workspaces: int,
    options: Options,
) -> dict[str, Any]:
    await settle.quiet(attached.admin_url)
    idle = house.server_mib(server), house.postgres_mib(attached.data_dir)
    disk = await _disk(attached.admin_url)
    memories = await settle.count(attached.admin_url)
    print(f"{memories:,} are there, with what earlier runs have saved", flush=True)
    most = max(options.clients)
    async with house.engine(attached) as engine:
        tenants = await settle.tenants(engine)
        assert len(tenants) == workspaces
        floor = Floor(engine.embedders.configured(None), await connect(attached.admin_url, most))
        ours = Ours(server.port)
        await _warm(engine, ours, tenants)
        for clients in options.clients:
            timing = await overhead(clients, 2, ours=ours, tenant=tenants[0])
            print(table.overhead(clients, timing), flush=True)
        print(table.HEAD)
        cells: list[Cell] = []
        for operation in ("search", "save"):
            for clients in options.clients:
                cell = await measure(
                    operation, clients, options.seconds, ours=ours, floor=floor, tenants=tenants
                )
                print(table.row(cell), flush=True)
                cells.append(cell)
    found = Room(
        server_mib=idle[0],
        server_after_mib=house.server_mib(server),
        postgres_mib=idle[1],
        starts=[each.seconds_to_ready for each in (*starts, server)],
        database_bytes=sum(disk.values()),
        bytes_by_table=disk,
        memories=memories,
    )
    print(table.room(found), flush=True)
    return {
        "workspaces": workspaces,
        "cells": [table.as_json(cell) for cell in cells],
        "room": asdict(found),
    }


async def _warm(engine: Engine, ours: Ours, tenants: Sequence[Tenant]) -> None:
    """Pages into memory, keys and models into caches: nobody measures the first request."""
    await engine.embedders.configured(None).embed(["Good morning."], Purpose.QUERY)
    for tenant in tenants:
        await ours.search(0, tenant, f"Where does {tenant.id} live?")


_DISK = """
    SELECT regexp_replace(relname, '_\\d+$', '') AS name, sum(pg_total_relation_size(oid))::bigint
    FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^(memory|event|word_tally)'
    GROUP BY name
    ORDER BY 2 DESC
"""


async def _disk(url: str) -> dict[str, int]:
    async with await psycopg.AsyncConnection.connect(url) as db:
        return {row[0]: row[1] for row in await (await db.execute(_DISK)).fetchall()}


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.load", description="Load, latency and the floor beside them."
    )
    parser.add_argument("--sizes", type=numbers, help="memories (default 10000,100000)")
    parser.add_argument("--workspaces", type=numbers, help="workspaces (default 1,100)")
    parser.add_argument("--clients", type=numbers, help="clients at once (default 1,8,32)")
    parser.add_argument("--seconds", type=float, help="for each cell and side (default 10)")
    parser.add_argument("--quick", action="store_true", help="2,000 memories, about a minute")
    parser.add_argument(
        "--data-dir", type=Path, help="keep the databases here and use them again (default: none)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there as well")
    asked = parser.parse_args()
    return Options(
        sizes=asked.sizes or ([2_000] if asked.quick else [10_000, 100_000]),
        workspaces=asked.workspaces or ([1] if asked.quick else [1, 100]),
        clients=asked.clients or ([1, 8] if asked.quick else [1, 8, 32]),
        seconds=asked.seconds or (4 if asked.quick else 10),
        data_dir=asked.data_dir,
        json_file=asked.json,
    )


if __name__ == "__main__":
    main()
