"""Checks on incoming MCP messages, for HTTP and stdio, and the replies to invalid ones.

A reply carries the id of the request. Without it a client cannot tell which request was rejected,
and waits for ever or drops the whole connection.
"""

import json
from typing import Any, cast

import mcp_types as protocol
from pydantic import ValidationError

from recollect.api import strict_json
from recollect.core.errors import Invalid

ErrorMessage = protocol.JSONRPCResponse | protocol.JSONRPCError


def check_message(raw: bytes) -> None:
    """Raise `Invalid` unless this is an MCP message; the SDK's own error exposes internals."""
    try:
        message = protocol.jsonrpc_message_adapter.validate_json(raw)
    except ValidationError:
        raise _not_a_message() from None
    # A request with an invalid id parses as a notification, and its client would wait for ever.
    if isinstance(message, protocol.JSONRPCNotification) and "id" in json.loads(raw):
        raise _not_a_message()


def error_reply(raw: bytes, failure: Invalid) -> ErrorMessage | None:
    """Return the reply to a rejected message, or None for a notification.

    A tool call gets a tool error, whose text a model can read and act on.
    """
    message = _read_leniently(raw)
    if message is None:
        return _error(None, protocol.PARSE_ERROR, failure)
    request_id = _id_of(message)
    if request_id is not None and _is_tool_call(message):
        result = tool_error(failure.message).model_dump(by_alias=True, exclude_none=True)
        return protocol.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
    if "id" not in message and isinstance(message.get("method"), str):
        return None
    code = protocol.PARSE_ERROR if failure.is_syntax else protocol.INVALID_REQUEST
    return _error(request_id, code, failure)


def tool_error(text: str) -> protocol.CallToolResult:
    """Return a tool result that reports an error."""
    content = protocol.TextContent(type="text", text=text)
    return protocol.CallToolResult(content=[content], is_error=True)


def _read_leniently(raw: bytes) -> dict[str, Any] | None:
    """Read as much of the message as possible: {} for a non-object, None for non-JSON."""
    try:
        # Huge integers are read as floats, which have no length limit.
        message = json.loads(raw.decode(errors="replace"), parse_int=_number)
    except (json.JSONDecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", message) if isinstance(message, dict) else {}


def _number(digits: str) -> int | float:
    try:
        return strict_json.integer(digits)
    except Invalid:
        return float(digits)


def _id_of(message: dict[str, Any]) -> protocol.RequestId | None:
    """Return the id if it can be sent back."""
    match message.get("id"):
        case bool():
            return None
        case str(text) if not strict_json.is_storable(text):
            return None
        case int() | str() as request_id:
            return request_id
        case _:
            return None


def _is_tool_call(message: dict[str, Any]) -> bool:
    match message:
        case {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": str()} as params}:
            return isinstance(params.get("arguments"), dict | None)
        case _:
            return False


def _error(request_id: protocol.RequestId | None, code: int, failure: Invalid) -> ErrorMessage:
    error = protocol.ErrorData(code=code, message=failure.message)
    return protocol.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _not_a_message() -> Invalid:
    return Invalid(
        "The body must be one JSON-RPC 2.0 message, such as "
        '`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`.'
    )
