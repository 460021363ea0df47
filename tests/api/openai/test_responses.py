"""`/v1/responses`: turns in the format of the Responses API, continued by id."""

import base64
import json
import os
from typing import Any
from uuid import uuid4

import pytest

from recollect.chat.queries import stored_responses
from recollect.chat.queries.stored_responses import Response
from recollect.core.domain import Caller
from recollect.engine import Engine
from tests.api.openai.conftest import Object, Routed
from tests.support.instance import in_new_workspace, key_for, new_caller
from tests.support.upstream import Answer, Call, RawAnswer, events_of

pytestmark = pytest.mark.anyio

RECALL = "x_recall_memory"
WEATHER: Object = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


async def respond(routed: Routed, input_: Any, **options: Any) -> Object:
    headers = options.pop("headers", {})
    body = {"model": "m1", "input": input_, **options}
    answer = await routed.http.post("/v1/responses", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def stream(routed: Routed, input_: Any, **options: Any) -> list[Object]:
    body = {"model": "m1", "input": input_, "stream": True, **options}
    answer = await routed.http.post("/v1/responses", json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return [each async for each in events_of(answer)]


async def test_a_text_input_gets_a_message(routed: Routed) -> None:
    response = await respond(routed, "Hi", instructions="Be kind.", max_output_tokens=9)

    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Hello."
    assert response["usage"]["total_tokens"] == 15
    sent = routed.last.json
    assert sent["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
    ]
    assert sent["max_completion_tokens"] == 9


async def test_a_long_conversation_loses_its_beginning(engine: Engine, caller: Caller) -> None:
    async with engine.writing(caller) as db:
        before: str | None = None
        for number in range(5):
            # Random, so that the database cannot compress it.
            noise = base64.b64encode(os.urandom(2_250_000)).decode()
            messages = [{"role": "user", "content": f"{number} {noise}"}]
            response = Response(
                f"resp_{uuid4().hex}", before, None, None, [], messages, {}, engine.now()
            )
            await stored_responses.insert(db, caller, response)
            before = response.id
        assert before
        found = await stored_responses.messages_up_to(db, caller, before)

    numbers = [each["content"][0] for each in found]
    assert numbers == ["3", "4"]


async def test_R051_built_in_tools_run_in_the_loop_and_appear_as_mcp_calls(routed: Routed) -> None:
    routed.upstream.script = [
        Answer(None, [Call("x_save_memory", {"content": "The user likes tea."})]),
        Answer(None, [Call(RECALL, {"query": "tea"})]),
        Answer("Noted."),
    ]

    response = await respond(routed, "I like tea")

    kinds = [(item["type"], item.get("name")) for item in response["output"]]
    assert kinds == [("mcp_call", "x_save_memory"), ("mcp_call", RECALL), ("message", None)]
    assert response["output"][0]["output"].startswith("Saved as mem_")
    assert response["usage"]["input_tokens"] == 30


async def test_R042_the_stream_has_one_complete_lifecycle(routed: Routed) -> None:
    routed.upstream.script = [
        Answer("Let me see.", [Call(RECALL, {"query": "A"})]),
        Answer("Nothing.", [Call("get_weather", {"city": "Oslo"}, "call_w")]),
    ]

    shown = await stream(routed, "Weather?", tools=[WEATHER])

    assert [each["sequence_number"] for each in shown] == list(range(len(shown)))
    assert [each["type"] for each in shown[:2]] == ["response.created", "response.in_progress"]
    assert shown[-1]["type"] == "response.completed"
    added = [each for each in shown if each["type"] == "response.output_item.added"]
    done = [each for each in shown if each["type"] == "response.output_item.done"]
    assert [each["output_index"] for each in added] == [0, 1, 2, 3]
    assert sorted(each["output_index"] for each in done) == [0, 1, 2, 3]
    final = shown[-1]["response"]
    assert [item["type"] for item in final["output"]] == [
        "message", "mcp_call", "message", "function_call",
    ]  # fmt: skip
    assert final["output"][3]["call_id"] == "call_w"
    assert json.loads(final["output"][3]["arguments"]) == {"city": "Oslo"}
    assert {item["id"] for item in final["output"]} == {each["item"]["id"] for each in added}
    assert not any("x_memory" in each["type"] for each in shown)


async def test_a_response_is_continued_by_its_id(routed: Routed) -> None:
    first = await respond(routed, "My name is Ada.")
    second = await respond(routed, "Who am I?", previous_response_id=first["id"])
    await respond(routed, "Sure?", previous_response_id=second["id"])

    texts = [each["content"] for each in routed.last.json["messages"]]
    assert texts == ["My name is Ada.", "Hello.", "Who am I?", "Hello.", "Sure?"]


async def test_a_conversation_is_continued_by_its_id(routed: Routed) -> None:
    await respond(routed, "One.", conversation="conv_1")
    await respond(routed, "Two.", conversation={"id": "conv_1"})

    assert [each["content"] for each in routed.last.json["messages"]] == ["One.", "Hello.", "Two."]


async def test_items_sent_back_become_calls_and_results(routed: Routed) -> None:
    await respond(
        routed,
        [
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "mcp_call", "id": "mcp_1", "name": RECALL, "arguments": "{}", "output": "A"},
            {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "Rain"},
        ],
        tools=[WEATHER],
    )

    roles = [each["role"] for each in routed.last.json["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


async def test_a_response_is_stored_read_and_deleted(routed: Routed) -> None:
    stored = await respond(routed, "Hi")
    path = f"/v1/responses/{stored['id']}"

    assert (await routed.http.get(path)).json() == stored
    listed = (await routed.http.get(f"{path}/input_items")).json()
    assert listed["data"][0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert (await routed.http.delete(path)).json()["deleted"] is True
    missing = await routed.http.get(path)
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "response_not_found"


@pytest.mark.parametrize("options", [{"store": False}, {"headers": {"X-Recollect-Memory": "off"}}])
async def test_a_response_is_not_stored_if_the_request_says_so(
    routed: Routed, options: Object
) -> None:
    response = await respond(routed, "Hi", **options)

    assert (await routed.http.get(f"/v1/responses/{response['id']}")).status_code == 404


async def test_a_response_of_another_user_cannot_be_continued(routed: Routed) -> None:
    stored = await respond(routed, "Hi", user="ana")
    other = await in_new_workspace(routed.engine, routed.caller)
    key = await key_for(routed.engine, other.workspace_id)
    other_key = {"Authorization": f"Bearer {key}"}
    body = {"model": "m1", "input": "And?", "previous_response_id": stored["id"]}

    answers = [
        await routed.http.post("/v1/responses", json=body, headers=other_key),
        await routed.http.get(f"/v1/responses/{stored['id']}", headers=other_key),
        await routed.http.get(f"/v1/responses/{stored['id']}/input_items", headers=other_key),
        await routed.http.delete(f"/v1/responses/{stored['id']}", headers=other_key),
        await routed.http.post("/v1/responses", json={**body, "user": "ben"}),
    ]

    assert [each.status_code for each in answers] == [404] * 5
    assert len(routed.upstream.requests) == 1


async def test_an_interrupted_stream_ends_with_response_failed(routed: Routed) -> None:
    routed.upstream.script = [
        RawAnswer(Answer("One two.").events("m1", with_usage=False)[:2], breaks=True)
    ]

    shown = await stream(routed, "Hi")

    assert shown[-1]["type"] == "response.failed"
    assert shown[-1]["response"]["error"]["code"] == "server_error"


async def test_an_answer_that_reaches_the_length_limit_is_incomplete(routed: Routed) -> None:
    routed.upstream.script = [Answer("One", finish="length")]

    response = await respond(routed, "Hi")

    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"input": 5},
        {"input": ["x"]},
        {"input": "Hi", "tools": [{"type": "web_search"}]},
        {"input": "Hi", "background": True},
        {"input": "Hi", "previous_response_id": 5},
        {"input": "Hi", "previous_response_id": "a", "conversation": "b"},
    ],
)
async def test_unsupported_requests_are_rejected(routed: Routed, body: Object) -> None:
    answer = await routed.http.post("/v1/responses", json={"model": "m1", **body})

    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_request"


async def test_a_request_refers_to_earlier_items_by_id(routed: Routed, engine: Engine) -> None:
    routed.upstream.script = [
        Answer("Wait.", [Call(RECALL, {"query": "A"})]),
        Answer(None, [Call("get_weather", {}, "call_w")]),
        Answer("It rains."),
    ]
    first = await respond(routed, "Weather?", tools=[WEATHER])
    items = [
        {"role": "user", "content": "Weather?"},
        *({"type": "item_reference", "id": item["id"]} for item in first["output"]),
        {"type": "function_call_output", "call_id": "call_w", "output": "Rain."},
    ]

    second = await respond(routed, items, tools=[WEATHER])

    assert second["output"][-1]["content"][0]["text"] == "It rains."
    messages = routed.last.json["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant", "tool"]
    other = await new_caller(engine)
    key = await key_for(engine, other.workspace_id)
    answer = await routed.http.post(
        "/v1/responses",
        json={"model": "m1", "input": items},
        headers={"Authorization": f"Bearer {key}"},
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "item_not_found")
