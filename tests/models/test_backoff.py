"""How long requests to a failing endpoint are paused, and how the pause ends."""

from datetime import UTC, datetime, timedelta

import pytest

from recollect.models.backoff import Backoff, retry_after

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
DEADLINE = timedelta(seconds=60)


def fail(backoff: Backoff, at: datetime, hint: timedelta | None = None) -> timedelta | None:
    backoff.start(at, DEADLINE)
    pause = backoff.failed(at, started_at=at, hint=hint)
    backoff.finish()
    return pause


def test_a_single_failure_causes_no_pause() -> None:
    backoff = Backoff()

    assert fail(backoff, NOW) is None
    assert backoff.remaining(NOW) is None


def test_each_failure_doubles_the_pause_up_to_the_longest() -> None:
    backoff, now = Backoff(), NOW
    fail(backoff, now)
    pauses: list[float] = []
    for _ in range(12):
        pause = fail(backoff, now)
        assert pause
        assert backoff.remaining(now) == pause
        pauses.append(pause.total_seconds())
        now += pause
        assert backoff.remaining(now) is None

    for number, pause in enumerate(pauses):
        expected = min(2.0 ** (number + 1), 300.0)
        assert expected <= pause <= 1.2 * expected


def test_an_answer_ends_the_backoff() -> None:
    backoff = Backoff()
    for _ in range(5):
        fail(backoff, NOW)

    backoff.succeeded()

    assert backoff.remaining(NOW) is None
    assert fail(backoff, NOW) is None


def test_a_hint_applies_to_the_first_failure_and_is_bounded() -> None:
    short, endless = Backoff(), Backoff()

    assert timedelta(seconds=100) <= (fail(short, NOW, timedelta(seconds=100)) or timedelta())
    assert (fail(endless, NOW, timedelta(days=1)) or timedelta()) <= timedelta(hours=1.2)


def test_during_a_probe_other_requests_wait() -> None:
    backoff = Backoff()
    pause = [fail(backoff, NOW) for _ in range(2)][-1]
    assert pause
    later = NOW + pause

    backoff.start(later, DEADLINE)

    assert backoff.remaining(later) == Backoff.FIRST_PAUSE
    # A request that never finishes does not block the others for ever.
    assert backoff.remaining(later + DEADLINE) is None
    backoff.finish()
    assert backoff.remaining(later) is None


def test_requests_that_fail_together_count_as_one_failure() -> None:
    backoff = Backoff()
    later = NOW + timedelta(seconds=5)
    backoff.failed(later, started_at=NOW, hint=None)

    assert [backoff.failed(later, started_at=NOW, hint=None) for _ in range(8)] == [None] * 8


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0.5", 0.5), ("-3", 0), ("1e9", 86_400), ("Sun, 01 Mar 2020 12:00:00 GMT", 0)],
)
def test_retry_after_is_read_as_seconds_or_date(header: str, seconds: float) -> None:
    assert retry_after(header) == timedelta(seconds=seconds)


@pytest.mark.parametrize("header", [None, "", "soon", "nan", "inf"])
def test_an_invalid_retry_after_header_is_ignored(header: str | None) -> None:
    assert retry_after(header) is None
