"""Pauses between background requests to a failing endpoint."""

import math
import random
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

_random = random.SystemRandom()


def retry_after(header: str | None) -> timedelta | None:
    """Parse a `Retry-After` header, in seconds or as a date; None if absent or invalid."""
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return timedelta(seconds=min(max(seconds, 0.0), 86_400)) if math.isfinite(seconds) else None


class Backoff:
    """How long background work pauses requests to one endpoint.

    A single failure may be caused by its request. After the second failure in a row, or after a
    `Retry-After` hint, no request is sent for a while. Each further failure doubles the pause.
    After the pause, one request at a time probes whether the endpoint works again.
    """

    FIRST_PAUSE = timedelta(seconds=2)
    MAX_PAUSE = timedelta(minutes=5)
    # A hint may ask for a longer pause than `MAX_PAUSE`, up to this.
    MAX_HINT = timedelta(hours=1)

    def __init__(self) -> None:
        self._failures = 0
        self._failed_at: datetime | None = None
        self._paused_until: datetime | None = None
        self._probe_until: datetime | None = None

    def remaining(self, now: datetime) -> timedelta | None:
        """How long to wait before the next request; None if it may be sent now."""
        if self._paused_until and now < self._paused_until:
            return self._paused_until - now
        if self._probe_until and now < self._probe_until:
            return self.FIRST_PAUSE
        return None

    def start(self, now: datetime, deadline: timedelta) -> None:
        """Note that a request is sent. While the endpoint fails, no other starts until `finish`."""
        if self._paused_until:
            self._probe_until = now + deadline

    def finish(self) -> None:
        """Note that the request ended, successfully or not."""
        self._probe_until = None

    def succeeded(self) -> None:
        """Note that the endpoint responded, even with a refusal."""
        self._failures = 0
        self._failed_at = self._paused_until = None

    def failed(
        self, now: datetime, *, started_at: datetime, hint: timedelta | None
    ) -> timedelta | None:
        """Note that the endpoint failed; return the pause, or None after a single failure."""
        # Concurrent requests that fail together count as one failure.
        if self._failed_at is None or started_at >= self._failed_at:
            self._failures += 1
        self._failed_at = now
        pause = min(hint, self.MAX_HINT) if hint else timedelta()
        if self._failures > 1:
            doubled = self.FIRST_PAUSE * 2 ** min(self._failures - 2, 20)
            pause = max(pause, min(doubled, self.MAX_PAUSE))
        if not pause:
            return None
        # Jitter, so that processes that failed together do not retry together.
        pause *= _random.uniform(1, 1.2)
        self._paused_until = max(self._paused_until or now, now + pause)
        return self._paused_until - now
