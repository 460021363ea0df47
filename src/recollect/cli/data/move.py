"""`recollect move`: copy everything to an empty external PostgreSQL database."""

import argparse
import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic

from psycopg.conninfo import conninfo_to_dict

from recollect.cli.arguments import Commands, add_command
from recollect.cli.data.backup import (
    list_tables,
    migrate_and_analyze,
    print_progress,
    summarise_rows,
)
from recollect.cli.tenants.common import require_existing_data
from recollect.cli.urls import database_url, hide_password
from recollect.compose import data_dir, open_database
from recollect.core.errors import Unavailable
from recollect.core.settings import Settings
from recollect.db import catalog
from recollect.db.pool import Db, connect
from recollect.portability.dump import (
    CannotCopy,
    dump,
    find_tools,
    load,
    open_snapshot,
    prepare_database,
)

_DISCONNECT_SECONDS = 2.0  # PostgreSQL lists a closed connection for a moment longer


def add(commands: Commands) -> None:
    """Add the arguments of `move`."""
    parser = add_command(
        commands,
        "move",
        about="Copy everything to an empty database of an external PostgreSQL (17 or newer, with "
        "pgvector 0.8 or newer), compare the content of every table, and print the next steps. "
        "Stop servers and workers first: data written during the copy would be lost. The source "
        "is not changed. If others can see your commands, leave the password out of the address "
        "and put it in PGPASSWORD or ~/.pgpass.",
        example="recollect move --to postgresql://recollect@db.example.com/recollect",
    )
    parser.add_argument(
        "--to", type=database_url, required=True, metavar="DATABASE_URL", help="the target database"
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, args: argparse.Namespace) -> int:
    """Copy everything, compare it, and print the next steps."""
    target: str = args.to
    if settings.database_url and _address(settings.database_url) == _address(target):
        raise CannotCopy("`--to` names the database that is already in use.")
    require_existing_data(settings)
    async with open_database(settings, exclusive=True) as source:
        url = source.admin_url or source.url
        await _refuse_other_connections(url)
        await _check_reachable(target)
        async with open_snapshot(url) as snapshot:
            tools = find_tools(source.bin_dir, settings.postgres_bin, snapshot)
            names = await list_tables(snapshot)
            rows = await catalog.count_rows(snapshot.db, names)
            print_progress(f"moving {summarise_rows(rows)}")
            contents = await catalog.contents(snapshot.db, names)
            vector_schema = snapshot.facts.vector_schema or snapshot.schema
            await load(
                dump(snapshot, tools, compress=False),
                target,
                tools,
                snapshot.schema,
                before=partial(
                    _prepare_target,
                    names=names,
                    schema=snapshot.schema,
                    vector_schema=vector_schema,
                ),
                after=partial(_compare, contents=contents),
            )
        await migrate_and_analyze(target)
    source_name = "the old database" if settings.database_url else f"{data_dir(settings)}"
    print(
        f"moved {summarise_rows(rows)}; all tables have the same content\n\n"
        f"Next, on every machine that runs Recollect:\n"
        f"  export DATABASE_URL='{hide_password(target)}'\n"
        f"  recollect doctor\n\n"
        f"Not changed: {source_name}. Do not start a server on it again: new data would not reach "
        "the new database."
    )
    return 0


async def _refuse_other_connections(url: str) -> None:
    async with await connect(url) as db:
        end = monotonic() + _DISCONNECT_SECONDS
        while others := await catalog.other_connections(db):
            if monotonic() > end:
                raise CannotCopy(
                    f"{others} other connections use this database. Stop every `recollect serve`, "
                    "`recollect work` and connection pooler that uses it: data they write after "
                    "the copy would be lost."
                )
            await asyncio.sleep(_DISCONNECT_SECONDS / 20)


async def _check_reachable(target: str) -> None:
    try:
        async with await connect(target):
            pass
    except Unavailable as error:
        reason = str(error.__cause__).strip().split("\n", 1)[0]
        raise CannotCopy(f"Cannot connect to `{hide_password(target)}`: {reason}.") from None


async def _prepare_target(db: Db, *, names: list[str], schema: str, vector_schema: str) -> None:
    existing = sorted(set(await catalog.tables(db)) & set(names))
    if existing:
        raise CannotCopy(
            f"The target is not empty: it has a table `{existing[0]}`. It was not changed. "
            "Use an empty database."
        )
    await prepare_database(db, schema=schema, vector_schema=vector_schema)


async def _compare(db: Db, *, contents: Mapping[str, str]) -> None:
    print_progress("comparing every table")
    found = await catalog.contents(db, list(contents))
    wrong = [name for name, content in contents.items() if found[name] != content]
    if wrong:
        raise CannotCopy(
            f"The copy of table `{wrong[0]}` differs from the original. The copy was undone."
        )


def _address(url: str) -> tuple[object, ...]:
    parts = conninfo_to_dict(url)
    return tuple(str(parts.get(name) or "") for name in ("host", "port", "dbname"))
