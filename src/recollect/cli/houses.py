"""What the commands about tenants share: their verbs, an engine, and how they print."""

import argparse
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from recollect.cli.arguments import Commands, add_command
from recollect.compose import open_database, open_engine
from recollect.engine.core import Engine
from recollect.settings import Settings
from recollect.store.migrate import migrate

Act = Callable[[Engine, argparse.Namespace], Awaitable[str]]


class Verbs:
    """The verbs of one command, each of which prints what it did."""

    def __init__(self, commands: Commands, thing: str, *, about: str, example: str) -> None:
        self._thing = thing
        parser = add_command(commands, thing, about=about, example=example)
        self._verbs = parser.add_subparsers(metavar="VERB", required=True)

    def add(self, name: str, about: str, act: Act, *arguments: str) -> argparse.ArgumentParser:
        """A verb; the arguments in angle brackets are what it is about, in that order."""
        shown = " ".join(f"<{each}>" for each in arguments)
        verb = add_command(
            self._verbs,
            name,
            summary=about[0].lower() + about[1:].rstrip("."),
            about=about,
            example=f"recollect {self._thing} {name} {shown}".rstrip(),
        )
        for each in arguments:
            verb.add_argument(each)

        async def run(settings: Settings, asked: argparse.Namespace) -> int:
            async with opened(settings) as engine:
                print(await act(engine, asked))
            return 0

        verb.set_defaults(run=run)
        return verb


@asynccontextmanager
async def opened(settings: Settings) -> AsyncGenerator[Engine]:
    """An engine on the configured database, at this release's schema."""
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            yield engine


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as they need to be."""
    lines = [[str(each) for each in row] for row in [heads, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def state(archived_at: datetime | None) -> str:
    """Whether it is put away."""
    return "archived" if archived_at else "active"
