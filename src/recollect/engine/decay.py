"""How importance wears down and grows with use: pure, so running it all day changes nothing."""

from datetime import datetime, timedelta
from math import log2

_WEAR_A_DAY = 0.05
_MOST_WEAR = 0.5
_FRESH = timedelta(days=7)
_STALE = timedelta(days=30)
_A_DAY = timedelta(days=1)


def idle(touched_at: datetime, last_accessed_at: datetime | None, now: datetime) -> timedelta:
    """How long nobody has touched or recalled a memory."""
    return max(now - max(touched_at, last_accessed_at or touched_at), timedelta())


def decayed(
    base: float,
    *,
    touched_at: datetime,
    last_accessed_at: datetime | None,
    accesses: int,
    now: datetime,
) -> float:
    """Importance today, from what it was given and how it was used since.

    It falls by a twentieth a day without use, to half at most; rises a tenth in the week after it
    was recalled and falls a tenth when nothing was done with it for over a month; and every use
    adds a little.
    """
    unused = idle(touched_at, last_accessed_at, now)
    worn = base * (1 - min(_WEAR_A_DAY * (unused / _A_DAY), _MOST_WEAR))
    if last_accessed_at and now - last_accessed_at <= _FRESH:
        worn *= 1.1
    elif unused > _STALE:
        worn *= 0.9
    return min(max(worn + 0.02 * log2(1 + accesses), 0.0), 1.0)
