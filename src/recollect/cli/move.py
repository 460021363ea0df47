"""`recollect move`: from the house as it is to an empty external PostgreSQL."""

import argparse
import asyncio
from collections.abc import Mapping
from functools import partial
from time import monotonic

from psycopg.conninfo import conninfo_to_dict

from recollect.cli.arguments import Commands, add_command
from recollect.cli.backup import say, settle, spoken, tables_of
from recollect.cli.houses import refuse_absent
from recollect.cli.urls import database_url, shown
from recollect.compose import data_dir, open_database
from recollect.dumps import CannotCopy, dump, find_tools, load, make_ready, open_snapshot
from recollect.errors import Unavailable
from recollect.settings import Settings
from recollect.store import catalogue
from recollect.store.pool import Db, connect

_LINGER_SECONDS = 2.0  # a connection that was closed is still listed for a moment


def add(commands: Commands) -> None:
    """Add the arguments of `move`."""
    parser = add_command(
        commands,
        "move",
        about="Copy everything to an empty database of an external PostgreSQL (17 or newer, with "
        "pgvector 0.8 or newer), compare every table's content, and say what to set next. Servers "
        "and workers must be stopped, so that nothing said meanwhile is lost. What is here stays "
        "untouched. Leave the password out of the address and put it in PGPASSWORD or ~/.pgpass "
        "where others can see your commands.",
        example="recollect move --to postgresql://recollect@db.example.com/recollect",
    )
    parser.add_argument(
        "--to", type=database_url, required=True, metavar="DATABASE_URL", help="where to"
    )
    parser.set_defaults(run=run)


async def run(settings: Settings, asked: argparse.Namespace) -> int:
    """Copy, compare, and say what to do next."""
    target: str = asked.to
    if settings.database_url and _place(settings.database_url) == _place(target):
        raise CannotCopy("That is the database in use already.")
    refuse_absent(settings)
    async with open_database(settings, exclusive=True) as source:
        url = source.admin_url or source.url
        await _refuse_company(url)
        await _refuse_silence(target)
        async with open_snapshot(url) as snapshot:
            tools = find_tools(source.bin_dir, settings.postgres_bin, snapshot)
            names = await tables_of(snapshot)
            rows = await catalogue.count_rows(snapshot.db, names)
            say(f"moving {spoken(rows)}")
            contents = await catalogue.contents(snapshot.db, names)
            vector_schema = snapshot.facts.vector_schema or snapshot.schema
            await load(
                dump(snapshot, tools, compress=False),
                target,
                tools,
                snapshot.schema,
                before=partial(
                    _make_room, names=names, schema=snapshot.schema, vector_schema=vector_schema
                ),
                after=partial(_compare, contents=contents),
            )
        await settle(target)
    where = "the database before" if settings.database_url else f"{data_dir(settings)}"
    print(
        f"moved {spoken(rows)}; every table has the same content\n\n"
        f"Next, wherever Recollect runs:\n"
        f"  export DATABASE_URL='{shown(target)}'\n"
        f"  recollect doctor\n\n"
        f"Untouched: {where}. Do not serve it again: what it is told from now on stays there."
    )
    return 0


async def _refuse_company(url: str) -> None:
    async with await connect(url) as db:
        end = monotonic() + _LINGER_SECONDS
        while others := await catalogue.other_connections(db):
            if monotonic() > end:
                raise CannotCopy(
                    f"{others} other connections use this database. Stop every `recollect serve`, "
                    "`recollect work` and pooler on it: what they write after the copy is lost."
                )
            await asyncio.sleep(_LINGER_SECONDS / 20)


async def _refuse_silence(target: str) -> None:
    try:
        async with await connect(target):
            pass
    except Unavailable as error:
        said = str(error.__cause__).strip().split("\n", 1)[0]
        raise CannotCopy(f"`{shown(target)}` does not answer: {said}.") from None


async def _make_room(db: Db, *, names: list[str], schema: str, vector_schema: str) -> None:
    there = sorted(set(await catalogue.tables(db)) & set(names))
    if there:
        raise CannotCopy(
            f"The target is not empty: it has a table `{there[0]}`. It was left as it is. "
            "Name an empty database."
        )
    await make_ready(db, schema=schema, vector_schema=vector_schema)


async def _compare(db: Db, *, contents: Mapping[str, str]) -> None:
    say("comparing every table")
    found = await catalogue.contents(db, list(contents))
    wrong = [name for name, content in contents.items() if found[name] != content]
    if wrong:
        raise CannotCopy(f"`{wrong[0]}` differs from its original. Nothing was kept there.")


def _place(url: str) -> tuple[object, ...]:
    parts = conninfo_to_dict(url)
    return tuple(str(parts.get(name) or "") for name in ("host", "port", "dbname"))
