"""How importance decays over time and grows with use.

Pure: the result depends only on the arguments, so running it repeatedly changes nothing.
"""

from datetime import datetime, timedelta
from math import log2

_LOSS_PER_DAY = 0.05
_MAX_LOSS = 0.5
_RECENTLY_RECALLED = timedelta(days=7)
_LONG_UNUSED = timedelta(days=30)
_A_DAY = timedelta(days=1)


def idle(touched_at: datetime, last_accessed_at: datetime | None, now: datetime) -> timedelta:
    """Return how long ago the memory was last changed or recalled."""
    return max(now - max(touched_at, last_accessed_at or touched_at), timedelta())


def decayed_importance(
    base: float,
    *,
    touched_at: datetime,
    last_accessed_at: datetime | None,
    accesses: int,
    now: datetime,
) -> float:
    """Return today's importance, computed from the original importance and later use.

    It falls by 5 % of the original per day without use, down to half. It rises by 10 % in the week
    after a recall, and falls by 10 % after more than 30 days without use. Each use adds a little.
    """
    unused = idle(touched_at, last_accessed_at, now)
    importance = base * (1 - min(_LOSS_PER_DAY * (unused / _A_DAY), _MAX_LOSS))
    if last_accessed_at and now - last_accessed_at <= _RECENTLY_RECALLED:
        importance *= 1.1
    elif unused > _LONG_UNUSED:
        importance *= 0.9
    return min(max(importance + 0.02 * log2(1 + accesses), 0.0), 1.0)
