import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from embedded_support import User, copy, processes

from recollect.embedded import attach
from tests.support.waiting import wait_until


def _reachable() -> Path:
    # pytest's own directories are closed to everyone but root.
    made = Path(tempfile.mkdtemp(prefix="embedded-", dir="/tmp"))
    made.chmod(0o711)
    return made


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A data directory that has been used and left, to copy instead of running initdb again."""
    base = _reachable()
    with attach(base / "data"):
        pass
    yield base / "data"
    shutil.rmtree(base)


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that any user can pass through."""
    made = _reachable()
    yield made
    wait_until(lambda: not processes(made))
    for record in made.rglob("socket.path"):
        shutil.rmtree(record.read_text())
    shutil.rmtree(made)


@pytest.fixture
def data_dir(base: Path, template: Path) -> Path:
    """A data directory that has been used and left."""
    copy(template, base / "data")
    return base / "data"


@pytest.fixture
def holding(base: Path) -> Iterator[ExitStack]:
    """Where a test puts what it attaches, to be let go of however it ends."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def user(holding: ExitStack) -> Callable[..., User]:
    """Start a process that will use the server; killed at the end of the test."""

    def start(*arguments: object, **options: object) -> User:
        made = User(*arguments, **options)  # pyright: ignore[reportArgumentType]
        holding.callback(made.close)
        return made

    return start
