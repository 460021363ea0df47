"""A database on its way out and in: PostgreSQL's own `pg_dump` and `pg_restore`, as streams.

`pg_restore` only turns an archive into a script here. We run the script ourselves, in one
transaction that ends with checks of ours, over the same driver as everything else: the programs
that come with Recollect speak no TLS.
"""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from recollect.embedded import CannotStart, find_binaries
from recollect.errors import Failure
from recollect.store import catalogue
from recollect.store.catalogue import Facts
from recollect.store.pool import Db, connect, is_pooled

CHUNK = 1024 * 1024
OLDEST_POSTGRES = 17
OLDEST_VECTOR = (0, 8)

_SAID_LINES = 4


class CannotCopy(Failure):
    """A dump or its loading failed. The message is for the terminal: it names paths."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One moment of a database, for `pg_dump` and for queries to see alike."""

    db: Db
    url: str
    name: str
    facts: Facts

    @property
    def schema(self) -> str:
        """The schema that holds the tables."""
        return self.facts.schema or "public"


@asynccontextmanager
async def open_snapshot(url: str) -> AsyncGenerator[Snapshot]:
    """A moment of the database that stays visible, in every workspace, while the block lasts."""
    async with await _connect(url) as db:
        facts = await catalogue.facts(db)
        name = await catalogue.begin_snapshot(db)
        await catalogue.see_all(db)
        yield Snapshot(db, url, name, facts)
        await db.rollback()


async def _connect(url: str) -> Db:
    db = await connect(url)
    if not await is_pooled(db):
        return db
    await db.close()
    raise CannotCopy(
        "A pooler such as PgBouncer stands before this database, and a copy needs one session from "
        "beginning to end. Give the address of PostgreSQL itself."
    )


def find_tools(known: Path | None, setting: Path | None, snapshot: Snapshot) -> Path:
    """The directory of a `pg_dump` that can talk to this server."""
    major, uses_tls = snapshot.facts.major, bool(snapshot.db.pgconn.ssl_in_use)
    tried: list[str] = []
    for each in [known] if known else _tool_directories(setting):
        version = tool_version(each)
        if version is None:
            continue
        if int(version.split(".")[0]) < major:
            tried.append(f"`{each}` has version {version}")
        elif uses_tls and not _speaks_tls(each):
            tried.append(f"`{each}` speaks no TLS, which this connection uses")
        else:
            return each
    raise CannotCopy(
        f"No `pg_dump` for this PostgreSQL {snapshot.facts.version} was found"
        f"{': ' if tried else ''}{'; '.join(tried)}. Install PostgreSQL's client programs, version "
        f"{major} or newer, and name their directory in `RECOLLECT_POSTGRES_BIN`."
    )


def tool_version(bin_dir: Path) -> str | None:
    """The version of a directory's `pg_dump`; None where there is none that runs."""
    try:
        told = subprocess.run(  # noqa: S603 - a program we found, with a fixed argument
            [bin_dir / "pg_dump", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    match = re.search(r"\d+(\.\d+)?", told.stdout)
    return match[0] if match else None


def restore_tools(known: Path | None, setting: Path | None) -> Path:
    """The directory of the newest `pg_restore` there is; it only reads files."""
    found = {
        each: tool_version(each) for each in ([known] if known else _tool_directories(setting))
    }
    versions = {each: [int(n) for n in told.split(".")] for each, told in found.items() if told}
    if not versions:
        raise CannotCopy(
            "No `pg_restore` was found. Install PostgreSQL's client programs and name their "
            "directory in `RECOLLECT_POSTGRES_BIN`."
        )
    return max(versions, key=lambda each: versions[each])


async def dump(snapshot: Snapshot, tools: Path, *, compress: bool) -> AsyncIterator[bytes]:
    """The database as an archive in `pg_dump`'s custom format, piece by piece."""
    given: dict[str, Any] = {**conninfo_to_dict(snapshot.url)}
    password = given.pop("password", None)
    # Under a single role that owns the tables, row-level security would hide every row. The
    # policies let this setting pass; the counts of the snapshot show whether they did.
    given["options"] = f"{given.get('options') or ''} -c recollect.reach=everywhere".strip()
    if snapshot.db.pgconn.ssl_in_use and given.get("sslmode") in {None, "allow", "prefer"}:
        given["sslmode"] = "require"  # never in the clear because a program cannot do better
    command = [
        str(tools / "pg_dump"),
        *("--format=custom", "--no-password", "--no-owner", "--no-privileges", "--no-comments"),
        *("--enable-row-security", "--load-via-partition-root"),
        *(f"--snapshot={snapshot.name}", f'--schema="{snapshot.schema}"'),
        *([] if compress else ["--compress=0"]),
        f"--dbname={make_conninfo(**given)}",
    ]
    environment = {"PGPASSWORD": str(password)} if password else {}
    async with _running(command, environment) as process:
        assert process.stdout
        while piece := await process.stdout.read(CHUNK):
            yield piece


async def count_dumped(archive: AsyncIterator[bytes], tools: Path, schema: str) -> dict[str, int]:
    """How many rows of each table an archive really holds; reads all of it."""
    counts: dict[str, int] = {}
    async with _script(archive, tools, schema) as script:
        while (part := await script.statements()).copy:
            rows = 0
            async for piece in script.rows():
                rows += piece.count(b"\n")
            counts[part.table] = counts.get(part.table, 0) + rows
    return counts


Check = Callable[[Db], Awaitable[None]]


async def load(
    archive: AsyncIterator[bytes],
    url: str,
    tools: Path,
    schema: str,
    *,
    before: Check,
    after: Check,
) -> None:
    """Run an archive's script on a database, all of it or nothing.

    `before` and `after` belong to the same transaction; what they raise undoes everything.
    """
    async with await _connect(url) as db, db.transaction():
        await before(db)
        try:
            async with _script(archive, tools, schema) as script:
                await _run_script(db, script)
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error).split("\n", 1)[0]
            raise CannotCopy(
                f"The database refused a part of it: {said}. Nothing was changed."
            ) from error
        await catalogue.reset_session(db)  # the script changed settings, the search path among them
        await catalogue.see_all(db)
        await after(db)


async def make_ready(db: Db, *, schema: str, vector_schema: str) -> None:
    """Check that a database can take in a dump and create the extensions; raise what to do."""
    facts = await catalogue.facts(db)
    where = f"The database `{facts.database}`"
    if facts.major < OLDEST_POSTGRES:
        raise CannotCopy(
            f"{where} is on PostgreSQL {facts.version}; Recollect needs {OLDEST_POSTGRES} or newer."
        )
    if facts.encoding != "UTF8":
        raise CannotCopy(
            f"{where} has the encoding `{facts.encoding}`. Create one with `ENCODING 'UTF8'`."
        )
    if facts.schema != schema:
        raise CannotCopy(
            f"{where} would put tables into the schema `{facts.schema}`, but they come from "
            f"`{schema}`. Create that schema, or set the role's `search_path` to it."
        )
    if not facts.may_create:
        raise CannotCopy(
            f"The role `{facts.role}` may not create tables in `{facts.database}`. As its owner, "
            f'run there: GRANT CREATE ON SCHEMA "{schema}" TO "{facts.role}";'
        )
    if facts.vector is None or facts.trigram is None:
        await _create_extensions(db, facts)
        facts = await catalogue.facts(db)
    if parsed(facts.vector or "0") < OLDEST_VECTOR:
        raise CannotCopy(
            f"{where} has pgvector {facts.vector}; Recollect needs 0.8 or newer. Install it, then "
            "run there as a superuser: ALTER EXTENSION vector UPDATE;"
        )
    if facts.vector_schema != vector_schema:
        raise CannotCopy(
            f"{where} has pgvector in the schema `{facts.vector_schema}`, and the tables expect it "
            f"in `{vector_schema}`. Run there as a superuser: "
            f"ALTER EXTENSION vector SET SCHEMA {vector_schema};"
        )


async def _create_extensions(db: Db, facts: Facts) -> None:
    try:
        await catalogue.create_extensions(db)
    except psycopg.errors.InsufficientPrivilege as error:
        raise CannotCopy(
            f"The role `{facts.role}` may not create extensions. As a superuser, run in the "
            f"database `{facts.database}`: CREATE EXTENSION vector; CREATE EXTENSION pg_trgm;"
        ) from error
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise CannotCopy(
            "That server has no pgvector (0.8 or newer) or no pg_trgm. Install them there first, "
            "for example the packages `postgresql-18-pgvector` and `postgresql-contrib`."
        ) from error


def parsed(version: str) -> tuple[int, ...]:
    """A version such as `0.8.6` as numbers that compare."""
    return tuple(int(each) for each in re.findall(r"\d+", version))


def _tool_directories(setting: Path | None) -> list[Path]:
    if setting is not None:
        return [setting]
    found: list[Path] = []
    with suppress(CannotStart):  # with an external database there need not be any
        found.append(find_binaries(None))
    on_path = shutil.which("pg_dump")
    return [*found, *([Path(on_path).parent] if on_path else [])]


def _speaks_tls(bin_dir: Path) -> bool:
    told = subprocess.run(  # noqa: S603 - a program we found; it refuses before it connects
        [bin_dir / "pg_dump", "--no-password", "--dbname=host=/nonexistent sslmode=require"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment({}),
    )
    return "not compiled in" not in told.stderr


@asynccontextmanager
async def _running(
    command: Sequence[str], environment: dict[str, str], *, is_fed: bool = False
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A program that runs while the block lasts; raise what it said if it fails."""
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if is_fed else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=said,
            env=_environment(environment),
        )
        try:
            yield process
            code = await process.wait()
        except OSError as error:
            # It stopped reading, so it knows better than we do what is wrong.
            await process.wait()
            raise _failure(command, said.fileno()) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code:
            raise _failure(command, said.fileno())


def _failure(command: Sequence[str], said: int) -> CannotCopy:
    text = os.pread(said, 100_000, 0).decode(errors="replace").strip()
    lines = " ".join(line.strip() for line in text.splitlines()[-_SAID_LINES:])
    return CannotCopy(f"`{command[0]}` failed: {lines or 'it said nothing.'}")


def _environment(more: dict[str, str]) -> dict[str, str]:
    # Our own settings hold keys, which are no business of these programs.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")}
    return kept | {"LC_ALL": "C"} | more


@dataclass(frozen=True, slots=True)
class _Part:
    """Statements, and the COPY after them whose rows follow; the last part has none."""

    sql: bytes
    copy: bytes
    table: str


_COPY = re.compile(rb'COPY (?:"[^"]+"|[^ ."]+)\.(?:"([^"]+)"|([^ ."]+)) .*FROM stdin;\n')
_END_OF_ROWS = b"\n\\.\n"


class _Script:
    """A script of `pg_restore`, read as statements and rows in turn."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._rest = b""

    async def statements(self) -> _Part:
        lines: list[bytes] = []
        while line := await self._line():
            match = _COPY.fullmatch(line)
            if match:
                return _Part(b"".join(lines), line, (match[1] or match[2]).decode())
            if not line.startswith(b"\\"):  # \restrict and its like are for psql
                lines.append(line)
        return _Part(b"".join(lines), b"", "")

    async def rows(self) -> AsyncIterator[bytes]:
        """The rows of a COPY in pieces, to be taken to the end."""
        held = b"\n" + self._rest  # the end is a line of its own, also when it is the first
        is_first = True
        while (end := held.find(_END_OF_ROWS)) < 0:
            safe = len(held) - len(_END_OF_ROWS)
            if safe > 1:
                yield held[is_first:safe]
                held, is_first = held[safe:], False
            piece = await self._stream.read(CHUNK)
            if not piece:
                raise CannotCopy("The dump ends in the middle of a table.")
            held += piece
        self._rest = held[end + len(_END_OF_ROWS) :]
        yield held[is_first : end + 1]

    async def _line(self) -> bytes:
        while (end := self._rest.find(b"\n")) < 0:
            piece = await self._stream.read(CHUNK)
            if not piece:
                last, self._rest = self._rest, b""
                return last
            self._rest += piece
        line, self._rest = self._rest[: end + 1], self._rest[end + 1 :]
        return line


@asynccontextmanager
async def _script(
    archive: AsyncIterator[bytes], tools: Path, schema: str
) -> AsyncGenerator[_Script]:
    """The script an archive stands for, fed to `pg_restore` as fast as the script is read."""
    command = [
        str(tools / "pg_restore"),
        *("--file=-", "--no-owner", "--no-privileges", "--no-comments", f"--schema={schema}"),
    ]
    async with _running(command, {}, is_fed=True) as process:
        assert process.stdin
        assert process.stdout
        feeding = asyncio.create_task(_feed(process.stdin, archive))
        try:
            yield _Script(process.stdout)
            await feeding
        except CannotCopy:
            await feeding  # a script that ends too early may do so because its source failed
            raise
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(stdin: asyncio.StreamWriter, archive: AsyncIterator[bytes]) -> None:
    try:
        async for piece in archive:
            stdin.write(piece)
            await stdin.drain()
    finally:
        stdin.close()
    await stdin.wait_closed()


async def _run_script(db: Db, script: _Script) -> None:
    while True:
        part = await script.statements()
        if part.sql.strip():
            await db.execute(part.sql)
        if not part.copy:
            return
        async with db.cursor() as cursor, cursor.copy(part.copy) as copy:
            async for piece in script.rows():
                await copy.write(piece)
