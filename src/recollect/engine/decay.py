"""How importance wears down and grows with use: pure, so running it all day changes nothing."""

from datetime import datetime, timedelta
from math import log2

_WEAR_A_DAY = 0.05
_MOST_WEAR = 0.5
_FRESH = timedelta(days=7)
_STALE = timedelta(days=30)
_A_DAY = timedelta(days=1)


def decayed(
    base: float,
    *,
    created_at: datetime,
    last_accessed_at: datetime | None,
    accesses: int,
    now: datetime,
) -> float:
    """Importance today, from what it was given and how it was used since.

    It falls by a twentieth a day without use, to half at most; rises a tenth in the week after it
    was recalled and falls a tenth when that was over a month ago; and every use adds a little.
    """
    idle = max(now - (last_accessed_at or created_at), timedelta())
    worn = base * (1 - min(_WEAR_A_DAY * (idle / _A_DAY), _MOST_WEAR))
    if last_accessed_at and idle <= _FRESH:
        worn *= 1.1
    elif idle > _STALE:
        worn *= 0.9
    return min(max(worn + 0.02 * log2(1 + accesses), 0.0), 1.0)
