"""Waiting for what another task or another process does, for as long as is bearable."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_PATIENCE_SECONDS = 20.0
_PAUSE_SECONDS = 0.01


async def until(
    holds: Callable[[], bool] | Callable[[], Awaitable[bool]],
    seconds: float = _PATIENCE_SECONDS,
) -> None:
    """Return as soon as it holds, and fail when it never does."""
    async with asyncio.timeout(seconds):
        while True:
            so = holds()
            if await so if inspect.isawaitable(so) else so:
                return
            await asyncio.sleep(_PAUSE_SECONDS)


def wait_until(holds: Callable[[], bool], seconds: float = _PATIENCE_SECONDS) -> None:
    """The same where nothing else runs in this process."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"still not so after {seconds} seconds"
        time.sleep(_PAUSE_SECONDS)
