"""The pool never leaks a connection on cancellation, and it classifies database errors."""

import asyncio
from contextlib import suppress
from secrets import token_hex

import pytest

from recollect.core.errors import Conflict, Invalid
from tests.support.instance import open_pool
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_second_cancellation_does_not_leak_the_connection(
    database_url: str,
) -> None:
    async with open_pool(database_url, size=1) as pool:
        lock = pool._pool._lock
        is_inside = asyncio.Event()

        async def hold_connection() -> None:
            async with pool.everywhere():
                is_inside.set()
                await asyncio.Event().wait()

        holder = asyncio.create_task(hold_connection())
        await is_inside.wait()
        async with lock:
            holder.cancel()
            await until(lambda: _has_waiters(lock))
            holder.cancel()
            with suppress(asyncio.CancelledError):
                await holder

        async with asyncio.timeout(5), pool.everywhere() as db:
            row = await (await db.execute("SELECT 1")).fetchone()
    assert row == (1,)


async def test_a_missing_parent_row_is_a_temporary_conflict(
    database_url: str,
) -> None:
    async with open_pool(database_url, size=1) as pool:
        with pytest.raises(Conflict) as raised:
            async with pool.everywhere() as db:
                await db.execute("CREATE TEMPORARY TABLE named (name text PRIMARY KEY)")
                await db.execute("CREATE TEMPORARY TABLE part (name text REFERENCES named)")
                await db.execute("INSERT INTO part VALUES ('gone')")
    assert raised.value.is_temporary


async def test_a_value_too_long_for_an_index_is_invalid(database_url: str) -> None:
    long = token_hex(5_000)  # random, so that it does not compress

    async with open_pool(database_url, size=1) as pool:
        with pytest.raises(Invalid, match="too long for the database"):
            async with pool.everywhere() as db:
                await db.execute("CREATE TEMPORARY TABLE named (name text PRIMARY KEY)")
                await db.execute("INSERT INTO named VALUES (%s)", [long])

        async with pool.everywhere() as db:
            row = await (await db.execute("SELECT 1")).fetchone()
    assert row == (1,)


async def _has_waiters(lock: asyncio.Lock) -> bool:
    return bool(lock._waiters)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
