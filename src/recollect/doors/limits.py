"""Limits: one token bucket a key and kind of request, and so many turns at once; per process."""

import re
from collections import Counter
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from math import ceil, floor
from typing import Any, cast

from recollect.engine.core import Clock
from recollect.errors import RateLimited

_MOST_BUCKETS = 50_000
# When to ask again while all one may have under way is.
_BUSY = timedelta(seconds=5)


class Sort(Enum):
    """What a request costs, roughly: each sort can have a limit beside that of all requests."""

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


def sort_of(method: str, path: str, body: Any = None) -> Sort:
    """Of which sort a request is that brings no file, by its address; at `/mcp` by its body."""
    if _SEARCHES.fullmatch(path):
        return Sort.SEARCH
    if method in {"GET", "HEAD", "OPTIONS"}:
        return Sort.READ
    if method == "POST" and _TURNS.fullmatch(path):
        return Sort.TURN
    return _sort_of_call(body) if _TOOLS.fullmatch(path) else Sort.WRITE


def _sort_of_call(body: Any) -> Sort:
    told = _object(body)
    if told.get("method") != "tools/call":
        return Sort.READ
    is_recall = _object(told.get("params")).get("name") == "memory_recall"
    return Sort.SEARCH if is_recall else Sort.WRITE


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


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


class Turnstile:
    """So many at once for each holder; 0 lets everybody through."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside: Counter[object] = Counter()

    @contextmanager
    def passing(self, holder: object) -> Generator[None]:
        """Be one of them for as long as the block lasts; raise `RateLimited` when it is full."""
        if self._most and self._inside[holder] >= self._most:
            raise RateLimited(_BUSY)
        self._inside[holder] += 1
        try:
            yield
        finally:
            self._inside[holder] -= 1
            if not self._inside[holder]:
                del self._inside[holder]
