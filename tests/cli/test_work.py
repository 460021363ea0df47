"""`recollect jobs`, `recollect work --once`, `recollect reembed` and `recollect migrate`."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from cli_support import recollect

from recollect.embedded import attach
from tests.models.stub_endpoint import StubEndpoint
from tests.support.live_server import serve_app

KIND = "fill_vectors"


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as db:
        cursor = db.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def failed_job(restored: Path) -> str:
    """The id of a failed job."""
    job = str(uuid4())
    with attach(restored) as attached:
        run(
            attached.admin_url,
            f"""
            DELETE FROM job;
            INSERT INTO job (workspace_id, id, kind, dedupe_key, status, attempts, run_after,
                             last_error, created_at)
            SELECT id, '{job}', '{KIND}', '', 'failed', 5, now(), 'ValueError at x.py:1', now()
            FROM workspace
            """,
        )
    return job


@pytest.mark.slow
def test_a_failed_job_is_listed_retried_and_done(restored: Path, failed_job: str) -> None:
    shown = recollect("jobs", "list", "--status", "failed", "--data-dir", restored)
    retried = recollect("jobs", "retry", failed_job, "--data-dir", restored)
    done = recollect("work", "--once", "--data-dir", restored)
    after = recollect("jobs", "--data-dir", restored, "list")

    assert shown.out.startswith(f"{failed_job}  failed   {KIND}     try 5  due 20")
    assert shown.out.endswith("  ValueError at x.py:1\n")
    assert (retried.code, retried.out) == (0, "1 jobs will be retried\n")
    assert (done.code, done.out) == (0, "1 jobs done\n")
    assert after.out.startswith(f"{failed_job}  done     {KIND}     try 1  due 20")


def test_without_failed_jobs_nothing_is_retried(restored: Path) -> None:
    retried = recollect("jobs", "retry", "--data-dir", restored)
    shown = recollect("jobs", "list", "--status", "failed", "--data-dir", restored)

    assert (retried.code, retried.out) == (0, "0 jobs will be retried\n")
    assert (shown.code, shown.out) == (0, "no jobs\n")


def test_listing_jobs_does_not_create_a_missing_instance(workdir: Path) -> None:
    shown = recollect("jobs", "list", "--data-dir", workdir / "data")

    assert (shown.code, shown.out) == (1, "")
    assert "create a new instance with `recollect serve`" in shown.err
    assert not (workdir / "data").exists()


def test_a_second_migration_has_nothing_to_do(restored: Path) -> None:
    again = recollect("migrate", "--data-dir", restored)

    assert (again.code, again.out) == (0, "already up to date\n")


@pytest.fixture
def endpoint() -> Iterator[StubEndpoint]:
    """An embeddings endpoint with another model."""
    stub = StubEndpoint()
    with serve_app(stub) as url:
        stub.url = f"{url}/v1"
        yield stub


def test_a_new_model_fills_a_new_generation_and_switches_to_it(
    restored: Path, endpoint: StubEndpoint
) -> None:
    changed = recollect(
        "reembed",
        "--data-dir",
        restored,
        RECOLLECT_EMBEDDING_URL=endpoint.url,
        RECOLLECT_EMBEDDING_MODEL="other",
    )

    assert changed.code == 0, changed.err
    assert changed.out.splitlines()[-1] == "complete"
    with attach(restored) as attached:
        [(total,)] = run(attached.admin_url, "SELECT count(*) FROM memory WHERE deleted_at IS NULL")
        [serving] = run(
            attached.admin_url,
            """
            SELECT g.model, g.dimension, count(v.memory_id)
            FROM generation g
            LEFT JOIN memory_vector v
                ON v.workspace_id = g.workspace_id AND v.generation = g.number
            WHERE g.state = 'serving'
            GROUP BY g.model, g.dimension
            """,
        )
    assert serving == ("other", 8, total)
    assert changed.out.splitlines()[-2] == f"serving  other: {total} of {total}"


def test_an_unreachable_model_leaves_the_old_one_serving(restored: Path) -> None:
    changed = recollect(
        "reembed",
        "--data-dir",
        restored,
        RECOLLECT_EMBEDDING_URL="http://127.0.0.1:1/v1",
        RECOLLECT_EMBEDDING_MODEL="other",
    )

    assert changed.code == 1
    assert changed.out.splitlines()[-1] == "not complete: check that the embedder is running"
    with attach(restored) as attached:
        assert run(attached.admin_url, "SELECT model, state FROM generation") == [
            ("snowflake-arctic-embed-s", "serving")
        ]
