"""`recollect restore`: load a backup into an empty instance."""

import argparse
import asyncio
from pathlib import Path

from recollect.cli.arguments import Commands, add_command
from recollect.cli.data.backup import (
    MIGRATION_TABLE,
    migrate_and_analyze,
    print_progress,
    summarise_rows,
)
from recollect.compose import Database, open_database
from recollect.core.settings import Settings
from recollect.db import catalog
from recollect.db.migrate import LAST_SQUASHED, LAST_UNSQUASHED_COMMIT, migrations
from recollect.db.pool import Db
from recollect.portability.backup_file import Backup, open_backup
from recollect.portability.dump import CannotCopy, find_restore_tools, load, prepare_database


def add(commands: Commands) -> None:
    """Add the arguments of `restore`."""
    parser = add_command(
        commands,
        "restore",
        about="Load a backup into an empty instance: everything or nothing. The file is verified "
        "before anything changes, the rows are counted before the commit, and the schema is then "
        "upgraded to this release. An instance that holds data is not changed.",
        example="recollect restore recollect.tar --data-dir /srv/recollect",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a file from `recollect backup`")
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Verify the file, then load it."""
    print_progress(f"checking {args.file}")
    backup = await asyncio.to_thread(open_backup, args.file)
    _refuse_other_versions(backup)
    async with open_database(settings, exclusive=True) as database:
        tools = find_restore_tools(database.bin_dir, settings.postgres_bin)
        print_progress(
            f"restoring {summarise_rows(backup.manifest.rows)}, backed up {backup.manifest.made_at}"
        )
        await load(
            backup.read(),
            database.url,
            tools,
            backup.manifest.schema,
            before=lambda db: _prepare_target(db, database, backup),
            after=lambda db: _compare(db, backup),
        )
        await migrate_and_analyze(database.url)
    print(f"restored {summarise_rows(backup.manifest.rows)}")
    return 0


def _refuse_other_versions(backup: Backup) -> None:
    """Raise `CannotCopy` for a backup whose database this version cannot migrate."""
    manifest = backup.manifest
    newest = max(each.number for each in migrations())
    is_squashed = manifest.migration_name is None and newest < manifest.migration <= LAST_SQUASHED
    if is_squashed and manifest.migration < LAST_SQUASHED:
        raise CannotCopy(
            f"`{backup.path}` was made by an older Recollect (migration {manifest.migration}). "
            f"Restore it with commit `{LAST_UNSQUASHED_COMMIT}`, run its `recollect migrate`, and "
            "make a new backup."
        )
    if manifest.migration > newest and not is_squashed:
        raise CannotCopy(
            f"`{backup.path}` was made by a newer Recollect ({manifest.recollect}, "
            f"migration {manifest.migration}). Upgrade first."
        )


async def _prepare_target(db: Db, database: Database, backup: Backup) -> None:
    manifest = backup.manifest
    await catalog.disable_row_security(db)
    existing = sorted(set(await catalog.tables(db)) & set(manifest.rows))
    rows = await catalog.count_rows(db, [name for name in existing if name != MIGRATION_TABLE])
    if sum(rows.values()):
        raise CannotCopy(
            f"This instance is not empty: it holds {summarise_rows(rows)}. It was not changed. "
            "Restore into another `--data-dir` or an empty database."
        )
    if existing and database.admin_url is None:
        # We drop tables only on the embedded server, where they are certainly ours.
        raise CannotCopy(
            f"The database already has Recollect tables (`{existing[0]}`). Restore into an empty "
            "database."
        )
    if existing:
        await catalog.drop_all(db)
    await prepare_database(db, schema=manifest.schema, vector_schema=manifest.vector_schema)


async def _compare(db: Db, backup: Backup) -> None:
    wanted = backup.manifest.rows
    if await catalog.count_rows(db, list(wanted)) != wanted:
        raise CannotCopy("Some rows of the backup were not restored. Nothing was changed.")
