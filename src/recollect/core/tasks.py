"""Helpers for asyncio tasks: cancel reliably, run two at once, run with a time limit."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")

# Longer than a cancelled job needs to return itself to the queue.
_CANCEL_AGAIN_SECONDS = 3.0


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks repeatedly until all have ended. Ignores their results and errors.

    One cancellation is not enough: before Python 3.12, `wait_for` (used by the driver) swallows a
    cancellation that arrives together with its result. A server once hung at shutdown because of
    this.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


async def run_to_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`. If the caller is cancelled, cancel `work` until it has ended."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await cancel_all([task])


async def run_both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """The results of two coroutines that run concurrently. If one fails, the other is cancelled."""
    first, second = asyncio.create_task(one), asyncio.create_task(other)
    try:
        first_result, second_result = await asyncio.gather(first, second)
    finally:
        await cancel_all([first, second])
    return first_result, second_result


async def run_within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, or `TimeoutError` after `seconds`.

    Does not wait until the cancelled work has ended: a query to a database that does not respond
    needs ten seconds for that.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            raise TimeoutError
        return task.result()
    finally:
        task.cancel()
