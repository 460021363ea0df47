"""`recollect restore`: a backup, back into an empty house."""

import argparse
import asyncio
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup import LEDGER, say, settle, spoken
from recollect.cli.backup_file import Backup, open_backup
from recollect.compose import Database, open_database
from recollect.dumps import CannotCopy, load, make_ready, restore_tools
from recollect.settings import Settings
from recollect.store import catalogue
from recollect.store.migrate import migrations
from recollect.store.pool import Db


def add(commands: Commands) -> None:
    """Add the arguments of `restore`."""
    parser = add_command(
        commands,
        "restore",
        about="Fill an empty house from a backup: all of it or nothing. The file is checked before "
        "anything is touched, the rows are counted before they are kept, and the schema is then "
        "brought to this release. A house that holds anything is left alone.",
        example="recollect restore house.tar --data-dir /srv/recollect",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="what `recollect backup` wrote")
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Check the file, then take it in."""
    say(f"checking {asked.file}")
    backup = await asyncio.to_thread(open_backup, asked.file)
    _refuse_newer(backup)
    async with open_database(settings, exclusive=True) as database:
        tools = restore_tools(database.bin_dir, settings.postgres_bin)
        say(f"restoring {spoken(backup.manifest.rows)}, backed up {backup.manifest.made_at}")
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
    rows = await catalogue.count_rows(db, [name for name in there if name != LEDGER])
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
