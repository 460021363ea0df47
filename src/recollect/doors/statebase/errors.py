"""How this door says that something went wrong: `{"error": {code, message, type, param}}`."""

from typing import Any

from pydantic import BaseModel

from recollect.doors.front import Reply, retry_after
from recollect.doors.furnish import NoRoute
from recollect.errors import (
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


class ErrorBody(BaseModel):
    """What went wrong."""

    code: str
    message: str
    type: str
    param: str | None
    retry_after: int | None = None


class ErrorObject(BaseModel):
    """The envelope of every error."""

    error: ErrorBody


def answer(failure: Failure | Exception) -> Reply:
    """The answer to any failure, a bug included."""
    match failure:
        case WrongFormat():
            return _reply(415, "invalid_request", failure, kind="invalid_request_error")
        case Invalid():
            return _reply(
                400,
                "invalid_request",
                failure,
                kind="invalid_request_error",
                param=failure.field,
            )
        case NoRoute():
            code = "resource_not_found" if failure.status == 404 else "method_not_allowed"
            return _reply(
                failure.status,
                code,
                failure,
                kind="invalid_request_error",
                headers=failure.headers,
            )
        case Unauthenticated():
            return _reply(
                401,
                "authentication_failed",
                failure,
                kind="authentication_error",
                headers={"www-authenticate": "Bearer"},
            )
        case Denied():
            return _reply(403, "permission_denied", failure, kind="permission_error")
        case NotFound(thing="memory" | "session"):
            return _reply(404, f"{failure.thing}_not_found", failure, kind="invalid_request_error")
        case NotFound():
            return _reply(404, "resource_not_found", failure, kind="invalid_request_error")
        case Conflict():
            return _conflict(failure)
        case TooLarge():
            code = "payload_too_large" if failure.field == "body" else "content_too_large"
            return _reply(413, code, failure, kind="invalid_request_error", param=failure.field)
        case RateLimited():
            return _rate_limited(failure)
        case Unavailable():
            return _reply(503, "service_unavailable", failure, kind="api_error")
        case _:
            return _reply(500, "internal_error", None, kind="api_error")


def _conflict(failure: Conflict) -> Reply:
    headers = {} if failure.is_passing else {"x-should-retry": "false"}
    return _reply(409, "conflict", failure, kind="invalid_request_error", headers=headers)


def _rate_limited(failure: RateLimited) -> Reply:
    seconds = retry_after(failure)
    reply = _reply(
        429,
        "rate_limit_exceeded",
        failure,
        kind="rate_limit_error",
        headers={"retry-after": seconds},
    )
    error = {**reply.body["error"], "retry_after": int(seconds)}
    return Reply(reply.status, {"error": error}, reply.headers)


def _reply(
    status: int,
    code: str,
    failure: Failure | None,
    *,
    kind: str,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    message = failure.message if failure else "Something went wrong on our side."
    error: dict[str, Any] = {"code": code, "message": message, "type": kind, "param": param}
    return Reply(status, {"error": error}, headers or {})
