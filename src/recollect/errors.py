"""What can go wrong, in the engine's words; each door says how to report it.

Failure
├── Invalid          the request cannot be understood or breaks a rule
│   └── WrongFormat  it is in a format nobody here reads
├── Unauthenticated  no credential, or one that is not good (any more)
├── Denied           a good credential without the right
├── NotFound         not there, or not visible to this caller: the two are never told apart
├── Conflict         it clashes with what is there or under way
├── TooLarge         a text or a body above its bound
├── RateLimited      too many requests; try again after a while
└── Unavailable      something we depend on is down or slow

Messages are for people: they name the field, never echo its value, and hold no path, key or
address.
"""

from datetime import timedelta


class Failure(Exception):
    """The root: everything a door must be able to answer."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Invalid(Failure):
    """The request breaks a rule; `field` names the offending part where there is one."""

    def __init__(self, message: str, *, field: str | None = None, is_syntax: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.is_syntax = is_syntax


class WrongFormat(Invalid):
    """The body is not in the format that the route takes."""


class Unauthenticated(Failure):
    """No credential, an unknown one, or one that has expired or was revoked."""


class Denied(Failure):
    """The credential is good and lacks a right."""


class NotFound(Failure):
    """There is no such thing that this caller may see; `thing` is a noun of the product."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"There is no such {thing}.")
        self.thing = thing


class Conflict(Failure):
    """It clashes with something; `is_passing` says whether trying again can help."""

    def __init__(self, message: str, *, is_passing: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing


def at_most(field: str, most: int, unit: str, size: int | None = None) -> str:
    """That a field has more than it may; and how much, where that was counted."""
    told = f"; this has {size:,}" if size is not None else ""
    return f"`{field}` may have at most {most:,} {unit}{told}."


class TooLarge(Failure):
    """`field` has `size` units where `most` are allowed; the field `body` is the request itself.

    What was not read to its end has no size.
    """

    def __init__(
        self, field: str, *, most: int, size: int | None = None, unit: str = "characters"
    ) -> None:
        super().__init__(at_most(field, most, unit, size))
        self.field = field
        self.most = most


class RateLimited(Failure):
    """The caller's allowance is used up until `retry_after` has passed."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__("Too many requests. Try again later.")
        self.retry_after = retry_after


class Unavailable(Failure):
    """Something we depend on does not answer; `service` names it in the product's words.

    `retry_after` is the other side's own hint, where it gave one.
    """

    def __init__(self, service: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(f"The {service} is not available right now.")
        self.service = service
        self.retry_after = retry_after
