"""Helpers for the tests of the embedded PostgreSQL: run and inspect other processes."""

import atexit
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

OTHER_USER = pwd.getpwnam("daemon").pw_uid if os.geteuid() == 0 else os.geteuid()
NAMELESS = 12345  # a user id without an entry in /etc/passwd, as in some containers
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

_USER = Path(__file__).with_name("embedded_user.py")


class UserProcess:
    """Another process that uses the server; root can run it as another user."""

    def __init__(
        self,
        where: Path | None,
        kind: str = "",
        *,
        uid: int | None = None,
        home: Path | None = None,
    ) -> None:
        is_other = uid is not None and uid != os.geteuid()
        self.process = subprocess.Popen(
            [_python() if is_other else sys.executable, _USER, str(where or ""), kind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": str(home or "/"), "PYTHONPATH": _paths()},
            user=uid if is_other else None,
            group=uid if is_other else None,
            extra_groups=[] if is_other else None,
        )
        assert self._read_line() == "ready"

    def go(self) -> None:
        self._continue()

    def result(self) -> dict[str, Any]:
        return json.loads(self._read_line())

    def attach(self) -> dict[str, Any]:
        self.go()
        return self.result()

    def detach(self) -> None:
        self._continue()
        assert self.process.wait(30) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _continue(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def _read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def processes(data_dir: Path, program: str = "") -> list[int]:
    """Return the pids of a data directory's servers and supervisors, found by their command lines."""
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    lines = [line.strip().split(" ", 1) for line in listed.stdout.splitlines()]
    return [
        int(pid)
        for pid, command in lines
        if f"{data_dir}/" in command and program in command and "defunct" not in command
    ]


def supervisors(data_dir: Path) -> list[int]:
    return processes(data_dir, "supervisor.py")


def server_pid(data_dir: Path) -> int:
    return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])


def ask(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


def started_at(url: str) -> Any:
    return ask(url, "SELECT pg_postmaster_start_time()")


def mode(path: Path) -> int:
    return path.lstat().st_mode & 0o7777


def copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "-a", source, target], check=True)


@cache
def _python() -> str:
    """Return a Python of this version that another user can run; ours may be in root's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for each in (sys.executable, shutil.which(name, path="/usr/bin:/usr/local/bin")):
        if each and _is_open(Path(each).resolve()):
            return each
    made = tempfile.TemporaryDirectory(prefix="embedded-python-", dir="/tmp")
    atexit.register(made.cleanup)
    Path(made.name).chmod(0o711)
    copied = Path(made.name, "python")
    unused = shutil.ignore_patterns("site-packages", "test", "share", "include", "__pycache__")
    shutil.copytree(sys.base_prefix, copied, symlinks=True, ignore=unused)
    return str(copied / "bin" / name)


def _is_open(path: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (path, *path.parents))


def _paths() -> str:
    return os.pathsep.join(each for each in sys.path if "site-packages" in each or "src" in each)
