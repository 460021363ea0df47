"""Database connections and transactions. Every transaction names its workspace."""

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

from recollect.core.domain import UserId, WorkspaceId
from recollect.core.errors import Conflict, Invalid, Unauthenticated, Unavailable
from recollect.db import arrays

Db = psycopg.AsyncConnection[TupleRow]
Row = TypeVar("Row")

# The timeout for opening a connection outside the pool.
_CONNECT_SECONDS = 10

# How long a request waits for a free connection before it fails with `Unavailable`.
CHECKOUT_SECONDS = 10.0

# How long the pool itself tries to replace a broken connection, with growing pauses. After that the
# next request tries at once, so that a database that was down for long is soon found again.
_RECONNECT_SECONDS = 5.0

# Also resets `recollect.reach`: behind PgBouncer another client, such as psql, may have set it for
# the whole session of the shared server connection.
_BEGIN = sql.SQL("BEGIN; SET LOCAL recollect.workspace = {}; SET LOCAL recollect.reach = ''")
# Locks the user's row: an erasure waits for us, and after an erasure we find no row.
_LOCK_USER = sql.SQL("; SELECT id FROM app_user WHERE id = {} FOR KEY SHARE")
# The commit does not wait for the disk. A crash may lose the last half second.
_UPDATE_COUNTERS = sql.SQL("{}; SET LOCAL synchronous_commit = off; {}; COMMIT")
_BEGIN_READING = sql.SQL(
    "BEGIN READ ONLY; SET LOCAL recollect.workspace = {}; SET LOCAL recollect.reach = ''"
)
# The statements of a search are long: planning them each time took 8 of its 50 ms at 100,000
# memories, and the plan is always the same (`PGOPTIONS='-c plan_cache_mode=...'` shows it).
# The generic plan must also suit small workspaces, so parallel workers are off: next to a workspace
# of 50,000, an exact scan of 51 vectors took 9 ms with them and takes 0.2 ms without. Large
# workspaces have an index; an exact scan of all 50,000 takes 23 ms, and took 20 ms with a second
# worker on two cores.
_KEEP_PLANS = sql.SQL(
    "; SET LOCAL plan_cache_mode = 'force_generic_plan'"
    "; SET LOCAL max_parallel_workers_per_gather = 0"
)
# A SELECT instead of SET: the first query takes the snapshot.
_BEGIN_SNAPSHOT = sql.SQL(
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    "SELECT set_config('recollect.workspace', {}, true), set_config('recollect.reach', '', true)"
)
_BEGIN_EVERYWHERE = sql.SQL("BEGIN; SET LOCAL recollect.reach = 'everywhere'")
_BEGIN_ERASING = sql.SQL(
    "BEGIN; SET LOCAL recollect.reach = 'everywhere'; SET LOCAL recollect.erasing = 'on'"
)


_PING = "SELECT 1"


class _UncancellableConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection that does not cancel running queries. It waits for them up to five seconds.

    PgBouncer 1.18 (Debian 12) exits with "bad client state" and drops all connections when a client
    sends a cancel request and disconnects (its issue 801). Older versions may cancel the query of
    another client.
    """

    async def cancel_safe(self, *, timeout: float = 30.0) -> None:  # noqa: ASYNC109 - the driver's
        """Do nothing. The driver keeps waiting, and closes the connection if that takes long."""
        del timeout


class Pool:
    """A bounded set of connections to one PostgreSQL."""

    def __init__(self, url: str, *, size: int, behind_pgbouncer: bool = False) -> None:
        self.url = url
        self._kind = (
            _UncancellableConnection if behind_pgbouncer else psycopg.AsyncConnection[TupleRow]
        )
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
                # PgBouncer in transaction mode gives each transaction another server connection.
                "prepare_threshold": None if behind_pgbouncer else 2,
            },
        )

    async def open(self) -> None:
        """Connect. Raises `Unavailable` if the database does not respond."""
        try:
            await self._pool.open(wait=True, timeout=CHECKOUT_SECONDS)
        except PoolTimeout as error:
            raise Unavailable("database") from error

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()

    async def direct_connection(self) -> Db:
        """A connection outside the pool, for long operations. See `connect`."""
        return await connect(self.url, self._kind)

    def writing(self, workspace_id: WorkspaceId) -> AbstractAsyncContextManager[Db]:
        """A transaction that sees and changes one workspace, committed when the block ends."""
        return self._transaction(_begin(workspace_id))

    def writing_as(
        self, workspace_id: WorkspaceId, user_id: UserId
    ) -> AbstractAsyncContextManager[Db]:
        """Like `writing`, on behalf of a user, who cannot be erased until it ends.

        Raises `Unauthenticated` if the user no longer exists.
        """
        return self._transaction(
            _begin(workspace_id) + _LOCK_USER.format(sql.Literal(str(user_id))), requires_user=True
        )

    def reading(
        self, workspace_id: WorkspaceId, *, keeps_plans: bool = False
    ) -> AbstractAsyncContextManager[Db]:
        """A read-only transaction that sees one workspace.

        `keeps_plans` is for statements whose best plan does not depend on the parameters.
        """
        begin = _BEGIN_READING.format(sql.Literal(str(workspace_id)))
        return self._transaction(begin + _KEEP_PLANS if keeps_plans else begin)

    def snapshot(self, workspace_id: WorkspaceId) -> AbstractAsyncContextManager[Db]:
        """A read-only transaction with a fixed snapshot of one workspace."""
        return self._transaction(_BEGIN_SNAPSHOT.format(sql.Literal(str(workspace_id))))

    def everywhere(self) -> AbstractAsyncContextManager[Db]:
        """A transaction over all workspaces: for the queue, sweeps and identity tables."""
        return self._transaction(_BEGIN_EVERYWHERE)

    async def ping(self) -> None:
        """Return when the database responds."""
        async with self.everywhere() as db:
            await db.execute(_PING)

    def erasing(self) -> AbstractAsyncContextManager[Db]:
        """Like `everywhere`, and also allowed to remove names and reasons from audit events."""
        return self._transaction(_BEGIN_ERASING)

    @property
    def statistics(self) -> dict[str, int]:
        """The pool's own statistics."""
        return self._pool.get_stats()

    async def update_counters(
        self, workspace_id: WorkspaceId, statement: sql.Composed
    ) -> list[TupleRow]:
        """Run one statement in its own transaction and round trip; return its rows.

        Only for counters: it does not wait for the disk, and a crash may lose it.
        """
        try:
            connection = await self._pool.getconn()
        except (PoolTimeout, PoolClosed) as error:
            raise Unavailable("database") from error
        try:
            cursor = await connection.execute(
                _UPDATE_COUNTERS.format(_begin(workspace_id), statement)
            )
            return await _all_rows(cursor)
        except BaseException as error:
            with suppress(psycopg.Error):
                await connection.rollback()
            if isinstance(error, psycopg.OperationalError):
                raise Unavailable("database") from error
            raise
        finally:
            await self._return_connection(connection)

    @asynccontextmanager
    async def _transaction(
        self, begin: sql.SQL | sql.Composed, *, requires_user: bool = False
    ) -> AsyncGenerator[Db]:
        connection, found = await self._begin(begin)
        try:
            try:
                _check_user(is_known=bool(found) or not requires_user)
                yield connection
            except BaseException:
                # A task cancelled during a query interrupts that query. The rollback may then fail,
                # and its error must not replace the original one.
                with suppress(psycopg.Error):
                    await connection.rollback()
                raise
            await connection.commit()
        except psycopg.errors.ProgramLimitExceeded as error:
            # The driver calls it an operational error, but a retry would not help.
            raise Invalid("A value is too long for the database to index.") from error
        except psycopg.errors.ForeignKeyViolation as error:
            # The row existed a moment ago; another request has deleted it since.
            raise Conflict(
                "The parent of this object was just deleted.", is_temporary=True
            ) from error
        except psycopg.OperationalError as error:
            raise Unavailable("database") from error
        finally:
            await self._return_connection(connection)

    async def _begin(self, begin: sql.SQL | sql.Composed) -> tuple[Db, int]:
        """A connection with an open transaction, and the row count of its last statement."""
        # A connection that died with the server fails here, before any work was done. The pool
        # drops it, and we try the next one. Testing the connection first would cost a round trip.
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
                await self._return_connection(connection)
                # PgBouncer also raises this if it has no server connection free after a while.
                if monotonic() > end:
                    break
            except BaseException:
                await self._return_connection(connection)
                raise
            else:
                return connection, cursor.rowcount
        raise Unavailable("database")

    async def _return_connection(self, connection: Db) -> None:
        # Shielded: a task cancelled while it waits for the pool's lock would leak the connection,
        # and the pool would stay smaller. The shield costs 8 microseconds.
        await asyncio.shield(self._pool.putconn(connection))


async def _all_rows(cursor: psycopg.AsyncCursor[TupleRow]) -> list[TupleRow]:
    """The rows of all statements."""
    rows: list[TupleRow] = []
    has_more: bool | None = True
    while has_more:
        if cursor.description:
            rows += await cursor.fetchall()
        has_more = cursor.nextset()
    return rows


def _begin(workspace_id: WorkspaceId) -> sql.Composed:
    return _BEGIN.format(sql.Literal(str(workspace_id)))


def _check_user(*, is_known: bool) -> None:
    if not is_known:
        raise Unauthenticated("The user of this key no longer exists.")


async def connect(url: str, kind: type[Db] = psycopg.AsyncConnection[TupleRow]) -> Db:
    """An autocommit connection outside the pool. Raises `Unavailable` if nothing responds."""
    try:
        return await kind.connect(
            # Never prepare: PgBouncer may give the next transaction another server connection.
            url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            prepare_threshold=None,
        )
    except psycopg.OperationalError as error:
        raise Unavailable("database") from error


_SET_WORKSPACE = "SELECT set_config('recollect.workspace', %(workspace_id)s, true)"


async def switch_workspace(db: Db, workspace_id: WorkspaceId) -> None:
    """Switch the current transaction to another workspace."""
    await db.execute(_SET_WORKSPACE, {"workspace_id": str(workspace_id)})


class PreparedQuery:
    """A long statement whose named parameters are numbered once instead of at each execution.

    The driver caches its parsed form only up to 4,096 characters. Parsing the three long statements
    of a search took 0.75 of the 12 ms that a search needs to compute.
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
        """All rows. Use `binary` for byte columns, which are otherwise sent as text.

        `literals` replace names in braces in the text, for partial indexes whose predicate
        contains the value.
        """
        query = self._query
        if literals:
            query = query.format_map({name: _literal(each) for name, each in literals.items()})
        async with psycopg.AsyncRawCursor(db, row_factory=row_factory) as cursor:
            ordered = [values[name] for name in self._names]
            await cursor.execute(query, ordered, binary=binary)
            return await cursor.fetchall()


def _literal(value: UUID | int | None) -> str:
    return f"'{value}'::uuid" if isinstance(value, UUID) else str(value)


_NAMED = re.compile(r"%\((\w+)\)s|%%")

_BACKEND = "SELECT pg_backend_pid()"


async def is_pooled(db: Db) -> bool:
    """Whether a pooler is in between. A pooler reports its own process id to its clients."""
    row = await (await db.execute(_BACKEND)).fetchone()
    return row is None or row[0] != db.info.backend_pid


@asynccontextmanager
async def pipeline(db: Db) -> AsyncGenerator[None]:
    """Send statements without results together with the next one whose rows are read.

    Their errors are raised then, at the latest when the block ends. They have no `rowcount`, so do
    not use functions that return one here. A save takes 5 round trips this way instead of 9.
    """
    async with db.pipeline():
        yield


def savepoint(db: Db) -> AbstractAsyncContextManager[object]:
    """A part of a transaction that is rolled back alone if it raises."""
    return db.transaction()


async def _configure(connection: Db) -> None:
    await register_vector_async(connection)
    arrays.register(connection)
    set_json_loads(_read_json, connection)


def _number(digits: str) -> int | float:
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else float(digits)


# `jsonb` prints 1e30 with all its digits. Parsed as an integer it would not fit in 64 bits.
_DECODER = json.JSONDecoder(parse_int=_number)


def _read_json(text: str | bytes) -> Any:
    return _DECODER.decode(text if isinstance(text, str) else text.decode())
