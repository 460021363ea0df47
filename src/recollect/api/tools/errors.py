"""Error responses of `/v1/tools`, `/agents/memories` and `/mcp`."""

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

MASKED = "Something went wrong on our side."

_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_INTERNAL_ERROR = -32603


class ToolsErrorBody(BaseModel):
    """The error."""

    message: str
    type: str


class ToolsErrorObject(BaseModel):
    """The envelope of every error response."""

    error: ToolsErrorBody


def answer_tools(failure: Failure | Exception) -> ErrorReply:
    """Return the response of `/v1/tools`. An error that a model can correct is a `tool_error`."""
    return _answer(failure, "tool_error")


def answer_agents(failure: Failure | Exception) -> ErrorReply:
    """Return the response of `/agents/memories`."""
    return _answer(failure, "invalid_request")


def answer_mcp(failure: Failure | Exception) -> ErrorReply:
    """Return the response of `/mcp` to an unparsed request: a JSON-RPC error without an id."""
    reply = _answer(failure, "invalid_request")
    code = _INTERNAL_ERROR if reply.status >= 500 else _INVALID_REQUEST
    if isinstance(failure, Invalid) and failure.is_syntax:
        code = _PARSE_ERROR
    error = {"code": code, "message": reply.body["error"]["message"]}
    return ErrorReply(reply.status, {"jsonrpc": "2.0", "id": None, "error": error}, reply.headers)


def _answer(failure: Failure | Exception, invalid: str) -> ErrorReply:
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
            headers = {} if failure.is_temporary else {"x-should-retry": "false"}
            return _reply(409, "conflict", failure, headers)
        case RateLimited():
            return _reply(429, "rate_limit_error", failure, {"retry-after": retry_after(failure)})
        case Unavailable():
            return _reply(503, "service_unavailable", failure)
        case _:
            return _reply(500, "internal_error", None)


def _reply(
    status: int, kind: str, failure: Failure | None, headers: Mapping[str, str] | None = None
) -> ErrorReply:
    error: dict[str, Any] = {"message": failure.message if failure else MASKED, "type": kind}
    return ErrorReply(status, {"error": error}, headers or {})
