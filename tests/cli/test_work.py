"""`recollect jobs`, `recollect work --once`, `recollect reembed` and `recollect migrate`."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from cli_support import recollect

from recollect.embedded import attach
from tests.models.stub_endpoint import Stub
from tests.support.live import on_a_port

KIND = "tend_vectors"


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as db:
        cursor = db.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@pytest.fixture
def buried(restored: Path) -> str:
    """The id of a job that was given up."""
    job = str(uuid4())
    with attach(restored) as held:
        run(
            held.admin_url,
            f"""
            DELETE FROM job;
            INSERT INTO job (workspace_id, id, kind, dedupe_key, status, attempts, run_after,
                             last_error, created_at)
            SELECT id, '{job}', '{KIND}', '', 'buried', 5, now(), 'ValueError at x.py:1', now()
            FROM workspace
            """,
        )
    return job


@pytest.mark.slow
def test_a_buried_job_is_shown_retried_and_done(restored: Path, buried: str) -> None:
    shown = recollect("jobs", "list", "--status", "buried", "--data-dir", restored)
    retried = recollect("jobs", "retry", buried, "--data-dir", restored)
    done = recollect("work", "--once", "--data-dir", restored)
    after = recollect("jobs", "--data-dir", restored, "list")

    assert shown.out.startswith(f"{buried}  buried   {KIND}     try 5  due 20")
    assert shown.out.endswith("  ValueError at x.py:1\n")
    assert (retried.code, retried.out) == (0, "1 jobs will be tried again\n")
    assert (done.code, done.out) == (0, "1 jobs done\n")
    assert after.out.startswith(f"{buried}  done     {KIND}     try 1  due 20")


def test_where_nothing_is_buried_nothing_is_retried(restored: Path) -> None:
    retried = recollect("jobs", "retry", "--data-dir", restored)
    shown = recollect("jobs", "list", "--status", "buried", "--data-dir", restored)

    assert (retried.code, retried.out) == (0, "0 jobs will be tried again\n")
    assert (shown.code, shown.out) == (0, "no jobs\n")


def test_jobs_of_a_house_that_is_not_there_are_refused_and_make_none(desk: Path) -> None:
    shown = recollect("jobs", "list", "--data-dir", desk / "data")

    assert (shown.code, shown.out) == (1, "")
    assert "`recollect serve` makes a new one" in shown.err
    assert not (desk / "data").exists()


def test_a_second_migration_finds_nothing_to_do(restored: Path) -> None:
    again = recollect("migrate", "--data-dir", restored)

    assert (again.code, again.out) == (0, "already up to date\n")


@pytest.fixture
def endpoint() -> Iterator[Stub]:
    """An embeddings endpoint of another model."""
    stub = Stub()
    with on_a_port(stub) as url:
        stub.url = f"{url}/v1"
        yield stub


def test_a_change_of_model_fills_a_new_generation_and_switches(
    restored: Path, endpoint: Stub
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
    with attach(restored) as held:
        [(total,)] = run(held.admin_url, "SELECT count(*) FROM memory WHERE deleted_at IS NULL")
        [serving] = run(
            held.admin_url,
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


def test_a_model_that_does_not_answer_leaves_the_old_one_serving(restored: Path) -> None:
    changed = recollect(
        "reembed",
        "--data-dir",
        restored,
        RECOLLECT_EMBEDDING_URL="http://127.0.0.1:1/v1",
        RECOLLECT_EMBEDDING_MODEL="other",
    )

    assert changed.code == 1
    assert changed.out.splitlines()[-1] == "not complete: is the embedder up?"
    with attach(restored) as held:
        assert run(held.admin_url, "SELECT model, state FROM generation") == [
            ("snowflake-arctic-embed-s", "serving")
        ]
