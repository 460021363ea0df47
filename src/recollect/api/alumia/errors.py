"""The error responses of this interface: `{"success": false, "error": {code, message}}`."""

from typing import Any

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

_TABLE: ErrorTable = {
    WrongFormat: ErrorCode(415, "UNSUPPORTED_MEDIA_TYPE"),
    Invalid: ErrorCode(422, "VALIDATION_ERROR"),
    Unauthenticated: ErrorCode(401, "UNAUTHORIZED"),
    Denied: ErrorCode(403, "FORBIDDEN"),
    NotFound: ErrorCode(404, "NOT_FOUND"),
    NoRoute: ErrorCode(404, "NOT_FOUND"),
    MethodNotAllowed: ErrorCode(405, "METHOD_NOT_ALLOWED"),
    Conflict: ErrorCode(409, "CONFLICT"),
    TooLarge: ErrorCode(422, "VALIDATION_ERROR"),
    RateLimited: ErrorCode(429, "TOO_MANY_REQUESTS"),
    Unavailable: ErrorCode(503, "SERVICE_UNAVAILABLE"),
}
_BUG = ErrorCode(500, "INTERNAL_ERROR")


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
    code = find_code(failure, _TABLE, _BUG)
    match failure:
        case Invalid(is_syntax=True):
            code = ErrorCode(400, "BAD_REQUEST")
        case TooLarge(field="body" | "file"):
            code = ErrorCode(413, "PAYLOAD_TOO_LARGE")
        case _:
            pass
    return answer_with(_envelope, code, failure)


def _envelope(code: ErrorCode, _failure: Failure | None, message: str) -> dict[str, Any]:
    return {"success": False, "error": {"code": code.code, "message": message}}
