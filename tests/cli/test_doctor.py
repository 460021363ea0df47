"""`recollect doctor`: well beside a running house, and never speechless before a broken one."""

import asyncio
import json
from pathlib import Path
from uuid import uuid4

import psycopg
from cli_support import recollect

from recollect.cli.doctor import Finding, examine
from recollect.settings import Endpoint, Settings, Upstream
from tests.support.database import TestDatabases
from tests.support.live import speaking
from tests.support.running import Running


def found(settings: Settings) -> dict[str, Finding]:
    return {each.check: each for each in asyncio.run(examine(settings, Path("recollect.toml")))}


def run(url: str, statement: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("SET recollect.reach = 'everywhere'")
        db.execute(statement.encode())


def test_a_running_house_is_well(house: Running) -> None:
    well = recollect("doctor", "--data-dir", house.data_dir)

    lines = [line.split() for line in well.out.splitlines()]
    assert (well.code, well.err) == (0, "")
    assert {line[0] for line in lines} == {"ok"}
    for part in ("postgres", "pgvector", "pg_trgm", "role", "migrations", "vectors", "clock"):
        assert part in [line[1] for line in lines]


def test_for_programs_it_speaks_json(house: Running) -> None:
    told = recollect("doctor", "--json", "--data-dir", house.data_dir)

    report = json.loads(told.out)
    assert (told.code, report["ok"]) == (0, True)
    [embedder] = [each for each in report["checks"] if each["check"] == "embedder"]
    assert embedder["state"] == "ok"
    assert "snowflake-arctic-embed-s at builtin, 384 dimensions" in embedder["says"]


def test_a_house_whose_server_cannot_start_is_a_finding(restored: Path) -> None:
    (restored / "postgres" / "PG_VERSION").write_text("9\n")

    told = recollect("doctor", "--data-dir", restored)

    lines = told.out.splitlines()
    assert (told.code, told.err) == (1, "")
    assert [line for line in lines if line.startswith("FAIL")] == [
        line for line in lines if " database " in line
    ]
    assert "was made by PostgreSQL 9" in told.out
    assert "ok    embedder" in told.out  # the rest was looked at all the same


def test_settings_that_cannot_be_read_are_a_finding() -> None:
    told = recollect("doctor", "--json", RECOLLECT_PROT="1")

    report = json.loads(told.out)
    assert (told.code, report["ok"]) == (1, False)
    [finding] = report["checks"]
    assert (finding["check"], finding["state"]) == ("settings", "FAIL")
    assert "`RECOLLECT_PROT` is no setting of Recollect" in finding["says"]


def test_where_nothing_is_yet_nothing_is_made(desk: Path) -> None:
    told = recollect("doctor", "--data-dir", desk / "data")

    assert told.code == 0
    assert f"warn  database        there is no house in {desk / 'data'} yet" in told.out
    assert list(desk.iterdir()) == []


def test_S101_a_superuser_as_runtime_role_fails(databases: TestDatabases) -> None:
    url = databases.clone().replace("//recollect@", "//postgres@")

    role = found(Settings(database_url=url))["role"]

    assert role.state == "FAIL"
    assert role.says == (
        "`postgres` is SUPERUSER and BYPASSRLS: row-level security does not bind it"
    )


def test_S101_row_security_that_is_off_fails(databases: TestDatabases) -> None:
    url = databases.clone()
    run(url, "ALTER TABLE memory DISABLE ROW LEVEL SECURITY")
    run(url, "ALTER TABLE thread NO FORCE ROW LEVEL SECURITY")

    row_security = found(Settings(database_url=url))["row security"]

    assert (row_security.state, row_security.says) == ("FAIL", "not forced on memory, thread")


def test_a_database_without_schema_wants_migrations(databases: TestDatabases) -> None:
    migrations = found(Settings(database_url=databases.empty()))["migrations"]

    assert migrations.state == "warn"
    assert "`recollect migrate`" in (migrations.todo or "")


def test_a_database_without_extensions_says_what_to_run(databases: TestDatabases) -> None:
    url = databases.empty()
    run(url.replace("//recollect@", "//postgres@"), "DROP EXTENSION vector; DROP EXTENSION pg_trgm")

    report = found(Settings(database_url=url))

    assert (report["pgvector"].state, report["pg_trgm"].state) == ("FAIL", "FAIL")
    assert "CREATE EXTENSION vector;" in (report["pgvector"].todo or "")


def test_a_database_that_does_not_answer_fails_without_its_password() -> None:
    database = found(Settings(database_url="postgresql://ada:s3cret@127.0.0.1:1/house"))["database"]

    assert database.state == "FAIL"
    assert "Connection refused" in database.says
    assert "s3cret" not in f"{database}"


def test_buried_jobs_lost_embedders_and_missing_vectors_are_seen(
    databases: TestDatabases,
) -> None:
    url = databases.clone()
    org, workspace, user = (uuid4() for _ in range(3))
    run(
        url,
        f"""
        INSERT INTO org (id, name) VALUES ('{org}', 'home');
        INSERT INTO app_user (id, org_id, login) VALUES ('{user}', '{org}', 'ada');
        INSERT INTO workspace (id, org_id, name, embedder)
            VALUES ('{workspace}', '{org}', 'lab', 'gone');
        INSERT INTO job (workspace_id, id, kind, dedupe_key, status, run_after, created_at)
            VALUES ('{workspace}', '{uuid4()}', 'tend_vectors', '', 'buried', now(), now());
        INSERT INTO memory (workspace_id, id, code, org_id, user_id, content, importance,
                importance_base, lifecycle, scope, origin, content_digest, created_at, updated_at)
            VALUES ('{workspace}', '{uuid4()}', 'abcdefghijklmnopqrstuvwx', '{org}', '{user}', 'a',
                0.5, 0.5, 'permanent', 'workspace', 'user', '', now(), now());
        """,
    )

    report = found(Settings(database_url=url))

    assert (report["jobs"].state, report["jobs"].says) == ("warn", "1 buried")
    assert report["workspaces"].state == "FAIL"
    assert report["workspaces"].says == "`lab` names the embedder `gone`, which is not configured"
    assert report["vectors"].state == "warn"
    assert report["vectors"].says == "1 of 1 memories have none yet"


def test_an_embedder_that_does_not_answer_fails(databases: TestDatabases) -> None:
    silent = "http://127.0.0.1:1/v1"
    settings = Settings(
        database_url=databases.clone(),
        embedding_url=silent,
        embedding_model="big",
        embedders={"lab": Endpoint(silent, "small")},
    )

    report = found(settings)

    assert (report["embedder"].state, report["embedder lab"].state) == ("FAIL", "FAIL")
    assert report["embedder"].says.startswith(f"big at {silent}/embeddings does not answer")
    assert report["workspaces"].state == "ok"


def test_a_chat_endpoint_is_asked_for_its_models(databases: TestDatabases) -> None:
    url = databases.clone()
    with speaking() as endpoint:
        endpoint.models, endpoint.key = ["small", "large"], "Bearer good"
        well, absent, barred = (
            found(Settings(database_url=url, chat_url=endpoint.url, chat_key=key, chat_model=model))
            for key, model in (("good", "small"), ("good", "huge"), ("bad", "small"))
        )
    gone = found(Settings(database_url=url, upstreams={"lab": Upstream(endpoint.url)}))

    assert well["chat"] == Finding("chat", "ok", f"small at {endpoint.url}, 2 listed")
    assert (absent["chat"].state, absent["chat"].todo) == ("warn", "it lists large, small")
    assert absent["chat"].says == f"{endpoint.url} does not list the model `huge`"
    assert barred["chat"].state == gone["chat lab"].state == "FAIL"
    assert barred["chat"].says.endswith("Status 401.")
    assert "chat" not in gone
    assert found(Settings(database_url=url))["chat"].state == "ok"


def test_S101_an_address_beyond_this_machine_warns(databases: TestDatabases) -> None:
    address = found(Settings(database_url=databases.clone(), host="0.0.0.0"))["address"]

    assert address.state == "warn"
    assert "https" in (address.todo or "")


def test_a_directory_that_others_can_enter_fails(desk: Path) -> None:
    (desk / "data").mkdir()
    (desk / "data").chmod(0o755)

    directory = found(Settings(data_dir=desk / "data"))["data directory"]

    assert directory.state == "FAIL"
    assert directory.todo == f"chmod go-rwx {desk / 'data'}"


def test_a_settings_file_with_keys_that_others_can_read_warns(
    desk: Path, databases: TestDatabases
) -> None:
    file = desk / "house.toml"
    file.write_text("chat_key = 'secret'\n")
    file.chmod(0o644)

    settings = Settings(database_url=databases.clone(), chat_key="secret")
    report = {each.check: each for each in asyncio.run(examine(settings, file))}

    assert (report["settings file"].state, report["settings file"].todo) == (
        "warn",
        f"chmod 600 {file}",
    )
