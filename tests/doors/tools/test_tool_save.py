"""`memory_save`, the same through every surface."""

import json

import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.tools import (
    A_UUID,
    TYPES,
    Refused,
    Surface,
    edges,
    offered,
    recall,
    remember,
    row,
    rows,
    texts,
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


async def test_R229_a_save_is_embedded_indexed_and_linked_to_what_is_like_it(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {"Ana lives in Oslo": at_cosine(1.0), "Ana moved to Bergen": at_cosine(0.95)}
    old = await remember(tools, "Ana lives in Oslo")

    new = await remember(tools, "Ana moved to Bergen")

    counted = "SELECT count(*) FROM {} WHERE memory_id = %s"
    assert await rows(engine, counted.format("memory_vector"), new) == [(1,)]
    assert (await rows(engine, counted.format("memory_word"), new))[0][0] >= 3
    assert await edges(engine, caller.workspace_id) == {(new, "updates", old, 0.95)}


async def test_R230_content_is_needed_and_at_most_50000_bytes(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    await remember(tools, "a" * 50_000)

    for content in ("", "   ", "\u200b \u2060\ufeff", "a" * 50_001, "é" * 25_001):
        with pytest.raises(Refused, match="`content`"):
            await tools.call("memory_save", content=content)
    with pytest.raises(Refused, match="`content` is required"):
        await tools.call("memory_save")
    with pytest.raises(Refused, match="50,000 bytes"):
        await tools.call("memory_save", content="a" * 50_001)
    count = "SELECT count(*) FROM memory WHERE workspace_id = %s"
    assert await rows(engine, count, caller.workspace_id) == [(1,)]


async def test_R231_the_type_is_fact_unless_said(tools: Surface, engine: Engine) -> None:
    saved = await remember(tools, "The office is on the third floor", memory_type=None)

    assert (await row(engine, saved))["category"] == "fact"


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


async def test_R232_R235_eight_types_each_with_its_importance(
    tools: Surface, engine: Engine
) -> None:
    stored = {
        kind: await row(engine, await remember(tools, f"A {kind}", memory_type=kind))
        for kind in TYPES
    }

    assert {kind: each["kind"] for kind, each in stored.items()} == {kind: kind for kind in TYPES}
    assert {kind: each["importance"] for kind, each in stored.items()} == DEFAULTS


async def test_R232_any_other_type_is_refused_with_the_list(tools: Surface) -> None:
    with pytest.raises(Refused) as refused:
        await tools.call("memory_save", content="x", memory_type="rumour")

    assert offered(refused) == set(TYPES)
    assert "rumour" not in str(refused.value)


async def test_R233_importance_is_kept_exactly_between_0_and_1(
    tools: Surface, engine: Engine
) -> None:
    kept = [
        (await row(engine, await remember(tools, f"at {value}", importance=value)))["importance"]
        for value in (0.0, 0.37, 1.0, 1)
    ]

    assert kept == [0.0, 0.37, 1.0, 1.0]
    for value in (-0.01, 1.01, "0.5", True):
        with pytest.raises(Refused, match="`importance`"):
            await tools.call("memory_save", content="x", importance=value)


async def test_R236_the_source_is_kept_as_it_was_said(tools: Surface, engine: Engine) -> None:
    phrases = [
        "user stated explicitly",
        "inferred from conversation",
        "system observation",
        "external research",
    ]

    stored = [
        await row(engine, await remember(tools, f"by {each}", source=each)) for each in phrases
    ]

    assert [each["source_note"] for each in stored] == phrases


async def test_R237_a_channel_is_kept_and_its_memories_come_first_there(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        text: at_cosine(1.0)
        for text in ("Tea with milk", "Tea without milk", "how do they drink it")
    }
    await remember(tools, "Tea with milk", channel_id="discord:1:kitchen")
    await remember(tools, "Tea without milk", channel_id="discord:1:office")

    from_kitchen = await texts(tools, "how do they drink it", channel_id="discord:1:kitchen")
    from_office = await texts(tools, "how do they drink it", channel_id="discord:1:office")

    labels = "SELECT label FROM thread WHERE workspace_id = %s ORDER BY 1"
    assert await rows(engine, labels, caller.workspace_id) == [
        ("discord:1:kitchen",),
        ("discord:1:office",),
    ]
    assert from_kitchen == ["Tea with milk", "Tea without milk"]
    assert from_office == ["Tea without milk", "Tea with milk"]


async def test_R237_a_channel_is_found_by_every_spelling_of_its_id(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    first = await row(engine, await remember(tools, "the first", channel_id="#general"))
    select = "SELECT id, code FROM thread WHERE workspace_id = %s"
    [(thread, code)] = await rows(engine, select, caller.workspace_id)

    again = [
        await row(engine, await remember(tools, f"by {name}", channel_id=name))
        for name in ("#general", str(thread), f"chat_{code}", f"sess_{code[:12]}")
    ]

    assert {each["thread_id"] for each in [first, *again]} == {str(thread)}


async def test_R237_a_recall_from_an_unknown_channel_makes_none(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    await remember(tools, "The gate code is 4711")

    found = await texts(tools, "gate code", channel_id="nobody was here")

    count = "SELECT count(*) FROM thread WHERE workspace_id = %s"
    assert found == ["The gate code is 4711"]
    assert await rows(engine, count, caller.workspace_id) == [(0,)]


async def test_R238_R240_associations_are_made_with_their_weight(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    one, two = await remember(tools, "one"), await remember(tools, "two")

    new = await remember(
        tools,
        "three",
        associations=[{"target_id": one}, {"target_id": two, "weight": 0.9}],
    )

    assert await edges(engine, caller.workspace_id) == {
        (new, "related_to", one, 0.5),
        (new, "related_to", two, 0.9),
    }


async def test_R238_an_association_needs_a_target_and_the_error_says_which_lacks_it(
    tools: Surface,
) -> None:
    links = [{"target_id": "mem_000000000000"}, {"weight": 0.5}]

    with pytest.raises(Refused, match=r"^`associations\[1\]\.target_id` is required\.$"):
        await tools.call("memory_save", content="x", associations=links)


RELATIONS = ("related_to", "updates", "contradicts", "caused_by", "result_of", "part_of")


async def test_R239_each_relation_is_kept(tools: Surface, engine: Engine, caller: Caller) -> None:
    target = await remember(tools, "the target")

    made = {
        (
            await remember(
                tools, each, associations=[{"target_id": target, "relation_type": each}]
            ),
            each,
            target,
            0.5,
        )
        for each in RELATIONS
    }

    assert await edges(engine, caller.workspace_id) == made


async def test_R239_R240_an_unknown_relation_or_weight_is_refused(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    target = await remember(tools, "the target")

    with pytest.raises(Refused) as relation:
        await tools.call(
            "memory_save",
            content="x",
            associations=[{"target_id": target, "relation_type": "likes"}],
        )
    for weight in (1.2, -0.1):
        with pytest.raises(Refused, match="weight"):
            await tools.call(
                "memory_save",
                content="x",
                associations=[{"target_id": target, "weight": weight}],
            )

    assert offered(relation) == set(RELATIONS)
    count = "SELECT count(*) FROM memory WHERE workspace_id = %s"
    assert await rows(engine, count, caller.workspace_id) == [(1,)]


async def test_R241_R243_the_documents_examples_work(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    saved = [await tools.call("memory_save", **example) for example in EXAMPLES]

    stored = [await row(engine, each["memory_id"]) for each in saved]
    assert [
        (each["content"], each["category"], each["importance"], each["source_note"])
        for each in stored
    ] == [
        (each["content"], each["memory_type"], each["importance"], each["source"])
        for each in EXAMPLES
    ]
    assert await edges(engine, caller.workspace_id) == set()


async def test_R242_the_answer_has_an_id_success_and_a_message(tools: Surface) -> None:
    saved = await tools.call("memory_save", content="The gate code is 4711")

    assert saved == {
        "memory_id": saved["memory_id"],
        "success": True,
        "message": "Memory saved successfully",
    }
    assert A_UUID.fullmatch(saved["memory_id"])


async def test_R244_R245_above_0_9_it_updates_and_both_stay(
    tools: Surface, engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "the old one": at_cosine(1.0),
        "at 0.91": at_cosine(0.91, turn=0),
        "at 0.90": at_cosine(0.90, turn=1),
        "at 0.89": at_cosine(0.89, turn=2),
        "which?": at_cosine(1.0),
    }
    old = await remember(tools, "the old one")

    new = {name: await remember(tools, name) for name in ("at 0.91", "at 0.90", "at 0.89")}

    updates = {edge for edge in await edges(engine, caller.workspace_id) if edge[1] == "updates"}
    assert updates == {(new["at 0.91"], "updates", old, 0.91)}
    assert {"the old one", "at 0.91"} <= set(await texts(tools, "which?"))


async def test_N40_the_same_association_twice_is_one_with_the_last_weight(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    target = await remember(tools, "the target")

    new = await remember(
        tools,
        "twice",
        associations=[{"target_id": target}, {"target_id": target, "weight": 0.8}],
    )

    assert await edges(engine, caller.workspace_id) == {(new, "related_to", target, 0.8)}


async def test_what_is_saved_fades_all_but_who_one_is(tools: Surface, engine: Engine) -> None:
    stored = {
        kind: (await row(engine, await remember(tools, kind, memory_type=kind)))["lifecycle"]
        for kind in TYPES
    }

    assert stored == dict.fromkeys(TYPES, "decaying") | {"identity": "permanent"}


async def test_our_own_arguments_are_kept(tools: Surface, engine: Engine) -> None:
    saved = await remember(
        tools,
        "The lease ends in May",
        key="lease",
        tags=["flat", "money"],
        expires_at="2026-06-01T00:00:00Z",
        pinned=True,
        said_at="2026-01-15T09:30:00+01:00",
    )

    stored = await row(engine, saved)
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


async def test_what_a_fast_clock_says_is_recalled_at_once_in_every_mode(tools: Surface) -> None:
    old = await remember(tools, "Ana lives in Oslo", said_at="2026-01-15T09:30:00Z")
    update = {"target_id": old, "relation_type": "updates"}

    # The clock stands at noon: an hour east of it, local time sent as UTC.
    await remember(
        tools, "Ana lives in Bergen", said_at="2026-03-01T13:00:00Z", associations=[update]
    )

    assert await texts(tools, "Where does Ana live?") == ["Ana lives in Bergen"]
    for mode in ("recent", "important", "typed"):
        assert await texts(tools, mode=mode, memory_type="fact") == ["Ana lives in Bergen"]


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
async def test_what_cannot_be_kept_is_refused_in_words(
    tools: Surface, arguments: dict[str, object]
) -> None:
    with pytest.raises(Refused) as refused:
        await tools.call("memory_save", **arguments)

    assert "went wrong" not in str(refused.value)


async def test_D03_saves_of_one_text_are_two_memories(tools: Surface) -> None:
    await remember(tools, "The gate code is 4711")

    await remember(tools, "The gate code is 4711")

    assert len(await recall(tools, mode="recent")) == 2
