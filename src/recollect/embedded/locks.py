"""File locks, which the kernel releases when their holder dies for any reason.

They use `flock`, which belongs to the open file: each `open_file` is a separate holder.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

_POLL_SECONDS = 0.005  # flock has no timeout, so a wait with a limit has to poll


def open_file(path: Path, *, flags: int = os.O_RDWR) -> int:
    """Open a private file; create it if needed, with the owner of its directory."""
    # O_NOFOLLOW and O_EXCL: root must not write to, or change the owner of, a link's target.
    flags |= os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return os.open(path, flags)
    if os.geteuid() == 0:
        # Files created by `sudo recollect ...` must stay usable for the owner of the directory.
        owner = path.parent.stat()
        os.fchown(fd, owner.st_uid, owner.st_gid)
    return fd


def try_lock(fd: int, kind: int) -> bool:
    """Take the lock (`fcntl.LOCK_SH` or `LOCK_EX`) if it is free; return whether it was."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fd: int, kind: int, timeout: timedelta) -> bool:
    """Wait for the lock and take it; return False if it was not free within `timeout`."""
    end = time.monotonic() + timeout.total_seconds()
    while not try_lock(fd, kind):
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def unlock(fd: int) -> None:
    """Release the lock, even if a forked child still has a copy of the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


@contextmanager
def locked(path: Path, timeout: timedelta) -> Generator[bool]:
    """Hold the file's exclusive lock for a block; yield whether it was acquired in time."""
    fd = open_file(path)
    try:
        yield wait_lock(fd, fcntl.LOCK_EX, timeout)
    finally:
        os.close(fd)
