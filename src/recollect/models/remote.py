"""What every endpoint elsewhere takes: an address that can be one, and patience that ends."""

import time
from collections.abc import Callable
from datetime import timedelta

import httpx2

from recollect.errors import Invalid, Unavailable


def http_url(text: str, thing: str) -> httpx2.URL:
    """The URL of a thing as an operator wrote it; raise `Invalid` on nonsense."""
    try:
        url = httpx2.URL(text)
    except httpx2.InvalidURL:
        url = None
    if url is None or url.scheme not in {"http", "https"} or not url.host:
        raise Invalid(f"The URL of {thing} must begin with `http://` or `https://`.")
    return url


class Circuit:
    """Opens after a row of failures, so that a dead endpoint costs microseconds, not deadlines."""

    FAILURES = 5
    PAUSE_SECONDS = 15.0

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, service: str = "embedder"
    ) -> None:
        self._now = now
        self._service = service
        self._failures = 0
        self._refuses_until = 0.0

    def admit(self) -> None:
        """Let the caller through or raise `Unavailable`; after each pause, one may try."""
        if self._failures < self.FAILURES:
            return
        now = self._now()
        if now < self._refuses_until:
            left = timedelta(seconds=self._refuses_until - now)
            raise Unavailable(self._service, retry_after=left)
        # The next one waits a whole pause, whatever becomes of this trial, even if its caller goes.
        self._refuses_until = now + self.PAUSE_SECONDS

    def succeeded(self) -> None:
        """The endpoint answered."""
        self._failures = 0

    def failed(self) -> None:
        """It did not, or not with anything of use."""
        self._failures += 1
        self._refuses_until = self._now() + self.PAUSE_SECONDS
