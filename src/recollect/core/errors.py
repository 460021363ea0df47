"""The errors that the engine raises. Each interface maps them to its own responses.

Failure
├── Invalid          the request cannot be parsed or breaks a rule
│   └── WrongFormat  the body has a format that the route does not accept
├── Unauthenticated  no credential, or one that is unknown, expired or revoked
├── Denied           a valid credential that lacks a right
├── NotFound         it does not exist or the caller may not see it; the two look the same
├── Conflict         it clashes with existing data or with a running request
├── TooLarge         a text or a body above its limit
├── RateLimited      too many requests; retry later
└── Unavailable      a service we depend on is down or slow

Messages are for people. They name the field but never repeat its value, and they contain no path,
key or address.
"""

from datetime import timedelta


class Failure(Exception):
    """The root. Every interface must be able to report every subclass."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Invalid(Failure):
    """The request breaks a rule. `field` names the wrong part, if there is one."""

    def __init__(self, message: str, *, field: str | None = None, is_syntax: bool = False) -> None:
        super().__init__(message)
        self.field = field
        self.is_syntax = is_syntax


class WrongFormat(Invalid):
    """The body does not have the format that the route accepts."""


class Unauthenticated(Failure):
    """There is no credential, or it is unknown, expired or revoked."""


class Denied(Failure):
    """The credential is valid but lacks a right."""


class NotFound(Failure):
    """The caller can see no such thing. `thing` is a noun of the product."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"There is no such {thing}.")
        self.thing = thing


class Conflict(Failure):
    """The request clashes with something. `is_temporary` says whether a retry can help."""

    def __init__(self, message: str, *, is_temporary: bool = False) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary


def size_message(field: str, limit: int, unit: str, size: int | None = None) -> str:
    """The message for a field above its limit, with the actual size if it is known."""
    actual = f"; this has {size:,}" if size is not None else ""
    return f"`{field}` may have at most {limit:,} {unit}{actual}."


class TooLarge(Failure):
    """`field` has `size` units and may have at most `limit`. The field `body` is the whole body.

    `size` is None if reading stopped at the limit.
    """

    def __init__(
        self, field: str, *, limit: int, size: int | None = None, unit: str = "characters"
    ) -> None:
        super().__init__(size_message(field, limit, unit, size))
        self.field = field
        self.limit = limit


class RateLimited(Failure):
    """The caller has used up its allowance and may retry after `retry_after`."""

    def __init__(self, retry_after: timedelta) -> None:
        super().__init__("Too many requests. Try again later.")
        self.retry_after = retry_after


class Unavailable(Failure):
    """A service we depend on does not respond. `service` is its name in the product.

    `retry_after` is the service's own hint, if it gave one.
    """

    def __init__(self, service: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(f"The {service} is not available right now.")
        self.service = service
        self.retry_after = retry_after
