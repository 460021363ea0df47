"""One running instance for all tests that only read it, one backup of it, and copies of that."""

import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_support import FASTER, copy, fill, processes, recollect

from tests.support.serve_process import ServeProcess, running_server
from tests.support.waiting import wait_until


@contextmanager
def _reachable_directory() -> Generator[Path]:
    # A server started by root runs as an unprivileged user, who cannot enter pytest's directories.
    base = Path(tempfile.mkdtemp(prefix="cli-", dir="/tmp"))
    base.chmod(0o711)
    yield base
    wait_until(lambda: not processes(base))
    shutil.rmtree(base)


@pytest.fixture
def workdir() -> Iterator[Path]:
    """An empty directory to work in."""
    with _reachable_directory() as base:
        yield base


@pytest.fixture(scope="session")
def instance() -> Iterator[ServeProcess]:
    """A running instance with data. Tests may read and add, but not change existing data."""
    with running_server(**FASTER) as running:
        fill(running)
        yield running


@pytest.fixture(scope="session")
def backup(instance: ServeProcess) -> Iterator[Path]:
    """A backup of the instance, made while it runs."""
    with _reachable_directory() as base:
        made = recollect("backup", base / "instance.tar", "--data-dir", instance.data_dir)
        assert (made.code, made.out) == (0, f"{base / 'instance.tar'}\n"), made.err
        yield base / "instance.tar"


@pytest.fixture(scope="session")
def _restored(backup: Path) -> Iterator[Path]:
    with _reachable_directory() as base:
        done = recollect("restore", backup, "--data-dir", base / "data")
        assert done.code == 0, done.err
        yield base / "data"


@pytest.fixture
def restored(_restored: Path, workdir: Path) -> Path:
    """A data directory restored from the backup, with no server running on it."""
    return copy(_restored, workdir / "data")
