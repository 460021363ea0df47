"""What goes wrong with chat models."""

from recollect.errors import Unavailable

SERVICE = "chat model"
# With these it refuses this server, not the request: what it says of that is the operator's.
HIDDEN = frozenset({401, 403, 407})


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
