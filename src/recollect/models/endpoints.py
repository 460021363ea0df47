"""Shared parts of HTTP endpoints: URL validation and a circuit breaker."""

import time
from collections.abc import Callable
from datetime import timedelta

import httpx2

from recollect.core.errors import Invalid, Unavailable


def http_url(text: str, name: str) -> httpx2.URL:
    """Parse an HTTP URL from the settings; raise `Invalid` if it is not one."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        url = None
    if url is None or url.scheme not in {"http", "https"} or not url.host:
        raise Invalid(f"The URL of {name} must begin with `http://` or `https://`.")
    return url


class CircuitBreaker:
    """Opens after several failures in a row, so that calls to a dead endpoint fail at once."""

    FAILURES = 5
    PAUSE_SECONDS = 15.0

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, service: str = "embedder"
    ) -> None:
        self._now = now
        self._service = service
        self._failures = 0
        self._open_until = 0.0

    def admit(self) -> None:
        """Raise `Unavailable` while the circuit is open; after each pause, let one call through."""
        if self._failures < self.FAILURES:
            return
        now = self._now()
        if now < self._open_until:
            left = timedelta(seconds=self._open_until - now)
            raise Unavailable(self._service, retry_after=left)
        # The next call waits a whole pause, even if the caller of this one is cancelled.
        self._open_until = now + self.PAUSE_SECONDS

    def succeeded(self) -> None:
        """Note that the endpoint answered."""
        self._failures = 0

    def failed(self) -> None:
        """Note that the endpoint failed or sent nothing usable."""
        self._failures += 1
        self._open_until = self._now() + self.PAUSE_SECONDS
