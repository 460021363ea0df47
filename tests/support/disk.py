"""A small disk that a test can fill completely."""

import errno
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(base: Path, *, megabytes: int) -> Generator[Path]:
    """Mount a file system in memory. Skips the test if mounting is not allowed."""
    disk = base / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "none", disk], check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> Path:
    """Write a file that fills the disk; return its path."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65_536))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return filler
