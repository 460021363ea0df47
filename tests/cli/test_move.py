"""`recollect move`: the same house on another PostgreSQL, or a clear word why not."""

import asyncio
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from cli_support import FASTER, answers, contents, recollect
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from recollect.embedded import attach
from recollect.store import catalogue
from recollect.store.pool import connect
from tests.support.database import TestDatabases
from tests.support.running import Running


@pytest.fixture
def bare_url(databases: TestDatabases) -> str:
    """A database without extensions, owned by an ordinary role."""
    name = f"bare_{uuid4().hex[:12]}"
    with psycopg.connect(databases.admin_url, autocommit=True) as db:
        role, database = sql.Identifier(name), sql.Identifier(name)
        db.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
        db.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(database, role))
    host = quote(str(conninfo_to_dict(databases.admin_url)["host"]), safe="")
    return f"postgresql://{name}@/{name}?host={host}"


@pytest.mark.slow
def test_a_house_moves_to_another_server_and_answers_the_same(
    house: Running, restored: Path, databases: TestDatabases
) -> None:
    target = databases.empty()
    with attach(restored) as held:
        before = contents(held.url)

    moved = recollect("move", "--to", target, "--data-dir", restored)

    assert moved.code == 0, moved.err
    assert f"export DATABASE_URL='{target}'" in moved.out
    assert f"Untouched: {restored}. Do not serve it again" in moved.out
    with attach(restored) as held:
        assert contents(held.url) == before
    assert contents(target) == before
    assert asyncio.run(_unprotected(target)) == []
    assert _answers(house, restored) == _answers(house, restored, DATABASE_URL=target)


async def _unprotected(url: str) -> list[str]:
    async with await connect(url) as db:
        return await catalogue.unprotected_tables(db)


def _answers(house: Running, data_dir: Path, **environment: str) -> list[object]:
    served = Running(data_dir, **FASTER, **environment)
    served.key = house.key
    served.start()
    found = answers(served)
    assert served.stop() == 0
    return found


def test_nothing_moves_while_it_is_served(house: Running, databases: TestDatabases) -> None:
    refused = recollect("move", "--to", databases.empty(), "--data-dir", house.data_dir)

    assert (refused.code, refused.out) == (1, "")
    assert f"`recollect serve` already runs on `{house.data_dir}`" in refused.err


def test_nothing_moves_while_a_worker_or_a_command_is_connected(
    restored: Path, databases: TestDatabases
) -> None:
    target = databases.empty()

    with attach(restored) as held, psycopg.connect(held.url):
        refused = recollect("move", "--to", target, "--data-dir", restored)

    assert (refused.code, refused.out) == (1, "")
    assert "1 other connections use this database. Stop every `recollect serve`" in refused.err
    assert contents(target) == {}


def test_a_target_without_extensions_is_told_what_its_dba_must_run(
    restored: Path, bare_url: str
) -> None:
    refused = recollect("move", "--to", bare_url, "--data-dir", restored)

    assert refused.code == 1
    assert "CREATE EXTENSION vector; CREATE EXTENSION pg_trgm;" in refused.err
    assert contents(bare_url) == {}


def test_a_target_that_is_in_use_is_left_alone(restored: Path, databases: TestDatabases) -> None:
    target = databases.clone()
    before = contents(target)

    refused = recollect("move", "--to", target, "--data-dir", restored)

    assert refused.code == 1
    assert "The target is not empty: it has a table `agent`" in refused.err
    assert contents(target) == before


def test_a_target_where_we_may_create_nothing_is_told_what_to_grant(
    restored: Path, bare_url: str, databases: TestDatabases
) -> None:
    role = str(conninfo_to_dict(bare_url)["user"])
    foreign = databases.empty().replace("//recollect@", f"//{role}@")

    refused = recollect("move", "--to", foreign, "--data-dir", restored)

    assert refused.code == 1
    assert f'GRANT CREATE ON SCHEMA "public" TO "{role}";' in refused.err


def test_a_target_that_does_not_answer_is_named_without_its_password(restored: Path) -> None:
    refused = recollect(
        "move", "--to", "postgresql://ada:s3cret@127.0.0.1:1/house", "--data-dir", restored
    )

    assert (refused.code, refused.out) == (1, "")
    assert "`postgresql://ada:***@127.0.0.1:1/house` does not answer: " in refused.err
    assert "s3cret" not in refused.err


def test_a_house_is_not_moved_onto_itself(databases: TestDatabases) -> None:
    url = databases.clone()

    refused = recollect("move", "--to", url, DATABASE_URL=url)

    assert (refused.code, refused.err) == (1, "recollect: That is the database in use already.\n")
