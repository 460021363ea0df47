"""Connections and transactions. Every transaction says which workspace it is for."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from time import monotonic
from typing import Any, LiteralString, TypeVar
from uuid import UUID

import psycopg
from pgvector.psycopg import register_vector_async
from psycopg import sql
from psycopg.rows import BaseRowFactory, TupleRow
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from recollect.domain import UserId, WorkspaceId
from recollect.errors import Conflict, Invalid, Unauthenticated, Unavailable
from recollect.store import arrays

Db = psycopg.AsyncConnection[TupleRow]
Row = TypeVar("Row")

# How long a connection outside the pool may take to come about.
_CONNECT_SECONDS = 10

# How long a request waits for a free connection before it is told that we are overloaded.
CHECKOUT_SECONDS = 10.0

# How long the pool tries by itself, pausing ever longer, to replace a connection that broke. After
# that the next request tries at once, so that a database which was away for long is soon found.
_RECONNECT_SECONDS = 5.0

# The reach is named too: PgBouncer hands on connections on which a stranger, such as somebody at
# psql, may have set another one for good.
_BEGIN = sql.SQL("BEGIN; SET LOCAL recollect.workspace = {}; SET LOCAL recollect.reach = ''")
# Holds the user's row: whoever erases the user waits for us, and we find nobody after that.
_HOLD_USER = sql.SQL("; SELECT id FROM app_user WHERE id = {} FOR KEY SHARE")
# Nobody waits for the disk; after a crash the last half second of it may be missing.
_COUNT = sql.SQL("{}; SET LOCAL synchronous_commit = off; {}; COMMIT")
_BEGIN_READING = sql.SQL(
    "BEGIN READ ONLY; SET LOCAL recollect.workspace = {}; SET LOCAL recollect.reach = ''"
)
# A search's statements are long: planning them for each question took 8 of its 50 ms at 100,000
# memories, and the plan is the same each time (`PGOPTIONS='-c plan_cache_mode=...'` shows it).
# One for all workspaces must suit the small ones: with processes of its own to start, an exact look
# at 51 vectors took 9 ms beside a workspace of 50,000, and takes 0.2. The large ones have an index;
# all 50,000 read exactly take 23 ms, and took 20 with a second process on two cores.
_KEEP_PLANS = sql.SQL(
    "; SET LOCAL plan_cache_mode = 'force_generic_plan'"
    "; SET LOCAL max_parallel_workers_per_gather = 0"
)
# A SELECT, and no SET: the first query is the moment that is seen from then on.
_BEGIN_SNAPSHOT = sql.SQL(
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    "SELECT set_config('recollect.workspace', {}, true), set_config('recollect.reach', '', true)"
)
_BEGIN_EVERYWHERE = sql.SQL("BEGIN; SET LOCAL recollect.reach = 'everywhere'")
_BEGIN_ERASING = sql.SQL(
    "BEGIN; SET LOCAL recollect.reach = 'everywhere'; SET LOCAL recollect.erasing = 'on'"
)


class _Lasting(psycopg.AsyncConnection[TupleRow]):
    """Lets a query come to its end though nobody waits for it any more; for at most five seconds.

    Asked to break one off by somebody who hangs up on it, PgBouncer 1.18, which Debian 12 has, ends
    with "bad client state" and takes everybody's connections along (its issue 801). Older ones may
    break off the query of another client.
    """

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the driver's
        """Ask nobody. The driver goes on to wait, and closes the connection if that takes long."""
        del timeout


class Pool:
    """A bounded set of connections to one PostgreSQL."""

    def __init__(self, url: str, *, size: int, behind_pgbouncer: bool = False) -> None:
        self.url = url
        self._kind = _Lasting if behind_pgbouncer else psycopg.AsyncConnection[TupleRow]
        self._pool: AsyncConnectionPool[Db] = AsyncConnectionPool(
            url,
            connection_class=self._kind,
            min_size=min(2, size),
            max_size=size,
            timeout=CHECKOUT_SECONDS,
            reconnect_timeout=_RECONNECT_SECONDS,
            open=False,
            configure=_configure,
            kwargs={
                "autocommit": True,
                # PgBouncer in transaction mode hands each transaction another server connection.
                "prepare_threshold": None if behind_pgbouncer else 2,
            },
        )

    async def open(self) -> None:
        """Connect; raise `Unavailable` when the database does not answer."""
        try:
            await self._pool.open(wait=True, timeout=CHECKOUT_SECONDS)
        except PoolTimeout as error:
            raise Unavailable("database") from error

    async def close(self) -> None:
        """Give every connection back to the server."""
        await self._pool.close()

    async def beside(self) -> Db:
        """A connection outside the pool, for what takes long; else as `connect`."""
        return await connect(self.url, self._kind)

    def writing(self, workspace_id: WorkspaceId) -> AbstractAsyncContextManager[Db]:
        """A transaction that sees and changes one workspace, committed when the block ends."""
        return self._transaction(_begin(workspace_id))

    def writing_as(
        self, workspace_id: WorkspaceId, user_id: UserId
    ) -> AbstractAsyncContextManager[Db]:
        """As `writing`, in the name of a user, who cannot be erased until it ends.

        Raises `Unauthenticated` when there is no such user any more.
        """
        return self._transaction(
            _begin(workspace_id) + _HOLD_USER.format(sql.Literal(str(user_id))), finds_user=True
        )

    def reading(
        self, workspace_id: WorkspaceId, *, keeps_plans: bool = False
    ) -> AbstractAsyncContextManager[Db]:
        """A transaction that sees one workspace and can change nothing.

        `keeps_plans` for statements whose plan does not hang on what is asked.
        """
        begin = _BEGIN_READING.format(sql.Literal(str(workspace_id)))
        return self._transaction(begin + _KEEP_PLANS if keeps_plans else begin)

    def snapshot(self, workspace_id: WorkspaceId) -> AbstractAsyncContextManager[Db]:
        """A transaction that sees one workspace as it is now, however long it lasts."""
        return self._transaction(_BEGIN_SNAPSHOT.format(sql.Literal(str(workspace_id))))

    def everywhere(self) -> AbstractAsyncContextManager[Db]:
        """A transaction over all workspaces: for the queue, sweeps and identity tables."""
        return self._transaction(_BEGIN_EVERYWHERE)

    def erasing(self) -> AbstractAsyncContextManager[Db]:
        """As `everywhere`; in it the audit lets go of names and reasons."""
        return self._transaction(_BEGIN_ERASING)

    @property
    def statistics(self) -> dict[str, int]:
        """What the pool counts about itself."""
        return self._pool.get_stats()

    async def count(self, workspace_id: WorkspaceId, statement: sql.Composed) -> list[TupleRow]:
        """Change what is only counted, in a transaction and a round trip of its own; what it tells.

        A crash may lose it, and it waits for no disk.
        """
        try:
            connection = await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise Unavailable("database") from error
        try:
            cursor = await connection.execute(_COUNT.format(_begin(workspace_id), statement))
            return await _told(cursor)
        except BaseException as error:
            with suppress(psycopg.Error):
                await connection.rollback()
            if isinstance(error, psycopg.OperationalError):
                raise Unavailable("database") from error
            raise
        finally:
            await self._give_back(connection)

    @asynccontextmanager
    async def _transaction(
        self, begin: sql.SQL | sql.Composed, *, finds_user: bool = False
    ) -> AsyncGenerator[Db]:
        connection, found = await self._begin(begin)
        try:
            try:
                _check_user(is_known=bool(found) or not finds_user)
                yield connection
            except BaseException:
                # A task that is told to stop in the middle of a query breaks it off; the rollback
                # may fail on that, and must not take the place of what really happened.
                with suppress(psycopg.Error):
                    await connection.rollback()
                raise
            await connection.commit()
        except psycopg.errors.ProgramLimitExceeded as error:
            # An operational error to the driver, but trying again would not help.
            raise Invalid("A value is longer than the database can look up by.") from error
        except psycopg.errors.ForeignKeyViolation as error:
            # Found a moment ago, and deleted by somebody else since.
            raise Conflict("What this belongs to was just deleted.", is_passing=True) from error
        except psycopg.OperationalError as error:
            raise Unavailable("database") from error
        finally:
            await self._give_back(connection)

    async def _begin(self, begin: sql.SQL | sql.Composed) -> tuple[Db, int]:
        """A connection with the transaction begun, and how many rows the last of that found."""
        # A connection that died with the server fails here, before anything was done: the pool
        # drops it and the next one is tried. That costs no round trip, as asking first would.
        end = monotonic() + CHECKOUT_SECONDS
        for _ in range(self._pool.max_size + 1):
            try:
                connection = await self._pool.getconn()
            except (PoolTimeout, PoolClosed) as error:
                raise Unavailable("database") from error
            try:
                cursor = await connection.execute(begin)
                while cursor.nextset():
                    pass
            except psycopg.OperationalError:
                await self._give_back(connection)
                # PgBouncer says so too when it has none to give, after waiting for a while.
                if monotonic() > end:
                    break
            except BaseException:
                await self._give_back(connection)
                raise
            else:
                return connection, cursor.rowcount
        raise Unavailable("database")

    async def _give_back(self, connection: Db) -> None:
        # Whoever is told to stop while the pool's lock is waited for would take the connection
        # along, and the pool would be one smaller for good. It costs 8 microseconds.
        await asyncio.shield(self._pool.putconn(connection))


async def _told(cursor: psycopg.AsyncCursor[TupleRow]) -> list[TupleRow]:
    """The rows of whichever statement has some."""
    rows: list[TupleRow] = []
    is_more: bool | None = True
    while is_more:
        if cursor.description:
            rows += await cursor.fetchall()
        is_more = cursor.nextset()
    return rows


def _begin(workspace_id: WorkspaceId) -> sql.Composed:
    return _BEGIN.format(sql.Literal(str(workspace_id)))


def _check_user(*, is_known: bool) -> None:
    if not is_known:
        raise Unauthenticated("Whoever this key belongs to is not known here any more.")


async def connect(url: str, kind: type[Db] = psycopg.AsyncConnection[TupleRow]) -> Db:
    """A connection outside the pool, autocommitting; raise `Unavailable` when nothing answers."""
    try:
        return await kind.connect(
            # Never prepared: PgBouncer may hand the next transaction another server connection.
            url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            prepare_threshold=None,
        )
    except psycopg.OperationalError as error:
        raise Unavailable("database") from error


_TURN_TO = "SELECT set_config('recollect.workspace', %(workspace_id)s, true)"


async def turn_to(db: Db, workspace_id: WorkspaceId) -> None:
    """Look at another workspace from here on, in the same transaction."""
    await db.execute(_TURN_TO, {"workspace_id": str(workspace_id)})


class Numbered:
    """A long statement whose named values were numbered once, and not by the driver each time.

    The driver remembers how it reads a statement only up to 4,096 characters; the three long ones
    of a search took it 0.75 of the 12 ms that a search computes.
    """

    def __init__(self, query: LiteralString) -> None:
        names: dict[str, int] = {}

        def number(found: re.Match[str]) -> str:
            return f"${names.setdefault(found[1], len(names) + 1)}" if found[1] else "%"

        self._query: Any = _NAMED.sub(number, query)
        self._names = names

    async def run(
        self,
        db: Db,
        values: Mapping[str, Any],
        row_factory: BaseRowFactory[Row],
        *,
        binary: bool = False,
        **literals: UUID | int | None,
    ) -> list[Row]:
        """Every row it finds; `binary` for columns of bytes, which are written out otherwise.

        Literals, named in braces, stand in the text, for indexes whose predicate names them.
        """
        query = self._query
        if literals:
            query = query.format_map({name: _literal(each) for name, each in literals.items()})
        async with psycopg.AsyncRawCursor(db, row_factory=row_factory) as cursor:
            asked = [values[name] for name in self._names]
            await cursor.execute(query, asked, binary=binary)
            return await cursor.fetchall()


def _literal(value: UUID | int | None) -> str:
    return f"'{value}'::uuid" if isinstance(value, UUID) else str(value)


_NAMED = re.compile(r"%\((\w+)\)s|%%")

_BACKEND = "SELECT pg_backend_pid()"


async def is_pooled(db: Db) -> bool:
    """Whether a pooler stands between: it gives its clients a process number of its own making."""
    row = await (await db.execute(_BACKEND)).fetchone()
    return row is None or row[0] != db.info.backend_pid


@asynccontextmanager
async def together(db: Db) -> AsyncGenerator[None]:
    """Let statements that nobody awaits a row of travel with the next one that somebody does.

    An error of theirs is raised then, at the latest when the block ends. They have no `rowcount`:
    nothing that returns one belongs in here. A save takes 5 round trips this way, else 9.
    """
    async with db.pipeline():
        yield


def savepoint(db: Db) -> AbstractAsyncContextManager[object]:
    """A part of a transaction that is undone by itself when it raises."""
    return db.transaction()


async def _configure(connection: Db) -> None:
    await register_vector_async(connection)
    arrays.register(connection)
    set_json_loads(_read_json, connection)


def _number(digits: str) -> int | float:
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else float(digits)


# `jsonb` writes 1e30 with all its digits; read as an integer it would be none of 64 bits.
_DECODER = json.JSONDecoder(parse_int=_number)


def _read_json(text: str | bytes) -> Any:
    return _DECODER.decode(text if isinstance(text, str) else text.decode())
