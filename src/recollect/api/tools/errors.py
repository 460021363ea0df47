"""Error responses of `/v1/tools`, `/agents/memories` and `/mcp`."""

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


_TABLE: ErrorTable = {
    WrongFormat: ErrorCode(415, "invalid_request"),
    Unauthenticated: ErrorCode(401, "authentication_error"),
    Denied: ErrorCode(403, "permission_error"),
    NotFound: ErrorCode(404, "not_found"),
    NoRoute: ErrorCode(404, "not_found"),
    MethodNotAllowed: ErrorCode(405, "method_not_allowed"),
    Conflict: ErrorCode(409, "conflict"),
    RateLimited: ErrorCode(429, "rate_limit_error"),
    Unavailable: ErrorCode(503, "service_unavailable"),
}
_BUG = ErrorCode(500, "internal_error")


def _answer(failure: Failure | Exception, invalid: str) -> ErrorReply:
    wrong = ErrorCode(400, invalid)
    code = find_code(failure, {Invalid: wrong, TooLarge: wrong, **_TABLE}, _BUG)
    if isinstance(failure, TooLarge) and failure.field == "body":
        code = ErrorCode(413, "payload_too_large")
    return answer_with(_envelope, code, failure)


def _envelope(code: ErrorCode, _failure: Failure | None, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": code.code}}
