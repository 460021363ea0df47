"""Helpers for asyncio tasks: time limits, concurrency and reliable cancellation."""

import asyncio

import pytest

from recollect.core.tasks import cancel_all, run_both, run_within
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


async def test_a_timeout_does_not_wait_until_the_work_has_stopped() -> None:
    may_stop, has_stopped = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await may_stop.wait()
            has_stopped.set()

    with pytest.raises(TimeoutError):
        await run_within(0.01, work())

    assert not has_stopped.is_set()
    may_stop.set()
    await until(has_stopped.is_set)


async def test_the_result_or_error_of_quick_work_is_passed_on() -> None:
    async def work(number: int) -> float:
        return 1 / number

    assert await run_within(10, work(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await run_within(10, work(0))


async def test_two_coroutines_run_concurrently() -> None:
    ready = asyncio.Event()

    async def waits() -> str:
        await ready.wait()
        return "done"

    async def calls() -> int:
        ready.set()
        return 1

    assert await run_both(waits(), calls()) == ("done", 1)


@pytest.mark.parametrize("order", [1, -1])
async def test_if_one_of_two_fails_the_other_ends_before_the_error(order: int) -> None:
    ended = asyncio.Event()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def waits_long() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    one, other = (fails(), waits_long())[::order]
    with pytest.raises(ValueError, match="no"):
        await run_both(one, other)
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
    await cancel_all([task])
    assert swallowed == 2
    assert task.cancelled()
