"""Shared by the tenant commands: their verbs, an engine, and output formatting."""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.compose import data_dir, open_database, open_engine
from recollect.core.domain import Caller
from recollect.core.errors import Invalid
from recollect.core.logging import configure_logging
from recollect.core.settings import Settings
from recollect.db.migrate import migrate
from recollect.engine import Engine
from recollect.portability.erasure import Erased
from recollect.tenancy.keys import system_caller
from recollect.tenancy.lookup import find_workspace

Action = Callable[[Engine, argparse.Namespace], Awaitable[str]]


class Verbs:
    """The verbs of one command. Each verb prints its result."""

    def __init__(self, commands: Commands, noun: str, *, about: str, example: str) -> None:
        self._noun = noun
        parser = add_command(commands, noun, about=about, example=example)
        self._verbs = parser.add_subparsers(metavar="VERB", required=True)

    def add_delete(
        self, remove: Callable[[Engine, argparse.Namespace, bool], Awaitable[Erased]]
    ) -> argparse.ArgumentParser:
        """Add the verb that deletes one permanently."""
        verb = add_command(
            self._verbs,
            "delete",
            summary=f"permanently delete an archived {self._noun} and everything in it",
            about=f"Permanently delete an archived {self._noun} and everything in it, and print a "
            "receipt that `recollect verify-erasure` can check.",
            example=f"recollect {self._noun} delete <{self._noun}> --dry-run",
        )
        verb.add_argument(self._noun)
        add_confirmation(verb)

        async def run(settings: Settings, args: argparse.Namespace) -> int:
            async with open_command_engine(settings) as engine:
                return await run_removal(args, lambda is_dry: remove(engine, args, is_dry))

        verb.set_defaults(run=run)
        return verb

    def add(self, name: str, about: str, act: Action, *arguments: str) -> argparse.ArgumentParser:
        """Add a verb with these positional arguments."""
        placeholders = " ".join(f"<{each}>" for each in arguments)
        verb = add_command(
            self._verbs,
            name,
            summary=about[0].lower() + about[1:].rstrip("."),
            about=about,
            example=f"recollect {self._noun} {name} {placeholders}".rstrip(),
        )
        for each in arguments:
            verb.add_argument(each)

        async def run(settings: Settings, args: argparse.Namespace) -> int:
            async with open_command_engine(settings) as engine:
                print(await act(engine, args))
            return 0

        verb.set_defaults(run=run)
        return verb


def require_existing_data(settings: Settings) -> None:
    """Raise `Invalid` if there is no embedded database: attaching would create an empty one."""
    if settings.database_url is None:
        home = data_dir(settings)
        if not (home / "postgres" / "PG_VERSION").exists():
            raise Invalid(
                f"There is no Recollect data in `{home}`. Set `--data-dir` to its directory, or "
                "create a new instance with `recollect serve`."
            )


@asynccontextmanager
async def open_command_engine(
    settings: Settings, *, may_be_new: bool = False
) -> AsyncGenerator[Engine]:
    """Open an engine on the configured database, migrated to this release's schema."""
    if not may_be_new:
        require_existing_data(settings)
    # A command prints its own result. Info events are meant for a server's log.
    level = "warning" if settings.log_level == "info" else settings.log_level
    configure_logging(level, settings.log_format)
    async with open_database(settings) as database:
        await migrate(database.url)
        async with open_engine(settings, database) as engine:
            yield engine


async def operator_in(engine: Engine, workspace: str | None) -> Caller:
    """Return the operator as a caller of a workspace (name or id; None is the default one)."""
    async with engine.pool.everywhere() as db:
        found = await find_workspace(db, workspace)
    return await system_caller(engine, found.id, "operator")


def read_file(wanted: str) -> str:
    """Return the text of a file, or of standard input for `-`."""
    if wanted == "-":
        return sys.stdin.read()
    try:
        return Path(wanted).read_text("utf-8")
    except OSError as error:
        raise Invalid(f"`{wanted}` cannot be read: {error.strerror}.") from None
    except UnicodeError:
        raise Invalid(f"`{wanted}` is not UTF-8 text.") from None


Remove = Callable[[bool], Awaitable[Erased]]


def add_confirmation(parser: argparse.ArgumentParser) -> None:
    """Add `--dry-run` and `--yes` to a command that deletes permanently."""
    parser.add_argument(
        "--dry-run", action="store_true", help="count the affected rows and delete nothing"
    )
    parser.add_argument("--yes", action="store_true", help="delete; this cannot be undone")


async def run_removal(args: argparse.Namespace, remove: Remove) -> int:
    """Delete and print the receipt on standard output; without `--yes`, only count the rows."""
    done = await remove(args.dry_run or not args.yes)
    for name, count in sorted(done.counts.items()):
        print(f"{count:>8}  {name}", file=sys.stderr)
    if done.receipt:
        print(json.dumps(done.receipt, indent=2))
        return 0
    print(f"{done.total} rows would be deleted.", file=sys.stderr)
    if not args.dry_run:
        print("Nothing was deleted. Add --yes to delete permanently.", file=sys.stderr)
    return 0 if args.dry_run else 1


def format_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format rows as columns that are as wide as their longest cell."""
    lines = [[str(each) for each in row] for row in [heads, *rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def state_label(archived_at: datetime | None) -> str:
    """Return `archived` or `active`."""
    return "archived" if archived_at else "active"
