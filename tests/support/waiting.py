"""Wait for another task or process, with a timeout."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_TIMEOUT_SECONDS = 20.0
_PAUSE_SECONDS = 0.01


async def until(
    holds: Callable[[], bool] | Callable[[], Awaitable[bool]],
    seconds: float = _TIMEOUT_SECONDS,
) -> None:
    """Return as soon as the condition holds. Fails after the timeout."""
    async with asyncio.timeout(seconds):
        while True:
            result = holds()
            if await result if inspect.isawaitable(result) else result:
                return
            await asyncio.sleep(_PAUSE_SECONDS)


def wait_until(holds: Callable[[], bool], seconds: float = _TIMEOUT_SECONDS) -> None:
    """The same for tests without an event loop."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"the condition is still false after {seconds} seconds"
        time.sleep(_PAUSE_SECONDS)
