"""One PostgreSQL per run, one database per test process, cloned from a migrated template."""

import asyncio
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from recollect.db.migrate import migrate
from recollect.embedded import Attached, attach
from tests.support.pgbouncer import PgBouncer, uses_pgbouncer

HOME = "TEST_POSTGRES_HOME"
_TEMPLATE = "recollect_template"
# Server connections behind PgBouncer: fewer than a pool has, so that transactions share them.
_SERVER_CONNECTIONS = 4


def make_home() -> Path:
    """Create a directory that an unprivileged PostgreSQL can also reach if tests run as root."""
    home = Path(tempfile.mkdtemp(prefix="recollect-test-", dir="/tmp"))
    home.chmod(0o711)
    os.environ[HOME] = str(home)
    return home


def remove_home(home: Path) -> None:
    """Wait until PostgreSQL has stopped with its last user, then delete the directory."""
    pid_file = home / "data" / "postgres" / "postmaster.pid"
    for _ in range(300):
        if not pid_file.exists():
            break
        time.sleep(0.05)
    shutil.rmtree(home, ignore_errors=True)


class TestDatabases:
    """The databases of one test process."""

    __test__ = False

    def __init__(self) -> None:
        home = Path(os.environ[HOME])
        self._attached: Attached = attach(home / "data")
        with (home / "template.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._make_template()
        self._bouncer = (
            PgBouncer(self._attached.url, size=_SERVER_CONNECTIONS) if uses_pgbouncer() else None
        )

    def clone(self) -> str:
        """Create a migrated database; return its URL."""
        name = f"test_{uuid4().hex[:12]}"
        with psycopg.connect(self._attached.admin_url, autocommit=True) as db:
            db.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER recollect").format(
                    sql.Identifier(name), sql.Identifier(_TEMPLATE)
                )
            )
        return self.url(name)

    def empty(self) -> str:
        """Create a database without a schema; return its URL."""
        name = f"test_{uuid4().hex[:12]}"
        self._create(name)
        return self.url(name)

    def url(self, name: str) -> str:
        """The URL of a database, through PgBouncer if this run uses it."""
        return self._bouncer.url(name) if self._bouncer else self.direct_url(name)

    def direct_url(self, name: str) -> str:
        """The URL of a database without PgBouncer."""
        parts = conninfo_to_dict(self._attached.url)
        socket = quote(str(parts["host"]), safe="")
        return f"postgresql://{parts['user']}@/{name}?host={socket}"

    def without_pgbouncer(self, url: str) -> str:
        """The URL of the same database without PgBouncer."""
        return self.direct_url(urlsplit(url).path.removeprefix("/"))

    @property
    def admin_url(self) -> str:
        return self._attached.admin_url

    def close(self) -> None:
        if self._bouncer:
            self._bouncer.close()
        self._attached.detach()

    def _make_template(self) -> None:
        with psycopg.connect(self._attached.admin_url, autocommit=True) as db:
            found = db.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [_TEMPLATE]
            ).fetchone()
        if found:
            return
        self._create(_TEMPLATE)
        asyncio.run(_migrate(self.direct_url(_TEMPLATE)))

    def _create(self, name: str) -> None:
        with psycopg.connect(self._attached.admin_url, autocommit=True) as db:
            db.execute(sql.SQL("CREATE DATABASE {} OWNER recollect").format(sql.Identifier(name)))
        with psycopg.connect(self._attached.admin_url, dbname=name, autocommit=True) as db:
            db.execute("CREATE EXTENSION vector")
            db.execute("CREATE EXTENSION pg_trgm")


async def _migrate(url: str) -> None:
    await migrate(url)
