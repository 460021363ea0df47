"""Tasks: ending them for good, two at a time, and no longer than was said."""

import asyncio

import pytest

from recollect.tasks import both, end, within
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


async def test_two_at_a_time_wait_for_each_other() -> None:
    ready = asyncio.Event()

    async def waits() -> str:
        await ready.wait()
        return "heard"

    async def calls() -> int:
        ready.set()
        return 1

    assert await both(waits(), calls()) == ("heard", 1)


@pytest.mark.parametrize("order", [1, -1])
async def test_when_one_of_two_fails_the_other_has_ended_before_anybody_hears(order: int) -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def lasts() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    one, other = (fails(), lasts())[::order]
    with pytest.raises(ValueError, match="no"):
        await both(one, other)
    assert ended.is_set()


async def test_a_task_that_swallows_a_cancellation_is_cancelled_again() -> None:
    swallowed = 0

    async def stubborn() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 2:
                    raise

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await end([task])
    assert swallowed == 2
    assert task.cancelled()
