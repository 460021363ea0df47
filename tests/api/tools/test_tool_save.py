"""`memory_save`, the same over every transport."""

import json

import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.tools import (
    A_UUID,
    TYPES,
    Surface,
    ToolRefused,
    allowed_values,
    fetch_rows,
    links_of,
    memory_row,
    recall,
    recall_texts,
    save_memory,
)

pytestmark = pytest.mark.anyio

EXAMPLES = [
    {
        "content": "The user's production API uses exponential backoff with max 5 retry attempts for failed requests",
        "memory_type": "fact",
        "importance": 0.6,
        "source": "user stated during debugging session",
    },
    {
        "content": "User strongly prefers TypeScript over JavaScript for all new projects. Values type safety and IDE autocomplete.",
        "memory_type": "preference",
        "importance": 0.9,
        "source": "user stated multiple times",
    },
    {
        "content": "Decided to migrate from REST to GraphQL for the mobile API. Implementation starts Q2 2026.",
        "memory_type": "decision",
        "importance": 0.8,
        "source": "team meeting conclusion",
        "associations": [
            {
                "target_id": "prev-discussion-memory-id",
                "relation_type": "result_of",
                "weight": 0.9,
            }
        ],
    },
]


async def test_R229_a_save_is_embedded_indexed_and_linked_to_similar_memories(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {"Ana lives in Oslo": at_cosine(1.0), "Ana moved to Bergen": at_cosine(0.95)}
    old = await save_memory(tools, "Ana lives in Oslo")

    new = await save_memory(tools, "Ana moved to Bergen")

    counted = "SELECT count(*) FROM {} WHERE memory_id = %s"
    assert await fetch_rows(engine, counted.format("memory_vector"), new) == [(1,)]
    assert (await fetch_rows(engine, counted.format("memory_word"), new))[0][0] >= 3
    assert await links_of(engine, caller.workspace_id) == {(new, "updates", old, 0.95)}


async def test_R230_content_is_required_and_at_most_50000_bytes(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    await save_memory(tools, "a" * 50_000)

    for content in ("", "   ", "\u200b \u2060\ufeff", "a" * 50_001, "é" * 25_001):
        with pytest.raises(ToolRefused, match="`content`"):
            await tools.call("memory_save", content=content)
    with pytest.raises(ToolRefused, match="`content` is required"):
        await tools.call("memory_save")
    with pytest.raises(ToolRefused, match="50,000 bytes"):
        await tools.call("memory_save", content="a" * 50_001)
    count = "SELECT count(*) FROM memory WHERE workspace_id = %s"
    assert await fetch_rows(engine, count, caller.workspace_id) == [(1,)]


async def test_R231_the_default_type_is_fact(tools: Surface, engine: Engine) -> None:
    saved = await save_memory(tools, "The office is on the third floor", memory_type=None)

    assert (await memory_row(engine, saved))["category"] == "fact"


DEFAULTS = {
    "identity": 1.0,
    "decision": 0.8,
    "preference": 0.7,
    "goal": 0.7,
    "fact": 0.5,
    "event": 0.5,
    "observation": 0.4,
    "todo": 0.3,
}


async def test_R232_R235_each_of_the_eight_types_has_its_default_importance(
    tools: Surface, engine: Engine
) -> None:
    stored = {
        kind: await memory_row(engine, await save_memory(tools, f"A {kind}", memory_type=kind))
        for kind in TYPES
    }

    assert {kind: each["kind"] for kind, each in stored.items()} == {kind: kind for kind in TYPES}
    assert {kind: each["importance"] for kind, each in stored.items()} == DEFAULTS


async def test_R232_an_unknown_type_error_lists_the_types(tools: Surface) -> None:
    with pytest.raises(ToolRefused) as refused:
        await tools.call("memory_save", content="x", memory_type="rumour")

    assert allowed_values(refused) == set(TYPES)
    assert "rumour" not in str(refused.value)


async def test_R233_importance_between_0_and_1_is_stored_exactly(tools: Surface) -> None:
    for value in (0.0, 0.37, 1.0, 1):
        await save_memory(tools, f"at {value}", importance=value)
    for value in (-0.01, 1.01, "0.5", True):
        with pytest.raises(ToolRefused, match="`importance`"):
            await tools.call("memory_save", content="refused", importance=value)

    found = await recall(tools, mode="recent")

    assert {each["content"]: each["importance"] for each in found} == {
        "at 0.0": 0.0,
        "at 0.37": 0.37,
        "at 1.0": 1.0,
        "at 1": 1.0,
    }


async def test_R236_the_source_is_stored_unchanged(tools: Surface, engine: Engine) -> None:
    phrases = [
        "user stated explicitly",
        "inferred from conversation",
        "system observation",
        "external research",
    ]

    stored = [
        await memory_row(engine, await save_memory(tools, f"by {each}", source=each))
        for each in phrases
    ]

    assert [each["source_note"] for each in stored] == phrases


async def test_R237_memories_of_the_asking_channel_come_first(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        text: at_cosine(1.0)
        for text in ("Tea with milk", "Tea without milk", "how do they drink it")
    }
    await save_memory(tools, "Tea with milk", channel_id="discord:1:kitchen")
    await save_memory(tools, "Tea without milk", channel_id="discord:1:office")

    from_kitchen = await recall_texts(tools, "how do they drink it", channel_id="discord:1:kitchen")
    from_office = await recall_texts(tools, "how do they drink it", channel_id="discord:1:office")

    labels = "SELECT label FROM thread WHERE workspace_id = %s ORDER BY 1"
    assert await fetch_rows(engine, labels, caller.workspace_id) == [
        ("discord:1:kitchen",),
        ("discord:1:office",),
    ]
    assert from_kitchen == ["Tea with milk", "Tea without milk"]
    assert from_office == ["Tea without milk", "Tea with milk"]


async def test_R237_a_channel_is_found_by_every_form_of_its_id(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    first = await memory_row(engine, await save_memory(tools, "the first", channel_id="#general"))
    select = "SELECT id, code FROM thread WHERE workspace_id = %s"
    [(thread, code)] = await fetch_rows(engine, select, caller.workspace_id)

    again = [
        await memory_row(engine, await save_memory(tools, f"by {name}", channel_id=name))
        for name in ("#general", str(thread), f"chat_{code}", f"sess_{code[:12]}")
    ]

    assert {each["thread_id"] for each in [first, *again]} == {str(thread)}


async def test_R237_a_recall_does_not_create_an_unknown_channel(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    await save_memory(tools, "The gate code is 4711")

    found = await recall_texts(tools, "gate code", channel_id="unknown channel")

    count = "SELECT count(*) FROM thread WHERE workspace_id = %s"
    assert found == ["The gate code is 4711"]
    assert await fetch_rows(engine, count, caller.workspace_id) == [(0,)]


async def test_R238_R240_associations_are_stored_with_their_weight(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    one, two = await save_memory(tools, "one"), await save_memory(tools, "two")

    new = await save_memory(
        tools,
        "three",
        associations=[{"target_id": one}, {"target_id": two, "weight": 0.9}],
    )

    assert await links_of(engine, caller.workspace_id) == {
        (new, "related_to", one, 0.5),
        (new, "related_to", two, 0.9),
    }


async def test_R238_an_error_names_the_association_without_a_target(
    tools: Surface,
) -> None:
    links = [{"target_id": "mem_000000000000"}, {"weight": 0.5}]

    with pytest.raises(ToolRefused, match=r"^`associations\[1\]\.target_id` is required\.$"):
        await tools.call("memory_save", content="x", associations=links)


RELATIONS = ("related_to", "updates", "contradicts", "caused_by", "result_of", "part_of")


async def test_R239_each_relation_is_stored(tools: Surface, engine: Engine, caller: Caller) -> None:
    target = await save_memory(tools, "the target")

    made = {
        (
            await save_memory(
                tools, each, associations=[{"target_id": target, "relation_type": each}]
            ),
            each,
            target,
            0.5,
        )
        for each in RELATIONS
    }

    assert await links_of(engine, caller.workspace_id) == made


async def test_R239_R240_an_invalid_relation_or_weight_is_rejected(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    target = await save_memory(tools, "the target")

    with pytest.raises(ToolRefused) as relation:
        await tools.call(
            "memory_save",
            content="x",
            associations=[{"target_id": target, "relation_type": "likes"}],
        )
    for weight in (1.2, -0.1):
        with pytest.raises(ToolRefused, match="weight"):
            await tools.call(
                "memory_save",
                content="x",
                associations=[{"target_id": target, "weight": weight}],
            )

    assert allowed_values(relation) == set(RELATIONS)
    count = "SELECT count(*) FROM memory WHERE workspace_id = %s"
    assert await fetch_rows(engine, count, caller.workspace_id) == [(1,)]


async def test_R241_R243_the_save_examples_work(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    saved = [await tools.call("memory_save", **example) for example in EXAMPLES]

    stored = [await memory_row(engine, each["memory_id"]) for each in saved]
    assert [
        (each["content"], each["category"], each["importance"], each["source_note"])
        for each in stored
    ] == [
        (each["content"], each["memory_type"], each["importance"], each["source"])
        for each in EXAMPLES
    ]
    assert await links_of(engine, caller.workspace_id) == set()


async def test_R242_the_result_has_an_id_success_and_a_message(tools: Surface) -> None:
    saved = await tools.call("memory_save", content="The gate code is 4711")

    assert saved == {
        "memory_id": saved["memory_id"],
        "success": True,
        "message": "Memory saved successfully",
    }
    assert A_UUID.fullmatch(saved["memory_id"])


async def test_R244_R245_similarity_above_0_9_adds_an_updates_link(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    cosines = (0.91, 0.90, 0.89, 0.86, 0.84)
    embedder.table = {f"at {each}": at_cosine(each, axis=at) for at, each in enumerate(cosines)}
    embedder.table |= {"the old one": at_cosine(1.0), "which?": at_cosine(1.0)}
    old = await save_memory(tools, "the old one")

    new = {each: await save_memory(tools, f"at {each}") for each in cosines}

    assert await links_of(engine, caller.workspace_id) == {
        (new[0.91], "updates", old, 0.91),
        (new[0.90], "related_to", old, 0.90),
        (new[0.89], "related_to", old, 0.89),
        (new[0.86], "related_to", old, 0.86),
    }
    found = await recall(tools, "which?")
    assert {each["id"] for each in found} == {old, *new.values()}


async def test_N40_a_repeated_association_keeps_the_last_weight(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    target = await save_memory(tools, "the target")

    new = await save_memory(
        tools,
        "twice",
        associations=[{"target_id": target}, {"target_id": target, "weight": 0.8}],
    )

    assert await links_of(engine, caller.workspace_id) == {(new, "related_to", target, 0.8)}


async def test_saved_memories_decay_except_identity(tools: Surface, engine: Engine) -> None:
    stored = {
        kind: (await memory_row(engine, await save_memory(tools, kind, memory_type=kind)))[
            "lifecycle"
        ]
        for kind in TYPES
    }

    assert stored == dict.fromkeys(TYPES, "decaying") | {"identity": "permanent"}


async def test_additional_arguments_are_stored(tools: Surface, engine: Engine) -> None:
    saved = await save_memory(
        tools,
        "The lease ends in May",
        key="lease",
        tags=["flat", "money"],
        expires_at="2026-06-01T00:00:00Z",
        pinned=True,
        said_at="2026-01-15T09:30:00+01:00",
    )

    stored = await memory_row(engine, saved)
    assert {
        name: stored[name]
        for name in ("key", "tags", "expires_at", "pinned", "created_at", "origin")
    } == {
        "key": "lease",
        "tags": ["flat", "money"],
        "expires_at": "2026-06-01T00:00:00+00:00",
        "pinned": True,
        "created_at": "2026-01-15T08:30:00+00:00",
        "origin": "model",
    }


async def test_a_memory_dated_slightly_ahead_is_recalled_at_once(tools: Surface) -> None:
    old = await save_memory(tools, "Ana lives in Oslo", said_at="2026-01-15T09:30:00Z")
    update = {"target_id": old, "relation_type": "updates"}

    # The test clock is at noon; a client one hour east sends local time as UTC.
    await save_memory(
        tools, "Ana lives in Bergen", said_at="2026-03-01T13:00:00Z", associations=[update]
    )

    assert await recall_texts(tools, "Where does Ana live?") == ["Ana lives in Bergen"]
    for mode in ("recent", "important", "typed"):
        assert await recall_texts(tools, mode=mode, memory_type="fact") == ["Ana lives in Bergen"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"content": "a\0b"},
        {"content": "x", "tags": ["a\0b"]},
        {"content": 5},
        {"content": ["x"]},
        {"content": "x", "channel_id": ""},
        {"content": "x", "channel_id": "c" * 256},
        {"content": "x", "said_at": "yesterday"},
        {"content": "x", "said_at": "2026-03-02T12:00:01Z"},
        {"content": "x", "expires_at": "2026-03-01T12:00:00Z"},
        {"content": "x", "associations": {}},
    ],
    ids=lambda arguments: json.dumps(arguments)[:40],
)
async def test_invalid_arguments_are_rejected_with_a_clear_message(
    tools: Surface, arguments: dict[str, object]
) -> None:
    with pytest.raises(ToolRefused) as refused:
        await tools.call("memory_save", **arguments)

    assert "went wrong" not in str(refused.value)


async def test_saving_a_text_twice_stores_two_memories(tools: Surface) -> None:
    await save_memory(tools, "The gate code is 4711")

    await save_memory(tools, "The gate code is 4711")

    assert len(await recall(tools, mode="recent")) == 2
