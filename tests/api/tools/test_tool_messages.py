"""Replies to invalid MCP messages."""

from typing import Any

import pytest

from recollect.api import strict_json
from recollect.api.tools.mcp_messages import check_message, error_reply
from recollect.core.errors import Invalid

HALF_SURROGATE = "A text contains a NUL character or half of a surrogate pair."
NOT_JSON = "The body is not valid JSON."
NOT_A_MESSAGE = (
    "The body must be one JSON-RPC 2.0 message, such as "
    '`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`.'
)


def call_message(arguments: str, request_id: str = "7") -> str:
    params = f'{{"name": "memory_save", "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": {request_id}, "method": "tools/call", "params": {params}}}'


def reply_to(message: str | bytes) -> dict[str, Any] | None:
    raw = message if isinstance(message, bytes) else message.encode()
    with pytest.raises(Invalid) as refused:
        strict_json.read(raw)
        check_message(raw)
    reply = error_reply(raw, refused.value)
    return reply.model_dump(by_alias=True, exclude_unset=True) if reply else None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (call_message(r'{"content": "\ud83d"}'), HALF_SURROGATE),
        (call_message(r'{"content": "a\u0000b"}'), HALF_SURROGATE),
        (call_message('{"max_results": 1' + "0" * 5_000 + "}"), "A number in the body has more"),
        (call_message('{"importance": 1e999}'), "A number in the body is too large."),
        (call_message('{"x": ' + "[" * 70 + "]" * 70 + "}"), "The body is nested deeper than 64"),
        (
            call_message('{"content": "a", "content": "b"}'),
            "An object in the body has a duplicate key.",
        ),
        (call_message('{"content": "a\xff"}').encode("latin-1"), NOT_JSON),
    ],
)
def test_an_invalid_tool_call_gets_a_tool_error(message: str | bytes, text: str) -> None:
    response = reply_to(message)

    assert response
    assert (response["id"], response["result"]["isError"]) == (7, True)
    [content] = response["result"]["content"]
    assert content["type"] == "text"
    assert content["text"].startswith(text)


@pytest.mark.parametrize(
    ("message", "request_id", "code", "text"),
    [
        ("{", None, -32700, NOT_JSON),
        ("hello", None, -32700, NOT_JSON),
        ("[" * 100_000, None, -32700, NOT_JSON),
        ("[]", None, -32600, NOT_A_MESSAGE),
        ('{"jsonrpc": "2.0", "id": 5}', 5, -32600, NOT_A_MESSAGE),
        ('{"jsonrpc": "1.0", "id": "a", "method": "ping"}', "a", -32600, NOT_A_MESSAGE),
        (call_message("[]").replace("2.0", "1.0"), 7, -32600, NOT_A_MESSAGE),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600, NOT_A_MESSAGE),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600, NOT_A_MESSAGE),
        (call_message("{}", request_id=r'"\ud83d"'), None, -32600, HALF_SURROGATE),
        (
            call_message("{}", request_id="9" * 30),
            None,
            -32600,
            "A number in the body has more than 64",
        ),
        (
            r'{"jsonrpc": "2.0", "id": 5, "method": "prompts/get", "params": {"x": "\ud83d"}}',
            5,
            -32600,
            HALF_SURROGATE,
        ),
    ],
)
def test_other_invalid_messages_get_an_error_with_their_id(
    message: str, request_id: str | int | None, code: int, text: str
) -> None:
    response = reply_to(message)

    assert response
    assert (response["id"], response["error"]["code"]) == (request_id, code)
    assert response["error"]["message"].startswith(text)


def test_a_notification_gets_no_reply() -> None:
    message = r'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"x": "\ud83d"}}'

    assert reply_to(message) is None
