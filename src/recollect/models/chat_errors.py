"""Errors of chat models."""

from datetime import timedelta

from recollect.core.errors import Unavailable

SERVICE = "chat model"
# With these statuses it rejects this server, not the request. Only the operator sees the details.
HIDDEN = frozenset({401, 403, 407})


def refusal(status: int) -> str:
    """Return the message to show for a response with this status."""
    if status in HIDDEN:
        return "The chat model rejected this server's API key."
    if status == 429:
        return "The chat model is rate limited. Try again later."
    verb = "failed" if status >= 500 or status < 400 else "refused the request"
    return f"The chat model {verb} with status {status}."


# These and 5xx are temporary. Any other error status refuses the request permanently.
_TEMPORARY = frozenset({408, 409, 425, 429})
# With these, every request of this server fails: its key, account, address or model is wrong.
_MISCONFIGURED = HIDDEN | {402, 404, 405}
# The pause after a 429 without `Retry-After`.
_RATE_LIMIT_PAUSE = timedelta(seconds=2)


def failure_of(status: int, *, retry_after: timedelta | None, code: str | None) -> Unavailable:
    """Return the error for a response with this status; `code` is the endpoint's error code."""
    if status in _TEMPORARY or status >= 500:
        return Failed(status, retry_after or (_RATE_LIMIT_PAUSE if status == 429 else None))
    return Refused(status, code)


class Failed(Unavailable):
    """The model cannot answer now, but may answer later."""

    def __init__(self, status: int, retry_after: timedelta | None = None) -> None:
        super().__init__(SERVICE, retry_after=retry_after)
        self.status = status
        self.message = refusal(status)


class Refused(Unavailable):
    """The model refuses this request; a retry would not help."""

    def __init__(self, status: int, code: str | None = None) -> None:
        super().__init__(SERVICE)
        self.status = status
        message = refusal(status)
        self.message = f"{message[:-1]} ({code})." if code and status not in HIDDEN else message

    @property
    def is_misconfigured(self) -> bool:
        """Whether the settings of this server are wrong, rather than the request."""
        return self.status in _MISCONFIGURED or self.status < 400


class TooSlow(Unavailable):
    """The model did not answer in time."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
        self.message = "The chat model did not answer in time."


class NotUnderstood(Unavailable):
    """The model's answer is invalid or incomplete."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
        self.message = "The chat model sent an invalid or incomplete answer."
