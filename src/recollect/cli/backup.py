"""`recollect backup` and `recollect restore`: the whole house in one file, and back."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from recollect import __version__
from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup_file import (
    FORMAT,
    Backup,
    Manifest,
    Writing,
    open_backup,
    refuse_existing,
)
from recollect.compose import Database, data_dir, open_database
from recollect.domain import utc_now
from recollect.dumps import (
    CannotCopy,
    Snapshot,
    count_dumped,
    dump,
    find_tools,
    load,
    make_ready,
    open_snapshot,
    restore_tools,
)
from recollect.settings import Settings
from recollect.store import catalogue
from recollect.store.migrate import migrate, migrations
from recollect.store.pool import Db, connect

_TELL_SECONDS = 2.0

# What every migrated database holds, however empty.
_LEDGER = "migration"


def add(commands: Commands) -> None:
    """Add the arguments of `backup` and `restore`."""
    backup = add_command(
        commands,
        "backup",
        summary="write everything into one file",
        about="Write everything into one file: a consistent moment of the database, also while "
        "a server is running. The file appears under its name when it is complete and checked. "
        "It holds what people told you, readable only by you: keep it so.",
        example="recollect backup                     recollect-20270131-020000.tar, here\n"
        "recollect backup /backups/house.tar  or where you say",
    )
    backup.add_argument("file", nargs="?", type=Path, metavar="FILE", help="where to write it")
    backup.add_argument("--force", action="store_true", help="replace FILE if it exists")
    backup.set_defaults(run=run_backup)
    restore = add_command(
        commands,
        "restore",
        summary="fill an empty house from a backup",
        about="Fill an empty house from a backup: all of it or nothing. The file is checked before "
        "anything is touched, the rows are counted before they are kept, and the schema is then "
        "brought to this release. A house that holds anything is left alone.",
        example="recollect restore house.tar --data-dir /srv/recollect",
    )
    restore.add_argument("file", type=Path, metavar="FILE", help="what `recollect backup` wrote")
    restore.set_defaults(run=run_restore)


async def run_backup(settings: Settings, asked: argparse.Namespace) -> int:
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
            _say(f"backing up {spoken(rows)}")
            await _copy(snapshot, tools, file)
            manifest = await _manifest(snapshot, rows, file)
        _say("checking the file")
        if await count_dumped(file.read(), tools, snapshot.schema) != rows:
            raise CannotCopy("The dump does not hold every row of the database. Nothing was kept.")
        file.finish(manifest, replace=asked.force)
    _say(f"{file.dump_bytes:,} bytes, {spoken(rows)}")
    print(goal)
    return 0


async def run_restore(settings: Settings, asked: argparse.Namespace) -> int:
    """Check the file, then take it in."""
    _say(f"checking {asked.file}")
    backup = await asyncio.to_thread(open_backup, asked.file)
    _refuse_newer(backup)
    async with open_database(settings, exclusive=True) as database:
        tools = restore_tools(database.bin_dir, settings.postgres_bin)
        _say(f"restoring {spoken(backup.manifest.rows)}, backed up {backup.manifest.made_at}")
        await load(
            backup.read(),
            database.url,
            tools,
            backup.manifest.schema,
            before=lambda db: _make_room(db, database, backup),
            after=lambda db: _compare(db, backup),
        )
        await settle(database.url)
    print(f"restored {spoken(backup.manifest.rows)}")
    return 0


def refuse_absent(settings: Settings) -> None:
    """Raise where no embedded house has ever been: attaching would make an empty one."""
    if settings.database_url is None:
        home = data_dir(settings)
        if not (home / "postgres" / "PG_VERSION").exists():
            raise CannotCopy(f"There is no house in `{home}` yet. Name its place in `--data-dir`.")


def spoken(rows: Mapping[str, int]) -> str:
    """What people count in a house."""
    memories, threads = rows.get("memory", 0), rows.get("thread", 0)
    return f"{memories:,} memories, {threads:,} sessions, {sum(rows.values()):,} rows in all"


async def settle(url: str) -> None:
    """Bring a database that was filled to this release's schema, and let the planner know it."""
    await migrate(url, say=_say)
    async with await connect(url) as db:
        await catalogue.analyze(db)


async def tables_of(snapshot: Snapshot) -> list[str]:
    """The tables to copy; raise when Recollect has never been here."""
    names = await catalogue.tables(snapshot.db)
    if _LEDGER not in names:
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
            _say(f"{file.dump_bytes:,} bytes written")


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


def _refuse_newer(backup: Backup) -> None:
    newest = max(each.number for each in migrations())
    if backup.manifest.migration > newest:
        raise CannotCopy(
            f"`{backup.path}` was made by a newer Recollect ({backup.manifest.recollect}, "
            f"migration {backup.manifest.migration}). Upgrade first."
        )


async def _make_room(db: Db, database: Database, backup: Backup) -> None:
    manifest = backup.manifest
    await catalogue.see_all(db)
    there = sorted(set(await catalogue.tables(db)) & set(manifest.rows))
    rows = await catalogue.count_rows(db, [name for name in there if name != _LEDGER])
    if sum(rows.values()):
        raise CannotCopy(
            f"This house is not empty: it holds {spoken(rows)}. It was left as it is. "
            "Restore into another `--data-dir` or an empty database."
        )
    if there and database.admin_url is None:
        # Ours to drop they would be, but only in our own server do we know that for certain.
        raise CannotCopy(
            f"The database has tables of Recollect already (`{there[0]}`). Restore into an empty "
            "one."
        )
    if there:
        await catalogue.drop_all(db)
    await make_ready(db, schema=manifest.schema, vector_schema=manifest.vector_schema)


async def _compare(db: Db, backup: Backup) -> None:
    wanted = backup.manifest.rows
    if await catalogue.count_rows(db, list(wanted)) != wanted:
        raise CannotCopy("Not every row of the backup arrived. Nothing was changed.")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
