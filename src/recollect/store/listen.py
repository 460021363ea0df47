"""Notifications of other processes, on a connection of its own that is renewed when it breaks."""

import asyncio
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql

from recollect.errors import Unavailable
from recollect.store.pool import connect

_LISTEN = sql.SQL("LISTEN {}")
_RENEW_SECONDS = 1.0


async def listen(url: str, calls: Mapping[str, Callable[[], None]]) -> None:
    """Call what belongs to a channel whenever it is notified; until cancelled.

    Every call is made once more after a reconnection, since what was said meanwhile is lost.
    """
    while True:
        try:
            await _listen_once(url, calls)
        except (Unavailable, psycopg.OperationalError):
            await asyncio.sleep(_RENEW_SECONDS)


async def _listen_once(url: str, calls: Mapping[str, Callable[[], None]]) -> None:
    async with await connect(url) as db:
        for channel in calls:
            await db.execute(_LISTEN.format(sql.Identifier(channel)))
        for call in calls.values():
            call()
        async for note in db.notifies():
            calls[note.channel]()
