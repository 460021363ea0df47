"""What goes wrong with chat models."""

from recollect.errors import Unavailable

SERVICE = "chat model"
# With these it refuses this server, not the request: what it says of that is the operator's.
HIDDEN = frozenset({401, 403, 407})


def refusal(status: int) -> str:
    """What its answer with this status means to whoever asked."""
    if status in HIDDEN:
        return "The chat model does not accept this server's key."
    if status == 429:
        return "The chat model is asked too often. Try again in a while."
    verb = "failed" if status >= 500 or status < 400 else "refused the request"
    return f"The chat model {verb} with status {status}."


class TooSlow(Unavailable):
    """The model did not answer in time."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
        self.message = "The chat model did not answer in time."


class NotUnderstood(Unavailable):
    """The model answered with something that is no answer."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
        self.message = "The chat model sent what is no answer, or not a whole one."
