"""Dump and load a database with PostgreSQL's `pg_dump` and `pg_restore`, as streams.

`pg_restore` only turns an archive into a script. We run the script ourselves, in one transaction
that ends with our own checks, over the same driver as everything else: the programs bundled with
Recollect do not support TLS.
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

from recollect.core.errors import Failure
from recollect.db import catalog
from recollect.db.catalog import DatabaseFacts
from recollect.db.pool import Db, connect, is_pooled
from recollect.embedded import CannotStart, find_binaries

CHUNK = 1024 * 1024
MIN_POSTGRES = 17
MIN_VECTOR = (0, 8)

_MAX_ERROR_LINES = 4


class CannotCopy(Failure):
    """A dump or load failed. The message is for the terminal only: it contains paths."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of a database that `pg_dump` and queries share."""

    db: Db
    url: str
    name: str
    facts: DatabaseFacts

    @property
    def schema(self) -> str:
        """The schema that holds the tables."""
        return self.facts.schema or "public"


@asynccontextmanager
async def open_snapshot(url: str) -> AsyncGenerator[Snapshot]:
    """Open a snapshot of the whole database; it lasts as long as the block."""
    async with await _connect(url) as db:
        facts = await catalog.facts(db)
        name = await catalog.begin_snapshot(db)
        await catalog.disable_row_security(db)
        yield Snapshot(db, url, name, facts)
        await db.rollback()


async def _connect(url: str) -> Db:
    db = await connect(url)
    if not await is_pooled(db):
        return db
    await db.close()
    raise CannotCopy(
        "This database is behind a pooler such as PgBouncer, but a copy needs one session from "
        "beginning to end. Use the address of PostgreSQL itself."
    )


def find_tools(known: Path | None, setting: Path | None, snapshot: Snapshot) -> Path:
    """Return the directory of a `pg_dump` that works with this server."""
    major, uses_tls = snapshot.facts.major, bool(snapshot.db.pgconn.ssl_in_use)
    rejected: list[str] = []
    for each in [known] if known else _tool_directories(setting):
        version = tool_version(each)
        if version is None:
            continue
        if int(version.split(".")[0]) < major:
            rejected.append(f"`{each}` has version {version}")
        elif uses_tls and not _supports_tls(each):
            rejected.append(f"`{each}` does not support TLS, which this connection uses")
        else:
            return each
    raise CannotCopy(
        f"No `pg_dump` for this PostgreSQL {snapshot.facts.version} was found"
        f"{': ' if rejected else ''}{'; '.join(rejected)}. Install PostgreSQL's client programs, "
        f"version {major} or newer, and set `RECOLLECT_POSTGRES_BIN` to their directory."
    )


def tool_version(bin_dir: Path) -> str | None:
    """Return the version of a directory's `pg_dump`; None when there is none that runs."""
    try:
        result = subprocess.run(  # noqa: S603 - a program we found, with a fixed argument
            [bin_dir / "pg_dump", "--version"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    match = re.search(r"\d+(\.\d+)?", result.stdout)
    return match[0] if match else None


def find_restore_tools(known: Path | None, setting: Path | None) -> Path:
    """Return the directory of the newest `pg_restore`, which only reads files here."""
    found = {
        each: tool_version(each) for each in ([known] if known else _tool_directories(setting))
    }
    versions = {
        each: [int(n) for n in version.split(".")] for each, version in found.items() if version
    }
    if not versions:
        raise CannotCopy(
            "No `pg_restore` was found. Install PostgreSQL's client programs and set "
            "`RECOLLECT_POSTGRES_BIN` to their directory."
        )
    return max(versions, key=lambda each: versions[each])


async def dump(snapshot: Snapshot, tools: Path, *, compress: bool) -> AsyncIterator[bytes]:
    """Yield the database as an archive in `pg_dump`'s custom format, piece by piece."""
    options: dict[str, Any] = {**conninfo_to_dict(snapshot.url)}
    password = options.pop("password", None)
    # Row-level security would hide every row from a role that owns the tables. With this setting
    # the policies show them all; the row counts of the snapshot prove that they did.
    options["options"] = f"{options.get('options') or ''} -c recollect.reach=everywhere".strip()
    if snapshot.db.pgconn.ssl_in_use and options.get("sslmode") in {None, "allow", "prefer"}:
        options["sslmode"] = "require"  # never fall back to an unencrypted connection
    command = [
        str(tools / "pg_dump"),
        *("--format=custom", "--no-password", "--no-owner", "--no-privileges", "--no-comments"),
        *("--enable-row-security", "--load-via-partition-root"),
        *(f"--snapshot={snapshot.name}", f'--schema="{snapshot.schema}"'),
        *([] if compress else ["--compress=0"]),
        f"--dbname={make_conninfo(**options)}",
    ]
    environment = {"PGPASSWORD": str(password)} if password else {}
    async with _running(command, environment) as process:
        assert process.stdout
        while piece := await process.stdout.read(CHUNK):
            yield piece


async def count_dumped(archive: AsyncIterator[bytes], tools: Path, schema: str) -> dict[str, int]:
    """Count the rows of each table in an archive, by reading all of it."""
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

    `before` and `after` run in the same transaction; an error in them undoes everything.
    """
    async with await _connect(url) as db, db.transaction():
        await before(db)
        try:
            async with _script(archive, tools, schema) as script:
                await _run_script(db, script)
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error).split("\n", 1)[0]
            raise CannotCopy(
                f"The database rejected the dump: {message}. Nothing was changed."
            ) from error
        await catalog.reset_session(db)  # the script changed settings, such as the search path
        await catalog.disable_row_security(db)
        await after(db)


async def prepare_database(db: Db, *, schema: str, vector_schema: str) -> None:
    """Check that a database can load a dump, and create the extensions it needs.

    Raises `CannotCopy` with what to do otherwise.
    """
    facts = await catalog.facts(db)
    where = f"The database `{facts.database}`"
    if facts.major < MIN_POSTGRES:
        raise CannotCopy(
            f"{where} is on PostgreSQL {facts.version}; Recollect needs {MIN_POSTGRES} or newer."
        )
    if facts.encoding != "UTF8":
        raise CannotCopy(
            f"{where} has the encoding `{facts.encoding}`. Create one with `ENCODING 'UTF8'`."
        )
    if facts.schema != schema:
        raise CannotCopy(
            f"{where} would create tables in the schema `{facts.schema}`, but the dump uses "
            f"`{schema}`. Create that schema, or set the role's `search_path` to it."
        )
    if not facts.may_create:
        raise CannotCopy(
            f"The role `{facts.role}` may not create tables in `{facts.database}`. As its owner, "
            f'run there: GRANT CREATE ON SCHEMA "{schema}" TO "{facts.role}";'
        )
    if facts.vector is None or facts.trigram is None:
        await _create_extensions(db, facts)
        facts = await catalog.facts(db)
    if parse_version(facts.vector or "0") < MIN_VECTOR:
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


async def _create_extensions(db: Db, facts: DatabaseFacts) -> None:
    try:
        await catalog.create_extensions(db)
    except psycopg.errors.InsufficientPrivilege as error:
        raise CannotCopy(
            f"The role `{facts.role}` may not create extensions. As a superuser, run in the "
            f"database `{facts.database}`: CREATE EXTENSION vector; CREATE EXTENSION pg_trgm;"
        ) from error
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as error:
        raise CannotCopy(
            "The server lacks pgvector (0.8 or newer) or pg_trgm. Install them there first, "
            "for example the packages `postgresql-18-pgvector` and `postgresql-contrib`."
        ) from error


def parse_version(version: str) -> tuple[int, ...]:
    """Return a version such as `0.8.6` as numbers that can be compared."""
    return tuple(int(each) for each in re.findall(r"\d+", version))


def _tool_directories(setting: Path | None) -> list[Path]:
    if setting is not None:
        return [setting]
    found: list[Path] = []
    with suppress(CannotStart):  # with an external database there may be none
        found.append(find_binaries(None))
    on_path = shutil.which("pg_dump")
    return [*found, *([Path(on_path).parent] if on_path else [])]


def _supports_tls(bin_dir: Path) -> bool:
    result = subprocess.run(  # noqa: S603 - a program we found; it fails before it connects
        [bin_dir / "pg_dump", "--no-password", "--dbname=host=/nonexistent sslmode=require"],
        capture_output=True,
        text=True,
        check=False,
        env=_environment({}),
    )
    return "not compiled in" not in result.stderr


@asynccontextmanager
async def _running(
    command: Sequence[str], environment: dict[str, str], *, has_input: bool = False
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Run a program while the block lasts; raise `CannotCopy` with its output if it fails."""
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE if has_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=_environment(environment),
        )
        try:
            yield process
            code = await process.wait()
        except OSError as error:
            # The program stopped reading, so its own error message explains why.
            await process.wait()
            raise _failure(command, errors.fileno()) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if code:
            raise _failure(command, errors.fileno())


def _failure(command: Sequence[str], errors: int) -> CannotCopy:
    text = os.pread(errors, 100_000, 0).decode(errors="replace").strip()
    lines = " ".join(line.strip() for line in text.splitlines()[-_MAX_ERROR_LINES:])
    return CannotCopy(f"`{command[0]}` failed: {lines or 'it printed no error.'}")


def _environment(more: dict[str, str]) -> dict[str, str]:
    # Our settings contain keys, which these programs must not see.
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("RECOLLECT_")
    }
    return inherited | {"LC_ALL": "C"} | more


@dataclass(frozen=True, slots=True)
class _Part:
    """Statements, and the COPY command after them; the last part has no COPY."""

    sql: bytes
    copy: bytes
    table: str


_COPY = re.compile(rb'COPY (?:"[^"]+"|[^ ."]+)\.(?:"([^"]+)"|([^ ."]+)) .*FROM stdin;\n')
_END_OF_ROWS = b"\n\\.\n"


class _Script:
    """A script of `pg_restore`, read as alternating statements and rows."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._rest = b""

    async def statements(self) -> _Part:
        lines: list[bytes] = []
        while line := await self._line():
            match = _COPY.fullmatch(line)
            if match:
                return _Part(b"".join(lines), line, (match[1] or match[2]).decode())
            if not line.startswith(b"\\"):  # \restrict and similar commands are for psql
                lines.append(line)
        return _Part(b"".join(lines), b"", "")

    async def rows(self) -> AsyncIterator[bytes]:
        """Yield the rows of a COPY in pieces; read all of them before the next statements."""
        buffer = b"\n" + self._rest  # so that the end marker is found in the first line too
        is_first = True
        while (end := buffer.find(_END_OF_ROWS)) < 0:
            safe = len(buffer) - len(_END_OF_ROWS)
            if safe > 1:
                yield buffer[is_first:safe]
                buffer, is_first = buffer[safe:], False
            piece = await self._stream.read(CHUNK)
            if not piece:
                raise CannotCopy("The dump ends in the middle of a table.")
            buffer += piece
        self._rest = buffer[end + len(_END_OF_ROWS) :]
        yield buffer[is_first : end + 1]

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
    """Convert an archive to a script with `pg_restore`, as fast as the script is read."""
    command = [
        str(tools / "pg_restore"),
        *("--file=-", "--no-owner", "--no-privileges", "--no-comments", f"--schema={schema}"),
    ]
    async with _running(command, {}, has_input=True) as process:
        assert process.stdin
        assert process.stdout
        feeding = asyncio.create_task(_feed(process.stdin, archive))
        try:
            yield _Script(process.stdout)
            await feeding
        except CannotCopy:
            await (
                feeding
            )  # the script may end too early because its source failed; report that instead
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
