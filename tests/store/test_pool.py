"""The pool keeps its size, whoever is told to stop and whenever, and tells mistakes apart."""

import asyncio
from contextlib import suppress
from secrets import token_hex

import pytest

from recollect.errors import Conflict, Invalid
from tests.support.house import open_pool
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_who_is_told_to_stop_again_while_giving_a_connection_back_gives_it_back(
    database_url: str,
) -> None:
    async with open_pool(database_url, size=1) as pool:
        lock = pool._pool._lock
        is_inside = asyncio.Event()

        async def act() -> None:
            async with pool.everywhere():
                is_inside.set()
                await asyncio.Event().wait()

        acting = asyncio.create_task(act())
        await is_inside.wait()
        async with lock:
            acting.cancel()
            await until(lambda: _is_awaited(lock))
            acting.cancel()
            with suppress(asyncio.CancelledError):
                await acting

        async with asyncio.timeout(5), pool.everywhere() as db:
            row = await (await db.execute("SELECT 1")).fetchone()
    assert row == (1,)


async def test_what_was_deleted_while_something_was_made_for_it_is_a_passing_conflict(
    database_url: str,
) -> None:
    async with open_pool(database_url, size=1) as pool:
        with pytest.raises(Conflict) as raised:
            async with pool.everywhere() as db:
                await db.execute("CREATE TEMPORARY TABLE named (name text PRIMARY KEY)")
                await db.execute("CREATE TEMPORARY TABLE part (name text REFERENCES named)")
                await db.execute("INSERT INTO part VALUES ('gone')")
    assert raised.value.is_passing


async def test_a_value_too_long_for_an_index_is_the_callers_mistake(database_url: str) -> None:
    long = token_hex(5_000)  # nothing that compresses

    async with open_pool(database_url, size=1) as pool:
        with pytest.raises(Invalid, match="longer than the database"):
            async with pool.everywhere() as db:
                await db.execute("CREATE TEMPORARY TABLE named (name text PRIMARY KEY)")
                await db.execute("INSERT INTO named VALUES (%s)", [long])

        async with pool.everywhere() as db:
            row = await (await db.execute("SELECT 1")).fetchone()
    assert row == (1,)


async def _is_awaited(lock: asyncio.Lock) -> bool:
    return bool(lock._waiters)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
