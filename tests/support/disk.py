"""A small disk of its own, to be filled to the last byte."""

import errno
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(base: Path, *, megabytes: int) -> Generator[Path]:
    """A file system in memory; only root, and not in every container, may mount one."""
    disk = base / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "none", disk], check=False
    )
    if mounted.returncode:
        pytest.skip("may not mount here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def fill(disk: Path) -> Path:
    """A file that leaves no byte free."""
    filler = disk / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(65_536))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return filler
