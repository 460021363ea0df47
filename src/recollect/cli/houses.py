"""What the commands about tenants share: their verbs, an engine, and how they print."""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.compose import data_dir, open_database, open_engine
from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.engine.erase import Erased
from recollect.engine.keys import steward
from recollect.engine.named import workspace_named
from recollect.errors import Invalid
from recollect.logs import configure_logging
from recollect.settings import Settings
from recollect.store.migrate import migrate

Act = Callable[[Engine, argparse.Namespace], Awaitable[str]]


class Verbs:
    """The verbs of one command, each of which prints what it did."""

    def __init__(self, commands: Commands, thing: str, *, about: str, example: str) -> None:
        self._thing = thing
        parser = add_command(commands, thing, about=about, example=example)
        self._verbs = parser.add_subparsers(metavar="VERB", required=True)

    def add_delete(
        self, remove: Callable[[Engine, argparse.Namespace, bool], Awaitable[Erased]]
    ) -> argparse.ArgumentParser:
        """The verb that removes one for good."""
        verb = add_command(
            self._verbs,
            "delete",
            summary=f"remove an archived {self._thing} for good, with everything in it",
            about=f"Remove an archived {self._thing} for good, with everything in it, and print a "
            "receipt that `recollect verify-erasure` can check.",
            example=f"recollect {self._thing} delete <{self._thing}> --dry-run",
        )
        verb.add_argument(self._thing)
        sure(verb)

        async def run(settings: Settings, asked: argparse.Namespace) -> int:
            async with opened(settings) as engine:
                return await removed(asked, lambda is_dry: remove(engine, asked, is_dry))

        verb.set_defaults(run=run)
        return verb

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


def refuse_absent(settings: Settings) -> None:
    """Raise where no embedded house has ever been: attaching would make an empty one."""
    if settings.database_url is None:
        home = data_dir(settings)
        if not (home / "postgres" / "PG_VERSION").exists():
            raise Invalid(
                f"There is no house in `{home}` yet. Name its place in `--data-dir`; "
                "`recollect serve` makes a new one."
            )


@asynccontextmanager
async def opened(settings: Settings, *, may_be_new: bool = False) -> AsyncGenerator[Engine]:
    """An engine on the configured database, at this release's schema."""
    if not may_be_new:
        refuse_absent(settings)
    # A command says itself what it did; its ordinary events are for the log of a server.
    level = "warning" if settings.log_level == "info" else settings.log_level
    configure_logging(level, settings.log_format)
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            yield engine


async def operator_in(engine: Engine, workspace: str | None) -> Caller:
    """The operator in a workspace, by name or id; in the default one without."""
    async with engine.pool.everywhere() as db:
        found = await workspace_named(db, workspace)
    return await steward(engine, found.id, "operator")


def read_file(wanted: str) -> str:
    """What a file says, or standard input for `-`."""
    if wanted == "-":
        return sys.stdin.read()
    try:
        return Path(wanted).read_text("utf-8")
    except OSError as error:
        raise Invalid(f"`{wanted}` cannot be read: {error.strerror}.") from None
    except UnicodeError:
        raise Invalid(f"`{wanted}` is not UTF-8 text.") from None


Remove = Callable[[bool], Awaitable[Erased]]


def sure(parser: argparse.ArgumentParser) -> None:
    """Ask of whoever removes something for good that they say so."""
    parser.add_argument(
        "--dry-run", action="store_true", help="count what would go, remove nothing"
    )
    parser.add_argument("--yes", action="store_true", help="remove it; it cannot be brought back")


async def removed(asked: argparse.Namespace, remove: Remove) -> int:
    """Remove and print the receipt on standard output; without `--yes` only count."""
    done = await remove(asked.dry_run or not asked.yes)
    for name, count in sorted(done.counts.items()):
        print(f"{count:>8}  {name}", file=sys.stderr)
    if done.receipt:
        print(json.dumps(done.receipt, indent=2))
        return 0
    print(f"{done.total} rows would go.", file=sys.stderr)
    if not asked.dry_run:
        print("Nothing was removed. Say --yes to remove it for good.", file=sys.stderr)
    return 0 if asked.dry_run else 1


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
