"""Requests, answers, refusals and failures pass through, streamed or not."""

import asyncio
import base64
import json
import re
import struct
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from recollect.core.tasks import cancel_all
from recollect.models.chat_registry import ChatModels
from recollect.models.librarian import NAME, Librarian
from tests.api.openai.conftest import Object, Routed
from tests.support.instance import connect, make_server
from tests.support.upstream import Answer, Call, RawAnswer, events_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

OFF = {"X-Recollect-Memory": "off"}


async def test_with_memory_off_the_request_bytes_are_unchanged(routed: Routed) -> None:
    sent = (
        b'{ "model":"m1","seed":7, "x_unknown":{"b":1.50,"a":"\\u00fc"},\n'
        b'"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}],'
        b'"logprobs":true,"stop":["a"],"response_format":{"type":"json_object"},"n":2}'
    )
    headers = {"content-type": "application/json", **OFF}

    answer = await routed.http.post("/v1/chat/completions", content=sent, headers=headers)

    assert answer.status_code == 200
    assert routed.last.body == sent
    assert answer.headers["x-recollect-memory"] == "off"


async def test_the_bytes_of_an_answer_are_unchanged(routed: Routed) -> None:
    raw = json.dumps(
        {
            "id": "x", "object": "chat.completion", "created": 1, "model": "m1", "x_more": [1.50],
            "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi", "reasoning_content": "hm"}, "logprobs": {"content": []}, "finish_reason": "stop"}],
        }
    ).encode() + b"\n"  # fmt: skip
    routed.upstream.script = [RawAnswer([raw], content_type="application/json")]

    answer = await routed.chat("Hello?")

    assert answer.content == raw


async def test_the_events_of_a_stream_are_unchanged(routed: Routed) -> None:
    routed.upstream.script = [Answer("One two three.", extra={"x_more": 1})]
    plain = await routed.chat("Hello?", stream=True, headers=OFF)
    assert plain.content.endswith(b"data: [DONE]\n\n")

    routed.upstream.script = [Answer("One two three.", extra={"x_more": 1})]
    answer = await routed.chat("Hello?", stream=True)

    shown = [each async for each in events_of(answer)]
    assert shown == [each async for each in events_of(plain)]
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"


async def test_the_connection_to_the_upstream_is_reused(routed: Routed) -> None:
    routed.upstream.script = [
        Answer("One.", [Call("x_recall_memory", {"query": "A"})]),
        Answer("Two."),
        Answer(),
    ]

    for _ in range(2):
        answer = await routed.chat("Hi", stream=True)
        assert [each async for each in events_of(answer)][-1] == "[DONE]"

    assert len(routed.upstream.requests) == 3
    assert len({each.client for each in routed.upstream.requests}) == 1


async def test_usage_is_sent_if_the_client_asks_for_it(routed: Routed) -> None:
    answer = await routed.chat("Hi", stream=True, stream_options={"include_usage": True})

    shown = [each async for each in events_of(answer)]
    assert shown[-1] == "[DONE]"
    assert shown[-2]["choices"] == []
    assert shown[-2]["usage"] == {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    assert all("usage" not in each for each in shown[:-2])


async def test_S65_only_allowed_headers_go_upstream(routed: Routed) -> None:
    await routed.chat(
        "Hi",
        headers={
            "Cookie": "session=secret",
            "X-Forwarded-For": "10.0.0.1",
            "X-Recollect-User": "ana",
            "traceparent": "00-aa-bb-01",
            "OpenAI-Beta": "x",
        },
    )

    sent = routed.last.headers
    assert sent["authorization"] == "Bearer sk-upstream"
    assert (sent["traceparent"], sent["openai-beta"]) == ("00-aa-bb-01", "x")
    assert not {"cookie", "x-forwarded-for", "x-recollect-user"} & set(sent)


@pytest.mark.parametrize("user", ["u" * 256, "two\nlines", 5, {"id": "ana"}])
async def test_an_invalid_user_is_rejected_unless_memory_is_off(routed: Routed, user: Any) -> None:
    refused = await routed.chat("Hi", user=user)
    ignored = await routed.chat("Hi", user=user, headers={"X-Recollect-Memory": "off"})

    assert (refused.status_code, ignored.status_code) == (400, 200)
    assert refused.json()["error"] == {
        "message": "`user` must be one line of 1 to 255 characters.",
        "type": "invalid_request_error",
        "param": "user",
        "code": "invalid_request",
    }
    assert routed.last.json["user"] == user


async def test_our_metadata_fields_are_not_sent_upstream(routed: Routed) -> None:
    await routed.chat("Hi", metadata={"x-recollect-user": "ana", "trace": "1"})
    assert routed.last.json["metadata"] == {"trace": "1"}

    await routed.chat("Hi", metadata={"X-Recollect-Memory": "off"})
    assert "metadata" not in routed.last.json
    assert routed.last.tools == []


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_S82_an_upstream_refusal_is_forwarded_without_our_key(
    routed: Routed, how: str
) -> None:
    body = b'{"error": {"message": "Too hot. Key sk-upstream.", "type": "t", "code": "c"}}'
    routed.upstream.script = [
        RawAnswer([body], status=429, content_type="application/json", headers={"retry-after": "7"})
    ]

    answer = await routed.chat("Hi", stream=how == "streamed")

    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.json()["error"]["message"] == "Too hot. Key [redacted]."


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "The chat model rejected this server's API key."),
        (500, "The chat model failed with status 500."),
        (503, "The chat model failed with status 503."),
    ],
)
async def test_an_upstream_failure_is_a_bad_gateway(
    routed: Routed, status: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    routed.upstream.script = [RawAnswer([b"<html>at 10.0.0.1</html>"], status, "text/html")]

    answer = await routed.chat("Hi")

    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "upstream_error"
    assert answer.json()["error"]["message"] == message
    assert re.search(rf"upstream\.refused .*status={status}", "".join(capfd.readouterr()))


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_an_answer_that_is_not_json_is_an_error(routed: Routed, how: str) -> None:
    routed.upstream.script = [RawAnswer([b"data: <html>\n\n"])]

    answer = await routed.chat("Hi", stream=how == "streamed")

    if how == "streamed":
        [event] = [each async for each in events_of(answer)]
        assert event["error"]["code"] == "upstream_error"
    else:
        assert answer.status_code == 502


async def test_an_interrupted_stream_ends_with_an_error_and_without_done(routed: Routed) -> None:
    parts = Answer("One two three.").events("m1", with_usage=False)
    routed.upstream.script = [RawAnswer(parts[:3], breaks=True)]

    answer = await routed.chat("Hi", stream=True)

    shown = [each async for each in events_of(answer)]
    assert shown[-1]["error"]["type"] == "server_error"
    assert [each["choices"][0]["delta"].get("content") for each in shown[:-1]] == [
        "",
        "One",
        " two",
    ]


async def test_a_stream_without_a_finish_reason_is_an_error(routed: Routed) -> None:
    routed.upstream.script = [RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2])]

    answer = await routed.chat("Hi", stream=True)

    assert [each async for each in events_of(answer)][-1]["error"]


async def test_a_silent_upstream_times_out(routed: Routed) -> None:
    routed.upstream.script = [RawAnswer([b"data: "], hangs=True)]

    answer = await routed.chat("Hi", stream=True)

    [event] = [each async for each in events_of(answer)]
    assert event["error"]["code"] == "upstream_timeout"
    assert event["error"]["message"] == "The chat model did not answer in time."


async def test_S52_a_turn_ends_at_its_deadline(routed: Routed) -> None:
    # Long enough for the answer to begin, also on a busy machine and with the pool connected.
    impatient = replace(routed.engine, turn_deadline=timedelta(seconds=5))
    await routed.chat("Hi")
    routed.upstream.script = [Answer("again " * 140, pause=0.05)]
    async with connect(make_server(impatient), Authorization=f"Bearer {routed.key}") as http:
        answer = await replace(routed, http=http).chat("Hi", stream=True)

    first, *_, last = [each async for each in events_of(answer)]
    assert first["choices"]
    assert last["error"]["code"] == "upstream_timeout"
    assert (await routed.chat("Hi")).status_code == 200


async def test_S52_the_concurrent_turns_of_a_key_are_limited(routed: Routed) -> None:
    server = make_server(routed.engine, turns_at_once=1)
    routed.upstream.script = [RawAnswer([b"data: "], hangs=True), Answer("Now.")]
    async with connect(server, Authorization=f"Bearer {routed.key}") as http:
        busy = replace(routed, http=http)
        first = asyncio.create_task(busy.chat("Hi", stream=True))
        await until(lambda: len(routed.upstream.requests) == 1)
        refused = await busy.chat("Hi")
        await cancel_all([first])
        later = await busy.chat("Hi")

    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert refused.headers["retry-after"] == "5"
    assert later.status_code == 200


async def test_an_endless_answer_is_stored_shortened(routed: Routed) -> None:
    endless = "again and again " * 19_334  # 58,000 words
    routed.upstream.script = [Answer(endless)]

    answer = await routed.chat("Tell me.", stream=True, headers={"X-Recollect-Thread": "loop"})

    texts = [
        each["choices"][0]["delta"].get("content", "")
        async for each in events_of(answer)
        if each != "[DONE]"
    ]
    assert "".join(texts) == endless
    async with routed.engine.pool.everywhere() as db:
        rows = await (
            await db.execute(
                "SELECT max(length(content)) FROM message WHERE workspace_id = %s",
                [routed.caller.workspace_id],
            )
        ).fetchone()
    assert rows is not None
    assert rows[0] <= 100_000 + 20


async def test_a_model_that_refuses_tools_is_asked_without_them(routed: Routed) -> None:
    refusal = RawAnswer(
        [b'{"error": {"message": "m1 does not support tools"}}'], 400, "application/json"
    )
    routed.upstream.script = [refusal]

    answer = await routed.chat("Hi")
    assert answer.status_code == 200
    assert routed.last.tools == []

    await routed.chat("Hi again")
    assert len(routed.upstream.requests) == 3
    assert routed.last.tools == []


async def test_an_unknown_model_is_not_found_without_an_upstream(routed: Routed) -> None:
    without_upstream = replace(routed.engine, chat_models=ChatModels(builtin={NAME: Librarian()}))
    async with connect(make_server(without_upstream), Authorization=f"Bearer {routed.key}") as http:
        answer = await http.post(
            "/v1/chat/completions",
            json={"model": "gpt", "messages": [{"role": "user", "content": "Hi"}]},
        )

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", "json_parse_error"),
        (b"[]", "invalid_request"),
        (b'{"model": "m1"}', "invalid_request"),
        (b'{"model": "m1", "messages": []}', "invalid_request"),
        (b'{"model": "m1", "messages": ["hi"]}', "invalid_request"),
    ],
)
async def test_N19_bad_requests_get_the_openai_object(
    routed: Routed, body: bytes, code: str
) -> None:
    answer = await routed.http.post(
        "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert answer.json()["error"]["code"] == code


async def test_N19_a_bad_key_is_an_authentication_error(routed: Routed) -> None:
    bad = {"Authorization": "Bearer rk_no"}

    answers = [
        await routed.http.get("/v1/models", headers=bad),
        await routed.chat("Hi", headers=bad),
        await routed.http.post("/v1/responses", json={"model": "m1", "input": "Hi"}, headers=bad),
    ]

    assert [each.status_code for each in answers] == [401] * 3
    for each in answers:
        error = each.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == "authentication_error"
    assert routed.upstream.requests == []


async def test_models_are_listed_and_found(routed: Routed) -> None:
    listed = (await routed.http.get("/v1/models")).json()
    assert [each["id"] for each in listed["data"]] == ["recollect-librarian", "m1"]

    assert (await routed.http.get("/v1/models/m1")).json()["object"] == "model"
    missing = await routed.http.get("/v1/models/org/none")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"


async def test_embeddings_are_returned_as_numbers_or_base64(routed: Routed) -> None:
    floats = await routed.http.post("/v1/embeddings", json={"input": ["a", "b"], "model": "x"})
    packed = await routed.http.post(
        "/v1/embeddings", json={"input": "a", "model": "x", "encoding_format": "base64"}
    )

    vectors = [each["embedding"] for each in floats.json()["data"]]
    assert len(vectors) == 2
    unpacked = struct.unpack("<8f", base64.b64decode(packed.json()["data"][0]["embedding"]))
    assert list(unpacked) == pytest.approx(vectors[0])
    for length, status in ((32_768, 200), (32_769, 400)):
        sent = {"input": ["a", "b" * length], "model": "x"}
        assert (await routed.http.post("/v1/embeddings", json=sent)).status_code == status


async def test_client_tool_calls_are_numbered_from_zero(routed: Routed) -> None:
    tool: Object = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}
    routed.upstream.script = [
        Answer(
            None,
            [
                Call("x_recall_memory", {"query": "city"}, "call_r"),
                Call("get_weather", {"city": "Oslo"}, "call_w"),
            ],
        )
    ]

    answer = await routed.chat("Weather?", stream=True, tools=[tool])

    deltas = [
        call
        async for each in events_of(answer)
        if each != "[DONE]" and each["choices"]
        for call in each["choices"][0]["delta"].get("tool_calls", [])
    ]
    assert {each["index"] for each in deltas} == {0}
    assert [each["id"] for each in deltas if "id" in each] == ["call_w"]
    assert "".join(each["function"]["arguments"] for each in deltas) == '{"city": "Oslo"}'
