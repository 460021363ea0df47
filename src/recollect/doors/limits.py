"""Rate limits: one token bucket a key, in this process."""

from dataclasses import dataclass
from datetime import timedelta
from math import ceil, floor

from recollect.engine.core import Clock
from recollect.errors import RateLimited

_MOST_BUCKETS = 50_000


@dataclass(frozen=True, slots=True)
class Allowance:
    """What is left of a limit, as the headers tell it."""

    limit: int
    remaining: int
    # When the bucket will be full again, in seconds since the epoch.
    reset: int


class Limiter:
    """Buckets of `burst` tokens that fill at `per_minute`; a rate of 0 limits nothing."""

    def __init__(self, per_minute: int, burst: int, now: Clock) -> None:
        self._per_minute = per_minute
        self._per_second = per_minute / 60
        self._burst = max(burst, 1)
        self._now = now
        self._buckets: dict[object, tuple[float, float]] = {}

    def take(self, holder: object) -> Allowance | None:
        """Use one token; raise `RateLimited` when none is left."""
        if not self._per_minute:
            return None
        now = self._now().timestamp()
        tokens = self._tokens(holder, now)
        if tokens < 1:
            raise RateLimited(timedelta(seconds=ceil((1 - tokens) / self._per_second)))
        self._put(holder, tokens - 1, now)
        return self._allowance(tokens - 1, now)

    def look(self, holder: object) -> Allowance | None:
        """What is left, without using any of it."""
        if not self._per_minute:
            return None
        now = self._now().timestamp()
        return self._allowance(self._tokens(holder, now), now)

    def _tokens(self, holder: object, now: float) -> float:
        tokens, at = self._buckets.get(holder, (float(self._burst), now))
        return min(self._burst, tokens + max(0.0, now - at) * self._per_second)

    def _put(self, holder: object, tokens: float, now: float) -> None:
        if len(self._buckets) >= _MOST_BUCKETS:
            # Full buckets say nothing; dropping them forgets no one's debt.
            self._buckets = {
                each: kept
                for each, kept in self._buckets.items()
                if self._tokens(each, now) < self._burst
            }
        self._buckets[holder] = (tokens, now)

    def _allowance(self, tokens: float, now: float) -> Allowance:
        reset = ceil(now + (self._burst - tokens) / self._per_second)
        return Allowance(self._per_minute, floor(tokens), reset)
