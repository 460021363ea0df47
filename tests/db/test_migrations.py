"""Migrations: from empty, and from the last version before they were squashed.

`old_version/` holds what that version wrote: a dump of a database with a row in every table, a
backup and an export.
"""

import gzip
import re
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from recollect.core.errors import Conflict
from recollect.db.migrate import migrate, migrations, schema_state
from recollect.db.pool import connect
from recollect.embedded import find_binaries
from tests.support.database import TestDatabases

pytestmark = pytest.mark.anyio

OLD_VERSION = Path(__file__).parent / "old_version"
# Tables that `0002_plain_names.sql` renames.
RENAMED_TABLES = {
    "association": "memory_link",
    "hidden_call": "builtin_call",
    "lesson": "inbox_item",
    "memory_text": "memory_past_text",
    "word_census": "common_word_run",
    "word_tally": "keyword_total",
}


def load_old_database(databases: TestDatabases) -> str:
    """Return the URL of a database as the old version left it."""
    url = databases.direct_url(urlsplit(databases.empty()).path.removeprefix("/"))
    script = gzip.decompress((OLD_VERSION / "database.sql.gz").read_bytes())
    subprocess.run(
        [find_binaries(None) / "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--dbname", url],
        input=script,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return url


def schema_of(databases: TestDatabases, url: str) -> str:
    """Return the schema as `pg_dump` writes it, without what a dump and a reload change.

    That is the names of NOT NULL constraints, and parentheses in expressions.
    """
    name = urlsplit(url).path.removeprefix("/")
    dumped = subprocess.run(
        [
            find_binaries(None) / "pg_dump",
            *("--schema-only", "--no-owner"),
            *("--dbname", make_conninfo(databases.admin_url, dbname=name)),
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    dumped = re.sub(r"CONSTRAINT \w+_not_null\d* NOT NULL", "NOT NULL", dumped)
    return re.sub(r"^\\(?:un)?restrict .*$|[()]", "", dumped, flags=re.MULTILINE)


def row_counts(databases: TestDatabases, url: str) -> dict[str, int]:
    name = urlsplit(url).path.removeprefix("/")
    with psycopg.connect(databases.admin_url, dbname=name) as db:
        tables = db.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p')"
            " AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace"
        ).fetchall()
        counts = {
            str(table): db.execute(
                sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            ).fetchone()
            for (table,) in tables
        }
    return {table: row[0] for table, row in counts.items() if row and table != "migration"}


async def test_the_squashed_migration_makes_the_same_schema(databases: TestDatabases) -> None:
    old = load_old_database(databases)
    new = databases.direct_url(urlsplit(databases.empty()).path.removeprefix("/"))
    async with await connect(new) as db:
        await db.execute(
            "CREATE TABLE migration (number integer PRIMARY KEY, name text NOT NULL,"
            " digest text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        await db.execute(migrations()[0].text.encode())

    assert schema_of(databases, new) == schema_of(databases, old)


async def test_a_database_of_the_last_old_version_is_adopted(databases: TestDatabases) -> None:
    url = load_old_database(databases)
    before = row_counts(databases, url)
    assert min(before.values()) > 0
    messages: list[str] = []

    applied = await migrate(url, say=messages.append)

    assert applied == len(migrations()) - 1
    assert messages[0] == "adopting 0001_schema"
    after = row_counts(databases, url)
    assert after == {RENAMED_TABLES.get(table, table): count for table, count in before.items()}
    assert (await schema_state(url)).pending == []
    assert await migrate(url) == 0


async def test_an_adopted_database_has_the_schema_of_a_new_one(databases: TestDatabases) -> None:
    adopted = load_old_database(databases)
    await migrate(adopted)

    assert schema_of(databases, adopted) == schema_of(databases, databases.clone())


async def test_an_older_database_is_refused_with_advice(databases: TestDatabases) -> None:
    url = load_old_database(databases)
    with psycopg.connect(url) as db:
        db.execute("DELETE FROM migration WHERE number = 32")
    before = row_counts(databases, url)

    with pytest.raises(Conflict) as refused:
        await migrate(url)

    assert "`0031_tally_by_place`" in refused.value.message
    assert "`recollect migrate` of commit" in refused.value.message
    assert (await schema_state(url)).is_too_old
    assert row_counts(databases, url) == before


async def test_a_database_of_a_newer_version_is_refused(databases: TestDatabases) -> None:
    url = databases.clone()
    with psycopg.connect(databases.without_pgbouncer(url)) as db:
        db.execute("INSERT INTO migration (number, name, digest) VALUES (9000, 'future', 'x')")

    with pytest.raises(Conflict, match="A newer Recollect migrated this database"):
        await migrate(url)

    assert (await schema_state(url)).is_newer
