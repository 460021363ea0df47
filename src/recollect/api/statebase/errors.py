"""Error responses of the plain REST API: `{"error": {code, message, type, param}}`."""

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
    retry_after_seconds,
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


class StatebaseErrorBody(BaseModel):
    """The error."""

    code: str
    message: str
    type: str
    param: str | None
    retry_after: int | None = None


class StatebaseErrorObject(BaseModel):
    """The envelope of every error response."""

    error: StatebaseErrorBody


_REQUEST = "invalid_request_error"
_TABLE: ErrorTable = {
    WrongFormat: ErrorCode(415, "invalid_request", _REQUEST),
    Invalid: ErrorCode(400, "invalid_request", _REQUEST),
    Unauthenticated: ErrorCode(401, "authentication_failed", "authentication_error"),
    Denied: ErrorCode(403, "permission_denied", "permission_error"),
    NotFound: ErrorCode(404, "resource_not_found", _REQUEST),
    NoRoute: ErrorCode(404, "resource_not_found", _REQUEST),
    MethodNotAllowed: ErrorCode(405, "method_not_allowed", _REQUEST),
    Conflict: ErrorCode(409, "conflict", _REQUEST),
    TooLarge: ErrorCode(413, "content_too_large", _REQUEST),
    RateLimited: ErrorCode(429, "rate_limit_exceeded", "rate_limit_error"),
    Unavailable: ErrorCode(503, "service_unavailable", "api_error"),
}
_BUG = ErrorCode(500, "internal_error", "api_error")


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure; an unknown exception becomes a 500."""
    code = find_code(failure, _TABLE, _BUG)
    match failure:
        case NotFound(thing="memory" | "session"):
            code = ErrorCode(404, f"{failure.thing}_not_found", _REQUEST)
        case TooLarge(field="body"):
            code = ErrorCode(413, "payload_too_large", _REQUEST)
        case _:
            pass
    return answer_with(_envelope, code, failure)


def _envelope(code: ErrorCode, failure: Failure | None, message: str) -> dict[str, Any]:
    param = failure.field if isinstance(failure, Invalid | TooLarge) else None
    error: dict[str, Any] = {
        "code": code.code,
        "message": message,
        "type": code.kind,
        "param": param,
    }
    if isinstance(failure, RateLimited):
        error["retry_after"] = retry_after_seconds(failure)
    return {"error": error}
