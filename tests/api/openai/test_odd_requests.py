"""Malformed and unusual requests and answers of clients and models."""

import json
from contextlib import suppress
from typing import Any

import pytest

from recollect.api.openai.app import check_chat
from recollect.api.openai.translate import chat_body, items_of, messages_of
from recollect.chat.prompt import compose_messages, user_message_digests
from recollect.core.errors import Invalid
from recollect.models.librarian import NAME
from tests.api.openai.conftest import Object, Routed
from tests.support.tools import fetch_rows
from tests.support.upstream import Answer, RawAnswer

pytestmark = pytest.mark.anyio

MESSAGE = {"role": "user", "content": "What do I like?"}
ODD: list[Any] = ["x", 7, True, [], ["x"], [7], [None], {}, {"a": "x"}, [[]], [{"type": []}]]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_malformed_body_is_accepted_or_rejected_but_never_crashes(odd: Any) -> None:
    chats = [{"messages": [MESSAGE], name: odd} for name in ("tools", "stream_options", "messages")]
    chats += [{"messages": [{**MESSAGE, name: odd}]} for name in ("role", "content", "tool_calls")]
    for chat in chats:
        with suppress(Invalid):
            check_chat(chat)
            user_message_digests(chat["messages"], "")
            compose_messages(chat["messages"], stable="Tea.", blocks={0: "Tea."})
    requests: list[Object] = [{"input": "Hi", name: odd} for name in ("input", "text", "tools")]
    requests += [{"input": "Hi", "text": {"format": odd}}, {"input": "Hi", "reasoning": odd}]
    requests += [{"input": "Hi", "tool_choice": odd}, {"input": "Hi", "tools": [{"name": odd}]}]
    requests += [
        {"input": [{"type": kind, "role": "user", "content": "Hi", name: odd}]}
        for kind in ("message", "function_call", "function_call_output", "mcp_call")
        for name in ("type", "role", "content", "call_id", "id", "name", "arguments", "output")
    ]
    for request in requests:
        with suppress(Invalid):
            check_chat(chat_body(request, messages_of(items_of(request))))


@pytest.mark.parametrize("name", ["tools", "stream_options", "tool_choice", "response_format"])
async def test_the_built_in_model_rejects_malformed_fields(routed: Routed, name: str) -> None:
    for odd in (7, ["x"], [{"function": "x"}]):
        body = {"model": NAME, "messages": [MESSAGE], "stream": True, name: odd}
        answer = await routed.http.post("/v1/chat/completions", json=body)
        assert answer.status_code < 500, (body, answer.text)
        assert "server_error" not in answer.text, (body, answer.text)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_model_that_refuses_tools_is_asked_only_once_more(
    routed: Routed, *, is_streamed: bool
) -> None:
    refusal = {"error": {"message": "m1 does not support tools", "type": "invalid_request_error"}}
    routed.upstream.default = RawAnswer(
        [json.dumps(refusal).encode()], status=400, content_type="application/json"
    )
    weather = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    body = {"model": "m1", "input": "Hi", "tools": [weather], "stream": is_streamed}

    answer = await routed.http.post("/v1/responses", json=body)

    assert (answer.status_code, answer.json()) == (400, refusal)
    assert [asked.tools[:1] for asked in routed.upstream.requests] == [["get_weather"]] * 2


async def test_characters_that_cannot_be_stored_are_removed_from_an_answer(
    routed: Routed,
) -> None:
    text = "one\0two \ud83d\ude00 half\ud83d"
    for stream in (True, False):
        routed.upstream.default = Answer(text)
        thread = f"odd {stream}"
        answer = await routed.chat("Say it.", stream=stream, headers={"X-Recollect-Thread": thread})
        assert answer.status_code == 200
        stored = await fetch_rows(
            routed.engine,
            "SELECT m.content FROM message m JOIN thread t USING (workspace_id)"
            " WHERE t.label = %s AND m.thread_id = t.id AND m.role = 'assistant'"
            " AND m.workspace_id = %s",
            thread,
            routed.caller.workspace_id,
        )
        assert stored == [("onetwo 😀 half",)]
        body = {"model": "m1", "input": "Say it.", "stream": stream}
        answer = await routed.http.post("/v1/responses", json=body)
        assert "failed" not in answer.text
        assert "server_error" not in answer.text


async def test_an_interrupted_answer_is_not_replayed(routed: Routed) -> None:
    first = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    routed.upstream.script = [RawAnswer([first], breaks=True), Answer("Hello again.")]
    headers = {"Idempotency-Key": "the same"}

    broken = await routed.chat("Hi", stream=True, headers=headers)
    repeated = await routed.chat("Hi", stream=True, headers=headers)
    replayed = await routed.chat("Hi", stream=True, headers=headers)

    assert "Hel" in broken.text
    assert "[DONE]" not in broken.text
    assert "again" in repeated.text
    assert repeated.text.endswith("data: [DONE]\n\n")
    assert replayed.text == repeated.text
    assert replayed.headers["idempotent-replayed"] == "true"
    assert len(routed.upstream.requests) == 2


async def test_references_to_too_many_earlier_responses_are_rejected(
    routed: Routed,
) -> None:
    items = [{"type": "item_reference", "id": f"msg_{number:032x}"} for number in range(501)]

    answer = await routed.http.post("/v1/responses", json={"model": "m1", "input": items})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")
