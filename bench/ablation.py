"""What each step of recall brings: the same questions, with one step taken out at a time.

    python -m bench.ablation --data DIR
    python -m bench.ablation --data DIR --sets locomo

In this process, on a database of its own; the steps are the engine's, and so is the SQL. Only for
sets whose questions are asked when everything is stored: what is stored is asked again and again.
"""

import argparse
import asyncio
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

from bench import house, verdict
from bench.datasets import DataSet, Question, read_all
from bench.verdict import OURS, Answer
from recollect.compose import warm
from recollect.domain import Caller, MemoryId
from recollect.embedded import attach
from recollect.engine import evidence, search
from recollect.engine.channels import Channel
from recollect.engine.core import Engine
from recollect.engine.days import NO_DAYS, Meant
from recollect.engine.keys import move_in, steward
from recollect.engine.save import Save, save
from recollect.store import identity, words
from recollect.store.migrate import migrate

_DEPTH = 50
_SETS = ("locomo", "longmemeval-pool")


def _itself(_: Any, value: Any) -> Any:
    return value


def _never(_: Any, __: Any) -> bool:
    return False


def _always(_: Any, __: Any) -> bool:
    return True


def _no_day(_: Any, __: Any) -> Meant:
    return NO_DAYS


def _as_it_was(order: Any, *_: Any) -> Any:
    return list(order)


# A step is out when this stands in place of the engine's own.
_STEPS: Mapping[str, Sequence[tuple[Any, str, Any]]] = {
    "all steps": (),
    "without neighbours": ((words, "_SHARES", (0.0, 0.0, 0.0)),),
    "without the thread": ((evidence, "_best_of_thread", _itself),),
    "without the speaker": ((evidence, "is_named", _never), (search, "is_named", _never)),
    "without dates": ((search, "days_meant", _no_day),),
    "without recency": ((search, "_NEWEST", 0),),
    "without newer first": ((search, "newer_first", _as_it_was),),
    "without the gate": ((getattr(search, "_Quest"), "_is_promising", _always),),  # noqa: B009
}


@contextmanager
def _instead(target: Any, name: str, value: Any) -> Generator[None]:
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
        house.base(None) as base,
        await asyncio.to_thread(attach, base / "ablation") as attached,
    ):
        await migrate(attached.url)
        async with house.engine(attached) as engine:
            await move_in(engine)
            await warm(engine)
            for each in read_all(data):
                if each.name in sets:
                    await _ablate(engine, each)


async def _ablate(engine: Engine, data: DataSet) -> None:
    scopes = {name: await _store(engine, data, name) for name in data.scopes}
    print(f"### {data.name}\n\n| | level | recall@5 | recall@10 | NDCG@10 |\n|---|---|--:|--:|--:|")
    for step, patches in _STEPS.items():
        with ExitStack() as stack:
            for target, name, instead in patches:
                stack.enter_context(_instead(target, name, instead))
            answers = [await _ask(engine, *scopes[each.scope], each) for each in data.questions]
        for judged in verdict.judge(data, {OURS: answers}):
            [row] = judged.rows["all"]
            q = row.quality
            level = judged.name.rpartition(" ")[2]
            print(
                f"| {step} | {level} | {q.recall_5:.3f} | {q.recall_10:.3f} | {q.ndcg_10:.3f} |",
                flush=True,
            )


async def _store(engine: Engine, data: DataSet, name: str) -> tuple[Caller, list[MemoryId]]:
    async with engine.pool.everywhere() as db:
        [default] = await identity.find_workspace(db, None)
        workspace_id = await identity.add_workspace(db, default.org_id, f"{data.name} {name}")
    caller = await steward(engine, workspace_id, "ablation")
    stored: list[MemoryId] = []
    for unit in data.scopes[name]:
        ask = Save(
            unit.content,
            channel=Channel(unit.session),
            category="fact",
            said_at=unit.said_at,
        )
        stored.append((await save(engine, caller, ask)).memory.id)
    return caller, stored


async def _ask(
    engine: Engine, caller: Caller, stored: Sequence[MemoryId], question: Question
) -> Answer:
    places = {memory_id: place for place, memory_id in enumerate(stored)}
    ask = search.Search(
        query=question.text,
        limit=_DEPTH,
        asked_at=question.asked_at,
        counts_as_access=False,
    )
    found = await search.search(engine, caller, ask)
    return Answer([places[each.memory.id] for each in found.findings], 0.0, "", seconds=0.0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.ablation", description="What each step of recall brings."
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder with the sets")
    parser.add_argument("--sets", type=lambda text: text.split(","), default=_SETS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
