"""What goes wrong with chat models."""

from recollect.errors import Unavailable

SERVICE = "chat model"


class TooSlow(Unavailable):
    """The model did not answer in time."""

    def __init__(self) -> None:
        super().__init__(SERVICE)


class NotUnderstood(Unavailable):
    """The model answered with something that is no answer."""

    def __init__(self) -> None:
        super().__init__(SERVICE)
