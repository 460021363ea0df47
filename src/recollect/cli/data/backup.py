"""`recollect backup`: write the whole database into one file."""

import argparse
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from time import monotonic

from recollect import __version__
from recollect.cli.arguments import Commands, add_command
from recollect.cli.tenants.common import require_existing_data
from recollect.compose import open_database
from recollect.core.domain import utc_now
from recollect.core.settings import Settings
from recollect.db import catalog
from recollect.db.migrate import migrate
from recollect.db.pool import connect
from recollect.portability.backup_file import FORMAT, BackupWriter, Manifest, refuse_existing
from recollect.portability.dump import (
    CannotCopy,
    Snapshot,
    count_dumped,
    dump,
    find_tools,
    open_snapshot,
)

_PROGRESS_SECONDS = 2.0

# Every migrated database has this table, even if it holds no data.
MIGRATION_TABLE = "migration"


def add(commands: Commands) -> None:
    """Add the arguments of `backup`."""
    parser = add_command(
        commands,
        "backup",
        about="Write everything into one file: a consistent snapshot of the database, also while "
        "a server is running. The file appears under its final name once it is complete and "
        "verified. It contains private data; only you can read it.",
        example="recollect backup                         recollect-20270131-020000.tar, here\n"
        "recollect backup /backups/recollect.tar  at a path you choose",
    )
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the file to write")
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Write the backup and print the name of its file."""
    target: Path = args.file or Path(f"recollect-{datetime.now():%Y%m%d-%H%M%S}.tar")  # noqa: DTZ005 - file names use local time
    refuse_existing(target, replace=args.force)
    require_existing_data(settings)
    with _create_file(target) as file:
        async with (
            open_database(settings) as database,
            open_snapshot(database.admin_url or database.url) as snapshot,
        ):
            tools = find_tools(database.bin_dir, settings.postgres_bin, snapshot)
            rows = await _count(snapshot)
            print_progress(f"backing up {summarise_rows(rows)}")
            await _copy(snapshot, tools, file)
            manifest = await _manifest(snapshot, rows, file)
        print_progress("checking the file")
        if await count_dumped(file.read(), tools, snapshot.schema) != rows:
            raise CannotCopy(
                "The dump lacks rows of the database, so the file was removed. Try again."
            )
        file.finish(manifest, replace=args.force)
    print_progress(f"{file.dump_bytes:,} bytes, {summarise_rows(rows)}")
    print(target)
    return 0


def summarise_rows(rows: Mapping[str, int]) -> str:
    """Return the number of memories, threads and rows as text."""
    memories, threads = rows.get("memory", 0), rows.get("thread", 0)
    return f"{memories:,} memories, {threads:,} threads, {sum(rows.values()):,} rows in total"


async def migrate_and_analyze(url: str) -> None:
    """Upgrade a loaded database to this release's schema and collect planner statistics."""
    await migrate(url, say=print_progress)
    async with await connect(url) as db:
        await catalog.analyze(db)


async def list_tables(snapshot: Snapshot) -> list[str]:
    """Return the tables to copy; raise `CannotCopy` if the database has none of Recollect's."""
    names = await catalog.tables(snapshot.db)
    if MIGRATION_TABLE not in names:
        raise CannotCopy(f"The database `{snapshot.facts.database}` has no Recollect tables.")
    return names


async def _count(snapshot: Snapshot) -> dict[str, int]:
    return await catalog.count_rows(snapshot.db, await list_tables(snapshot))


def _create_file(target: Path) -> BackupWriter:
    try:
        return BackupWriter(target)
    except OSError as error:
        raise CannotCopy(f"`{target}` cannot be written: {error.strerror}.") from error


async def _copy(snapshot: Snapshot, tools: Path, file: BackupWriter) -> None:
    reported_at = monotonic()
    async for piece in dump(snapshot, tools, compress=True):
        file.write(piece)
        if monotonic() > reported_at + _PROGRESS_SECONDS:
            reported_at = monotonic()
            print_progress(f"{file.dump_bytes:,} bytes written")


async def _manifest(snapshot: Snapshot, rows: Mapping[str, int], file: BackupWriter) -> Manifest:
    migration, migration_name = await catalog.newest_migration(snapshot.db)
    return Manifest(
        format=FORMAT,
        recollect=__version__,
        made_at=f"{utc_now():%Y-%m-%d %H:%M:%S} UTC",
        postgres=snapshot.facts.version,
        migration=migration,
        migration_name=migration_name,
        schema=snapshot.schema,
        vector_schema=snapshot.facts.vector_schema or snapshot.schema,
        dump_bytes=file.dump_bytes,
        dump_sha256=file.dump_sha256,
        rows=rows,
    )


def print_progress(text: str) -> None:
    """Print progress on standard error; standard output is for results."""
    print(text, file=sys.stderr, flush=True)
