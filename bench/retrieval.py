"""How well the right memories are recalled: the public sets, over HTTP, beside plain baselines.

    make retrieval DATA=path/to/the/sets
    python -m bench.retrieval --data DIR --sets locomo,realmem-facts --markdown table.md

What the columns mean and how to read them: `bench/README.md`.
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

from bench import house, verdict
from bench.baselines import Shelf, ranked
from bench.command import begin
from bench.datasets import DataSet, Question, Unit, read_all
from bench.verdict import Answer, Judged
from bench.visitor import Visitor, visit
from recollect.embedded import attach
from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.models.embed import Purpose, Vector
from recollect.store import identity

# The most the tool returns: our ranking ends there, the baselines rank everything.
_DEPTH = 50
# The longest text the tool takes.
_MOST_BYTES = 50_000
# What a model would be handed.
_USUAL = 10


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure."""

    data: Path
    sets: Sequence[str] | None
    without_channels: bool
    markdown: Path | None
    data_dir: Path | None


@dataclass(slots=True)
class Scope:
    """One scope of a set in a workspace of its own, as it fills."""

    units: Sequence[Unit]
    key: str
    ids: list[UUID] = field(default_factory=list[UUID])


def main() -> None:
    options = _options()
    begin()
    judged = uvloop.run(_run(options))
    if options.markdown:
        options.markdown.write_text(verdict.table(judged) + "\n")


async def _run(options: Options) -> list[Judged]:
    chosen = [
        each for each in read_all(options.data) if not options.sets or each.name in options.sets
    ]
    with house.base(options.data_dir) as base:
        server = await house.start(base / "retrieval")
        try:
            judged: list[Judged] = []
            for each in chosen:
                found = await _judge(each, server, with_channels=not options.without_channels)
                print(verdict.table(found), flush=True)
                judged += found
            return judged
        finally:
            await house.stop(server)


async def _judge(data: DataSet, server: house.Server, *, with_channels: bool) -> list[Judged]:
    """Store, ask, and compare one set."""
    with await asyncio.to_thread(attach, server.data_dir) as attached:
        async with house.engine(attached) as engine:
            scopes = {
                name: Scope(units, await _workspace(engine, f"{data.name} {name}"))
                for name, units in data.scopes.items()
            }
            began = perf_counter()
            print(f"{data.name}: {len(data.units):,} units, {len(data.questions):,} questions")
            answers = await _asked(data, scopes, server.port, with_channels=with_channels)
            print(f"  stored and asked in {perf_counter() - began:.0f} s", flush=True)
            questions = await _vectors(engine, [each.text for each in data.questions])
        shelves = {
            name: Shelf(
                [unit.content for unit in scope.units], await _stored(attached.admin_url, scope)
            )
            for name, scope in scopes.items()
        }
    by_plain = [
        _plain(data, question, vector, shelves[question.scope])
        for question, vector in zip(data.questions, questions, strict=True)
    ]
    ours = [answers[each.id] for each in data.questions]
    methods = {
        name: [each[name] for each in by_plain] for name in ("BM25", "vectors", "RRF", "sum")
    }
    return verdict.judge(data, methods | {"ours": ours})


async def _workspace(engine: Engine, name: str) -> str:
    """A key of a new workspace, or of the one an earlier set has left under this name."""
    async with engine.pool.everywhere() as db:
        [default] = await identity.find_workspace(db, None)
        await identity.add_workspace(db, default.org_id, name)
    return (await create_key(engine, workspace=name)).text


async def _asked(
    data: DataSet, scopes: dict[str, Scope], port: int, *, with_channels: bool
) -> dict[str, Answer]:
    """Our answers by question, each asked when as much was stored as it may see."""
    moments: dict[str, list[tuple[int, list[Question]]]] = {}
    for scope, stored, questions in data.in_order():
        moments.setdefault(scope, []).append((stored, questions))

    async def live(name: str) -> dict[str, Answer]:
        scope = scopes[name]
        found: dict[str, Answer] = {}
        async with _visiting(port) as visitor:
            for stored, questions in moments[name]:
                for unit in scope.units[len(scope.ids) : stored]:
                    scope.ids.append(
                        await _save(visitor, scope.key, unit, with_channels=with_channels)
                    )
                for question in questions:
                    found[question.id] = await _recall(visitor, scope, question)
            for unit in scope.units[len(scope.ids) :]:
                scope.ids.append(await _save(visitor, scope.key, unit, with_channels=with_channels))
        return found

    answers: dict[str, Answer] = {}
    # Two at a time: the order within a scope matters, and more would only queue for the model.
    names = list(moments)
    for start in range(0, len(names), 2):
        for part in await asyncio.gather(*map(live, names[start : start + 2])):
            answers |= part
    return answers


async def _save(visitor: Visitor, key: str, unit: Unit, *, with_channels: bool) -> UUID:
    body = {"content": _cut(unit.content), "said_at": unit.said_at.isoformat()}
    if with_channels:
        body["channel_id"] = unit.session
    status, answer = await visitor.ask("POST", "/v1/tools/memory_save", key=key, body=body)
    assert status == 200, answer
    return UUID(json.loads(answer)["memory_id"])


def _cut(content: str) -> str:
    """As much of it as the tool takes; one turn of RealMem is longer."""
    return content.encode()[:_MOST_BYTES].decode(errors="ignore")


async def _recall(visitor: Visitor, scope: Scope, question: Question) -> Answer:
    """Our ranking; the latency and the text are those of the usual ten."""
    body: dict[str, object] = {
        "query": question.text,
        "max_results": _USUAL,
        "asked_at": question.asked_at.isoformat(),
    }
    began = perf_counter()
    status, answer = await visitor.ask("POST", "/v1/tools/memory_recall", key=scope.key, body=body)
    seconds = perf_counter() - began
    assert status == 200, answer
    usual = json.loads(answer)
    body |= {"max_results": _DEPTH, "explain": True}
    status, answer = await visitor.ask("POST", "/v1/tools/memory_recall", key=scope.key, body=body)
    assert status == 200, answer
    known = {str(memory_id): number for number, memory_id in enumerate(scope.ids)}
    found = json.loads(answer)
    places = [known[each["id"]] for each in found["memories"]]
    return Answer(
        places,
        confidence=found.get("confidence", 0.0),
        context=usual["summary"],
        seconds=seconds,
    )


async def _stored(url: str, scope: Scope) -> NDArray[np.float32]:
    """The vectors that the server made, in storage order, of length one."""
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


async def _vectors(engine: Engine, texts: Sequence[str]) -> list[Vector]:
    embedder = engine.embedders.configured(None)
    found: list[Vector] = []
    for text in texts:
        found += await embedder.embed([text], Purpose.QUERY)
    return found


def _plain(data: DataSet, question: Question, vector: Vector, shelf: Shelf) -> dict[str, Answer]:
    units = data.visible(question)
    found: dict[str, Answer] = {}
    for name, scores in shelf.all(question.text, vector, len(units)).items():
        places = ranked(scores)
        context = "\n".join(units[place].content for place in places[:_USUAL])
        found[name] = Answer(places, confidence=float(scores.max()), context=context)
    return found


@asynccontextmanager
async def _visiting(port: int) -> AsyncGenerator[Visitor]:
    visitor = await visit(port)
    try:
        yield visitor
    finally:
        visitor.close()


def _options() -> Options:
    parser = argparse.ArgumentParser(
        prog="python -m bench.retrieval",
        description="How well the right memories are recalled, beside plain baselines.",
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with the sets")
    parser.add_argument("--sets", type=lambda text: text.split(","), help="only these")
    parser.add_argument(
        "--without-channels", action="store_true", help="say nothing of which session a unit is of"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--data-dir", type=Path, help="keep the database here (default: none)")
    asked = parser.parse_args()
    return Options(asked.data, asked.sets, asked.without_channels, asked.markdown, asked.data_dir)


if __name__ == "__main__":
    main()
