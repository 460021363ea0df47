"""Error responses: the parts that all interfaces share.

Each interface has a table from failures to status and code, and an envelope. `answer_with` turns a
failure into a response by both.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from recollect.core.errors import Conflict, Failure, RateLimited, Unauthenticated

INTERNAL_MESSAGE = "Something went wrong on our side."


class NoRoute(Failure):
    """The interface has no such route."""

    def __init__(self) -> None:
        super().__init__("There is no such route.")


class MethodNotAllowed(Failure):
    """The route does not have the method. `allow` lists the methods it has."""

    def __init__(self, allow: str) -> None:
        super().__init__("Method not allowed.")
        self.allow = allow


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """An error response in the format of an interface."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    # HTML to send instead of the body.
    page: str | None = None


class ErrorCode(NamedTuple):
    """How an interface reports a failure: status, code and, where it has them, type."""

    status: int
    code: str
    kind: str = ""


# Every failure must be in the table of every interface; subclasses may be left out.
ErrorTable = Mapping[type[Failure], ErrorCode]
# Makes the body from the code, the failure and its message. The failure is None for a bug.
Envelope = Callable[[ErrorCode, Failure | None, str], Mapping[str, Any]]


def find_code(failure: Failure | Exception, table: ErrorTable, bug: ErrorCode) -> ErrorCode:
    """Return the entry of the failure's class or its nearest base class, or `bug`."""
    return next((table[kind] for kind in type(failure).__mro__ if kind in table), bug)


def answer_with(
    envelope: Envelope,
    code: ErrorCode,
    failure: Failure | Exception,
    *,
    bug_message: str = INTERNAL_MESSAGE,
) -> ErrorReply:
    """Return the response. An exception that is no `Failure` is a bug and shows no details."""
    if not isinstance(failure, Failure):
        return ErrorReply(code.status, envelope(code, None, bug_message))
    return ErrorReply(code.status, envelope(code, failure, failure.message), _headers(failure))


def _headers(failure: Failure) -> Mapping[str, str]:
    match failure:
        case Unauthenticated():
            return {"www-authenticate": "Bearer"}
        case MethodNotAllowed():
            return {"allow": failure.allow}
        case RateLimited():
            return {"retry-after": str(retry_after_seconds(failure))}
        case Conflict(is_temporary=False):
            # Without it, clients such as OpenAI's retry every 409.
            return {"x-should-retry": "false"}
        case _:
            return {}


def retry_after_seconds(failure: RateLimited) -> int:
    """Return when to retry, in whole seconds, never zero."""
    return max(1, int(failure.retry_after.total_seconds()))
