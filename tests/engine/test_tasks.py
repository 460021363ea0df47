"""Waiting for a task no longer than was said."""

import asyncio

import pytest

from recollect.tasks import within
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_work_that_is_slow_to_stop_is_not_waited_for() -> None:
    may_stop, has_stopped = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_stop.wait()
            has_stopped.set()

    with pytest.raises(TimeoutError):
        await within(0.01, work())

    assert not has_stopped.is_set()
    may_stop.set()
    await until(has_stopped.is_set)


async def test_what_quick_work_comes_to_or_raises_is_handed_on() -> None:
    async def work(number: int) -> float:
        return 1 / number

    assert await within(10, work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await within(10, work(0))
