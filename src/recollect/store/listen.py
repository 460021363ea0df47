"""Notifications of other processes, on a connection of its own that is renewed when it breaks."""

import asyncio
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql

from recollect.errors import Unavailable
from recollect.store.pool import Db, connect

_LISTEN = sql.SQL("LISTEN {}")
_TELL = "SELECT pg_notify(%(channel)s, %(word)s)"
_RENEW_SECONDS = 1.0


async def listen(url: str, calls: Mapping[str, Callable[[str], None]]) -> None:
    """Call what belongs to a channel with whatever it is told; until cancelled.

    Every call is made once more, with no word, after a reconnection, since what was said meanwhile
    is lost.
    """
    while True:
        try:
            await _listen_once(url, calls)
        except (Unavailable, psycopg.OperationalError):
            await asyncio.sleep(_RENEW_SECONDS)


async def _listen_once(url: str, calls: Mapping[str, Callable[[str], None]]) -> None:
    async with await connect(url) as db:
        for channel in calls:
            await db.execute(_LISTEN.format(sql.Identifier(channel)))
        for call in calls.values():
            call("")
        async for note in db.notifies():
            calls[note.channel](note.payload)


async def tell(db: Db, channel: str, word: str) -> None:
    """Say a word to every process that listens, once this transaction is committed."""
    await db.execute(_TELL, {"channel": channel, "word": word})
