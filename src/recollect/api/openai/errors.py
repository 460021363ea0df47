"""Map failures to responses of this interface: the OpenAI error object."""

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
from recollect.models.chat_errors import SERVICE, NotUnderstood, TooSlow
from recollect.usage.ledger import OverBudget

# For users who try an example with the name of a model, but have configured none.
_MODEL_HINT = " `GET /v1/models` lists the available models; `RECOLLECT_CHAT_URL` adds more."


class OpenAIErrorBody(BaseModel):
    """The details of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorObject(BaseModel):
    """The envelope of every error."""

    error: OpenAIErrorBody


_REQUEST = "invalid_request_error"
_TABLE: ErrorTable = {
    WrongFormat: ErrorCode(415, "invalid_request", _REQUEST),
    Invalid: ErrorCode(400, "invalid_request", _REQUEST),
    TooLarge: ErrorCode(413, "request_too_large", _REQUEST),
    Unauthenticated: ErrorCode(401, "authentication_error", "authentication_error"),
    Denied: ErrorCode(403, "scope_insufficient", "permission_error"),
    NoRoute: ErrorCode(404, "not_found", _REQUEST),
    MethodNotAllowed: ErrorCode(405, "method_not_allowed", _REQUEST),
    Conflict: ErrorCode(409, "conflict", _REQUEST),
    RateLimited: ErrorCode(429, "rate_limit_exceeded", "rate_limit_error"),
    OverBudget: ErrorCode(429, "quota_exceeded", "rate_limit_error"),
    Unavailable: ErrorCode(503, "service_unavailable", "server_error"),
    TooSlow: ErrorCode(504, "upstream_timeout", "server_error"),
    NotUnderstood: ErrorCode(502, "upstream_error", "server_error"),
}
_BUG = ErrorCode(500, "server_error", "server_error")


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
    code = find_code(failure, _TABLE, _BUG)
    match failure:
        case Invalid(is_syntax=True):
            code = ErrorCode(400, "json_parse_error", _REQUEST)
        case NotFound():
            code = ErrorCode(404, f"{failure.thing.replace(' ', '_')}_not_found", _REQUEST)
        case TooSlow() | NotUnderstood():
            pass
        case Unavailable(service=service) if service == SERVICE:
            code = ErrorCode(502, "upstream_unreachable", "server_error")
        case _:
            pass
    return answer_with(_envelope, code, failure)


def _envelope(code: ErrorCode, failure: Failure | None, message: str) -> dict[str, Any]:
    if isinstance(failure, NotFound) and failure.thing == "model":
        message += _MODEL_HINT
    error = {"message": message, "type": code.kind, "param": _param(failure), "code": code.code}
    return {"error": error}


def _param(failure: Failure | None) -> str | None:
    match failure:
        case WrongFormat():
            return None
        case Invalid() | TooLarge():
            return failure.field
        case NotFound():
            return failure.thing
        case _:
            return None
