"""Run the command in a forked process. A separate module, so that it imports nothing of the tests."""

import os
from pathlib import Path

from recollect.cli import main


def run_forked(
    words: list[str], variables: dict[str, str], cwd: Path, out: Path, err: Path
) -> None:
    """Run the command line with this environment, in this directory, into these files."""
    for path, number in ((out, 1), (err, 2)):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT)
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(cwd)
    main(words)
