"""One running house for all tests that only look at it, one backup of it, and copies of that."""

import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_support import FASTER, copy, furnish, processes, recollect

from tests.support.running import Running, running_house
from tests.support.waiting import wait_until


@contextmanager
def _reachable() -> Generator[Path]:
    # pytest's own directories are closed to the unprivileged user a root-run server runs as.
    base = Path(tempfile.mkdtemp(prefix="cli-", dir="/tmp"))
    base.chmod(0o711)
    yield base
    wait_until(lambda: not processes(base))
    shutil.rmtree(base)


@pytest.fixture
def desk() -> Iterator[Path]:
    """An empty directory to work in."""
    with _reachable() as base:
        yield base


@pytest.fixture(scope="session")
def house() -> Iterator[Running]:
    """A house with people in it, running; look, add, but do not change what is there."""
    with running_house(**FASTER) as running:
        furnish(running)
        yield running


@pytest.fixture(scope="session")
def backup(house: Running) -> Iterator[Path]:
    """A backup of the house, made while it runs."""
    with _reachable() as base:
        made = recollect("backup", base / "house.tar", "--data-dir", house.data_dir)
        assert (made.code, made.out) == (0, f"{base / 'house.tar'}\n"), made.err
        yield base / "house.tar"


@pytest.fixture(scope="session")
def _restored(backup: Path) -> Iterator[Path]:
    with _reachable() as base:
        done = recollect("restore", backup, "--data-dir", base / "data")
        assert done.code == 0, done.err
        yield base / "data"


@pytest.fixture
def restored(_restored: Path, desk: Path) -> Path:
    """A data directory filled from the backup, served by nobody."""
    return copy(_restored, desk / "data")
