import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from embedded_support import UserProcess, copy, processes

from recollect.embedded import attach
from tests.support.waiting import wait_until


def _reachable_directory() -> Path:
    # Only root can enter pytest's own directories.
    made = Path(tempfile.mkdtemp(prefix="embedded-", dir="/tmp"))
    made.chmod(0o711)
    return made


@pytest.fixture(scope="session")
def template() -> Iterator[Path]:
    """A data directory that was used and detached; copying it is faster than running initdb."""
    base = _reachable_directory()
    with attach(base / "data"):
        pass
    yield base / "data"
    shutil.rmtree(base)


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that any user can enter."""
    made = _reachable_directory()
    yield made
    wait_until(lambda: not processes(made))
    for record in made.rglob("socket.path"):
        shutil.rmtree(record.read_text())
    shutil.rmtree(made)


@pytest.fixture
def data_dir(base: Path, template: Path) -> Path:
    """A data directory that was used and detached."""
    copy(template, base / "data")
    return base / "data"


@pytest.fixture
def stack(base: Path) -> Iterator[ExitStack]:
    """A stack for attachments, which are detached when the test ends."""
    with ExitStack() as attachments:
        yield attachments


@pytest.fixture
def user(stack: ExitStack) -> Callable[..., UserProcess]:
    """Return a function that starts a process to use the server; it is killed after the test."""

    def start(*arguments: object, **options: object) -> UserProcess:
        made = UserProcess(*arguments, **options)  # pyright: ignore[reportArgumentType]
        stack.callback(made.close)
        return made

    return start
