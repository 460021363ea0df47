"""`recollect reembed`: give every memory a vector of the configured model, and watch it happen."""

import argparse
import asyncio

from recollect.cli.arguments import Commands, add_command
from recollect.cli.houses import opened
from recollect.engine.core import Engine
from recollect.engine.maintain import survey
from recollect.models.embed import Identity
from recollect.settings import Settings
from recollect.store import generations, identity
from recollect.store.generations import Progress
from recollect.worker import Worker

_LOOK_SECONDS = 1.0


def add(commands: Commands) -> None:
    """Add the arguments of `reembed`."""
    parser = add_command(
        commands,
        "reembed",
        about="Start a new generation of vectors where the configured model is another "
        "than the one in use, fill it, and switch when it is complete. Recall goes on answering "
        "from the old one until then. Safe to stop and to run again.",
        example="RECOLLECT_EMBEDDING_URL=http://127.0.0.1:11434/v1 \\\n"
        "RECOLLECT_EMBEDDING_MODEL=bge-m3 recollect reembed",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Work on the vectors until all are there, showing how far it is."""
    async with opened(settings) as engine:
        await survey(engine)
        work = asyncio.create_task(Worker(engine, slots=2).run_until_empty())
        while not work.done():
            _show(await _progress(engine))
            await asyncio.wait([work], timeout=_LOOK_SECONDS)
        work.result()
        found = await _progress(engine)
        _show(found)
        is_complete = await _has_moved(engine) and all(
            each.state == "serving" and each.filled >= each.wanted for each in found
        )
    print("complete" if is_complete else "not complete: is the embedder up?")
    return 0 if is_complete else 1


async def _has_moved(engine: Engine) -> bool:
    """Whether every workspace is served by the model it is configured for."""
    async with engine.pool.everywhere() as db:
        spaces = [await generations.space(db, each.id) for each in await identity.workspaces(db)]
    return all(
        space.serving
        and Identity(space.serving.endpoint, space.serving.model)
        == engine.embedders.configured(space.embedder).identity
        for space in spaces
    )


async def _progress(engine: Engine) -> list[Progress]:
    found: list[Progress] = []
    async with engine.pool.everywhere() as db:
        for workspace in await identity.workspaces(db):
            found += await generations.progress(db, workspace.id)
    return found


def _show(found: list[Progress]) -> None:
    for state in ("filling", "serving"):
        some = [each for each in found if each.state == state]
        if some:
            filled, wanted = sum(each.filled for each in some), sum(each.wanted for each in some)
            models = ", ".join(sorted({each.model for each in some}))
            print(f"{state:<8} {models}: {filled:,} of {wanted:,}", flush=True)
