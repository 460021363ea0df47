"""Measure the effect of each recall step: the same questions, with one step removed at a time.

    python -m bench.ablation --data DIR
    python -m bench.ablation --data DIR --sets locomo

Runs in this process with a separate database, with the engine's own code and SQL. Works only for
datasets whose questions are asked after everything is stored, because the data is stored once.
"""

import argparse
import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import uvloop

from bench import ranking_scores, server_process
from bench.datasets import DataSet, Question, read_all
from bench.ranking_scores import OURS, UnitRanking
from recollect.compose import warm_up
from recollect.core.domain import Caller, MemoryId
from recollect.db.migrate import migrate
from recollect.embedded import attach
from recollect.engine import Engine
from recollect.keywords.queries import keyword_search
from recollect.memories.save import Save, save
from recollect.search import evidence, hybrid
from recollect.search.query_dates.dates import NO_DATES, QueryDates
from recollect.tenancy.keys import first_run, system_caller
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.tenancy.thread_lookup import ThreadName

_DEPTH = 50
# On a busy machine a save could miss the usual deadline, and nothing here adds its vector later.
_EMBEDDING_DEADLINE = timedelta(minutes=1)
_SETS = ("locomo", "longmemeval-pool")


def _return_value(_: Any, value: Any) -> Any:
    return value


def _never(_: Any, __: Any) -> bool:
    return False


def _always(_: Any, __: Any) -> bool:
    return True


def _no_dates(_: Any, __: Any) -> QueryDates:
    return NO_DATES


def _return_order(order: Any, *_: Any) -> Any:
    return list(order)


# To remove a step, its function or constant is replaced with one of these.
STEPS: Mapping[str, Sequence[tuple[Any, str, Any]]] = {
    "all steps": (),
    "without neighbours": ((keyword_search, "_NEIGHBOUR_SHARES", (0.0, 0.0, 0.0)),),
    "without the thread": ((evidence, "_best_of_thread", _return_value),),
    "without the speaker": ((evidence, "is_named", _never), (hybrid, "is_named", _never)),
    "without dates": ((hybrid, "dates_in", _no_dates),),
    "without recency": ((hybrid, "_MAX_NEWER", 0),),
    "without newer first": ((hybrid, "newer_first", _return_order),),
    "without the gate": ((getattr(hybrid, "_HybridSearch"), "_is_promising", _always),),  # noqa: B009
}


@contextmanager
def _replaced(target: Any, name: str, value: Any) -> Generator[None]:
    own = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, own)


def main() -> None:
    options = _options()
    uvloop.run(_run(options.data, options.sets))


async def _run(data: Path, sets: Sequence[str]) -> None:
    with (
        server_process.base(None) as base,
        await asyncio.to_thread(attach, base / "ablation") as attached,
    ):
        await migrate(attached.url)
        async with server_process.engine(attached) as usual:
            engine = replace(usual, embedding_deadline=_EMBEDDING_DEADLINE)
            await first_run(engine)
            await warm_up(engine)
            for each in read_all(data):
                if each.name in sets:
                    await _ablate(engine, each)


async def _ablate(engine: Engine, data: DataSet) -> None:
    scopes = {name: await _store(engine, data, name) for name in data.scopes}
    print(f"### {data.name}\n\n| | level | recall@5 | recall@10 | NDCG@10 |\n|---|---|--:|--:|--:|")
    for step, patches in STEPS.items():
        with ExitStack() as stack:
            for target, name, instead in patches:
                stack.enter_context(_replaced(target, name, instead))
            answers = [await _ask(engine, *scopes[each.scope], each) for each in data.questions]
        for comparison in ranking_scores.compare(data, {OURS: answers}):
            [row] = comparison.rows["all"]
            q = row.quality
            level = comparison.name.rpartition(" ")[2]
            print(
                f"| {step} | {level} | {q.recall_5:.3f} | {q.recall_10:.3f} | {q.ndcg_10:.3f} |",
                flush=True,
            )


async def _store(engine: Engine, data: DataSet, name: str) -> tuple[Caller, list[MemoryId]]:
    async with engine.pool.everywhere() as db:
        [default] = await workspaces_queries.find_workspaces(db, None)
        workspace_id = await workspaces_queries.add_workspace(
            db, default.org_id, f"{data.name} {name}"
        )
    caller = await system_caller(engine, workspace_id, "ablation")
    stored: list[MemoryId] = []
    for unit in data.scopes[name]:
        ask = Save(
            unit.content,
            thread_name=ThreadName(unit.session),
            category="fact",
            said_at=unit.said_at,
        )
        stored.append((await save(engine, caller, ask)).memory.id)
    return caller, stored


async def _ask(
    engine: Engine, caller: Caller, stored: Sequence[MemoryId], question: Question
) -> UnitRanking:
    positions = {memory_id: position for position, memory_id in enumerate(stored)}
    ask = hybrid.Search(
        query=question.text,
        limit=_DEPTH,
        asked_at=question.asked_at,
        counts_as_access=False,
    )
    found = await hybrid.search(engine, caller, ask)
    return UnitRanking([positions[each.memory.id] for each in found.findings], 0.0, "", seconds=0.0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ablation", description="The effect of each recall step."
    )
    parser.add_argument("--data", type=Path, required=True, help="directory of the public datasets")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=_SETS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
