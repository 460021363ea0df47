"""The memory tools inside a turn: offered, run between rounds, invisible to the client."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from recollect.domain import Filter, ProjectId, Right
from recollect.engine.change import ListMemories, list_memories
from recollect.engine.documents import keep_artifact
from recollect.engine.threads import OpenThread, open_thread
from tests.doors.router.conftest import Object, Routed
from tests.support.alumia import colleague, new_project
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import key_for
from tests.support.papers import upload, work
from tests.support.tools import rows
from tests.support.upstream import Call, Raw, Say, events_of

pytestmark = pytest.mark.anyio

SAVE, RECALL, SEARCH = "x_save_memory", "x_recall_memory", "x_workspace_search"
WEATHER: Object = {"type": "function", "function": {"name": "get_weather", "parameters": {}}}


async def called(routed: Routed, name: str, arguments: Any, call_id: str = "call_1") -> str:
    """What the model is told when it makes this call."""
    routed.upstream.script = [Say(None, [Call(name, arguments, call_id)]), Say("Done.")]
    answer = await routed.chat("Please.")
    assert answer.json()["choices"][0]["message"]["content"] == "Done."
    result = routed.last.json["messages"][-1]
    assert (result["role"], result["tool_call_id"]) == ("tool", call_id)
    return result["content"]


async def stored(routed: Routed) -> list[Any]:
    query = "SELECT to_jsonb(m) FROM memory m WHERE workspace_id = %s ORDER BY created_at, id"
    return [row[0] for row in await rows(routed.engine, query, routed.caller.workspace_id)]


async def test_R010_the_model_is_offered_the_memory_tools(routed: Routed) -> None:
    await routed.chat("Hi")

    assert routed.last.tools == [SAVE, RECALL, SEARCH]


async def test_R011_nothing_forces_a_call(routed: Routed) -> None:
    answer = await routed.chat("Hi")

    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert routed.last.json.get("tool_choice", "auto") == "auto"


async def test_R012_a_save_stores_the_text_and_its_vector(routed: Routed) -> None:
    told = await called(routed, SAVE, {"content": "The user likes tea."})

    [row] = await stored(routed)
    assert row["content"] == "The user likes tea."
    assert f"mem_{row['code']}" in told
    found = await rows(
        routed.engine, "SELECT count(*) FROM memory_vector WHERE memory_id = %s", row["id"]
    )
    assert found[0][0] == 1


@pytest.mark.parametrize("arguments", [{}, {"content": None}, {"content": " "}, {"content": 5}])
async def test_R013_content_is_required(routed: Routed, arguments: Object) -> None:
    told = await called(routed, SAVE, arguments)

    assert told.startswith("Error:")
    assert "content" in told
    assert await stored(routed) == []


@pytest.mark.parametrize("arguments", ['{"content": "half', "[1]", "nonsense"])
async def test_arguments_that_are_no_json_are_told_to_the_model(
    routed: Routed, arguments: str
) -> None:
    assert "JSON" in await called(routed, SAVE, arguments)


async def test_R014_R111_category_and_summary_are_not_invented(routed: Routed) -> None:
    await called(routed, SAVE, {"content": "The user likes tea."})

    [row] = await stored(routed)
    assert (row["category"], row["summary"]) == (None, None)


@pytest.mark.parametrize(
    "category",
    ["Überraschung / Ω-42 ", "x" * 300, "preference", "fact", "instruction", "decision"],
)
async def test_R015_R016_any_category_is_kept_as_it_is(routed: Routed, category: str) -> None:
    await called(routed, SAVE, {"content": "The user likes tea.", "category": category})

    [row] = await stored(routed)
    assert row["category"] == category


async def test_R017_a_near_duplicate_is_skipped_and_the_old_one_returned(
    routed: Routed, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "User lives in Oslo": at_cosine(1.0),
        "The user resides in Oslo": at_cosine(0.99),
    }
    first = await called(routed, SAVE, {"content": "User lives in Oslo"})
    second = await called(routed, SAVE, {"content": "The user resides in Oslo"}, "call_2")

    [row] = await stored(routed)
    assert f"mem_{row['code']}" in first
    assert f"mem_{row['code']}" in second


async def test_R018_R024_R025_R026_R027_the_documents_examples_replay(
    routed: Routed, embedder: StubEmbedder
) -> None:
    content = "User prefers responses in bullet-point format"
    query = "What formatting preferences does the user have?"
    embedder.table = {content: at_cosine(0.9), query: at_cosine(1.0)}
    await called(routed, SAVE, {"content": content, "category": "preference"})

    told = await called(routed, RECALL, {"query": query}, "call_2")

    [row] = await stored(routed)
    assert row["category"] == "preference"
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(told)
    assert told.splitlines() == [
        "# Recalled memories",
        f"1. **mem_{row['code']}** (preference, score 0.90)",
        content,
    ]
    assert re.fullmatch(r"mem_[A-Za-z0-9]{24}", f"mem_{row['code']}")


async def test_R019_query_is_required(routed: Routed) -> None:
    assert "query" in await called(routed, RECALL, {})


async def many(routed: Routed, embedder: StubEmbedder, count: int) -> list[str]:
    texts = [f"Fact number {number}." for number in range(count)]
    embedder.table = {text: at_cosine(0.95 - 0.01 * at) for at, text in enumerate(texts)}
    embedder.table["facts"] = at_cosine(1.0)
    for text in texts:
        await routed.remember(text)
    return texts


def entries(told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith("Fact")]


async def test_R020_R021_R023_limits_and_order(routed: Routed, embedder: StubEmbedder) -> None:
    texts = await many(routed, embedder, 30)

    assert entries(await called(routed, RECALL, {"query": "facts"})) == texts[:5]
    assert entries(await called(routed, RECALL, {"query": "facts", "limit": 50})) == texts[:20]


async def test_R022_offset_pages_through_the_ranking(
    routed: Routed, embedder: StubEmbedder
) -> None:
    texts = await many(routed, embedder, 12)
    pages = [
        await called(routed, RECALL, {"query": "facts", "offset": offset, "limit": 5})
        for offset in (0, 5, 10)
    ]

    assert [each for page in pages for each in entries(page)] == texts
    assert "\n6. **" in pages[1]


async def test_R028_the_chat_is_not_named(routed: Routed, embedder: StubEmbedder) -> None:
    embedder.table = {"A": at_cosine(1.0), "q": at_cosine(0.9)}
    routed.upstream.script = [Say(None, [Call(SAVE, {"content": "A"})])]
    await routed.chat("Hi", headers={"X-Recollect-Thread": "zebra-chat"})

    assert "zebra" not in await called(routed, RECALL, {"query": "q"})


async def test_R110_a_save_records_its_chat(routed: Routed) -> None:
    routed.upstream.script = [Say(None, [Call(SAVE, {"content": "A"})])]
    await routed.chat("Hi", headers={"X-Recollect-Thread": "zebra-chat"})

    [row] = await stored(routed)
    found = await rows(routed.engine, "SELECT label FROM thread WHERE id = %s", row["thread_id"])
    assert found[0][0] == "zebra-chat"
    assert row["origin"] == "model"


async def test_who_asks_for_a_time_alone_is_recalled_what_was_said_then(
    routed: Routed, clock: Clock
) -> None:
    await routed.remember("Ana bought a kayak")
    clock.advance(timedelta(days=1))
    await routed.remember("The boiler was mended")

    told = await called(routed, RECALL, {"query": "What did we talk about yesterday?"})

    assert "Ana bought a kayak" in told
    assert "boiler" not in told


async def test_R006_workspace_search_labels_each_kind(
    routed: Routed, embedder: StubEmbedder
) -> None:
    embedder.table = {"A": at_cosine(1.0), "q": at_cosine(0.9)}
    await routed.remember("A", category="fact")

    told = await called(routed, SEARCH, {"query": "q"})

    assert re.search(r"1\. \*\*mem_\w{24}\*\* \(memory, fact, score 0\.90\)\nA", told)


@pytest.mark.parametrize(
    ("alias", "arguments"),
    [
        ("save_memory", {"content": "A"}),
        ("recall_memory", {"query": "A"}),
        ("file_search", {"query": "A"}),
    ],
)
async def test_N22_the_old_names_work(routed: Routed, alias: str, arguments: Object) -> None:
    assert not (await called(routed, alias, arguments)).startswith("Error")


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_N21_the_client_sees_one_clean_answer(routed: Routed, how: str) -> None:
    routed.upstream.script = [
        Say("Let me see.", [Call(RECALL, {"query": "A"})]),
        Say("I do not know."),
    ]

    answer = await routed.chat("Hi", stream=how == "streamed")

    if how == "whole":
        [choice] = answer.json()["choices"]
        assert choice["finish_reason"] == "stop"
        assert choice["message"]["content"] == "Let me see.\n\nI do not know."
        assert "tool_calls" not in choice["message"]
        assert answer.json()["usage"]["total_tokens"] == 30
        return
    shown = [each async for each in events_of(answer)]
    chunks = [each for each in shown if each != "[DONE]"]
    deltas = [each["choices"][0]["delta"] for each in chunks]
    assert shown[-1] == "[DONE]"
    assert "".join(each.get("content", "") for each in deltas) == "Let me see.\n\nI do not know."
    assert [each["role"] for each in deltas if "role" in each] == ["assistant"]
    assert not any("tool_calls" in each for each in deltas)
    assert [each["choices"][0]["finish_reason"] for each in chunks].count("stop") == 1
    assert len({(each["id"], each["created"], each["model"]) for each in chunks}) == 1


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_a_mixed_round_is_woven_back_when_the_client_returns(
    routed: Routed, how: str
) -> None:
    await routed.remember("The user lives in Oslo.")
    routed.upstream.script = [
        Say(
            None,
            [Call(RECALL, {"query": "city"}, "call_r"), Call("get_weather", {"c": 1}, "call_w")],
        )
    ]
    asked = {"role": "user", "content": "Weather?"}
    await routed.chat(asked, tools=[WEATHER], stream=how == "streamed")

    call = Call("get_weather", {"c": 1}, "call_w")
    function = {"name": call.name, "arguments": call.text}
    back: Object = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_w", "type": "function", "function": function}],
    }
    result = {"role": "tool", "tool_call_id": "call_w", "content": "Rain"}
    await routed.chat(asked, back, result, tools=[WEATHER])

    _, woven, hidden, shown = routed.last.json["messages"]
    assert [each["id"] for each in woven["tool_calls"]] == ["call_r", "call_w"]
    assert (hidden["role"], hidden["tool_call_id"]) == ("tool", "call_r")
    assert hidden["content"].startswith("# Recalled memories")
    assert shown == result


@pytest.mark.parametrize("how", ["whole", "streamed"])
async def test_rounds_are_capped_and_in_the_last_there_are_no_tools(
    routed: Routed, how: str
) -> None:
    routed.upstream.otherwise = lambda asked: (
        Say(None, [Call(RECALL, {"query": "again"})]) if asked.tools else Say("Enough.")
    )

    answer = await routed.chat("Hi", stream=how == "streamed")

    assert len(routed.upstream.asked) == 5
    assert "tools" not in routed.last.json
    assert "Enough." in answer.text


async def test_a_forced_choice_is_let_go_after_the_first_call(routed: Routed) -> None:
    routed.upstream.script = [Say(None, [Call(RECALL, {"query": "A"})])]

    await routed.chat("Hi", tool_choice="required")

    assert [each.json["tool_choice"] for each in routed.upstream.asked] == ["required", "auto"]


LEFT_ALONE: list[Object] = [
    {"tool_choice": "none"},
    {"tool_choice": {"type": "function", "function": {"name": "get_weather"}}},
    {"n": 2},
    {"tools": [{"type": "function", "function": {"name": SAVE, "parameters": {}}}]},
    {"tools": [{"type": "function", "function": {"name": "file_search", "parameters": {}}}]},
    {"headers": {"X-Recollect-Memory": "off"}},
]


@pytest.mark.parametrize(
    "options",
    LEFT_ALONE,
    ids=["none", "their tool", "n", "our name", "our alias", "off"],
)
async def test_a_request_that_leaves_no_room_is_left_alone(routed: Routed, options: Object) -> None:
    await routed.chat("Hi", **options)

    assert set(routed.last.tools) <= {SAVE, "file_search"}
    assert len(routed.last.tools) == len(options.get("tools", []))


async def test_R031_every_completed_call_leaves_one_lesson(routed: Routed) -> None:
    routed.upstream.script = [
        Say(
            None,
            [
                Call(RECALL, {"query": "A"}, "call_1"),
                Call(SAVE, {"content": "A"}, "call_2"),
                Call(SAVE, {}, "call_3"),
            ],
        ),
        Say(None, [Call(SEARCH, {"query": "A"}, "call_1")]),
    ]

    await routed.chat("I live in Oslo.")

    found = await rows(
        routed.engine,
        "SELECT source, state, count(*) FROM lesson WHERE workspace_id = %s"
        " GROUP BY 1, 2 ORDER BY 1",
        routed.caller.workspace_id,
    )
    assert [tuple(row) for row in found] == [("tool", "pending", 3), ("turn", "pending", 1)]


async def test_a_later_round_that_fails_is_told_in_the_stream(routed: Routed) -> None:
    routed.upstream.script = [
        Say("Wait.", [Call(RECALL, {"query": "A"})]),
        Raw([b"{}"], 500, "application/json"),
    ]

    answer = await routed.chat("Hi", stream=True)

    shown = [each async for each in events_of(answer)]
    assert shown[-1]["error"]["code"] == "upstream_unreachable"


async def test_a_key_that_cannot_write_is_offered_no_save(routed: Routed) -> None:
    key = await key_for(routed.engine, routed.caller.workspace_id, rights=[Right.READ])
    await routed.chat("Hi", headers={"Authorization": f"Bearer {key}"})

    assert routed.last.tools == [RECALL, SEARCH]
    found = await rows(
        routed.engine, "SELECT 1 FROM lesson WHERE workspace_id = %s", routed.caller.workspace_id
    )
    assert found == []


async def test_arguments_without_end_fill_nobodys_memory(routed: Routed) -> None:
    loop = '{"content": "' + "again and again " * 58_000
    routed.upstream.script = [Say(None, [Call(SAVE, loop)]), Say("I gave up.")]

    answer = await routed.chat("Hi", stream=True)

    shown = [each async for each in events_of(answer) if each != "[DONE]"]
    texts = [each["choices"][0]["delta"].get("content") or "" for each in shown]
    assert "".join(texts) == "I gave up."
    told = routed.last.json["messages"]
    assert "not a JSON object" in told[-1]["content"]
    assert len(told[-2]["tool_calls"][0]["function"]["arguments"]) < len(loop)
    assert await stored(routed) == []


async def test_N21_what_opts_into_other_tools_passes_and_memory_needs_no_opting(
    routed: Routed,
) -> None:
    asked = {"search_context_size": "low", "x_tools": ["x_web_search"]}

    await routed.chat("Hi", web_search_options=asked)

    assert routed.last.json["web_search_options"] == asked
    assert routed.last.tools == [SAVE, RECALL, SEARCH]


async def test_R005_R006_N18_one_call_answers_memories_chunks_and_artifacts(
    routed: Routed, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "q": at_cosine(1.0),
        "A": at_cosine(0.7, turn=1),
        "B": at_cosine(0.9, turn=2),
        "C": at_cosine(0.8, turn=3),
    }
    await routed.remember("A", category="fact")
    await upload(routed.engine, routed.caller, "b.txt", "B")
    await keep_artifact(routed.engine, routed.caller, "c.md", "C")
    await work(routed.engine)

    told = await called(routed, SEARCH, {"query": "q"})

    assert re.findall(r"\d\. \*\*(\w+?_)\w{24}\*\* \((.*), score .*\)\n(.*)", told) == [
        ("cart_", "document, b.txt", "B"),
        ("cart_", "artifact, c.md", "C"),
        ("mem_", "memory, fact", "A"),
    ]


async def test_what_is_saved_in_a_project_s_thread_is_the_project_s(routed: Routed) -> None:
    project = ProjectId(UUID(await new_project(routed.engine, routed.caller)))
    inside = replace(routed.caller, project_id=project)
    thread = await open_thread(routed.engine, inside, OpenThread(agent=None))
    routed.upstream.script = [Say(None, [Call(SAVE, {"content": "The merger is with Initech."})])]

    await routed.chat("Note it.", headers={"X-Recollect-Thread": f"chat_{thread.code}"})

    for who, seen in ((routed.caller, 1), (await colleague(routed.engine, routed.caller), 0)):
        found = await list_memories(routed.engine, who, ListMemories(limit=5, wanted=Filter()))
        assert len(found.memories) == seen
