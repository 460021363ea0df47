"""Migrations: numbered `.sql` files, applied once each, in order, by one process at a time.

A file is never edited after it was applied. The migrations before the first release were squashed
into `0001_schema.sql`. A database that has all of them already has this schema, and is adopted.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import resources

from recollect.core.errors import Conflict
from recollect.db.pool import Db, connect

# Any number works if no other program uses it on the same database.
_LOCK = 7_245_018_846_213
_WAIT_SECONDS = 300
_POLL_SECONDS = 0.1

# The migrations that were squashed: the name of the first, the number of the last, and a digest of
# their recorded digests.
_FIRST_SQUASHED = "0001_foundation"
LAST_SQUASHED = 32
_SQUASHED_DIGEST = "cb0a84bb7f6e21befa335884e59b7aa3a0fe60e5d36d31270f572c908dde1c05"
LAST_UNSQUASHED_COMMIT = "03f3435"

_TRY_LOCK = "SELECT pg_try_advisory_xact_lock(%(lock)s)"
_CREATE_TABLE = """
    CREATE TABLE IF NOT EXISTS migration (
        number integer PRIMARY KEY,
        name text NOT NULL,
        digest text NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )
"""
_APPLIED = "SELECT number, name, digest FROM migration ORDER BY number"
_HAS_TABLE = "SELECT to_regclass('migration') IS NOT NULL"
_RECORD = "INSERT INTO migration (number, name, digest) VALUES (%(number)s, %(name)s, %(digest)s)"
_CLEAR = "DELETE FROM migration"


@dataclass(frozen=True, slots=True)
class Migration:
    """One migration file."""

    number: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """Shows whether the file was edited after it was applied."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The newest migration of a database (0 if none) and the names of those it lacks."""

    newest: int
    pending: list[str]
    # Whether it has only some of the migrations that were squashed, so that it cannot be adopted.
    is_too_old: bool = False

    @property
    def is_newer(self) -> bool:
        """Whether a newer Recollect migrated the database."""
        return self.newest > migrations()[-1].number


def migrations() -> list[Migration]:
    """Return all migrations of this release, in order."""
    folder = resources.files("recollect.db").joinpath("migrations")
    found = [
        Migration(int(file.name[:4]), file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    ]
    return sorted(found, key=lambda each: each.number)


async def migrate(url: str, say: Callable[[str], None] = lambda _: None) -> int:
    """Bring the database to this release's schema. Return how many migrations were applied."""
    applied = 0
    async with await connect(url) as db:
        if _is_squashed(await _applied(db)):
            await _adopt(db, say)
        for each in await _missing(db):
            applied += await _apply(db, each, say)
    return applied


async def schema_state(url: str) -> SchemaState:
    """Return how far the database is migrated."""
    async with await connect(url) as db:
        applied = await _applied(db)
    numbers = {1} if _is_squashed(applied) else {each.number for each in applied}
    pending = [each.name for each in migrations() if each.number not in numbers]
    is_too_old = _is_squashed(applied) and not _can_be_adopted(applied)
    return SchemaState(max(numbers, default=0), pending, is_too_old)


@asynccontextmanager
async def _exclusive(db: Db) -> AsyncGenerator[None]:
    """Open a transaction in which no other process migrates this database."""
    # A transaction lock: PgBouncer would keep a session lock. Polled: waiting for the lock would
    # deadlock with another session's CREATE INDEX CONCURRENTLY.
    for _ in range(int(_WAIT_SECONDS / _POLL_SECONDS)):
        async with db.transaction():
            row = await (await db.execute(_TRY_LOCK, {"lock": _LOCK})).fetchone()
            if row and row[0]:
                yield
                return
        await asyncio.sleep(_POLL_SECONDS)
    raise Conflict("Another process has been migrating this database for five minutes.")


async def _missing(db: Db) -> list[Migration]:
    """Return the migrations to apply. Raise `Conflict` if this release cannot migrate it."""
    applied = {migration.number: migration for migration in await _applied(db)}
    known = migrations()
    newest = max(applied, default=0)
    if newest > known[-1].number:
        raise Conflict(
            f"A newer Recollect migrated this database (migration {newest}). Upgrade Recollect."
        )
    return [each for each in known if not _is_applied(each, applied)]


@dataclass(frozen=True, slots=True)
class _Applied:
    number: int
    name: str
    digest: str


async def _applied(db: Db) -> list[_Applied]:
    row = await (await db.execute(_HAS_TABLE)).fetchone()
    if not row or not row[0]:
        return []
    return [_Applied(*row) for row in await (await db.execute(_APPLIED)).fetchall()]


def _is_squashed(applied: Sequence[_Applied]) -> bool:
    """Whether these migrations were applied before they were squashed."""
    return bool(applied) and applied[0].name == _FIRST_SQUASHED


def _can_be_adopted(applied: Sequence[_Applied]) -> bool:
    """Whether these are all migrations that were squashed, unedited."""
    recorded = "\n".join(f"{each.number} {each.digest}" for each in applied)
    return hashlib.sha256(recorded.encode()).hexdigest() == _SQUASHED_DIGEST


async def _adopt(db: Db, say: Callable[[str], None]) -> None:
    """Record the squashed migrations as `0001_schema`."""
    schema = migrations()[0]
    async with _exclusive(db):
        applied = await _applied(db)
        if not _is_squashed(applied):
            return  # another process has just adopted it
        if not _can_be_adopted(applied):
            raise Conflict(
                f"An older Recollect migrated this database (`{applied[-1].name}`). Run "
                f"`recollect migrate` of commit `{LAST_UNSQUASHED_COMMIT}` first, then start this "
                "version again."
            )
        say(f"adopting {schema.name}")
        await db.execute(_CLEAR)
        await _record(db, schema)


def _is_applied(migration: Migration, applied: dict[int, _Applied]) -> bool:
    earlier = applied.get(migration.number)
    if earlier and earlier.digest != migration.digest:
        raise Conflict(
            f"Migration `{migration.name}` was edited after it was applied. Restore the file and "
            "write a new migration instead."
        )
    return earlier is not None


async def _apply(db: Db, migration: Migration, say: Callable[[str], None]) -> bool:
    async with _exclusive(db):
        if migration not in await _missing(db):
            return False  # another process has just applied it
        say(f"applying {migration.name}")
        await db.execute(_CREATE_TABLE)
        await db.execute("SET LOCAL recollect.reach = 'everywhere'")
        await db.execute(migration.text.encode())
        await _record(db, migration)
    return True


async def _record(db: Db, migration: Migration) -> None:
    await db.execute(
        _RECORD,
        {"number": migration.number, "name": migration.name, "digest": migration.digest},
    )
