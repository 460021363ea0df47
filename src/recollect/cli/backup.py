"""`recollect backup`: the whole house in one file."""

import argparse
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from recollect import __version__
from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup_file import (
    FORMAT,
    Manifest,
    Writing,
    refuse_existing,
)
from recollect.cli.houses import refuse_absent
from recollect.compose import open_database
from recollect.domain import utc_now
from recollect.dumps import (
    CannotCopy,
    Snapshot,
    count_dumped,
    dump,
    find_tools,
    open_snapshot,
)
from recollect.settings import Settings
from recollect.store import catalogue
from recollect.store.migrate import migrate
from recollect.store.pool import connect

_TELL_SECONDS = 2.0

# What every migrated database holds, however empty.
LEDGER = "migration"


def add(commands: Commands) -> None:
    """Add the arguments of `backup`."""
    parser = add_command(
        commands,
        "backup",
        about="Write everything into one file: a consistent moment of the database, also while "
        "a server is running. The file appears under its name when it is complete and checked. "
        "It holds what people told you, readable only by you: keep it so.",
        example="recollect backup                     recollect-20270131-020000.tar, here\n"
        "recollect backup /backups/house.tar  or where you say",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="where to write it")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Write the file and print its name."""
    goal: Path = asked.file or Path(f"recollect-{datetime.now():%Y%m%d-%H%M%S}.tar")  # noqa: DTZ005 - a name in local time
    refuse_existing(goal, replace=asked.force)
    refuse_absent(settings)
    with _writing(goal) as file:
        async with (
            open_database(settings) as database,
            open_snapshot(database.admin_url or database.url) as snapshot,
        ):
            tools = find_tools(database.bin_dir, settings.postgres_bin, snapshot)
            rows = await _count(snapshot)
            say(f"backing up {spoken(rows)}")
            await _copy(snapshot, tools, file)
            manifest = await _manifest(snapshot, rows, file)
        say("checking the file")
        if await count_dumped(file.read(), tools, snapshot.schema) != rows:
            raise CannotCopy("The dump does not hold every row of the database. Nothing was kept.")
        file.finish(manifest, replace=asked.force)
    say(f"{file.dump_bytes:,} bytes, {spoken(rows)}")
    print(goal)
    return 0


def spoken(rows: Mapping[str, int]) -> str:
    """What people count in a house."""
    memories, threads = rows.get("memory", 0), rows.get("thread", 0)
    return f"{memories:,} memories, {threads:,} sessions, {sum(rows.values()):,} rows in all"


async def settle(url: str) -> None:
    """Bring a database that was filled to this release's schema, and let the planner know it."""
    await migrate(url, say=say)
    async with await connect(url) as db:
        await catalogue.analyze(db)


async def tables_of(snapshot: Snapshot) -> list[str]:
    """The tables to copy; raise when Recollect has never been here."""
    names = await catalogue.tables(snapshot.db)
    if LEDGER not in names:
        raise CannotCopy(f"The database `{snapshot.facts.database}` has no tables of Recollect.")
    return names


async def _count(snapshot: Snapshot) -> dict[str, int]:
    return await catalogue.count_rows(snapshot.db, await tables_of(snapshot))


def _writing(goal: Path) -> Writing:
    try:
        return Writing(goal)
    except OSError as error:
        raise CannotCopy(f"`{goal}` cannot be written: {error.strerror}.") from error


async def _copy(snapshot: Snapshot, tools: Path, file: Writing) -> None:
    told = monotonic()
    async for piece in dump(snapshot, tools, compress=True):
        file.write(piece)
        if monotonic() > told + _TELL_SECONDS:
            told = monotonic()
            say(f"{file.dump_bytes:,} bytes written")


async def _manifest(snapshot: Snapshot, rows: Mapping[str, int], file: Writing) -> Manifest:
    return Manifest(
        format=FORMAT,
        recollect=__version__,
        made_at=f"{utc_now():%Y-%m-%d %H:%M:%S} UTC",
        postgres=snapshot.facts.version,
        migration=await catalogue.newest_migration(snapshot.db),
        schema=snapshot.schema,
        vector_schema=snapshot.facts.vector_schema or snapshot.schema,
        dump_bytes=file.dump_bytes,
        dump_sha256=file.dump_sha256,
        rows=rows,
    )


def say(text: str) -> None:
    """Tell how it goes; standard output is for results."""
    print(text, file=sys.stderr, flush=True)
