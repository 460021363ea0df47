"""Measure load and latency over HTTP, compared with the floor, in one run.

    make bench ARGS=--quick
    python -m bench.load --sizes 10000,100000 --workspaces 1,100 --clients 1,8,32

`bench/README.md` explains the columns.
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

from bench import filled_workspaces, server_process, table
from bench.cells import Cell, Ours, measure, overhead
from bench.command import numbers, print_machine
from bench.floor import Floor, connect
from bench.seed import Tenant, fill
from bench.server_process import ServerProcess
from bench.table import Footprint
from recollect.embedded import Attached, attach
from recollect.engine import Engine
from recollect.models.embedder import Purpose

_STARTS = 3


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What to measure."""

    sizes: Sequence[int]
    workspaces: Sequence[int]
    clients: Sequence[int]
    seconds: float
    data_dir: Path | None
    json_file: Path | None


def main() -> None:
    options = _options()
    print_machine(
        f"; {options.seconds:g} s per cell and side.\n"
        "Generated sentences; seeded vectors are near the real vectors of 1,024 of them.\n"
        "Saves and searches are real HTTP requests and embed new texts."
    )
    found = uvloop.run(_run(options))
    if options.json_file:
        options.json_file.write_text(json.dumps(found, indent=2) + "\n")


async def _run(options: LoadOptions) -> list[dict[str, Any]]:
    with server_process.base(options.data_dir) as base:
        return [
            await _scenario(base, size, workspaces, options)
            for size in options.sizes
            for workspaces in options.workspaces
        ]


async def _scenario(base: Path, size: int, workspaces: int, options: LoadOptions) -> dict[str, Any]:
    print(f"\n{size:,} memories in {workspaces} workspaces", flush=True)
    data_dir = base / f"{size}x{workspaces}"
    await _fill(data_dir, size, workspaces)
    *starts, server = [
        await _start_server(data_dir, is_last=n == _STARTS - 1) for n in range(_STARTS)
    ]
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            return await _measure(attached, server, starts, workspaces, options)
    finally:
        await server_process.stop(server)


async def _start_server(data_dir: Path, *, is_last: bool) -> ServerProcess:
    """Start a server on a stopped database; keep only the last one running."""
    server = await server_process.start(data_dir)
    if not is_last:
        await server_process.stop(server)
    return server


async def _fill(data_dir: Path, size: int, workspaces: int) -> None:
    """Create an instance with this many memories, unless an earlier run has left one."""
    server = await server_process.start(data_dir)
    try:
        with await asyncio.to_thread(attach, data_dir) as attached:
            async with server_process.engine(attached) as engine:
                if await filled_workspaces.count(attached.admin_url) >= size:
                    return
                tenants = await filled_workspaces.create_workspaces(engine, server.port, workspaces)
                embedder = engine.embedders.configured(None)
                await fill(attached.admin_url, tenants, size - workspaces, embedder)
    finally:
        await server_process.stop(server)


async def _measure(
    attached: Attached,
    server: ServerProcess,
    starts: Sequence[ServerProcess],
    workspaces: int,
    options: LoadOptions,
) -> dict[str, Any]:
    await filled_workspaces.wait_until_idle(attached.admin_url)
    idle = server_process.server_mib(server), server_process.postgres_mib(attached.data_dir)
    disk = await _disk(attached.admin_url)
    memories = await filled_workspaces.count(attached.admin_url)
    print(f"{memories:,} memories, including those saved by earlier runs", flush=True)
    max_clients = max(options.clients)
    async with server_process.engine(attached) as engine:
        tenants = await filled_workspaces.tenants(engine)
        assert len(tenants) == workspaces
        floor = Floor(
            engine.embedders.configured(None), await connect(attached.admin_url, max_clients)
        )
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
    found = Footprint(
        server_mib=idle[0],
        server_after_mib=server_process.server_mib(server),
        postgres_mib=idle[1],
        starts=[each.seconds_to_ready for each in (*starts, server)],
        database_bytes=sum(disk.values()),
        bytes_by_table=disk,
        memories=memories,
    )
    print(table.footprint(found), flush=True)
    return {
        "workspaces": workspaces,
        "cells": [table.as_json(cell) for cell in cells],
        "room": asdict(found),
    }


async def _warm(engine: Engine, ours: Ours, tenants: Sequence[Tenant]) -> None:
    """Fill the caches (pages, keys, models), so that the first request is not measured."""
    await engine.embedders.configured(None).embed(["Good morning."], Purpose.QUERY)
    for tenant in tenants:
        await ours.search(0, tenant, f"Where does {tenant.id} live?")


_DISK = """
    SELECT regexp_replace(relname, '_\\d+$', '') AS name, sum(pg_total_relation_size(oid))::bigint
    FROM pg_class
    WHERE relkind = 'r' AND relname ~ '^(memory|event|keyword_total)'
    GROUP BY name
    ORDER BY 2 DESC
"""


async def _disk(url: str) -> dict[str, int]:
    async with await psycopg.AsyncConnection.connect(url) as db:
        return {row[0]: row[1] for row in await (await db.execute(_DISK)).fetchall()}


def _options() -> LoadOptions:
    parser = argparse.ArgumentParser(
        prog="python -m bench.load", description="Load and latency, compared with the floor."
    )
    parser.add_argument("--sizes", type=numbers, help="memories (default 10000,100000)")
    parser.add_argument("--workspaces", type=numbers, help="workspaces (default 1,100)")
    parser.add_argument("--clients", type=numbers, help="concurrent clients (default 1,8,32)")
    parser.add_argument("--seconds", type=float, help="seconds per cell and side (default 10)")
    parser.add_argument("--quick", action="store_true", help="2,000 memories, about a minute")
    parser.add_argument(
        "--data-dir", type=Path, help="keep and reuse the databases here (default: none)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the numbers to FILE")
    args = parser.parse_args()
    return LoadOptions(
        sizes=args.sizes or ([2_000] if args.quick else [10_000, 100_000]),
        workspaces=args.workspaces or ([1] if args.quick else [1, 100]),
        clients=args.clients or ([1, 8] if args.quick else [1, 8, 32]),
        seconds=args.seconds or (4 if args.quick else 10),
        data_dir=args.data_dir,
        json_file=args.json,
    )


if __name__ == "__main__":
    main()
