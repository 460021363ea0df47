"""`recollect move`: the same data on another PostgreSQL, or a clear error."""

import asyncio
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import psycopg
import pytest
from cli_support import FASTER, answers, contents, recollect
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from recollect.db import catalog
from recollect.db.pool import connect
from recollect.embedded import attach
from tests.support.database import TestDatabases
from tests.support.serve_process import ServeProcess


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
def test_an_instance_responds_the_same_after_a_move(
    instance: ServeProcess, restored: Path, databases: TestDatabases
) -> None:
    target = databases.empty()
    with attach(restored) as attached:
        before = contents(attached.url)

    moved = recollect("move", "--to", target, "--data-dir", restored)

    assert moved.code == 0, moved.err
    assert f"export DATABASE_URL='{target}'" in moved.out
    assert f"Not changed: {restored}. Do not start a server on it again" in moved.out
    with attach(restored) as attached:
        assert contents(attached.url) == before
    assert contents(target) == before
    assert asyncio.run(_unprotected(target)) == []
    assert _answers(instance, restored) == _answers(instance, restored, DATABASE_URL=target)


async def _unprotected(url: str) -> list[str]:
    async with await connect(url) as db:
        return await catalog.unprotected_tables(db)


def _answers(instance: ServeProcess, data_dir: Path, **environment: str) -> list[object]:
    served = ServeProcess(data_dir, **FASTER, **environment)
    served.key = instance.key
    served.start()
    found = answers(served)
    assert served.stop() == 0
    return found


def test_a_served_instance_cannot_be_moved(
    instance: ServeProcess, databases: TestDatabases
) -> None:
    refused = recollect("move", "--to", databases.empty(), "--data-dir", instance.data_dir)

    assert (refused.code, refused.out) == (1, "")
    assert f"`recollect serve` already runs on `{instance.data_dir}`" in refused.err


def test_an_instance_with_open_connections_cannot_be_moved(
    restored: Path, databases: TestDatabases
) -> None:
    target = databases.empty()

    with attach(restored) as attached, psycopg.connect(attached.url):
        refused = recollect("move", "--to", target, "--data-dir", restored)

    assert (refused.code, refused.out) == (1, "")
    assert "1 other connections use this database. Stop every `recollect serve`" in refused.err
    assert contents(target) == {}


def test_missing_extensions_of_the_target_are_reported_with_the_command(
    restored: Path, bare_url: str
) -> None:
    refused = recollect("move", "--to", bare_url, "--data-dir", restored)

    assert refused.code == 1
    assert "CREATE EXTENSION vector; CREATE EXTENSION pg_trgm;" in refused.err
    assert contents(bare_url) == {}


def test_a_target_with_data_is_not_changed(restored: Path, databases: TestDatabases) -> None:
    target = databases.clone()
    before = contents(target)

    refused = recollect("move", "--to", target, "--data-dir", restored)

    assert refused.code == 1
    assert "The target is not empty: it has a table `agent`" in refused.err
    assert contents(target) == before


def test_missing_rights_on_the_target_are_reported_with_the_grant(
    restored: Path, bare_url: str, databases: TestDatabases
) -> None:
    role = str(conninfo_to_dict(bare_url)["user"])
    foreign = databases.empty().replace("//recollect@", f"//{role}@")

    refused = recollect("move", "--to", foreign, "--data-dir", restored)

    assert refused.code == 1
    assert f'GRANT CREATE ON SCHEMA "public" TO "{role}";' in refused.err


def test_an_unreachable_target_is_reported_without_its_password(restored: Path) -> None:
    refused = recollect(
        "move", "--to", "postgresql://ada:s3cret@127.0.0.1:1/instance", "--data-dir", restored
    )

    assert (refused.code, refused.out) == (1, "")
    assert "Cannot connect to `postgresql://ada:***@127.0.0.1:1/instance`: " in refused.err
    assert "s3cret" not in refused.err


def test_an_instance_cannot_be_moved_onto_itself(databases: TestDatabases) -> None:
    url = databases.clone()

    refused = recollect("move", "--to", url, DATABASE_URL=url)

    assert (refused.code, refused.err) == (
        1,
        "recollect: `--to` names the database that is already in use.\n",
    )
