"""Memories are shared: between turns, tools and the other interfaces."""

import json

import pytest
from openai.types.chat import ChatCompletionChunk

from recollect.chat import injection
from tests.api.openai.conftest import Routed
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.upstream import Answer, Call, events_of

pytestmark = pytest.mark.anyio

SAVE, RECALL, SEARCH = "x_save_memory", "x_recall_memory", "x_workspace_search"


async def call_tool(routed: Routed, name: str, **arguments: str) -> str:
    """Let the model make this call, and return the result that it gets."""
    routed.upstream.script = [Answer(None, [Call(name, arguments)]), Answer("Done.")]
    await routed.chat("Please.")
    return routed.last.json["messages"][-1]["content"]


async def test_R004_meaning_ranks_above_shared_words_and_recency(
    routed: Routed, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "Ships on the fifteenth of March": at_cosine(0.95),
        "The deadline for tax returns is a deadline": at_cosine(0.4),
        "When is the deadline?": at_cosine(1.0),
    }
    await routed.remember("Ships on the fifteenth of March")
    await routed.remember("The deadline for tax returns is a deadline")

    found = (await call_tool(routed, RECALL, query="When is the deadline?")).splitlines()

    assert found[2] == "Ships on the fifteenth of March"


async def test_R005_workspace_search_finds_memories(routed: Routed, embedder: StubEmbedder) -> None:
    embedder.table = {"The office is in Bonn": at_cosine(0.9), "office": at_cosine(1.0)}
    path = f"/proj_{routed.caller.org_id}/v1/workspaces/ws_{routed.caller.workspace_id}/memories"
    created = await routed.http.post(path, json={"content": "The office is in Bonn"})
    assert created.status_code == 201, created.text
    assert created.json()["workspace_id"] == f"ws_{routed.caller.workspace_id}"

    found = await call_tool(routed, SEARCH, query="office")

    assert f"**{created.json()['id']}** (memory" in found


async def test_R050_a_client_with_a_key_saves_and_recalls_through_the_tools(
    routed: Routed, embedder: StubEmbedder
) -> None:
    embedder.table = {"The user lives in Oslo": at_cosine(0.9), "home": at_cosine(1.0)}
    routed.upstream.script = [
        Answer(None, [Call(SAVE, {"content": "The user lives in Oslo"})]),
        Answer(None, [Call(RECALL, {"query": "home"}, "call_2")]),
        Answer("You live in Oslo."),
    ]

    answer = await routed.chat("Remember that I live in Oslo. Where do I live?")

    [choice] = answer.json()["choices"]
    assert choice["message"]["content"] == "You live in Oslo."
    assert "tool_calls" not in choice["message"]
    results = [each for each in routed.last.json["messages"] if each["role"] == "tool"]
    assert "The user lives in Oslo" in results[1]["content"]


async def test_R097_the_number_of_injected_memories_may_change(
    routed: Routed, embedder: StubEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"The deadline of stage {number} is in March." for number in range(4)]
    embedder.table = {text: at_cosine(0.9) for text in texts} | {"When?": at_cosine(1.0)}
    for text in texts:
        await routed.remember(text)

    for limit in (1, 3):
        monkeypatch.setattr(injection, "_MAX_RECALLED", limit)
        answer = await routed.chat("When?")
        assert answer.status_code == 200
        assert any(text in routed.last.prompt for text in texts)


async def test_N20_streams_are_data_lines_that_end_with_done(routed: Routed) -> None:
    routed.upstream.script = [
        Answer(None, [Call(RECALL, {"query": "A"})]),
        Answer("I do not know."),
    ]

    answer = await routed.chat("Hi", stream=True)

    lines = [line for line in answer.text.splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    for line in lines[:-1]:
        chunk = json.loads(line.removeprefix("data: "))
        # Our own fields have a prefix, so that clients do not confuse them with the API's.
        standard = {"id", "object", "created", "model", "choices", "usage", "system_fingerprint"}
        assert all(name in standard or name.startswith("x_") for name in chunk)
        ChatCompletionChunk.model_validate(chunk)
    assert [each async for each in events_of(answer)][-1] == "[DONE]"
