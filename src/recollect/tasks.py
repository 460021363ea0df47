"""Tasks: ending them for good, two at a time, and no longer than was said."""

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")

# Longer than a job needs to put itself back.
_CANCEL_AGAIN_SECONDS = 3.0


async def end(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended, whatever they end with.

    Once is not enough: before Python 3.12 `wait_for`, with which the driver waits, swallows a
    cancellation that comes together with what it waits for. A server hung on that at its end.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=_CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


async def until_ended(work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; told to stop, it is told so until it has."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    finally:
        await end([task])


async def both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """What two come to that go on at the same time; when one fails, the other is ended."""
    first, second = asyncio.create_task(one), asyncio.create_task(other)
    try:
        one_came_to, other_came_to = await asyncio.gather(first, second)
    finally:
        await end([first, second])
    return one_came_to, other_came_to


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to; raise `TimeoutError` when that takes longer.

    Nobody waits for it to stop then: a query through a database that does not answer takes ten
    seconds to.
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
