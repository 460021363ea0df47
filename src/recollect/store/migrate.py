"""Numbered `.sql` files: applied once, in order, by one process at a time, never edited after."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources

from recollect.errors import Conflict
from recollect.store.pool import Db, connect

# Any number will do as long as no other program on the same database uses it.
_LOCK = 7_245_018_846_213
_WAIT_SECONDS = 300
_POLL_SECONDS = 0.1

_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(%(lock)s)"
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
    applied = 0
    async with await connect(url) as db:
        for each in await _missing(db):
            applied += await _apply(db, each, say)
    return applied


async def pending(url: str) -> list[str]:
    """The names of migrations this database still lacks."""
    async with await connect(url) as db:
        known = {migration.number for migration in await _applied(db)}
        return [each.name for each in migrations() if each.number not in known]


@asynccontextmanager
async def _alone(db: Db) -> AsyncGenerator[None]:
    """A transaction beside which no other process migrates this database."""
    # The lock ends with the transaction: one of the session would be left behind in PgBouncer.
    # Polled: waiting for it deadlocks with another's CREATE INDEX CONCURRENTLY.
    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        async with db.transaction():
            row = await (await db.execute(_TRY_LOCK, {"lock": _LOCK})).fetchone()
            if row and row[0]:
                yield
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise Conflict("Another process has been migrating this database for five minutes.")


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


async def _apply(db: Db, migration: Migration, say: Callable[[str], None]) -> bool:
    async with _alone(db):
        if migration not in await _missing(db):
            return False  # another process has just done it
        say(f"applying {migration.name}")
        await db.execute(_CREATE_LEDGER)
        await db.execute("SET LOCAL recollect.reach = 'everywhere'")
        await db.execute(migration.text.encode())
        await db.execute(
            _RECORD,
            {"number": migration.number, "name": migration.name, "digest": migration.digest},
        )
    return True
