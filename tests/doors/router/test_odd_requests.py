"""What clients and models send that nobody expects: answered in the envelope, and never twice."""

import json
from contextlib import suppress
from typing import Any

import pytest

from recollect.doors.router.app import check_chat
from recollect.doors.router.translate import chat_body, items_of, messages_of
from recollect.engine.prompt import composed, user_places
from recollect.errors import Invalid
from recollect.models.librarian import NAME
from tests.doors.router.conftest import Object, Routed
from tests.support.tools import rows
from tests.support.upstream import Raw, Say

pytestmark = pytest.mark.anyio

SAID = {"role": "user", "content": "What do I like?"}
ODD: list[Any] = ["x", 7, True, [], ["x"], [7], [None], {}, {"a": "x"}, [[]], [{"type": []}]]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_a_body_of_another_form_is_taken_or_refused_before_anybody_reads_it(odd: Any) -> None:
    chats = [{"messages": [SAID], name: odd} for name in ("tools", "stream_options", "messages")]
    chats += [{"messages": [{**SAID, name: odd}]} for name in ("role", "content", "tool_calls")]
    for chat in chats:
        with suppress(Invalid):
            check_chat(chat)
            user_places(chat["messages"], "")
            composed(chat["messages"], stable="Tea.", blocks={0: "Tea."})
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
async def test_what_the_built_in_model_cannot_read_is_refused(routed: Routed, name: str) -> None:
    for odd in (7, ["x"], [{"function": "x"}]):
        body = {"model": NAME, "messages": [SAID], "stream": True, name: odd}
        answer = await routed.http.post("/v1/chat/completions", json=body)
        assert answer.status_code < 500, (body, answer.text)
        assert "server_error" not in answer.text, (body, answer.text)


@pytest.mark.parametrize("is_streamed", [True, False])
async def test_a_model_that_takes_no_tools_is_asked_once_more_and_not_for_ever(
    routed: Routed, *, is_streamed: bool
) -> None:
    refusal = {"error": {"message": "m1 does not support tools", "type": "invalid_request_error"}}
    routed.upstream.otherwise = Raw(
        [json.dumps(refusal).encode()], status=400, content_type="application/json"
    )
    weather = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}
    body = {"model": "m1", "input": "Hi", "tools": [weather], "stream": is_streamed}

    answer = await routed.http.post("/v1/responses", json=body)

    assert (answer.status_code, answer.json()) == (400, refusal)
    assert [asked.tools[:1] for asked in routed.upstream.asked] == [["get_weather"]] * 2


async def test_an_answer_that_no_database_takes_is_kept_without_what_it_cannot_keep(
    routed: Routed,
) -> None:
    told = "one\0two \ud83d\ude00 half\ud83d"
    for stream in (True, False):
        routed.upstream.otherwise = Say(told)
        thread = f"odd {stream}"
        answer = await routed.chat("Say it.", stream=stream, headers={"X-Recollect-Thread": thread})
        assert answer.status_code == 200
        kept = await rows(
            routed.engine,
            "SELECT m.content FROM message m JOIN thread t USING (workspace_id)"
            " WHERE t.label = %s AND m.thread_id = t.id AND m.role = 'assistant'"
            " AND m.workspace_id = %s",
            thread,
            routed.caller.workspace_id,
        )
        assert kept == [("onetwo 😀 half",)]
        body = {"model": "m1", "input": "Say it.", "stream": stream}
        answer = await routed.http.post("/v1/responses", json=body)
        assert "failed" not in answer.text
        assert "server_error" not in answer.text


async def test_half_an_answer_is_not_what_a_repeat_gets(routed: Routed) -> None:
    begun = b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    routed.upstream.script = [Raw([begun], breaks=True), Say("Hello again.")]
    headers = {"Idempotency-Key": "the same"}

    broken = await routed.chat("Hi", stream=True, headers=headers)
    repeated = await routed.chat("Hi", stream=True, headers=headers)
    once_more = await routed.chat("Hi", stream=True, headers=headers)

    assert "Hel" in broken.text
    assert "[DONE]" not in broken.text
    assert "again" in repeated.text
    assert repeated.text.endswith("data: [DONE]\n\n")
    assert once_more.text == repeated.text
    assert once_more.headers["idempotent-replayed"] == "true"
    assert len(routed.upstream.asked) == 2


async def test_a_request_refers_to_no_more_earlier_responses_than_a_chat_has(
    routed: Routed,
) -> None:
    items = [{"type": "item_reference", "id": f"msg_{number:032x}"} for number in range(501)]

    answer = await routed.http.post("/v1/responses", json={"model": "m1", "input": items})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")
