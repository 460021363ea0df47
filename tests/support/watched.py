"""A pool that writes down what each transaction says to the database and which rows it touches."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql

from recollect.store.pool import Db, Pool

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# Where texts, keys, names and what is made of them stand; and the one index of labels.
_TELLING = [
    "memory",
    "memory_text",
    "memory_vector",
    "memory_word",
    "memory_terms",
    "association",
    "asset",
    "memory_source",
    "insight",
    "lesson",
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
# Each table and index of theirs; a partition is its table.
_WATCHED = """
    SELECT coalesce(whole.relname, c.relname), c.oid, c.relkind = 'i'
    FROM pg_class c
    LEFT JOIN pg_inherits part ON part.inhrelid = c.oid
    LEFT JOIN pg_class whole ON whole.oid = part.inhparent
    LEFT JOIN pg_index i ON i.indexrelid = coalesce(whole.oid, c.oid)
    LEFT JOIN pg_class indexed ON indexed.oid = i.indrelid
    WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i')
        AND (coalesce(indexed.relname, whole.relname, c.relname) = ANY(%(telling)s)
             OR c.relname = ANY(%(telling)s))
"""
# Rows fetched by an index, or read one after another, as the server counts them; entries of rows
# that are no more do not count, since they go at any time.
_TOUCHED = """
    SELECT each.name, sum(
        CASE WHEN each.is_index THEN pg_stat_get_xact_tuples_fetched(each.oid)
            ELSE pg_stat_get_xact_tuples_returned(each.oid) END)::bigint
    FROM unnest(%(names)s::text[], %(oids)s::oid[], %(kinds)s::bool[]) AS each (name, oid, is_index)
    GROUP BY each.name
"""


# No plan may read all of a small table at once: that would hide what an index tells apart.
_BY_INDEX = """
    SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;
    SET LOCAL enable_indexonlyscan = off
"""


# What the connections that are listened to have said.
_HEARD: dict[int, list[str]] = {}


def _listening(kind: Any) -> Any:
    class Listening(kind):
        async def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
            if id(self.connection) in _HEARD:
                _HEARD[id(self.connection)].append(_plain(self, query))
            return await kind.execute(self, query, *arguments, **options)

    return Listening


# What is run as `Numbered` names its own kind of cursor.
psycopg.AsyncRawCursor = _listening(psycopg.AsyncRawCursor)


class WatchedPool(Pool):
    """As any pool; `heard` has a line for each statement, and for each table or index touched."""

    def __init__(self, url: str) -> None:
        # A plan must not hang on how often a connection was used before, so nothing is prepared.
        super().__init__(url, size=8, behind_pgbouncer=True)
        self.heard: list[str] = []
        self._watched: dict[str, list[Any]] = {}

    @asynccontextmanager
    async def _transaction(
        self, begin: sql.SQL | sql.Composed, *, finds_user: bool = False
    ) -> AsyncGenerator[Db]:
        async with super()._transaction(begin, finds_user=finds_user) as db:
            await psycopg.AsyncCursor(db).execute(_BY_INDEX)
            before = await self._touched(db)
            self.heard.append(f"BEGIN {_ID.sub('<id>', begin.as_string(db))}")
            db.cursor_factory = _listening(psycopg.AsyncCursor)
            _HEARD[id(db)] = self.heard
            try:
                yield db
            finally:
                del _HEARD[id(db)]
                db.cursor_factory = psycopg.AsyncCursor
            after = await self._touched(db)
            touched = {name: after[name] - before[name] for name in sorted(after)}
            self.heard += [f"{name}: {count} rows" for name, count in touched.items() if count]

    async def _touched(self, db: Db) -> dict[str, int]:
        async with psycopg.AsyncCursor(db) as cursor:
            if not self._watched:
                await cursor.execute(_WATCHED, {"telling": _TELLING})
                names, oids, kinds = zip(*await cursor.fetchall(), strict=True)
                self._watched = {"names": list(names), "oids": list(oids), "kinds": list(kinds)}
            return dict(await (await cursor.execute(_TOUCHED, self._watched)).fetchall())


def _plain(cursor: psycopg.AsyncCursor[Any], query: str | sql.Composable) -> str:
    text = query if isinstance(query, str) else query.as_string(cursor)
    return _ID.sub("<id>", " ".join(text.split()))
