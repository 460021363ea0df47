"""What answers a message that cannot be taken as it stands."""

from typing import Any

import pytest

from recollect.doors import strict_json
from recollect.doors.tools.mcp_messages import check, refusal
from recollect.errors import Invalid

HALF = "A text holds a NUL character or half of a surrogate pair."
NO_JSON = "The body is not valid JSON."
NO_MESSAGE = (
    "The body must be one JSON-RPC 2.0 message, such as "
    '`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`.'
)


def call_of(arguments: str, request_id: str = "7") -> str:
    params = f'{{"name": "memory_save", "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": {request_id}, "method": "tools/call", "params": {params}}}'


def answer_to(message: str | bytes) -> dict[str, Any] | None:
    raw = message if isinstance(message, bytes) else message.encode()
    with pytest.raises(Invalid) as refused:
        strict_json.read(raw)
        check(raw)
    answer = refusal(raw, refused.value)
    return answer.model_dump(by_alias=True, exclude_unset=True) if answer else None


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (call_of(r'{"content": "\ud83d"}'), HALF),
        (call_of(r'{"content": "a\u0000b"}'), HALF),
        (call_of('{"max_results": 1' + "0" * 5_000 + "}"), "A number in the body has more"),
        (call_of('{"importance": 1e999}'), "A number in the body is too large."),
        (call_of('{"x": ' + "[" * 70 + "]" * 70 + "}"), "The body is nested deeper than 64"),
        (call_of('{"content": "a", "content": "b"}'), "An object in the body names a key twice."),
        (call_of('{"content": "a\xff"}').encode("latin-1"), NO_JSON),
    ],
)
def test_a_call_of_a_tool_is_answered_by_the_tool(message: str | bytes, text: str) -> None:
    answer = answer_to(message)

    assert answer
    assert (answer["id"], answer["result"]["isError"]) == (7, True)
    [content] = answer["result"]["content"]
    assert content["type"] == "text"
    assert content["text"].startswith(text)


@pytest.mark.parametrize(
    ("message", "request_id", "code", "text"),
    [
        ("{", None, -32700, NO_JSON),
        ("hello", None, -32700, NO_JSON),
        ("[" * 100_000, None, -32700, NO_JSON),
        ("[]", None, -32600, NO_MESSAGE),
        ('{"jsonrpc": "2.0", "id": 5}', 5, -32600, NO_MESSAGE),
        ('{"jsonrpc": "1.0", "id": "a", "method": "ping"}', "a", -32600, NO_MESSAGE),
        (call_of("[]").replace("2.0", "1.0"), 7, -32600, NO_MESSAGE),
        ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600, NO_MESSAGE),
        ('{"jsonrpc": "2.0", "id": true, "method": "ping"}', None, -32600, NO_MESSAGE),
        (call_of("{}", request_id=r'"\ud83d"'), None, -32600, HALF),
        (call_of("{}", request_id="9" * 30), None, -32600, "A number in the body has more than 64"),
        (
            r'{"jsonrpc": "2.0", "id": 5, "method": "prompts/get", "params": {"x": "\ud83d"}}',
            5,
            -32600,
            HALF,
        ),
    ],
)
def test_anything_else_is_an_error_with_the_id_where_there_is_one(
    message: str, request_id: str | int | None, code: int, text: str
) -> None:
    answer = answer_to(message)

    assert answer
    assert (answer["id"], answer["error"]["code"]) == (request_id, code)
    assert answer["error"]["message"].startswith(text)


def test_a_notification_is_never_answered() -> None:
    message = r'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"x": "\ud83d"}}'

    assert answer_to(message) is None
