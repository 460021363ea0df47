"""Limits per process: token buckets by key and kind of request, and concurrent turns by key."""

import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from math import ceil, floor
from typing import Any, cast

from recollect.core.errors import RateLimited
from recollect.engine import Clock

_MAX_BUCKETS = 50_000
# The suggested wait when too many turns are running.
_BUSY = timedelta(seconds=5)


class RequestKind(Enum):
    """The kind of a request. Each kind can have its own limit besides the one for all requests."""

    READ = auto()
    WRITE = auto()
    SEARCH = auto()
    TURN = auto()
    UPLOAD = auto()


_TURNS = re.compile(
    r"(?:/[^/]+)?/v1/(?:chat/completions|responses)|/api/chats/[^/]+|/chat/api/chats/[^/]+/turns"
)
_SEARCHES = re.compile(r".*/(?:search|recall|memory_recall|context|embeddings)", re.DOTALL)
_TOOLS = re.compile(r"/mcp/?")


def request_kind(method: str, path: str, body: Any = None) -> RequestKind:
    """The kind of a request without a file, by its path; at `/mcp` by its body."""
    if _SEARCHES.fullmatch(path):
        return RequestKind.SEARCH
    if method in {"GET", "HEAD", "OPTIONS"}:
        return RequestKind.READ
    if method == "POST" and _TURNS.fullmatch(path):
        return RequestKind.TURN
    return _kind_of_call(body) if _TOOLS.fullmatch(path) else RequestKind.WRITE


def _kind_of_call(body: Any) -> RequestKind:
    call = _object(body)
    if call.get("method") != "tools/call":
        return RequestKind.READ
    is_recall = _object(call.get("params")).get("name") == "memory_recall"
    return RequestKind.SEARCH if is_recall else RequestKind.WRITE


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Allowance:
    """The rest of a limit, as shown in the rate limit headers."""

    limit: int
    remaining: int
    # When the bucket will be full again, in seconds since the epoch.
    reset: int


class Limiter:
    """Buckets of `burst` tokens that refill at `per_minute`. A rate of 0 means no limit."""

    def __init__(self, per_minute: int, burst: int, now: Clock) -> None:
        self._per_minute = per_minute
        self._per_second = per_minute / 60
        self._burst = max(burst, 1)
        self._now = now
        self._buckets: dict[object, tuple[float, float]] = {}

    def take(self, holder: object) -> Allowance | None:
        """Use one token. Raises `RateLimited` if none is left."""
        if not self._per_minute:
            return None
        now = self._now().timestamp()
        tokens = self._tokens(holder, now)
        if tokens < 1:
            raise RateLimited(timedelta(seconds=ceil((1 - tokens) / self._per_second)))
        self._put(holder, tokens - 1, now)
        return self._allowance(tokens - 1, now)

    def peek(self, holder: object) -> Allowance | None:
        """The rest of the limit, without using a token."""
        if not self._per_minute:
            return None
        now = self._now().timestamp()
        return self._allowance(self._tokens(holder, now), now)

    def _tokens(self, holder: object, now: float) -> float:
        tokens, at = self._buckets.get(holder, (float(self._burst), now))
        return min(self._burst, tokens + max(0.0, now - at) * self._per_second)

    def _put(self, holder: object, tokens: float, now: float) -> None:
        if len(self._buckets) >= _MAX_BUCKETS:
            # A full bucket carries no information, so it can be dropped.
            self._buckets = {
                each: kept
                for each, kept in self._buckets.items()
                if self._tokens(each, now) < self._burst
            }
        self._buckets[holder] = (tokens, now)

    def _allowance(self, tokens: float, now: float) -> Allowance:
        reset = ceil(now + (self._burst - tokens) / self._per_second)
        return Allowance(self._per_minute, floor(tokens), reset)


class ConcurrentTurns:
    """Limits the concurrent turns of each holder. 0 means no limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running: Counter[object] = Counter()

    @contextmanager
    def slot(self, holder: object) -> Generator[None]:
        """Count as running until the block ends. Raises `RateLimited` if the limit is reached."""
        if self._limit and self._running[holder] >= self._limit:
            raise RateLimited(_BUSY)
        self._running[holder] += 1
        try:
            yield
        finally:
            self._running[holder] -= 1
            if not self._running[holder]:
                del self._running[holder]
