"""Numbered `.sql` files: applied once, in order, by one process at a time, never edited after."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

import psycopg
from psycopg.rows import TupleRow

from recollect.errors import Conflict, Unavailable

# Any number will do as long as no other program on the same database uses it.
_LOCK = 7_245_018_846_213
_WAIT_SECONDS = 300
_POLL_SECONDS = 0.1

_TRY_LOCK = "SELECT pg_try_advisory_lock(%(lock)s)"
_UNLOCK = "SELECT pg_advisory_unlock(%(lock)s)"
_CREATE_LEDGER = """
    CREATE TABLE IF NOT EXISTS migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        digest text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""
_APPLIED = "SELECT number, name, digest FROM migration ORDER BY number"
_HAS_LEDGER = "SELECT to_regclass('migration') IS NOT NULL"
_RECORD = "INSERT INTO migration (number, name, digest) VALUES (%(number)s, %(name)s, %(digest)s)"

Db = psycopg.AsyncConnection[TupleRow]


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number, its name and what it says."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """What shows that a file was edited after it had been applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def needs_no_transaction(self) -> bool:
        """CREATE INDEX CONCURRENTLY and its like cannot run inside one."""
        return self.name.endswith(".alone")


def migrations() -> list[Migration]:
    """All migrations this release knows, in order."""
    folder = resources.files("recollect.store").joinpath("migrations")
    found = [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return sorted(found, key=lambda each: each.number)


async def migrate(url: str, say: Callable[[str], None] = lambda _: None) -> int:
    """Bring the database to this release's schema; return how many migrations were applied."""
    async with await _connect(url) as db:
        if not await _missing(db):
            # The usual start takes no lock, which behind PgBouncer could be left on a connection.
            return 0
        await _lock(db)
        try:
            return await _apply_missing(db, say)
        finally:
            await db.execute(_UNLOCK, {"lock": _LOCK})


async def pending(url: str) -> list[str]:
    """The names of migrations this database still lacks."""
    async with await _connect(url) as db:
        known = {migration.number for migration in await _applied(db)}
        return [each.name for each in migrations() if each.number not in known]


async def _connect(url: str) -> Db:
    try:
        return await psycopg.AsyncConnection.connect(url, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise Unavailable("database") from error


async def _lock(db: Db) -> None:
    # Polled: waiting inside pg_advisory_lock deadlocks with another's CREATE INDEX CONCURRENTLY.
    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        row = await (await db.execute(_TRY_LOCK, {"lock": _LOCK})).fetchone()
        if row and row[0]:
            return
        await asyncio.sleep(_POLL_SECONDS)
    raise Conflict("Another process has been migrating this database for five minutes.")


async def _apply_missing(db: Db, say: Callable[[str], None]) -> int:
    await db.execute(_CREATE_LEDGER)
    missing = await _missing(db)
    for each in missing:
        say(f"applying {each.name}")
        await _apply(db, each)
    return len(missing)


async def _missing(db: Db) -> list[Migration]:
    """The migrations to apply; raise `Conflict` if the database is not one that we made."""
    applied = {migration.number: migration for migration in await _applied(db)}
    known = migrations()
    newest = max(applied, default=0)
    if newest > max(each.number for each in known):
        raise Conflict(
            f"This database was migrated by a newer Recollect (migration {newest}). Upgrade first."
        )
    return [each for each in known if not _is_applied(each, applied)]


@dataclass(frozen=True, slots=True)
class _Applied:
    number: int
    name: str
    digest: str


async def _applied(db: Db) -> list[_Applied]:
    row = await (await db.execute(_HAS_LEDGER)).fetchone()
    if not row or not row[0]:
        return []
    return [_Applied(*row) for row in await (await db.execute(_APPLIED)).fetchall()]


def _is_applied(migration: Migration, applied: dict[int, _Applied]) -> bool:
    earlier = applied.get(migration.number)
    if earlier and earlier.digest != migration.digest:
        raise Conflict(
            f"Migration `{migration.name}` was edited after it had been applied. "
            "Restore the file and write a new migration instead."
        )
    return earlier is not None


async def _apply(db: Db, migration: Migration) -> None:
    record = {
        "number": migration.number,
        "name": migration.name,
        "digest": migration.digest,
    }
    if migration.needs_no_transaction:
        await db.execute(migration.text.encode())
        await db.execute(_RECORD, record)
        return
    async with db.transaction():
        await db.execute("SET LOCAL recollect.reach = 'everywhere'")
        await db.execute(migration.text.encode())
        await db.execute(_RECORD, record)
