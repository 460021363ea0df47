"""How this door's three surfaces say that something went wrong."""

from collections.abc import Mapping
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

MASKED = "Something went wrong on our side."

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str
    type: str


class ErrorObject(BaseModel):
    """The envelope of every error."""

    error: ErrorBody


def answer_tools(failure: Failure | Exception) -> Reply:
    """`/v1/tools`: what a model can mend is a `tool_error`."""
    return _answer(failure, "tool_error")


def answer_agents(failure: Failure | Exception) -> Reply:
    """`/agents/memories`."""
    return _answer(failure, "invalid_request")


def answer_mcp(failure: Failure | Exception) -> Reply:
    """`/mcp`, where a request went wrong before it was one: a JSON-RPC error without an id."""
    reply = _answer(failure, "invalid_request")
    code = _INTERNAL_ERROR if reply.status >= 500 else _INVALID_REQUEST
    if isinstance(failure, Invalid) and failure.is_syntax:
        code = _PARSE_ERROR
    error = {"code": code, "message": reply.body["error"]["message"]}
    return Reply(reply.status, {"jsonrpc": "2.0", "id": None, "error": error}, reply.headers)


def _answer(failure: Failure | Exception, invalid: str) -> Reply:
    match failure:
        case WrongFormat():
            return _reply(415, "invalid_request", failure)
        case Invalid():
            return _reply(400, invalid, failure)
        case TooLarge(field="body"):
            return _reply(413, "payload_too_large", failure)
        case TooLarge():
            return _reply(400, invalid, failure)
        case Unauthenticated():
            return _reply(401, "authentication_error", failure, {"www-authenticate": "Bearer"})
        case Denied():
            return _reply(403, "permission_error", failure)
        case NotFound():
            return _reply(404, "not_found", failure)
        case NoRoute():
            kind = "not_found" if failure.status == 404 else "method_not_allowed"
            return _reply(failure.status, kind, failure, failure.headers)
        case Conflict():
            headers = {} if failure.is_passing else {"x-should-retry": "false"}
            return _reply(409, "conflict", failure, headers)
        case RateLimited():
            return _reply(429, "rate_limit_error", failure, {"retry-after": retry_after(failure)})
        case Unavailable():
            return _reply(503, "service_unavailable", failure)
        case _:
            return _reply(500, "internal_error", None)


def _reply(
    status: int, kind: str, failure: Failure | None, headers: Mapping[str, str] | None = None
) -> Reply:
    error: dict[str, Any] = {"message": failure.message if failure else MASKED, "type": kind}
    return Reply(status, {"error": error}, headers or {})
