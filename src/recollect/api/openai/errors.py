"""Map failures to responses of this interface: the OpenAI error object."""

from collections.abc import Mapping
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
from recollect.models.chat_errors import SERVICE, NotUnderstood, TooSlow
from recollect.usage.ledger import OverBudget

_INTERNAL_ERROR = "Something went wrong on our side."
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


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
    match failure:
        case WrongFormat():
            return _reply(415, "invalid_request", failure)
        case Invalid():
            code = "json_parse_error" if failure.is_syntax else "invalid_request"
            return _reply(400, code, failure, param=failure.field)
        case TooLarge():
            return _reply(413, "request_too_large", failure, param=failure.field)
        case Unauthenticated():
            headers = {"www-authenticate": "Bearer"}
            return _reply(401, "authentication_error", failure, headers, "authentication_error")
        case Denied():
            return _reply(403, "scope_insufficient", failure, kind="permission_error")
        case NotFound():
            code = f"{failure.thing.replace(' ', '_')}_not_found"
            hint = _MODEL_HINT if failure.thing == "model" else ""
            return _reply(404, code, failure, param=failure.thing, hint=hint)
        case NoRoute():
            code = "not_found" if failure.status == 404 else "method_not_allowed"
            return _reply(failure.status, code, failure, failure.headers)
        case Conflict():
            headers = {} if failure.is_temporary else {"x-should-retry": "false"}
            return _reply(409, "conflict", failure, headers)
        case RateLimited():
            code = "quota_exceeded" if isinstance(failure, OverBudget) else "rate_limit_exceeded"
            headers = {"retry-after": retry_after(failure)}
            return _reply(429, code, failure, headers, "rate_limit_error")
        case Unavailable():
            status, code = _unavailable(failure)
            return _reply(status, code, failure, kind="server_error")
        case _:
            return _reply(500, "server_error", None, kind="server_error")


def _unavailable(failure: Unavailable) -> tuple[int, str]:
    match failure:
        case TooSlow():
            return 504, "upstream_timeout"
        case NotUnderstood():
            return 502, "upstream_error"
        case _ if failure.service == SERVICE:
            return 502, "upstream_unreachable"
        case _:
            return 503, "service_unavailable"


def _reply(
    status: int,
    code: str,
    failure: Failure | None,
    headers: Mapping[str, str] | None = None,
    kind: str = "invalid_request_error",
    *,
    param: str | None = None,
    hint: str = "",
) -> ErrorReply:
    error: dict[str, Any] = {
        "message": failure.message + hint if failure else _INTERNAL_ERROR,
        "type": kind,
        "param": param,
        "code": code,
    }
    return ErrorReply(status, {"error": error}, headers or {})
