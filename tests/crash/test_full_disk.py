"""A disk without a free byte: nothing is acknowledged and lost, and room is all that it takes."""

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
from tests.support.running import Running
from tests.support.statebase import problem

pytestmark = pytest.mark.slow

MEGABYTES = 220
SAVES = 60
PATIENCE = 60
DOWN = problem("service_unavailable", "The database is not available right now.", kind="api_error")


@pytest.fixture
def house() -> Generator[Running]:
    """A house on a small disk; what it prints goes there too."""
    base = Path(tempfile.mkdtemp(prefix="house-", dir="/tmp"))
    base.chmod(0o711)
    with small_disk(base, megabytes=MEGABYTES) as disk:
        running = Running(disk / "data", RECOLLECT_LOG_LEVEL="info")
        running.start()
        yield running
        running.stop()
    shutil.rmtree(base)


class Diary:
    """Saves, and what was acknowledged."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http
        self.kept: dict[str, str] = {}

    def save(self) -> httpx2.Response:
        """A save, which is acknowledged or refused as this door refuses."""
        text = f"Page {len(self.kept)} of the diary. " + "Today it rained all day long. " * 60
        answer = self._http.post("/v1/memories", json={"content": text})
        if answer.status_code == 201:
            self.kept[answer.json()["id"]] = text
        else:
            assert (answer.status_code, answer.json()) == (503, DOWN)
        return answer

    def save_until(self, status: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.save().status_code != status:
            assert time.monotonic() < end, f"no {status}"

    def found(self) -> dict[str, str]:
        return {
            name: self._http.get(f"/v1/memories/{name}").json().get("content") for name in self.kept
        }


def test_saves_are_refused_while_the_disk_is_full_and_taken_again_when_there_is_room(
    house: Running,
) -> None:
    with house.client() as http:
        diary = Diary(http)
        diary.save_until(201)
        filler = fill(house.data_dir.parent)

        diary.save_until(503)
        for _ in range(SAVES):  # one that fits where there is room still may pass
            diary.save()
        reading = http.get("/v1/memories")
        ask = {"query": "rain", "threshold": 0}
        searching = http.post("/v1/memories/search", json=ask)
        recalling = http.post("/v1/tools/memory_recall", json={"query": "rain all day"})

        filler.unlink()
        diary.save_until(201)

        assert (reading.status_code, searching.status_code) == (200, 200)
        assert recalling.json()["memories"]
        assert diary.found() == diary.kept
    assert "Traceback" not in house.output


def test_a_database_that_died_of_a_full_disk_comes_back_by_itself(house: Running) -> None:
    with house.client() as http:
        diary = Diary(http)
        for _ in range(5):
            diary.save_until(201)
        filler = fill(house.data_dir.parent)
        use_up_the_log(house.data_dir)

        diary.save_until(503)
        ready = http.get("/health/ready").status_code
        filler.unlink()
        diary.save_until(201)

        assert ready == 503
        assert diary.found() == diary.kept
    assert "postgres.restarted" in house.output


def use_up_the_log(data_dir: Path) -> None:
    """Write until PostgreSQL needs another file for its log: without one it cannot go on."""
    with (
        attach(data_dir) as held,
        pytest.raises(psycopg.OperationalError),
        psycopg.connect(held.admin_url, autocommit=True) as db,
    ):
        for _ in range(200):
            db.execute("SELECT pg_logical_emit_message(false, '', repeat('x', 1000000))")
