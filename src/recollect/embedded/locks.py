"""File locks. The kernel drops them when their holder dies, however it dies.

They are `flock`s, which belong to the open file: each `open_file` is a holder of its own.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

_POLL_SECONDS = 0.005  # a blocking flock has no time-out, so one that must end is asked for again


def open_file(path: Path, *, flags: int = os.O_RDWR) -> int:
    """A descriptor of a private file, made if needed and then given to its directory's owner."""
    # O_NOFOLLOW and O_EXCL: root must neither write through nor give away what a link points to.
    flags |= os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    if os.geteuid() == 0:
        # What `sudo recollect ...` makes must stay usable for the user whose directory it is.
        owner = path.parent.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)
    return fd


def try_lock(fd: int, kind: int) -> bool:
    """Take the lock (`fcntl.LOCK_SH` or `LOCK_EX`) if that needs no waiting."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fd: int, kind: int, patience: timedelta) -> bool:
    """Take the lock as soon as others let it go; False when they have not in time."""
    end = time.monotonic() + patience.total_seconds()
    while not try_lock(fd, kind):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def unlock(fd: int) -> None:
    """Let go, also where a forked child still holds a copy of the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


@contextmanager
def locked(path: Path, patience: timedelta) -> Generator[bool]:
    """Hold the file's exclusive lock for a block; the block is told whether it was to be had."""
    fd = open_file(path)
    try:
        yield wait_lock(fd, fcntl.LOCK_EX, patience)
    finally:
        os.close(fd)
