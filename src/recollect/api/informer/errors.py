"""Map failures to responses of this interface: `{statusCode, error, message}`, as hapi does."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel

from recollect.api.errors import (
    ErrorCode,
    ErrorReply,
    ErrorTable,
    MethodNotAllowed,
    NoRoute,
    answer_with,
    find_code,
)
from recollect.core.errors import (
    Conflict,
    Denied,
    Failure,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongFormat,
)


class InformerErrorObject(BaseModel):
    """The envelope of every error."""

    statusCode: int
    error: str
    message: str


_STATUSES = {
    WrongFormat: 415,
    Invalid: 400,
    Unauthenticated: 401,
    Denied: 403,
    NotFound: 404,
    NoRoute: 404,
    MethodNotAllowed: 405,
    Conflict: 409,
    TooLarge: 413,
    RateLimited: 429,
    Unavailable: 503,
}
_TABLE: ErrorTable = {
    kind: ErrorCode(status, HTTPStatus(status).phrase) for kind, status in _STATUSES.items()
}
_BUG = ErrorCode(500, HTTPStatus.INTERNAL_SERVER_ERROR.phrase)


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
    if isinstance(failure, NotFound) and failure.thing == "session":
        failure = NotFound("chat")  # the name of a thread in this interface
    code = find_code(failure, _TABLE, _BUG)
    return answer_with(_envelope, code, failure, bug_message="An internal server error occurred")


def _envelope(code: ErrorCode, _failure: Failure | None, message: str) -> dict[str, Any]:
    return {"statusCode": code.status, "error": code.code, "message": message}
