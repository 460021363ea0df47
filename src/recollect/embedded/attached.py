"""Attaching to the embedded PostgreSQL and letting go of it: the last one out stops the server.

Everyone attached shares a lock; the keeper waits to have it alone, gets it when the last holder
has let go or died, and stops the server. Nobody counts, so a kill -9 cannot make the count wrong.
"""

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg
import structlog

from recollect.embedded.binaries import find_binaries, readable_binaries
from recollect.embedded.bootstrap import bootstrap
from recollect.embedded.cluster import end_orphans, is_alive, keep, launch, prepare, running_pid
from recollect.embedded.errors import CannotStart
from recollect.embedded.home import Home, open_home, socket_directory
from recollect.embedded.locks import locked, open_file, try_lock, unlock, wait_lock

_START = timedelta(minutes=5)  # a recovery after a crash replays a few gigabytes of log at most
_STOP = timedelta(seconds=30)
_LINGER = timedelta(seconds=20)  # until the processes of a killed server notice and end
_POLL = timedelta(milliseconds=10)
_RETRY = timedelta(milliseconds=100)
_PROGRESS = timedelta(seconds=2)
_ATTEMPTS = 3

_log = structlog.get_logger()


class Attached:
    """A share in the running server, kept until `detach` or the end of this process."""

    def __init__(
        self, home: Home, bin_dir: Path, socket: Path, *, users: int, serve: int | None
    ) -> None:
        self.data_dir = home.path
        self.log = home.log
        self.bin_dir = bin_dir
        self.url = _url(socket, role="recollect", database="recollect")
        self.admin_url = _url(socket, role="postgres", database="recollect")
        self._home = home
        self._socket = socket
        self._users: int | None = users
        self._serve = serve

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def revive(self) -> bool:
        """Start the server again if it has ended; False when it had not. Raise `CannotStart`."""
        if is_alive(self._home, self._socket):
            return False
        with _explained(self._home), _starting(self._home):
            _connect(self._home, self.bin_dir, self._socket).close()
        return True

    def detach(self) -> None:
        """Let go; as the last one, return when the server has stopped. Again: no effect."""
        users, self._users = self._users, None
        if users is None:
            return
        try:
            _leave(self._home, self._socket, users)
        finally:
            if self._serve is not None:
                unlock(self._serve)


def attach(data_dir: Path, *, binaries: Path | None = None, exclusive: bool = False) -> Attached:
    """A share in the server of `data_dir`, which is made and started where need be.

    `exclusive` is for `recollect serve`, of which a directory has one. Raise `CannotStart`.
    """
    home = open_home(data_dir)
    with _explained(home):
        return _attach(home, binaries, exclusive=exclusive)


@contextmanager
def _explained(home: Home) -> Generator[None]:
    """Whatever goes wrong, say where."""
    try:
        yield
    except OSError as error:
        raise CannotStart(f"`{error.filename or home.path}`: {error.strerror}.") from error
    except psycopg.Error as error:
        raise CannotStart(
            f"PostgreSQL on `{home.path}` answers with an error: {error} Its log is `{home.log}`."
        ) from error


@contextmanager
def _starting(home: Home) -> Generator[None]:
    """Be the only one who starts the server."""
    with locked(home.start_lock, _START) as is_ours:
        if not is_ours:
            raise CannotStart(f"Another process has been starting `{home.path}` for minutes.")
        yield


def _attach(home: Home, binaries: Path | None, *, exclusive: bool) -> Attached:
    with ExitStack() as undo:
        serve = _claim(home) if exclusive else None
        if serve is not None:
            undo.callback(unlock, serve)
        with _starting(home):
            users = _join(home)
            undo.callback(unlock, users)
            bin_dir = readable_binaries(find_binaries(binaries), home)
            socket = socket_directory(home)
            _set_up(home, bin_dir, socket)
        undo.pop_all()
        return Attached(home, bin_dir, socket, users=users, serve=serve)


def _set_up(home: Home, bin_dir: Path, socket: Path) -> None:
    # A server that lost one of its processes takes connections until it notices; then it closes
    # all of them and recovers.
    for left in reversed(range(_ATTEMPTS)):
        try:
            with _connect(home, bin_dir, socket) as server:
                bootstrap(server, _url(socket, role="postgres", database="recollect"))
        except psycopg.OperationalError:
            if not left:
                raise
            time.sleep(_RETRY.total_seconds())
        else:
            return


def _claim(home: Home) -> int:
    fd = open_file(home.serve_lock)
    if not try_lock(fd, fcntl.LOCK_EX):
        pid = os.pread(fd, 20, 0).decode()
        os.close(fd)
        raise CannotStart(
            f"`recollect serve` already runs on `{home.path}` (process {pid or 'unknown'}). "
            "Stop it or choose another `--data-dir`."
        )
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd


def _join(home: Home) -> int:
    # Only a keeper that is stopping the server keeps us waiting here.
    fd = open_file(home.users_lock)
    if not wait_lock(fd, fcntl.LOCK_SH, _START):
        os.close(fd)
        raise CannotStart(f"PostgreSQL on `{home.path}` has been stopping for minutes.")
    return fd


def _connect(home: Home, bin_dir: Path, socket: Path) -> psycopg.Connection:
    # The socket is asked, not the pid file: only an answer means that a server is there.
    url = _url(socket, role="postgres", database="postgres")
    server = _ask(url) or _start(home, bin_dir, socket, url)
    _see_to_keeper(home)
    return server


def _see_to_keeper(home: Home) -> None:
    pid = running_pid(home)
    if pid is not None:
        keep(home, pid)


def _start(home: Home, bin_dir: Path, socket: Path, url: str) -> psycopg.Connection:
    prepare(home, bin_dir)
    if is_alive(home, socket):
        # It recovers, or someone stops it.
        server = _await(home, url, lambda: _has_gone(home, socket))
        if server is not None:
            return server
    end = time.monotonic() + _LINGER.total_seconds()
    while True:
        launched = launch(home, bin_dir, socket)
        try:
            server = _await(home, url, lambda: launched.wait_end(_POLL))  # noqa: B023 - called here
            if server is not None:
                return server
            if time.monotonic() > end or not launched.may_pass():
                raise launched.failure()
        finally:
            launched.close()
        end_orphans(home)
        time.sleep(_RETRY.total_seconds())


def _await(home: Home, url: str, wait_end: Callable[[], bool]) -> psycopg.Connection | None:
    """The server's first answer, or None when it ends before that."""
    start = reported = time.monotonic()
    while time.monotonic() < start + _START.total_seconds():
        server = _ask(url)
        if server is not None:
            return server
        if wait_end():
            return None
        if time.monotonic() > reported + _PROGRESS.total_seconds():
            reported = time.monotonic()
            _log.info("postgres.waiting", seconds=round(reported - start))
    raise CannotStart(
        f"PostgreSQL on `{home.path}` (process {running_pid(home)}) has not answered for "
        f"{_START}. Its log, `{home.log}`, says what it is doing."
    )


def _has_gone(home: Home, socket: Path) -> bool:
    time.sleep(_POLL.total_seconds())
    return not is_alive(home, socket)


def _ask(url: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        return None


def _leave(home: Home, socket: Path, users: int) -> None:
    try:
        with locked(home.start_lock, _STOP):
            pid = running_pid(home)
            _let_recover(home, socket, pid)
            fcntl.flock(users, fcntl.LOCK_UN)
            if pid is None or _is_used(home):
                return
    finally:
        unlock(users)
    end = time.monotonic() + _STOP.total_seconds()
    while running_pid(home) == pid and time.monotonic() < end:
        keep(home, pid)  # else nobody would stop it, had its keeper been killed
        time.sleep(_POLL.total_seconds())


def _let_recover(home: Home, socket: Path, pid: int | None) -> None:
    # PostgreSQL 18, told to stop while it recovers from the crash of one of its processes, does
    # not: the keeper would lose patience only after a minute.
    url = _url(socket, role="postgres", database="postgres")
    end = time.monotonic() + _STOP.total_seconds()
    while pid is not None and running_pid(home) == pid and time.monotonic() < end:
        server = _ask(url)
        if server is not None:
            server.close()
            return
        time.sleep(_POLL.total_seconds())


def _is_used(home: Home) -> bool:
    # Under the start lock nobody else tries this: in the way is a user, or the keeper at work.
    fd = open_file(home.users_lock)
    try:
        return not try_lock(fd, fcntl.LOCK_EX) and try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _url(socket: Path, *, role: str, database: str) -> str:
    # The port is named because `PGPORT` in the environment would change the default.
    host = quote(os.fsencode(socket), safe="")
    return f"postgresql://{role}@/{database}?host={host}&port=5432"
