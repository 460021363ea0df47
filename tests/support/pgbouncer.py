"""PgBouncer in transaction mode in front of the tests' PostgreSQL, if the run asks for it."""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

# `make pgbouncer-test` sets it: every test of the run then connects through PgBouncer.
VARIABLE = "TEST_BEHIND_PGBOUNCER"

_PORT = 6432
_READY_SECONDS = 20
_CONFIGURATION = """\
[databases]
* = host={socket} port=5432

[pgbouncer]
unix_socket_dir = {home}
listen_port = {port}
auth_type = trust
auth_file = {home}/users
admin_users = recollect
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
logfile = {home}/log
"""


def uses_pgbouncer() -> bool:
    return bool(os.environ.get(VARIABLE))


class PgBouncer:
    """A PgBouncer process with a few server connections that all clients share."""

    def __init__(self, postgres_url: str, *, size: int) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
        assert program, "`pgbouncer` is not installed: see CONTRIBUTING.md"
        socket = str(conninfo_to_dict(postgres_url)["host"])
        self._home = Path(tempfile.mkdtemp(prefix="bouncer-", dir="/tmp"))
        (self._home / "users").write_text('"recollect" ""\n')
        (self._home / "ini").write_text(
            _CONFIGURATION.format(socket=socket, home=self._home, port=_PORT, size=size)
        )
        # Run as the owner of PostgreSQL's socket; PgBouncer refuses to run as root.
        owner: dict[str, Any] = {}
        if os.geteuid() == 0:
            server = Path(socket).stat()
            os.chown(self._home, server.st_uid, server.st_gid)
            owner = {"user": server.st_uid, "group": server.st_gid, "extra_groups": []}
        self._process = subprocess.Popen(
            [program, "--quiet", str(self._home / "ini")],
            stderr=subprocess.DEVNULL,  # it also goes to the log
            **owner,
        )
        self._await()

    def url(self, database: str) -> str:
        host = quote(str(self._home), safe="")
        return f"postgresql://recollect@/{database}?host={host}&port={_PORT}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait(30)
        shutil.rmtree(self._home)

    def _await(self) -> None:
        end = time.monotonic() + _READY_SECONDS
        while True:
            try:
                psycopg.connect(self.url("pgbouncer"), autocommit=True).close()
            except psycopg.OperationalError as error:
                assert self._process.poll() is None, (self._home / "log").read_text()
                if time.monotonic() > end:
                    raise AssertionError("PgBouncer does not respond") from error
                time.sleep(0.02)
            else:
                return
