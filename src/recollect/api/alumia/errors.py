"""The error responses of this interface: `{"success": false, "error": {code, message}}`."""

from recollect.api.apps import NoRoute
from recollect.api.gateway import ErrorReply, retry_after
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


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
    match failure:
        case WrongFormat():
            return _reply(415, "UNSUPPORTED_MEDIA_TYPE", failure)
        case Invalid(is_syntax=True):
            return _reply(400, "BAD_REQUEST", failure)
        case Invalid():
            return _reply(422, "VALIDATION_ERROR", failure)
        case NoRoute():
            code = "NOT_FOUND" if failure.status == 404 else "METHOD_NOT_ALLOWED"
            return _reply(failure.status, code, failure, headers=failure.headers)
        case Unauthenticated():
            return _reply(401, "UNAUTHORIZED", failure, headers={"www-authenticate": "Bearer"})
        case Denied():
            return _reply(403, "FORBIDDEN", failure)
        case NotFound():
            return _reply(404, "NOT_FOUND", failure)
        case Conflict():
            return _reply(409, "CONFLICT", failure)
        case TooLarge(field="body" | "file"):
            return _reply(413, "PAYLOAD_TOO_LARGE", failure)
        case TooLarge():
            return _reply(422, "VALIDATION_ERROR", failure)
        case RateLimited():
            headers = {"retry-after": retry_after(failure)}
            return _reply(429, "TOO_MANY_REQUESTS", failure, headers=headers)
        case Unavailable():
            return _reply(503, "SERVICE_UNAVAILABLE", failure)
        case _:
            return _reply(500, "INTERNAL_ERROR", None)


def _reply(
    status: int, code: str, failure: Failure | None, *, headers: dict[str, str] | None = None
) -> ErrorReply:
    message = failure.message if failure else "Something went wrong on our side."
    body = {"success": False, "error": {"code": code, "message": message}}
    return ErrorReply(status, body, headers or {})
