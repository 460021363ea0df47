"""`recollect reembed`: embed every memory with the configured model and show the progress."""

import argparse
import asyncio

from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import open_command_engine
from recollect.core.settings import Settings
from recollect.embeddings.generations import identity_of
from recollect.embeddings.queries import generations
from recollect.embeddings.queries.generations import Progress
from recollect.engine import Engine
from recollect.maintenance import survey
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.worker import Worker

_PROGRESS_SECONDS = 1.0


def add(commands: Commands) -> None:
    """Add the arguments of `reembed`."""
    parser = add_command(
        commands,
        "reembed",
        about="If the configured model differs from the one in use, fill a new generation of "
        "vectors and switch to it when it is complete. Until then, search uses the old "
        "generation. You can stop this command and run it again at any time.",
        example="RECOLLECT_EMBEDDING_URL=http://127.0.0.1:11434/v1 \\\n"
        "RECOLLECT_EMBEDDING_MODEL=bge-m3 recollect reembed",
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, _: argparse.Namespace) -> int:
    """Create the missing vectors and print the progress."""
    async with open_command_engine(settings) as engine:
        await survey(engine)
        work = asyncio.create_task(Worker(engine, slots=2).run_until_empty())
        while not work.done():
            _show(await _progress(engine))
            await asyncio.wait([work], timeout=_PROGRESS_SECONDS)
        work.result()
        found = await _progress(engine)
        _show(found)
        is_complete = await _uses_configured_models(engine) and all(
            each.state == "serving" and each.filled >= each.wanted for each in found
        )
    print("complete" if is_complete else "not complete: check that the embedder is running")
    return 0 if is_complete else 1


async def _uses_configured_models(engine: Engine) -> bool:
    """Return whether every workspace is served by the model configured for it."""
    async with engine.pool.everywhere() as db:
        spaces = [
            await generations.find_generations(db, each.id)
            for each in await workspaces_queries.list_workspaces(db)
        ]
    return all(
        space.serving
        and identity_of(space.serving) == engine.embedders.configured(space.embedder).identity
        for space in spaces
    )


async def _progress(engine: Engine) -> list[Progress]:
    found: list[Progress] = []
    async with engine.pool.everywhere() as db:
        for workspace in await workspaces_queries.list_workspaces(db):
            found += await generations.progress(db, workspace.id)
    return found


def _show(found: list[Progress]) -> None:
    for state in ("filling", "serving"):
        in_state = [each for each in found if each.state == state]
        if in_state:
            filled, wanted = (
                sum(each.filled for each in in_state),
                sum(each.wanted for each in in_state),
            )
            models = ", ".join(sorted({each.model for each in in_state}))
            print(f"{state:<8} {models}: {filled:,} of {wanted:,}", flush=True)
