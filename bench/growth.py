"""Measure recall time by the number of memories, over HTTP and in plain SQL, in one run.

    python -m bench.growth --sizes 1000,10000,100000 --workspaces 1
    python -m bench.growth --sizes 1000000 --data-dir DIR

`bench/README.md` explains the columns.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from statistics import fmean
from time import perf_counter
from typing import Any, LiteralString

import uvloop
from pgvector import HalfVector
from psycopg import sql

from bench import filled_workspaces, server_process
from bench.command import numbers, print_machine
from bench.filled_workspaces import Maintenance
from bench.floor import connect
from bench.http_client import HttpConnection, open_connection
from bench.seed import TAG, Tenant
from bench.server_process import Opened
from bench.texts import questions
from recollect.core.domain import VectorIndexInfo
from recollect.db.pool import Db
from recollect.embeddings.queries.vectors import effort
from recollect.models.embedder import Purpose, Vector

# Enough for every connection of the server to prepare its plans.
_WARM = 100


@dataclass(frozen=True, slots=True)
class GrowthOptions:
    """What to measure."""

    sizes: Sequence[int]
    workspaces: Sequence[int]
    questions: int
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class Grown:
    """The times of each method at one size, in seconds, and the share of the exact ten it found."""

    memories: int
    workspaces: int
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_index: list[float] = field(default_factory=list[float])
    filtered: list[float] = field(default_factory=list[float])

    @contextmanager
    def timed(self, method: str) -> Generator[None]:
        """Record the duration of the block."""
        began = perf_counter()
        yield
        self.times[method].append(perf_counter() - began)

    def milliseconds(self, method: str, share: float) -> float:
        """Return the time within which this share was done."""
        times = sorted(self.times[method])
        return times[round(share * (len(times) - 1))] * 1_000


def main() -> None:
    options = _options()
    print_machine(f"; {options.questions} questions per size\n")
    uvloop.run(_run(options))


async def _run(options: GrowthOptions) -> None:
    with server_process.base(options.data_dir) as base:
        for workspaces in options.workspaces:
            data_dir = base / f"growth-{workspaces}"
            print(_HEAD, flush=True)
            for size in sorted(options.sizes):
                async with server_process.opened(data_dir) as opened:
                    # The server creates the generation of the first workspace when it starts.
                    if len(await filled_workspaces.tenants(opened.engine)) < workspaces:
                        await filled_workspaces.create_workspaces(
                            opened.engine, opened.server.port, workspaces
                        )
                await filled_workspaces.fill_to(data_dir, size)
                async with server_process.opened(data_dir) as opened:
                    maintenance = await filled_workspaces.run_maintenance(opened)
                    print(_row(await _measure(opened, options), maintenance), flush=True)


async def _measure(opened: Opened, options: GrowthOptions) -> Grown:
    """Ask each question with every method in turn, so that other load affects all of them."""
    url = opened.attached.admin_url
    size = await filled_workspaces.count(url)
    tenants = await filled_workspaces.tenants(opened.engine)
    embedder = opened.engine.embedders.configured(None)
    [db] = await connect(url, 1)
    index = await _index_name(db, tenants)
    connection = await open_connection(opened.server.port)
    asked = questions(f"growth {size}")
    grown = Grown(size, len(tenants))
    for number, tenant in enumerate(islice(cycle(tenants), _WARM + options.questions)):
        if number == _WARM:
            grown = Grown(size, len(tenants))
        text, other = next(asked), next(asked)
        with grown.timed("embed"):
            [vector] = await embedder.embed([text], Purpose.QUERY)
        with grown.timed("exact"):
            right = await _nearest(db, _EXACT, tenant, vector)
        if index:
            await db.execute(_EFFORT, [effort(VectorIndexInfo(size), 10)])
            with grown.timed("index"):
                near = await _nearest(db, _BY_INDEX, tenant, vector)
            grown.by_index.append(len(near & right) / len(right))
        with grown.timed("hybrid"):
            await _ask(connection, tenant, "/v1/tools/memory_recall", {"query": text})
        # Another question: the server caches the vectors of questions.
        with grown.timed("search"):
            await _ask(connection, tenant, "/v1/memory/search", {"query": other, "threshold": 0})
        if right := await _nearest(db, _EXACT_TAGGED, tenant, vector):
            # After `hybrid`, so the vector is cached: this measures the filter's cost and recall.
            asked_for: dict[str, object] = {"query": text, "threshold": 0, "tags": [TAG]}
            with grown.timed("filtered"):
                found = await _ask(connection, tenant, "/v1/memory/search", asked_for)
            near = {each["id"].removeprefix("mem_") for each in found["data"]}
            grown.filtered.append(len(near & right) / len(right))
    connection.close()
    await db.close()
    return grown


async def _ask(
    connection: HttpConnection, tenant: Tenant, path: str, body: dict[str, object]
) -> dict[str, Any]:
    status, answer = await connection.send("POST", path, key=tenant.key, body=body)
    assert status == 200, answer
    found = json.loads(answer)
    # In a workspace of ten memories often nothing matches, and recall returns nothing.
    assert "memories" in found or found.get("data"), answer
    assert not found.get("degraded"), answer
    return found


# The ten nearest in plain SQL. `+ 0` prevents the use of the index; literals allow it.
_EXACT = """
    SELECT memory_id FROM memory_vector
    WHERE workspace_id = {workspace_id} AND generation = {generation}
    ORDER BY (embedding <=> {vector}) + 0
    LIMIT 10
"""
_EXACT_TAGGED = """
    SELECT m.short_code FROM memory_vector v
    JOIN memory m ON m.workspace_id = v.workspace_id AND m.id = v.memory_id
    WHERE v.workspace_id = {workspace_id} AND v.generation = {generation} AND m.tags && {tags}
    ORDER BY (v.embedding <=> {vector}) + 0
    LIMIT 10
"""
_BY_INDEX = """
    SELECT memory_id FROM memory_vector
    WHERE workspace_id = {workspace_id} AND generation = {generation}
    ORDER BY (embedding::halfvec({dimension})) <=> {vector}::halfvec({dimension})
    LIMIT 10
"""
_EFFORT = "SELECT set_config('hnsw.ef_search', %s::text, false)"
_INDEX = "SELECT name FROM vector_index WHERE workspace_id = %s AND is_ready"


async def _index_name(db: Db, tenants: Sequence[Tenant]) -> str | None:
    """Return the index of the one workspace; small workspaces have none."""
    if len(tenants) > 1:
        return None
    row = await (await db.execute(_INDEX, [tenants[0].id])).fetchone()
    return row[0] if row else None


async def _nearest(db: Db, query: LiteralString, tenant: Tenant, vector: Vector) -> set[Any]:
    statement = sql.SQL(query).format(
        workspace_id=sql.Literal(tenant.id),
        generation=sql.Literal(tenant.generation),
        vector=sql.Literal(HalfVector(vector)),
        dimension=sql.Literal(len(vector)),
        tags=sql.Literal([TAG]),
    )
    return {row[0] for row in await (await db.execute(statement)).fetchall()}


_HEAD = (
    "| memories | workspaces | embed p50 | exact SQL p50/p95 | index SQL p50/p95 | recall@10 of "
    "the index | search p50/p95 | filtered, vector cached, p50/p95 | recall@10, filtered | "
    "hybrid p50/p95 | hybrid : embed + best SQL | maintenance, s | PostgreSQL during it, MiB |\n"
    "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def _row(grown: Grown, maintenance: Maintenance) -> str:
    best = min(
        grown.milliseconds(method, 0.5) for method in ("exact", "index") if grown.times[method]
    )
    ratio = grown.milliseconds("hybrid", 0.5) / (grown.milliseconds("embed", 0.5) + best)
    return (
        f"| {grown.memories:,} | {grown.workspaces:,} | {grown.milliseconds('embed', 0.5):.1f} | "
        f"{_quantiles(grown, 'exact')} | {_quantiles(grown, 'index')} | "
        f"{_share(grown.by_index)} | {_quantiles(grown, 'search')} | "
        f"{_quantiles(grown, 'filtered')} | {_share(grown.filtered)} | "
        f"{_quantiles(grown, 'hybrid')} | {ratio:.2f} | "
        f"{maintenance.seconds:.0f} | {maintenance.postgres_mib:.0f} |"
    )


def _share(agreed: Sequence[float]) -> str:
    return f"{fmean(agreed):.3f}" if agreed else "-"


def _quantiles(grown: Grown, method: str) -> str:
    if not grown.times[method]:
        return "-"
    return f"{grown.milliseconds(method, 0.5):.1f} / {grown.milliseconds(method, 0.95):.1f}"


def _options() -> GrowthOptions:
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth", description="Recall time by number of memories."
    )
    parser.add_argument(
        "--sizes", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000], help="memories"
    )
    parser.add_argument("--workspaces", type=numbers, default=[1, 1_000], help="workspaces")
    parser.add_argument("--questions", type=int, default=100, help="questions per size")
    parser.add_argument("--data-dir", type=Path, help="keep the databases here (default: none)")
    args = parser.parse_args()
    return GrowthOptions(args.sizes, args.workspaces, args.questions, args.data_dir)


if __name__ == "__main__":
    main()
