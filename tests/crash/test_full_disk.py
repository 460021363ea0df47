"""A full disk: acknowledged data is not lost, and the server recovers once there is space."""

import shutil
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import httpx2
import psycopg
import pytest

from recollect.embedded import attach
from tests.support.disk import fill, small_disk
from tests.support.serve_process import ServeProcess
from tests.support.statebase import error_body

pytestmark = pytest.mark.slow

MEGABYTES = 220
SAVES = 60
TIMEOUT_SECONDS = 60
DOWN = error_body(
    "service_unavailable", "The database is not available right now.", kind="api_error"
)


@pytest.fixture
def instance() -> Generator[ServeProcess]:
    """An instance on a small disk; its output is written there too."""
    base = Path(tempfile.mkdtemp(prefix="instance-", dir="/tmp"))
    base.chmod(0o711)
    with small_disk(base, megabytes=MEGABYTES) as disk:
        running = ServeProcess(disk / "data", RECOLLECT_LOG_LEVEL="info")
        running.start()
        yield running
        running.stop()
    shutil.rmtree(base)


class Writer:
    """Saves memories and records which were acknowledged."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self.kept: dict[str, str] = {}

    def save(self) -> httpx2.Response:
        """Save a memory; the response must be an acknowledgement or the interface's 503."""
        text = f"Page {len(self.kept)} of the diary. " + "Today it rained all day long. " * 60
        answer = self._http.post("/v1/memories", json={"content": text})
        if answer.status_code == 201:
            self.kept[answer.json()["id"]] = text
        else:
            assert (answer.status_code, answer.json()) == (503, DOWN)
        return answer

    def save_until(self, status: int) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
        while self.save().status_code != status:
            assert time.monotonic() < end, f"no {status}"

    def found(self) -> dict[str, str]:
        return {
            name: self._http.get(f"/v1/memories/{name}").json().get("content") for name in self.kept
        }


def test_saves_fail_while_the_disk_is_full_and_work_afterwards(
    instance: ServeProcess,
) -> None:
    with instance.client() as http:
        writer = Writer(http)
        writer.save_until(201)
        filler = fill(instance.data_dir.parent)

        writer.save_until(503)
        for _ in range(SAVES):  # a save that fits into remaining space may still succeed
            writer.save()
        reading = http.get("/v1/memories")
        ask = {"query": "rain", "threshold": 0}
        searching = http.post("/v1/memories/search", json=ask)
        recalling = http.post("/v1/tools/memory_recall", json={"query": "rain all day"})

        filler.unlink()
        writer.save_until(201)

        assert (reading.status_code, searching.status_code) == (200, 200)
        assert recalling.json()["memories"]
        assert writer.found() == writer.kept
    assert "Traceback" not in instance.output


def test_a_database_that_crashed_on_a_full_disk_restarts_by_itself(instance: ServeProcess) -> None:
    with instance.client() as http:
        writer = Writer(http)
        for _ in range(5):
            writer.save_until(201)
        filler = fill(instance.data_dir.parent)
        exhaust_the_log(instance.data_dir)

        writer.save_until(503)
        ready = http.get("/health/ready").status_code
        filler.unlink()
        writer.save_until(201)

        assert ready == 503
        assert writer.found() == writer.kept
    assert "postgres.restarted" in instance.output


def exhaust_the_log(data_dir: Path) -> None:
    """Write until PostgreSQL needs another log file, which it cannot create, and crashes."""
    with (
        attach(data_dir) as attached,
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(attached.admin_url, autocommit=True) as db,
    ):
        for _ in range(200):
            db.execute("SELECT pg_logical_emit_message(false, '', repeat('x', 1000000))")
