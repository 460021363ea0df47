"""Measure recall quality on the public datasets, over HTTP, compared with simple baselines.

    make retrieval DATA=path/to/the/sets
    python -m bench.retrieval --data DIR --sets locomo,realmem-facts --markdown table.md

`bench/README.md` explains the columns.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from uuid import UUID

import numpy as np
import psycopg
import uvloop
from numpy.typing import NDArray
from pgvector.psycopg import register_vector_async

from bench import ranking_scores, server_process
from bench.baselines import Baselines, ranked
from bench.command import print_machine
from bench.datasets import DataSet, Question, Unit, read_all
from bench.http_client import HttpConnection, open_connection
from bench.ranking_scores import Comparison, UnitRanking
from recollect.embedded import attach
from recollect.engine import Engine
from recollect.models.embedder import Purpose, Vector
from recollect.tenancy.keys import create_key
from recollect.tenancy.queries import workspaces as workspaces_queries

# The maximum the tool returns: our ranking ends there, the baselines rank everything.
_DEPTH = 50
# The longest text the tool accepts.
_MAX_BYTES = 50_000
# The number of memories a model would get.
_DEFAULT_RESULTS = 10


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """What to measure."""

    data: Path
    sets: Sequence[str] | None
    without_channels: bool
    markdown: Path | None
    data_dir: Path | None


@dataclass(slots=True)
class DatasetScope:
    """One scope of a dataset, in its own workspace."""

    units: Sequence[Unit]
    key: str
    ids: list[UUID] = field(default_factory=list[UUID])


def main() -> None:
    options = _options()
    print_machine()
    judged = uvloop.run(_run(options))
    if options.markdown:
        options.markdown.write_text(ranking_scores.table(judged) + "\n")


async def _run(options: RetrievalOptions) -> list[Comparison]:
    chosen = [
        each for each in read_all(options.data) if not options.sets or each.name in options.sets
    ]
    with server_process.base(options.data_dir) as base:
        server = await server_process.start(base / "retrieval")
        try:
            judged: list[Comparison] = []
            for each in chosen:
                found = await _judge(each, server, with_channels=not options.without_channels)
                print(ranking_scores.table(found), flush=True)
                judged += found
            return judged
        finally:
            await server_process.stop(server)


async def _judge(
    data: DataSet, server: server_process.ServerProcess, *, with_channels: bool
) -> list[Comparison]:
    """Store one dataset, ask its questions and compare the rankings."""
    with await asyncio.to_thread(attach, server.data_dir) as attached:
        async with server_process.engine(attached) as engine:
            scopes = {
                name: DatasetScope(units, await _workspace(engine, f"{data.name} {name}"))
                for name, units in data.scopes.items()
            }
            began = perf_counter()
            print(f"{data.name}: {len(data.units):,} units, {len(data.questions):,} questions")
            answers = await _ask_all(data, scopes, server.port, with_channels=with_channels)
            print(f"  stored and asked in {perf_counter() - began:.0f} s", flush=True)
            questions = await _embed(engine, [each.text for each in data.questions])
        shelves = {
            name: Baselines(
                [unit.content for unit in scope.units],
                await _read_vectors(attached.admin_url, scope),
            )
            for name, scope in scopes.items()
        }
    by_plain = [
        _rank_baselines(data, question, vector, shelves[question.scope])
        for question, vector in zip(data.questions, questions, strict=True)
    ]
    ours = [answers[each.id] for each in data.questions]
    methods = {
        name: [each[name] for each in by_plain] for name in ("BM25", "vectors", "RRF", "sum")
    }
    return ranking_scores.compare(data, methods | {"ours": ours})


async def _workspace(engine: Engine, name: str) -> str:
    """Return a key for a new workspace, or for the existing one with this name."""
    async with engine.pool.everywhere() as db:
        [default] = await workspaces_queries.find_workspaces(db, None)
        await workspaces_queries.add_workspace(db, default.org_id, name)
    return (await create_key(engine, workspace=name)).text


async def _ask_all(
    data: DataSet, scopes: dict[str, DatasetScope], port: int, *, with_channels: bool
) -> dict[str, UnitRanking]:
    """Return our answers; each question is asked when the units it may see are stored."""
    schedule: dict[str, list[tuple[int, list[Question]]]] = {}
    for scope, stored, questions in data.in_order():
        schedule.setdefault(scope, []).append((stored, questions))

    async def run_scope(name: str) -> dict[str, UnitRanking]:
        scope = scopes[name]
        found: dict[str, UnitRanking] = {}
        async with _connected(port) as connection:
            for stored, questions in schedule[name]:
                for unit in scope.units[len(scope.ids) : stored]:
                    scope.ids.append(
                        await _save(connection, scope.key, unit, with_channels=with_channels)
                    )
                for question in questions:
                    found[question.id] = await _recall(connection, scope, question)
            for unit in scope.units[len(scope.ids) :]:
                scope.ids.append(
                    await _save(connection, scope.key, unit, with_channels=with_channels)
                )
        return found

    answers: dict[str, UnitRanking] = {}
    # Two scopes at a time: more would only wait for the embedder. Order matters within a scope.
    names = list(schedule)
    for start in range(0, len(names), 2):
        for part in await asyncio.gather(*map(run_scope, names[start : start + 2])):
            answers |= part
    return answers


async def _save(connection: HttpConnection, key: str, unit: Unit, *, with_channels: bool) -> UUID:
    body = {"content": _truncate(unit.content), "said_at": unit.said_at.isoformat()}
    if with_channels:
        body["channel_id"] = unit.session
    status, answer = await connection.send("POST", "/v1/tools/memory_save", key=key, body=body)
    assert status == 200, answer
    return UUID(json.loads(answer)["memory_id"])


def _truncate(content: str) -> str:
    """Cut the text to the tool's limit; one turn of RealMem is longer."""
    return content.encode()[:_MAX_BYTES].decode(errors="ignore")


async def _recall(
    connection: HttpConnection, scope: DatasetScope, question: Question
) -> UnitRanking:
    """Return our ranking; latency and context are measured with the default of ten results."""
    body: dict[str, object] = {
        "query": question.text,
        "max_results": _DEFAULT_RESULTS,
        "asked_at": question.asked_at.isoformat(),
    }
    began = perf_counter()
    status, answer = await connection.send(
        "POST", "/v1/tools/memory_recall", key=scope.key, body=body
    )
    seconds = perf_counter() - began
    assert status == 200, answer
    usual = json.loads(answer)
    body |= {"max_results": _DEPTH, "explain": True}
    status, answer = await connection.send(
        "POST", "/v1/tools/memory_recall", key=scope.key, body=body
    )
    assert status == 200, answer
    known = {str(memory_id): number for number, memory_id in enumerate(scope.ids)}
    found = json.loads(answer)
    positions = [known[each["id"]] for each in found["memories"]]
    return UnitRanking(
        positions,
        confidence=found.get("confidence", 0.0),
        context=usual["summary"],
        seconds=seconds,
    )


async def _read_vectors(url: str, scope: DatasetScope) -> NDArray[np.float32]:
    """Return the server's vectors in storage order, normalized."""
    async with await psycopg.AsyncConnection.connect(url) as db:
        await register_vector_async(db)
        rows = await (
            await db.execute(
                "SELECT memory_id, embedding FROM memory_vector WHERE memory_id = ANY(%s)",
                [scope.ids],
            )
        ).fetchall()
    by_id = {row[0]: row[1].to_numpy() for row in rows}
    found = np.stack([by_id[each] for each in scope.ids]).astype(np.float32)
    return found / np.linalg.norm(found, axis=1, keepdims=True)


async def _embed(engine: Engine, texts: Sequence[str]) -> list[Vector]:
    embedder = engine.embedders.configured(None)
    found: list[Vector] = []
    for text in texts:
        found += await embedder.embed([text], Purpose.QUERY)
    return found


def _rank_baselines(
    data: DataSet, question: Question, vector: Vector, baselines: Baselines
) -> dict[str, UnitRanking]:
    units = data.visible(question)
    found: dict[str, UnitRanking] = {}
    for name, scores in baselines.all(question.text, vector, len(units)).items():
        positions = ranked(scores)
        context = "\n".join(units[position].content for position in positions[:_DEFAULT_RESULTS])
        found[name] = UnitRanking(positions, confidence=float(scores.max()), context=context)
    return found


@asynccontextmanager
async def _connected(port: int) -> AsyncGenerator[HttpConnection]:
    connection = await open_connection(port)
    try:
        yield connection
    finally:
        connection.close()


def _options() -> RetrievalOptions:
    parser = argparse.ArgumentParser(
        prog="python -m bench.retrieval",
        description="Recall quality, compared with simple baselines.",
    )
    parser.add_argument("--data", type=Path, required=True, help="directory of the public datasets")
    parser.add_argument(
        "--sets", type=lambda text: text.split(","), help="only these datasets, separated by commas"
    )
    parser.add_argument(
        "--without-channels", action="store_true", help="do not send the session of each unit"
    )
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the table to FILE"
    )
    parser.add_argument("--data-dir", type=Path, help="keep the database here (default: none)")
    args = parser.parse_args()
    return RetrievalOptions(
        args.data, args.sets, args.without_channels, args.markdown, args.data_dir
    )


if __name__ == "__main__":
    main()
