"""Attach to the embedded PostgreSQL and detach from it; the server stops after the last detach.

Every attached process holds a shared lock. The supervisor process waits for the exclusive lock,
gets it when the last holder has released it or died, and stops the server. There is no counter that
a `kill -9` could make wrong.
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
from recollect.embedded.cluster import (
    end_orphans,
    ensure_supervisor,
    is_alive,
    launch,
    prepare,
    running_pid,
)
from recollect.embedded.errors import CannotStart
from recollect.embedded.home import Home, open_home, socket_directory
from recollect.embedded.locks import locked, open_file, try_lock, unlock, wait_lock

# Long enough for crash recovery, which replays a few gigabytes of log at most.
_START_TIMEOUT = timedelta(minutes=5)
_STOP_TIMEOUT = timedelta(seconds=30)
_ORPHAN_TIMEOUT = timedelta(seconds=20)  # until the child processes of a killed server end
_POLL_INTERVAL = timedelta(milliseconds=10)
_RETRY_DELAY = timedelta(milliseconds=100)
_PROGRESS_INTERVAL = timedelta(seconds=2)
_ATTEMPTS = 3

_log = structlog.get_logger()


class Attached:
    """An attachment to the running server, valid until `detach` or the end of this process."""

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
        """Restart the server if it has stopped and return True; return False if it is running.

        Raises `CannotStart`.
        """
        if is_alive(self._home, self._socket):
            return False
        with _raising_cannot_start(self._home), _starting(self._home):
            _connect(self._home, self.bin_dir, self._socket).close()
        return True

    def detach(self) -> None:
        """Detach; after the last attachment, wait until the server has stopped. Idempotent."""
        users, self._users = self._users, None
        if users is None:
            return
        try:
            _detach(self._home, self._socket, users)
        finally:
            if self._serve is not None:
                unlock(self._serve)


def attach(data_dir: Path, *, binaries: Path | None = None, exclusive: bool = False) -> Attached:
    """Attach to the server of `data_dir`; create and start it if needed.

    `exclusive` is for `recollect serve`: only one may run per directory. Raises `CannotStart`.
    """
    home = open_home(data_dir)
    with _raising_cannot_start(home):
        return _attach(home, binaries, exclusive=exclusive)


@contextmanager
def _raising_cannot_start(home: Home) -> Generator[None]:
    """Turn system and database errors into `CannotStart` with the path or log to look at."""
    try:
        yield
    except OSError as error:
        raise CannotStart(f"`{error.filename or home.path}`: {error.strerror}.") from error
    except psycopg.Error as error:
        raise CannotStart(
            f"PostgreSQL on `{home.path}` returned an error: {error} See its log `{home.log}`."
        ) from error


@contextmanager
def _starting(home: Home) -> Generator[None]:
    """Hold the start lock, so that only one process starts the server."""
    with locked(home.start_lock, _START_TIMEOUT) as has_lock:
        if not has_lock:
            raise CannotStart(f"Another process has been starting `{home.path}` for minutes.")
        yield


def _attach(home: Home, binaries: Path | None, *, exclusive: bool) -> Attached:
    with ExitStack() as undo:
        serve = _claim_serve(home) if exclusive else None
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
    # If a child process of the server crashes, the server accepts connections until it notices.
    # Then it closes all of them and recovers.
    for left in reversed(range(_ATTEMPTS)):
        try:
            with _connect(home, bin_dir, socket) as server:
                bootstrap(server, _url(socket, role="postgres", database="recollect"))
        except psycopg.OperationalError:
            if not left:
                raise
            time.sleep(_RETRY_DELAY.total_seconds())
        else:
            return


def _claim_serve(home: Home) -> int:
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
    # This waits only while a supervisor is stopping the server.
    fd = open_file(home.users_lock)
    if not wait_lock(fd, fcntl.LOCK_SH, _START_TIMEOUT):
        os.close(fd)
        raise CannotStart(
            f"PostgreSQL on `{home.path}` has been stopping for minutes. See its log `{home.log}`."
        )
    return fd


def _connect(home: Home, bin_dir: Path, socket: Path) -> psycopg.Connection:
    # Connect instead of reading the pid file: only a connection proves that a server runs.
    url = _url(socket, role="postgres", database="postgres")
    server = _try_connect(url) or _start(home, bin_dir, socket, url)
    _ensure_supervisor(home)
    return server


def _ensure_supervisor(home: Home) -> None:
    pid = running_pid(home)
    if pid is not None:
        ensure_supervisor(home, pid)


def _start(home: Home, bin_dir: Path, socket: Path, url: str) -> psycopg.Connection:
    prepare(home, bin_dir)
    if is_alive(home, socket):
        # The server is recovering or being stopped.
        server = _wait_for_connection(home, url, lambda: _wait_until_gone(home, socket))
        if server is not None:
            return server
    end = time.monotonic() + _ORPHAN_TIMEOUT.total_seconds()
    while True:
        launched = launch(home, bin_dir, socket)
        try:
            server = _wait_for_connection(
                home,
                url,
                lambda: launched.wait_end(_POLL_INTERVAL),  # noqa: B023 - called within this iteration
            )
            if server is not None:
                return server
            if time.monotonic() > end or not launched.is_transient():
                raise launched.failure()
        finally:
            launched.close()
        end_orphans(home)
        time.sleep(_RETRY_DELAY.total_seconds())


def _wait_for_connection(
    home: Home, url: str, wait_end: Callable[[], bool]
) -> psycopg.Connection | None:
    """Return the first connection to the server, or None if the server ends before that."""
    start = reported = time.monotonic()
    while time.monotonic() < start + _START_TIMEOUT.total_seconds():
        server = _try_connect(url)
        if server is not None:
            return server
        if wait_end():
            return None
        if time.monotonic() > reported + _PROGRESS_INTERVAL.total_seconds():
            reported = time.monotonic()
            _log.info("postgres.waiting", seconds=round(reported - start))
    raise CannotStart(
        f"PostgreSQL on `{home.path}` (process {running_pid(home)}) has not responded for "
        f"{_START_TIMEOUT}. See its log `{home.log}`."
    )


def _wait_until_gone(home: Home, socket: Path) -> bool:
    time.sleep(_POLL_INTERVAL.total_seconds())
    return not is_alive(home, socket)


def _try_connect(url: str) -> psycopg.Connection | None:
    try:
        return psycopg.connect(url, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        return None


def _detach(home: Home, socket: Path, users: int) -> None:
    try:
        with locked(home.start_lock, _STOP_TIMEOUT):
            pid = running_pid(home)
            _wait_for_recovery(home, socket, pid)
            fcntl.flock(users, fcntl.LOCK_UN)
            if pid is None or _is_used(home):
                return
    finally:
        unlock(users)
    end = time.monotonic() + _STOP_TIMEOUT.total_seconds()
    while running_pid(home) == pid and time.monotonic() < end:
        ensure_supervisor(
            home, pid
        )  # if the supervisor was killed, no other process would stop the server
        time.sleep(_POLL_INTERVAL.total_seconds())


def _wait_for_recovery(home: Home, socket: Path, pid: int | None) -> None:
    # PostgreSQL 18 ignores a stop signal while it recovers from the crash of a child process, and
    # the supervisor would wait a minute before it forces the stop.
    url = _url(socket, role="postgres", database="postgres")
    end = time.monotonic() + _STOP_TIMEOUT.total_seconds()
    while pid is not None and running_pid(home) == pid and time.monotonic() < end:
        server = _try_connect(url)
        if server is not None:
            server.close()
            return
        time.sleep(_POLL_INTERVAL.total_seconds())


def _is_used(home: Home) -> bool:
    # The start lock is held, so only a user or a supervisor that is stopping the server can block
    # us.
    fd = open_file(home.users_lock)
    try:
        return not try_lock(fd, fcntl.LOCK_EX) and try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _url(socket: Path, *, role: str, database: str) -> str:
    # The port is explicit because `PGPORT` in the environment would change the default.
    host = quote(os.fsencode(socket), safe="")
    return f"postgresql://{role}@/{database}?host={host}&port=5432"
