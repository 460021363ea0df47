"""Answers that are made while somebody listens, and to the end though they stop listening.

Whoever goes away in the middle finds the whole answer in the chat when they come back.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from recollect.domain import ThreadId, UserId, WorkspaceId
from recollect.engine.core import Clock, Engine
from recollect.engine.talk import stops_asked
from recollect.errors import RateLimited, Unavailable

# As many tabs as anybody talks in at once.
_MOST_AT_ONCE = 8
_HEARTBEAT_SECONDS = 15.0
_ALIVE = b": keep-alive\n\n"
_WATCH_SECONDS = 1.0


class Events(asyncio.Queue[bytes | None]):
    """What is sent, piece by piece, None at the end; and whether its reader had enough of it."""

    def __init__(self, begun_at: datetime) -> None:
        super().__init__()
        self.begun_at = begun_at
        self.is_stopped = False


@dataclass(frozen=True, slots=True)
class Place:
    """Whose answer it is, and in which conversation."""

    workspace_id: WorkspaceId
    user_id: UserId
    thread_id: ThreadId | None = None


class UnderWay:
    """The answers that are being made in this process."""

    def __init__(self, now: Clock) -> None:
        self._now = now
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
        events = Events(self._now())
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

    def stop(self, place: Place, at: datetime | None = None) -> bool:
        """Break off what this user has under way there; False when that is nothing, here.

        At an earlier moment they meant what had begun by then, and not the answer to what they may
        have said since.
        """
        found = [
            (task, events)
            for task, (other, events) in self._tasks.items()
            if other == place and (at is None or events.begun_at <= at)
        ]
        for task, events in found:
            # Once: a second time would break off the writing down of what was said.
            if not events.is_stopped:
                events.is_stopped = True
                task.cancel()
        return bool(found)

    def hear(self, word: str) -> None:
        """The same, for somebody whose request another process has heard."""
        if word:
            workspace_id, user_id, thread_id = map(UUID, word.split())
            self.stop(Place(WorkspaceId(workspace_id), UserId(user_id), ThreadId(thread_id)))

    async def watch(self, engine: Engine) -> None:
        """Look for such requests, where no message tells of them; until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for workspace_id, since in self._begun().items():
                with suppress(Unavailable):
                    for user_id, thread_id, at in await stops_asked(engine, workspace_id, since):
                        self.stop(Place(workspace_id, user_id, thread_id), at)

    def _begun(self) -> dict[WorkspaceId, datetime]:
        """Since when anything is under way in each workspace."""
        begun: dict[WorkspaceId, datetime] = {}
        for place, events in self._tasks.values():
            known = begun.get(place.workspace_id, events.begun_at)
            begun[place.workspace_id] = min(known, events.begun_at)
        return begun

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
