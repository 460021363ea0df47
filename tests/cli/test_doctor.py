"""`recollect doctor`: no findings on a healthy instance, clear findings on a broken one."""

import asyncio
import json
import re
from pathlib import Path
from uuid import uuid4

import psycopg
from cli_support import recollect

from recollect.cli.doctor import Finding, examine
from recollect.core.settings import EmbeddingEndpoint, Settings, Upstream
from tests.support.database import TestDatabases
from tests.support.live_server import serve_chat_endpoint
from tests.support.serve_process import ServeProcess


def findings(settings: Settings) -> dict[str, Finding]:
    return {each.check: each for each in asyncio.run(examine(settings, Path("recollect.toml")))}


def run(url: str, statement: str) -> None:
    with psycopg.connect(url) as db:
        db.execute("SET recollect.reach = 'everywhere'")
        db.execute(statement.encode())


def test_a_running_instance_passes_every_check(instance: ServeProcess) -> None:
    healthy = recollect("doctor", "--data-dir", instance.data_dir)

    lines = [line.split() for line in healthy.out.splitlines()]
    assert (healthy.code, healthy.err) == (0, "")
    assert {line[0] for line in lines} == {"ok"}
    for part in ("postgres", "pgvector", "pg_trgm", "role", "migrations", "vectors", "clock"):
        assert part in [line[1] for line in lines]


def test_json_output_for_programs(instance: ServeProcess) -> None:
    result = recollect("doctor", "--json", "--data-dir", instance.data_dir)

    report = json.loads(result.out)
    assert (result.code, report["ok"]) == (0, True)
    [embedder] = [each for each in report["checks"] if each["check"] == "embedder"]
    assert embedder["state"] == "ok"
    assert "snowflake-arctic-embed-s at builtin, 384 dimensions" in embedder["says"]


def test_a_server_that_cannot_start_is_a_finding(restored: Path) -> None:
    (restored / "postgres" / "PG_VERSION").write_text("9\n")

    result = recollect("doctor", "--data-dir", restored)

    lines = result.out.splitlines()
    assert (result.code, result.err) == (1, "")
    assert [line for line in lines if line.startswith("FAIL")] == [
        line for line in lines if " database " in line
    ]
    assert "was made by PostgreSQL 9" in result.out
    assert "ok    embedder" in result.out  # the other checks still ran


def test_invalid_settings_are_a_finding() -> None:
    result = recollect("doctor", "--json", RECOLLECT_PROT="1")

    report = json.loads(result.out)
    assert (result.code, report["ok"]) == (1, False)
    [finding] = report["checks"]
    assert (finding["check"], finding["state"]) == ("settings", "FAIL")
    assert "`RECOLLECT_PROT` is not a Recollect setting" in finding["says"]


def test_doctor_does_not_create_a_missing_instance(workdir: Path) -> None:
    result = recollect("doctor", "--data-dir", workdir / "data")

    assert result.code == 0
    assert (
        f"warn  database        there is no Recollect data in {workdir / 'data'} yet" in result.out
    )
    assert list(workdir.iterdir()) == []


def test_S101_a_superuser_as_runtime_role_fails(databases: TestDatabases) -> None:
    url = databases.clone().replace("//recollect@", "//postgres@")

    role = findings(Settings(database_url=url))["role"]

    assert role.state == "FAIL"
    assert role.says == "`postgres` is SUPERUSER and BYPASSRLS and bypasses row-level security"


def test_S101_disabled_row_security_fails(databases: TestDatabases) -> None:
    url = databases.clone()
    run(url, "ALTER TABLE memory DISABLE ROW LEVEL SECURITY")
    run(url, "ALTER TABLE thread NO FORCE ROW LEVEL SECURITY")

    row_security = findings(Settings(database_url=url))["row security"]

    assert (row_security.state, row_security.says) == ("FAIL", "not forced on memory, thread")


def test_S101_every_start_warns_if_row_security_does_not_apply(databases: TestDatabases) -> None:
    url = databases.clone()
    run(url, "ALTER TABLE memory DISABLE ROW LEVEL SECURITY")

    as_owner = recollect("work", "--once", DATABASE_URL=url)
    as_superuser = recollect(
        "work", "--once", DATABASE_URL=url.replace("//recollect@", "//postgres@")
    )

    assert (as_owner.code, as_superuser.code) == (0, 0)
    for each in (as_owner, as_superuser):
        assert "database.row_security_is_off" in each.out + each.err
        assert "memory" in each.out + each.err
    assert "role_bypasses_row_security" not in as_owner.out + as_owner.err
    assert "role_bypasses_row_security" in as_superuser.out + as_superuser.err


def test_a_database_without_schema_needs_migrations(databases: TestDatabases) -> None:
    migrations = findings(Settings(database_url=databases.empty()))["migrations"]

    assert migrations.state == "warn"
    assert "`recollect migrate`" in (migrations.todo or "")


def test_a_database_of_an_old_pre_release_needs_that_release_first(
    databases: TestDatabases,
) -> None:
    url = databases.clone()
    run(url, "UPDATE migration SET name = '0001_foundation' WHERE number = 1")

    migrations = findings(Settings(database_url=url))["migrations"]

    assert migrations.state == "FAIL"
    assert "`recollect migrate` of commit" in (migrations.todo or "")


def test_missing_extensions_are_reported_with_the_command_to_run(databases: TestDatabases) -> None:
    url = databases.empty()
    run(url.replace("//recollect@", "//postgres@"), "DROP EXTENSION vector; DROP EXTENSION pg_trgm")

    report = findings(Settings(database_url=url))

    assert (report["pgvector"].state, report["pg_trgm"].state) == ("FAIL", "FAIL")
    assert "CREATE EXTENSION vector;" in (report["pgvector"].todo or "")


def test_an_unreachable_database_fails_without_showing_its_password() -> None:
    database = findings(Settings(database_url="postgresql://ada:s3cret@127.0.0.1:1/instance"))[
        "database"
    ]

    assert database.state == "FAIL"
    assert "Connection refused" in database.says
    assert "s3cret" not in f"{database}"


def test_failed_jobs_unknown_embedders_and_missing_vectors_are_reported(
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
            VALUES ('{workspace}', '{uuid4()}', 'fill_vectors', '', 'failed', now(), now());
        INSERT INTO memory (workspace_id, id, code, org_id, user_id, content, importance,
                importance_base, lifecycle, scope, origin, content_digest, created_at, updated_at)
            VALUES ('{workspace}', '{uuid4()}', 'abcdefghijklmnopqrstuvwx', '{org}', '{user}', 'a',
                0.5, 0.5, 'permanent', 'workspace', 'user', '', now(), now());
        """,
    )

    report = findings(Settings(database_url=url))

    assert (report["jobs"].state, report["jobs"].says) == ("warn", "1 failed")
    assert report["workspaces"].state == "FAIL"
    assert report["workspaces"].says == "`lab` uses the embedder `gone`, which is not configured"
    assert report["vectors"].state == "warn"
    assert report["vectors"].says == "1 of 1 memories have no vector yet"


def inbox_item(state: str, minutes: int, failure: str | None = None) -> str:
    """Insert a message to learn from, in a workspace of its own, so many minutes ago."""
    org, workspace = uuid4(), uuid4()
    done_at = "NULL" if state == "pending" else f"now() - interval '{minutes} minutes'"
    reason = f"'{failure}'" if failure else "NULL"
    return f"""
        INSERT INTO org (id, name) VALUES ('{org}', 'home');
        INSERT INTO workspace (id, org_id, name) VALUES ('{workspace}', '{org}', 'lab');
        INSERT INTO inbox_item (workspace_id, id, dedupe_key, source, org_id, user_id, text, digest,
                said_at, state, created_at, done_at, failure)
            VALUES ('{workspace}', '{uuid4()}', 'a', 'turn', '{org}', '{uuid4()}', 'a', '',
                now(), '{state}', now() - interval '{minutes} minutes', {done_at}, {reason});
        """


def test_learning_that_is_behind_warns(databases: TestDatabases) -> None:
    url = databases.clone()
    run(url, inbox_item("pending", 5))
    assert findings(Settings(database_url=url))["learning"].state == "ok"
    run(url, inbox_item("pending", 15))

    learning = findings(Settings(database_url=url))["learning"]

    assert learning.state == "warn"
    assert re.fullmatch(r"learning is behind by 2 messages since 20\S+Z", learning.says)
    assert "log" in (learning.todo or "")


def test_messages_that_the_model_refused_warn(databases: TestDatabases) -> None:
    url = databases.clone()
    run(url, inbox_item("done", 90, "An older one."))
    assert findings(Settings(database_url=url))["learning"].state == "ok"
    run(url, inbox_item("done", 10, "The chat model refused the request with status 400."))

    learning = findings(Settings(database_url=url))["learning"]

    assert learning.state == "warn"
    assert learning.says == (
        "1 message of the last hour was learnt by rule:"
        " The chat model refused the request with status 400."
    )


def test_an_unreachable_embedder_fails(databases: TestDatabases) -> None:
    unreachable = "http://127.0.0.1:1/v1"
    settings = Settings(
        database_url=databases.clone(),
        embedding_url=unreachable,
        embedding_model="big",
        embedders={"lab": EmbeddingEndpoint(unreachable, "small")},
    )

    report = findings(settings)

    assert (report["embedder"].state, report["embedder lab"].state) == ("FAIL", "FAIL")
    assert report["embedder"].says.startswith(f"big at {unreachable}/embeddings does not respond")
    assert report["workspaces"].state == "ok"


def test_a_chat_endpoint_must_list_its_models(databases: TestDatabases) -> None:
    url = databases.clone()
    with serve_chat_endpoint() as endpoint:
        endpoint.models, endpoint.key = ["small", "large"], "Bearer good"
        healthy, absent, unauthorized = (
            findings(
                Settings(database_url=url, chat_url=endpoint.url, chat_key=key, chat_model=model)
            )
            for key, model in (("good", "small"), ("good", "huge"), ("bad", "small"))
        )
    gone = findings(Settings(database_url=url, upstreams={"lab": Upstream(endpoint.url)}))

    assert healthy["chat"] == Finding("chat", "ok", f"small at {endpoint.url}, 2 listed")
    assert (absent["chat"].state, absent["chat"].todo) == ("warn", "it lists large, small")
    assert absent["chat"].says == f"{endpoint.url} does not list the model `huge`"
    assert unauthorized["chat"].state == gone["chat lab"].state == "FAIL"
    assert unauthorized["chat"].says.endswith("Status 401.")
    assert "chat" not in gone
    assert findings(Settings(database_url=url))["chat"].state == "ok"


def test_S101_an_address_beyond_this_machine_warns(databases: TestDatabases) -> None:
    address = findings(Settings(database_url=databases.clone(), host="0.0.0.0"))["address"]

    assert address.state == "warn"
    assert "https" in (address.todo or "")


def test_S101_S102_a_directory_that_others_can_enter_fails(workdir: Path) -> None:
    (workdir / "data").mkdir()
    (workdir / "data").chmod(0o755)

    directory = findings(Settings(data_dir=workdir / "data"))["data directory"]

    assert directory.state == "FAIL"
    assert directory.todo == f"chmod go-rwx {workdir / 'data'}"


def test_S101_a_settings_file_with_keys_readable_by_others_warns(
    workdir: Path, databases: TestDatabases
) -> None:
    file = workdir / "instance.toml"
    file.write_text("chat_key = 'secret'\n")
    file.chmod(0o644)

    settings = Settings(database_url=databases.clone(), chat_key="secret")
    report = {each.check: each for each in asyncio.run(examine(settings, file))}

    assert (report["settings file"].state, report["settings file"].todo) == (
        "warn",
        f"chmod 600 {file}",
    )
