"""Which messages are taken, on HTTP and on stdio alike, and what answers the others.

Whoever asked must hear of it under the id of the request: without one a client cannot tell what was
refused, and waits for it or gives up the whole connection.
"""

import json
from typing import Any, cast

import mcp_types as protocol
from pydantic import ValidationError

from recollect.doors import strict_json
from recollect.errors import Invalid

Refusal = protocol.JSONRPCResponse | protocol.JSONRPCError


def check(raw: bytes) -> None:
    """Raise `Invalid` on what is no message of the protocol: the SDK would show its own innards."""
    try:
        message = protocol.jsonrpc_message_adapter.validate_json(raw)
    except ValidationError:
        raise _no_message() from None
    # A request whose id can be none passes for a notification: who asked would wait for ever.
    if isinstance(message, protocol.JSONRPCNotification) and "id" in json.loads(raw):
        raise _no_message()


def refusal(raw: bytes, failure: Invalid) -> Refusal | None:
    """The answer to a message that is refused as it stands; None to a notification.

    The call of a tool is answered by the tool, with a text that a model can read and heed.
    """
    message = _loosely_read(raw)
    if message is None:
        return _error(None, protocol.PARSE_ERROR, failure)
    request_id = _id_of(message)
    if request_id is not None and _is_call(message):
        result = tool_error(failure.message).model_dump(by_alias=True, exclude_none=True)
        return protocol.JSONRPCResponse(jsonrpc="2.0", id=request_id, result=result)
    if "id" not in message and isinstance(message.get("method"), str):
        return None
    code = protocol.PARSE_ERROR if failure.is_syntax else protocol.INVALID_REQUEST
    return _error(request_id, code, failure)


def tool_error(text: str) -> protocol.CallToolResult:
    """A tool's own word that it could not do it."""
    content = protocol.TextContent(type="text", text=text)
    return protocol.CallToolResult(content=[content], is_error=True)


def _loosely_read(raw: bytes) -> dict[str, Any] | None:
    """The message, whatever else is wrong in it; one that is no object says nothing at all.

    None where it is no JSON.
    """
    try:
        # As a float no number is too long to be read.
        found = json.loads(raw.decode(errors="replace"), parse_int=_number)
    except (json.JSONDecodeError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _number(digits: str) -> int | float:
    try:
        return strict_json.integer(digits)
    except Invalid:
        return float(digits)


def _id_of(message: dict[str, Any]) -> protocol.RequestId | None:
    """The id, if it is one that can be sent back."""
    match message.get("id"):
        case bool():
            return None
        case str(text) if not strict_json.is_storable(text):
            return None
        case int() | str() as request_id:
            return request_id
        case _:
            return None


def _is_call(message: dict[str, Any]) -> bool:
    match message:
        case {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": str()} as params}:
            return isinstance(params.get("arguments"), dict | None)
        case _:
            return False


def _error(request_id: protocol.RequestId | None, code: int, failure: Invalid) -> Refusal:
    error = protocol.ErrorData(code=code, message=failure.message)
    return protocol.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


def _no_message() -> Invalid:
    return Invalid(
        "The body must be one JSON-RPC 2.0 message, such as "
        '`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`.'
    )
