"""Answers that are made while somebody listens, and to the end though they stop listening.

Whoever goes away in the middle finds the whole answer in the chat when they come back.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine
from datetime import timedelta

from recollect.domain import UserId
from recollect.errors import RateLimited

# As many tabs as anybody talks in at once.
_MOST_AT_ONCE = 8
_HEARTBEAT_SECONDS = 15.0
_ALIVE = b": keep-alive\n\n"

# What is sent, piece by piece; None at the end.
Events = asyncio.Queue[bytes | None]


class UnderWay:
    """The answers that are being made in this process."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: Counter[UserId] = Counter()

    def begin(
        self, user_id: UserId, make: Callable[[Events], Coroutine[None, None, None]]
    ) -> AsyncGenerator[bytes]:
        """What is made, as it is made; raise `RateLimited` when this user has too much under way.

        `make` answers for its own failures, and puts None when it has ended.
        """
        if self._open[user_id] >= _MOST_AT_ONCE:
            raise RateLimited(timedelta(seconds=5))
        events: Events = asyncio.Queue()
        self._open[user_id] += 1
        task = asyncio.create_task(make(events))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._ended(done, user_id))
        return _listen(events)

    def _ended(self, task: asyncio.Task[None], user_id: UserId) -> None:
        self._tasks.discard(task)
        self._open[user_id] -= 1
        if not self._open[user_id]:
            del self._open[user_id]

    async def close(self) -> None:
        """Break off what is under way; what was said so far is written down, marked as cut off."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(events: Events) -> AsyncGenerator[bytes]:
    while True:
        try:
            async with asyncio.timeout(_HEARTBEAT_SECONDS):
                event = await events.get()
        except TimeoutError:
            yield _ALIVE
            continue
        if event is None:
            return
        yield event
