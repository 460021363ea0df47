"""A pool that records the statements of each transaction and the rows that they touch."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql

from recollect.db.pool import Db, Pool

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# The tables with texts, keys, names and data derived from them, and the index of labels.
_SENSITIVE = [
    "memory",
    "memory_past_text",
    "memory_vector",
    "memory_word",
    "memory_terms",
    "memory_link",
    "asset",
    "memory_source",
    "insight",
    "inbox_item",
    "candidate",
    "document",
    "document_piece",
    "chunk",
    "chunk_word",
    "chunk_vector",
    "idempotency",
    "message_file",
    "response",
    "thread_label",
]
# These tables and their indexes. Partitions count for their table.
_WATCHED = """
    SELECT coalesce(whole.relname, c.relname), c.oid, c.relkind = 'i'
    FROM pg_class c
    LEFT JOIN pg_inherits part ON part.inhrelid = c.oid
    LEFT JOIN pg_class whole ON whole.oid = part.inhparent
    LEFT JOIN pg_index i ON i.indexrelid = coalesce(whole.oid, c.oid)
    LEFT JOIN pg_class indexed ON indexed.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
        AND (coalesce(indexed.relname, whole.relname, c.relname) = ANY(%(tables)s)
             OR c.relname = ANY(%(tables)s))
"""
# Rows fetched by an index or by a scan, by the server's statistics. Index entries of dead rows do
# not count, because they may be removed at any time.
_TOUCHED = """
    SELECT each.name, sum(
        CASE WHEN each.is_index THEN pg_stat_get_xact_tuples_fetched(each.oid)
            ELSE pg_stat_get_xact_tuples_returned(each.oid) END)::bigint
    FROM unnest(%(names)s::text[], %(oids)s::oid[], %(kinds)s::bool[]) AS each (name, oid, is_index)
    GROUP BY each.name
"""


# No plan may scan a whole small table: that would hide differences in the use of indexes.
_BY_INDEX = """
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_indexonlyscan = off
"""


# The recorded statements of each recording connection, by the connection's `id()`.
_RECORDED: dict[int, list[str]] = {}


def _recording_cursor(kind: Any) -> Any:
    class RecordingCursor(kind):
        async def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
            if id(self.connection) in _RECORDED:
                _RECORDED[id(self.connection)].append(_plain(self, query))
            return await kind.execute(self, query, *arguments, **options)

    return RecordingCursor


# `PreparedQuery` uses this class directly instead of the connection's cursor factory.
psycopg.AsyncRawCursor = _recording_cursor(psycopg.AsyncRawCursor)


class RecordingPool(Pool):
    """A pool whose `recorded` has a line for each statement and each touched table or index."""

    def __init__(self, url: str) -> None:
        # Nothing is prepared, so that a plan does not depend on earlier uses of a connection.
        super().__init__(url, size=8, behind_pgbouncer=True)
        self.recorded: list[str] = []
        self._watched: dict[str, list[Any]] = {}

    @asynccontextmanager
    async def _transaction(
        self, begin: sql.SQL | sql.Composed, *, requires_user: bool = False
    ) -> AsyncGenerator[Db]:
        async with super()._transaction(begin, requires_user=requires_user) as db:
            await psycopg.AsyncCursor(db).execute(_BY_INDEX)
            before = await self._touched(db)
            self.recorded.append(f"BEGIN {_ID.sub('<id>', begin.as_string(db))}")
            db.cursor_factory = _recording_cursor(psycopg.AsyncCursor)
            _RECORDED[id(db)] = self.recorded
            try:
                yield db
            finally:
                del _RECORDED[id(db)]
                db.cursor_factory = psycopg.AsyncCursor
            after = await self._touched(db)
            touched = {name: after[name] - before[name] for name in sorted(after)}
            self.recorded += [f"{name}: {count} rows" for name, count in touched.items() if count]

    async def _touched(self, db: Db) -> dict[str, int]:
        async with psycopg.AsyncCursor(db) as cursor:
            if not self._watched:
                await cursor.execute(_WATCHED, {"tables": _SENSITIVE})
                names, oids, kinds = zip(*await cursor.fetchall(), strict=True)
                self._watched = {"names": list(names), "oids": list(oids), "kinds": list(kinds)}
            return dict(await (await cursor.execute(_TOUCHED, self._watched)).fetchall())


def _plain(cursor: psycopg.AsyncCursor[Any], query: str | sql.Composable) -> str:
    text = query if isinstance(query, str) else query.as_string(cursor)
    return _ID.sub("<id>", " ".join(text.split()))
