"""Notifications between processes (`LISTEN`/`NOTIFY`), on a connection that reconnects itself."""

import asyncio
from collections.abc import Callable, Mapping

import psycopg
from psycopg import sql

from recollect.core.errors import Unavailable
from recollect.db.pool import Db, connect

_LISTEN = sql.SQL("LISTEN {}")
_NOTIFY = "SELECT pg_notify(%(channel)s, %(payload)s)"
_RECONNECT_SECONDS = 1.0


async def listen(url: str, callbacks: Mapping[str, Callable[[str], None]]) -> None:
    """Call each channel's callback with the payload of every notification. Runs until cancelled.

    After each connect, every callback is called once with an empty payload, because notifications
    sent in the meantime are lost.
    """
    while True:
        try:
            await _listen_once(url, callbacks)
        except (Unavailable, psycopg.OperationalError):
            await asyncio.sleep(_RECONNECT_SECONDS)


async def _listen_once(url: str, callbacks: Mapping[str, Callable[[str], None]]) -> None:
    async with await connect(url) as db:
        for channel in callbacks:
            await db.execute(_LISTEN.format(sql.Identifier(channel)))
        for callback in callbacks.values():
            callback("")
        async for note in db.notifies():
            callbacks[note.channel](note.payload)


async def notify(db: Db, channel: str, payload: str) -> None:
    """Send a notification to all listening processes when this transaction commits."""
    await db.execute(_NOTIFY, {"channel": channel, "payload": payload})
