"""Turns that run in this process and stream their events to a client.

A turn runs to its end even if the client disconnects. The user then finds the whole answer in the
chat.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from recollect.chat.dashboard_chats import requested_stops
from recollect.core.domain import ThreadId, UserId, WorkspaceId
from recollect.core.errors import RateLimited, Unavailable
from recollect.engine import Clock, Engine

# More browser tabs than a user chats in at once.
_MAX_PER_USER = 8
_HEARTBEAT_SECONDS = 15.0
_ALIVE = b": keep-alive\n\n"
_WATCH_SECONDS = 1.0


class TurnEvents(asyncio.Queue[bytes | None]):
    """The events of one turn, None at the end, and whether the user has stopped the turn."""

    def __init__(self, started_at: datetime) -> None:
        super().__init__()
        self.started_at = started_at
        self.is_stopped = False


@dataclass(frozen=True, slots=True)
class TurnOwner:
    """The user of a turn, and its thread."""

    workspace_id: WorkspaceId
    user_id: UserId
    thread_id: ThreadId | None = None


class RunningTurns:
    """The turns that are running in this process."""

    def __init__(self, now: Clock) -> None:
        self._now = now
        self._tasks: dict[asyncio.Task[None], tuple[TurnOwner, TurnEvents]] = {}

    def start(
        self, owner: TurnOwner, make: Callable[[TurnEvents], Coroutine[None, None, None]]
    ) -> AsyncGenerator[bytes]:
        """Start a turn; return its events. Raises `RateLimited` if the user has too many running.

        `make` must handle its own errors.
        """
        own = [each for each, _ in self._tasks.values() if each.user_id == owner.user_id]
        if len(own) >= _MAX_PER_USER:
            raise RateLimited(timedelta(seconds=5))
        events = TurnEvents(self._now())
        task = asyncio.create_task(make(events))
        self._tasks[task] = (owner, events)
        task.add_done_callback(self._ended)
        return _listen(events)

    def _ended(self, task: asyncio.Task[None]) -> None:
        _, events = self._tasks.pop(task)
        events.put_nowait(None)

    def has(self, owner: TurnOwner) -> bool:
        """Whether this user has a turn running in this thread, in this process."""
        return any(other == owner for other, _ in self._tasks.values())

    def stop(self, owner: TurnOwner, at: datetime | None = None) -> bool:
        """Stop the user's turns in this thread. False if none is running in this process.

        With `at`, stop only turns that had started by then, not the turn of a later message.
        """
        found = [
            (task, events)
            for task, (other, events) in self._tasks.items()
            if other == owner and (at is None or events.started_at <= at)
        ]
        for task, events in found:
            # Only once: a second cancellation would interrupt saving the partial answer.
            if not events.is_stopped:
                events.is_stopped = True
                task.cancel()
        return bool(found)

    def stop_from_notification(self, payload: str) -> None:
        """Stop a turn on behalf of another process, which received the user's request."""
        if payload:
            workspace_id, user_id, thread_id = map(UUID, payload.split())
            self.stop(TurnOwner(WorkspaceId(workspace_id), UserId(user_id), ThreadId(thread_id)))

    async def watch(self, engine: Engine) -> None:
        """Poll for stop requests if notifications are not available. Runs until cancelled."""
        while True:
            await asyncio.sleep(_WATCH_SECONDS)
            for workspace_id, since in self._earliest_starts().items():
                with suppress(Unavailable):
                    for user_id, thread_id, at in await requested_stops(
                        engine, workspace_id, since
                    ):
                        self.stop(TurnOwner(workspace_id, user_id, thread_id), at)

    def _earliest_starts(self) -> dict[WorkspaceId, datetime]:
        """The start of the oldest running turn in each workspace."""
        starts: dict[WorkspaceId, datetime] = {}
        for owner, events in self._tasks.values():
            known = starts.get(owner.workspace_id, events.started_at)
            starts[owner.workspace_id] = min(known, events.started_at)
        return starts

    async def close(self) -> None:
        """Stop all turns. Their partial answers are saved and marked as incomplete."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(events: TurnEvents) -> AsyncGenerator[bytes]:
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
