"""A clock that only the test advances."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Returns the same time until the test advances it."""

    def __init__(self, at: datetime = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def advance(self, by: timedelta) -> None:
        self.at += by
