"""How recall grows with the number of memories: over HTTP, beside the bare SQL, in one run.

    python -m bench.growth --sizes 1000,10000,100000 --workspaces 1
    python -m bench.growth --sizes 1000000 --data-dir DIR

What the columns mean and how to read them: `bench/README.md`.
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

from bench import house, settle
from bench.command import begin, numbers
from bench.floor import connect
from bench.house import Opened
from bench.seed import TAG, Tenant
from bench.settle import Care
from bench.texts import questions
from bench.visitor import Visitor, visit
from recollect.models.embed import Purpose, Vector
from recollect.store.generations import Indexed
from recollect.store.pool import Db
from recollect.store.vectors import effort

# Until every connection of the server has its plans.
_WARM = 100


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure."""

    sizes: Sequence[int]
    workspaces: Sequence[int]
    questions: int
    data_dir: Path | None


@dataclass(frozen=True, slots=True)
class Grown:
    """What a size costs each way, in seconds, and what was found of the exact ten."""

    memories: int
    workspaces: int
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_index: list[float] = field(default_factory=list[float])
    filtered: list[float] = field(default_factory=list[float])

    @contextmanager
    def timed(self, way: str) -> Generator[None]:
        """Note what the block takes."""
        began = perf_counter()
        yield
        self.times[way].append(perf_counter() - began)

    def milliseconds(self, way: str, share: float) -> float:
        """The time within which this share was done."""
        times = sorted(self.times[way])
        return times[round(share * (len(times) - 1))] * 1_000


def main() -> None:
    options = _options()
    begin(f"; {options.questions} questions a size\n")
    uvloop.run(_run(options))


async def _run(options: Options) -> None:
    with house.base(options.data_dir) as base:
        for workspaces in options.workspaces:
            data_dir = base / f"growth-{workspaces}"
            print(_HEAD, flush=True)
            for size in sorted(options.sizes):
                async with house.opened(data_dir) as opened:
                    # The first one opens its space by itself when the server starts.
                    if len(await settle.tenants(opened.engine)) < workspaces:
                        await settle.settle(opened.engine, opened.server.port, workspaces)
                await settle.grown(data_dir, size)
                async with house.opened(data_dir) as opened:
                    care = await settle.looked_after(opened)
                    print(_row(await _measured(opened, options), care), flush=True)


async def _measured(opened: Opened, options: Options) -> Grown:
    """Each question in turn by every way, so that a busy neighbour meets them all."""
    url = opened.attached.admin_url
    size = await settle.count(url)
    tenants = await settle.tenants(opened.engine)
    embedder = opened.engine.embedders.configured(None)
    [bare] = await connect(url, 1)
    index = await _index_name(bare, tenants)
    visitor = await visit(opened.server.port)
    asked = questions(f"growth {size}")
    grown = Grown(size, len(tenants))
    for number, tenant in enumerate(islice(cycle(tenants), _WARM + options.questions)):
        if number == _WARM:
            grown = Grown(size, len(tenants))
        text, other = next(asked), next(asked)
        with grown.timed("embed"):
            [vector] = await embedder.embed([text], Purpose.QUERY)
        with grown.timed("exact"):
            right = await _nearest(bare, _EXACT, tenant, vector)
        if index:
            await bare.execute(_EFFORT, [effort(Indexed(size), 10)])
            with grown.timed("index"):
                near = await _nearest(bare, _BY_INDEX, tenant, vector)
            grown.by_index.append(len(near & right) / len(right))
        with grown.timed("hybrid"):
            await _ask(visitor, tenant, "/v1/tools/memory_recall", {"query": text})
        # Not the same one: the server remembers the vectors of questions.
        with grown.timed("search"):
            await _ask(visitor, tenant, "/v1/memory/search", {"query": other, "threshold": 0})
        if right := await _nearest(bare, _EXACT_TAGGED, tenant, vector):
            # After `hybrid`, so with the vector in hand: what the filter costs, and finds.
            asked_for: dict[str, object] = {"query": text, "threshold": 0, "tags": [TAG]}
            with grown.timed("filtered"):
                found = await _ask(visitor, tenant, "/v1/memory/search", asked_for)
            near = {each["id"].removeprefix("mem_") for each in found["data"]}
            grown.filtered.append(len(near & right) / len(right))
    visitor.close()
    await bare.close()
    return grown


async def _ask(
    visitor: Visitor, tenant: Tenant, path: str, body: dict[str, object]
) -> dict[str, Any]:
    status, answer = await visitor.ask("POST", path, key=tenant.key, body=body)
    assert status == 200, answer
    found = json.loads(answer)
    # In a workspace of ten memories often nothing fits, and a recall says so.
    assert "memories" in found or found.get("data"), answer
    assert not found.get("degraded"), answer
    return found


# The ten nearest, with no product around them. `+ 0` keeps the index out; literals let it in.
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


async def _index_name(bare: Db, tenants: Sequence[Tenant]) -> str | None:
    """The index of the one workspace; in many small ones there is none."""
    if len(tenants) > 1:
        return None
    row = await (await bare.execute(_INDEX, [tenants[0].id])).fetchone()
    return row[0] if row else None


async def _nearest(bare: Db, query: LiteralString, tenant: Tenant, vector: Vector) -> set[Any]:
    statement = sql.SQL(query).format(
        workspace_id=sql.Literal(tenant.id),
        generation=sql.Literal(tenant.generation),
        vector=sql.Literal(HalfVector(vector)),
        dimension=sql.Literal(len(vector)),
        tags=sql.Literal([TAG]),
    )
    return {row[0] for row in await (await bare.execute(statement)).fetchall()}


_HEAD = (
    "| memories | workspaces | embed p50 | exact SQL p50/p95 | index SQL p50/p95 | recall@10 of "
    "the index | search p50/p95 | filtered, embedded before, p50/p95 | recall@10, filtered | "
    "hybrid p50/p95 | hybrid : embed + best SQL | looked after, s | PostgreSQL meanwhile, MiB |\n"
    "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
)


def _row(grown: Grown, care: Care) -> str:
    best = min(grown.milliseconds(way, 0.5) for way in ("exact", "index") if grown.times[way])
    ratio = grown.milliseconds("hybrid", 0.5) / (grown.milliseconds("embed", 0.5) + best)
    return (
        f"| {grown.memories:,} | {grown.workspaces:,} | {grown.milliseconds('embed', 0.5):.1f} | "
        f"{_quantiles(grown, 'exact')} | {_quantiles(grown, 'index')} | "
        f"{_share(grown.by_index)} | {_quantiles(grown, 'search')} | "
        f"{_quantiles(grown, 'filtered')} | {_share(grown.filtered)} | "
        f"{_quantiles(grown, 'hybrid')} | {ratio:.2f} | "
        f"{care.seconds:.0f} | {care.postgres_mib:.0f} |"
    )


def _share(agreed: Sequence[float]) -> str:
    return f"{fmean(agreed):.3f}" if agreed else "-"


def _quantiles(grown: Grown, way: str) -> str:
    if not grown.times[way]:
        return "-"
    return f"{grown.milliseconds(way, 0.5):.1f} / {grown.milliseconds(way, 0.95):.1f}"


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.growth", description="How recall grows with the memories."
    )
    parser.add_argument(
        "--sizes", type=numbers, default=[1_000, 10_000, 100_000, 1_000_000], help="memories"
    )
    parser.add_argument("--workspaces", type=numbers, default=[1, 1_000], help="workspaces")
    parser.add_argument("--questions", type=int, default=100, help="for each size")
    parser.add_argument("--data-dir", type=Path, help="keep the databases here (default: none)")
    asked = parser.parse_args()
    return Options(asked.sizes, asked.workspaces, asked.questions, asked.data_dir)


if __name__ == "__main__":
    main()
