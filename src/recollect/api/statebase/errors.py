"""Error responses of the plain REST API: `{"error": {code, message, type, param}}`."""

from typing import Any

from pydantic import BaseModel

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


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure; an unknown exception becomes a 500."""
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


def _conflict(failure: Conflict) -> ErrorReply:
    headers = {} if failure.is_temporary else {"x-should-retry": "false"}
    return _reply(409, "conflict", failure, kind="invalid_request_error", headers=headers)


def _rate_limited(failure: RateLimited) -> ErrorReply:
    seconds = retry_after(failure)
    reply = _reply(
        429,
        "rate_limit_exceeded",
        failure,
        kind="rate_limit_error",
        headers={"retry-after": seconds},
    )
    error = {**reply.body["error"], "retry_after": int(seconds)}
    return ErrorReply(reply.status, {"error": error}, reply.headers)


def _reply(
    status: int,
    code: str,
    failure: Failure | None,
    *,
    kind: str,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> ErrorReply:
    message = failure.message if failure else "Something went wrong on our side."
    error: dict[str, Any] = {"code": code, "message": message, "type": kind, "param": param}
    return ErrorReply(status, {"error": error}, headers or {})
