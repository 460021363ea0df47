"""Answers that are made while somebody listens, and to the end though they stop listening.

Whoever goes away in the middle finds the whole answer in the chat when they come back.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from recollect.domain import ThreadId, UserId
from recollect.errors import RateLimited

# As many tabs as anybody talks in at once.
_MOST_AT_ONCE = 8
_HEARTBEAT_SECONDS = 15.0
_ALIVE = b": keep-alive\n\n"


class Events(asyncio.Queue[bytes | None]):
    """What is sent, piece by piece, None at the end; and whether its reader had enough of it."""

    is_stopped = False


@dataclass(frozen=True, slots=True)
class Place:
    """Whose answer it is, and in which conversation."""

    user_id: UserId
    thread_id: ThreadId | None = None


class UnderWay:
    """The answers that are being made in this process."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], tuple[Place, Events]] = {}

    def begin(
        self, place: Place, make: Callable[[Events], Coroutine[None, None, None]]
    ) -> AsyncGenerator[bytes]:
        """What is made, as it is made; raise `RateLimited` when this user has too much under way.

        `make` answers for its own failures.
        """
        own = [each for each, _ in self._tasks.values() if each.user_id == place.user_id]
        if len(own) >= _MOST_AT_ONCE:
            raise RateLimited(timedelta(seconds=5))
        events = Events()
        task = asyncio.create_task(make(events))
        self._tasks[task] = (place, events)
        task.add_done_callback(self._ended)
        return _listen(events)

    def _ended(self, task: asyncio.Task[None]) -> None:
        _, events = self._tasks.pop(task)
        events.put_nowait(None)

    def has(self, place: Place) -> bool:
        """Whether this user has anything under way there, in this process."""
        return any(other == place for other, _ in self._tasks.values())

    def stop(self, place: Place) -> bool:
        """Break off what this user has under way there; False when that is nothing, here."""
        found = [(task, events) for task, (other, events) in self._tasks.items() if other == place]
        for task, events in found:
            # Once: a second time would break off the writing down of what was said.
            if not events.is_stopped:
                events.is_stopped = True
                task.cancel()
        return bool(found)

    def hear(self, word: str) -> None:
        """The same, for somebody whose request another process has heard."""
        if word:
            user_id, thread_id = map(UUID, word.split())
            self.stop(Place(UserId(user_id), ThreadId(thread_id)))

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
