"""`memory_recall`, the same over every transport."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from recollect.core.domain import Caller, MemoryId, Ref
from recollect.engine import Engine
from recollect.memories.queries import memories
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import new_caller
from tests.support.tools import (
    A_UUID,
    TYPES,
    Direct,
    Object,
    Surface,
    ToolRefused,
    allowed_values,
    links_of,
    memory_row,
    recall,
    recall_texts,
    save_memory,
)

pytestmark = pytest.mark.anyio


async def save_invoices(tools: Surface, clock: Clock, count: int, **arguments: object) -> None:
    for number in range(count):
        clock.advance(timedelta(seconds=1))
        await save_memory(tools, f"Invoice {number} was paid", **arguments)


async def save_mixed(tools: Surface, clock: Clock) -> None:
    """Save a fact, a decision, a todo and another decision, one minute apart."""
    for content, kind, importance in (
        ("The office is in Porto", "fact", 0.2),
        ("We ship on Fridays", "decision", 0.9),
        ("Call the landlord", "todo", 0.7),
        ("We pay within ten days", "decision", 0.4),
    ):
        clock.advance(timedelta(minutes=1))
        await save_memory(tools, content, memory_type=kind, importance=importance)


async def test_R234_among_equally_relevant_memories_the_more_important_comes_first(
    tools: Surface, embedder: StubEmbedder, clock: Clock
) -> None:
    embedder.table = {
        text: at_cosine(1.0) for text in ("Ana likes tea", "Ben likes tea", "drinks?")
    }
    await save_memory(tools, "Ana likes tea", importance=0.9)
    clock.advance(timedelta(minutes=1))
    await save_memory(tools, "Ben likes tea", importance=0.2)

    assert await recall_texts(tools, "drinks?") == ["Ana likes tea", "Ben likes tea"]
    assert await recall_texts(tools, mode="important") == ["Ana likes tea", "Ben likes tea"]


async def test_R248_hybrid_mode_requires_a_query_and_the_others_ignore_it(tools: Surface) -> None:
    await save_memory(tools, "The office is in Porto", memory_type="fact")

    for arguments in ({}, {"query": ""}, {"query": "  "}, {"mode": "hybrid"}):
        with pytest.raises(ToolRefused, match="`query` is required in hybrid mode"):
            await tools.call("memory_recall", **arguments)
    for mode in ("recent", "important", "typed"):
        found = await recall_texts(tools, "something else entirely", mode=mode, memory_type="fact")
        assert found == ["The office is in Porto"]


async def test_R249_R259_the_limit_is_10_by_default_and_50_at_most(
    tools: Surface, clock: Clock
) -> None:
    await save_invoices(tools, clock, 55)

    sizes = {
        limit: len(await recall(tools, "invoice paid", **arguments))
        for limit, arguments in (
            (None, {}),
            (1, {"max_results": 1}),
            (50, {"max_results": 50}),
            (51, {"max_results": 51}),
        )
    }
    result = await tools.call("memory_recall", mode="recent", max_results=10)

    assert sizes == {None: 10, 1: 1, 50: 50, 51: 50}
    assert (len(result["memories"]), result["total_found"]) == (10, 55)
    for wrong in (0, -1, 2.5, "10", True):
        with pytest.raises(ToolRefused, match="`max_results`"):
            await tools.call("memory_recall", query="invoice", max_results=wrong)


async def test_R249_a_whole_number_may_be_written_as_a_float(tools: Surface, clock: Clock) -> None:
    await save_invoices(tools, clock, 3)

    assert len(await recall(tools, mode="recent", max_results=2.0)) == 2
    for wrong in (0.0, "2.0"):
        with pytest.raises(ToolRefused, match="`max_results`"):
            await recall(tools, mode="recent", max_results=wrong)


async def test_R250_R254_a_type_filters_every_mode_and_typed_mode_requires_it(
    tools: Surface, clock: Clock
) -> None:
    await save_mixed(tools, clock)
    decisions = {"We ship on Fridays", "We pay within ten days"}

    found = {
        mode: set(await recall_texts(tools, "we ship pay", mode=mode, memory_type="decision"))
        for mode in ("hybrid", "recent", "important", "typed")
    }

    assert found == dict.fromkeys(("hybrid", "recent", "important", "typed"), decisions)
    with pytest.raises(ToolRefused, match="`memory_type` is required in typed mode"):
        await tools.call("memory_recall", mode="typed")


async def test_R251_R255_an_unknown_mode_sort_or_type_error_lists_the_values(
    tools: Surface,
) -> None:
    valid = {
        "mode": {"hybrid", "recent", "important", "typed"},
        "sort_by": {"recent", "importance", "most_accessed"},
        "memory_type": set(TYPES),
    }

    for name, expected in valid.items():
        with pytest.raises(ToolRefused, match=f"`{name}`") as refused:
            await tools.call("memory_recall", **{"query": "tea", name: "sideways"})
        assert allowed_values(refused) == expected


async def test_R252_recent_mode_returns_newest_first(tools: Surface, clock: Clock) -> None:
    await save_mixed(tools, clock)

    assert await recall_texts(tools, mode="recent") == [
        "We pay within ten days",
        "Call the landlord",
        "We ship on Fridays",
        "The office is in Porto",
    ]


async def test_R253_important_mode_returns_most_important_first(
    tools: Surface, clock: Clock
) -> None:
    await save_mixed(tools, clock)

    assert await recall_texts(tools, mode="important") == [
        "We ship on Fridays",
        "Call the landlord",
        "We pay within ten days",
        "The office is in Porto",
    ]


@pytest.mark.parametrize("mode", ["typed", "recent", "important"])
async def test_R255_R256_sort_by_orders_the_modes_without_a_query(
    tools: Surface, clock: Clock, mode: str
) -> None:
    for content, importance, accesses in (("one", 0.5, 3), ("two", 0.9, 1), ("three", 0.1, 2)):
        clock.advance(timedelta(minutes=1))
        await save_memory(tools, content, memory_type="goal", importance=importance, tags=[content])
        for _ in range(accesses):
            await recall(tools, mode="recent", tags=[content])

    orders = {
        order: await recall_texts(tools, mode=mode, memory_type="goal", sort_by=order)
        for order in ("most_accessed", "recent", "importance")
    }

    default = ["two", "one", "three"] if mode == "important" else ["three", "two", "one"]
    assert orders == {
        "most_accessed": ["one", "three", "two"],
        # Clients often send the default explicitly; it must not override the mode.
        "recent": default,
        "importance": ["two", "one", "three"],
    }
    assert await recall_texts(tools, mode=mode, memory_type="goal") == default
    assert await recall_texts(tools, mode=mode, memory_type="goal", sort_by=None) == default


async def test_R257_R258_R261_the_result_and_its_memories_have_these_fields(
    tools: Surface, clock: Clock, embedder: StubEmbedder
) -> None:
    embedder.table = {
        f"Invoice {number} was paid": at_cosine(0.8, axis=number) for number in range(3)
    } | {
        "Invoice 9 was disputed and then paid": at_cosine(0.9, axis=4),
        "disputed invoice": at_cosine(1.0),
    }
    await save_invoices(tools, clock, 3)
    saved = await save_memory(tools, "Invoice 9 was disputed and then paid", memory_type="event")

    result = await tools.call("memory_recall", query="disputed invoice", max_results=3)

    assert set(result) == {"memories", "total_found", "summary"}
    first = result["memories"][0]
    assert first == {
        "id": saved,
        "content": "Invoice 9 was disputed and then paid",
        "memory_type": "event",
        "importance": 0.5,
        "created_at": "2026-03-01T12:00:03.000000Z",
        "relevance_score": first["relevance_score"],
    }
    assert A_UUID.fullmatch(first["id"])
    assert datetime.fromisoformat(first["created_at"])
    scores = [each["relevance_score"] for each in result["memories"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(scores) == 3


async def test_R260_N39_the_summary_is_markdown_for_a_model(
    tools: Surface, embedder: StubEmbedder, clock: Clock
) -> None:
    embedder.table = {
        "Ana takes tea": at_cosine(1.0),
        "Ben has two rules:\n# never late\n2. never rude": at_cosine(0.8),
        "drinks?": at_cosine(1.0),
    }
    ana = await save_memory(tools, "Ana takes tea", memory_type="preference")
    clock.advance(timedelta(days=1))
    ben = await save_memory(
        tools, "Ben has two rules:\n# never late\n2. never rude", importance=0.256
    )

    result = await tools.call("memory_recall", query="drinks?")

    assert result["summary"] == (
        "## Memories (2 of 2, best first; relevance is at most 0.05)\n\n"
        f"1. **preference** (importance 0.70, relevance 0.02, 2026-03-01) id {ana}\n"
        "   Ana takes tea\n\n"
        f"2. **fact** (importance 0.26, relevance 0.02, 2026-03-02) id {ben}\n"
        "   Ben has two rules:\n"
        "   # never late\n"
        "   2. never rude"
    )


async def test_R260_a_long_memory_is_cut_only_in_the_summary(
    tools: Surface,
) -> None:
    content = "The minutes of the meeting. " * 1_700
    saved = await save_memory(tools, content)

    result = await tools.call("memory_recall", mode="recent")

    assert result["memories"][0]["content"] == content
    assert len(result["summary"]) < 2_500
    assert f"memory://{saved}" in result["summary"]


async def test_N39_the_heading_of_ranked_results_states_the_scale(tools: Surface) -> None:
    for content in ("Ana takes tea", "Ben takes tea"):
        await save_memory(tools, content)

    ranked = await tools.call("memory_recall", query="takes tea", max_results=1)
    recent = await tools.call("memory_recall", mode="recent", max_results=1)

    assert [each["summary"].splitlines()[0] for each in (ranked, recent)] == [
        "## Memories (1 of 2, best first; relevance is at most 0.05)",
        "## Memories (1 of 2)",
    ]


async def test_R260_N39_an_empty_result_is_one_plain_sentence(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {"Ana takes tea": at_cosine(0.0), "anything at all": at_cosine(1.0)}
    await save_memory(tools, "Ana takes tea")

    result = await tools.call("memory_recall", query="anything at all")

    assert result == {"memories": [], "total_found": 0, "summary": "No memories were found."}


async def test_R262_the_recall_examples_work(tools: Surface, clock: Clock) -> None:
    await save_mixed(tools, clock)
    await save_memory(
        tools, "The user prefers two spaces for code formatting", memory_type="preference"
    )
    await save_memory(tools, "The user is called Ada", memory_type="identity")

    examples = [
        {
            "query": "what are the user's preferences for code style and formatting?",
            "max_results": 10,
            "mode": "hybrid",
        },
        {"memory_type": "decision", "mode": "typed", "sort_by": "recent", "max_results": 15},
        {"mode": "important", "max_results": 20},
        {"memory_type": "identity", "mode": "typed", "max_results": 50},
    ]
    firsts = [(await tools.call("memory_recall", **each))["memories"][0] for each in examples]

    assert [each["content"] for each in firsts] == [
        "The user prefers two spaces for code formatting",
        "We pay within ten days",
        "The user is called Ada",
        "The user is called Ada",
    ]


@pytest.mark.parametrize("mode", ["hybrid", "recent", "important", "typed"])
async def test_R263_a_recall_counts_as_access_of_the_returned_memories(
    tools: Surface, engine: Engine, clock: Clock, mode: str
) -> None:
    found = await save_memory(tools, "The gate code is 4711", memory_type="fact")
    other = await save_memory(tools, "Ana takes tea", memory_type="preference")
    arguments = {"mode": mode, "memory_type": "fact"} | (
        {"query": "gate code"} if mode == "hybrid" else {}
    )

    clock.advance(timedelta(hours=1))
    await tools.call("memory_recall", **arguments)
    clock.advance(timedelta(hours=1))
    await tools.call("memory_recall", **arguments)

    stored, untouched = await memory_row(engine, found), await memory_row(engine, other)
    assert (stored["access_count"], stored["last_accessed_at"]) == (2, "2026-03-01T14:00:00+00:00")
    assert (untouched["access_count"], untouched["last_accessed_at"]) == (0, None)


async def test_a_recall_does_not_wait_for_locked_memories(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    """Otherwise, deleting a chat with thousands of memories would block every search."""
    saved = await save_memory(tools, "Ana likes tea")

    async with engine.writing(caller) as db:
        assert await memories.lock(db, caller, Ref(id=MemoryId(UUID(saved))))
        async with asyncio.timeout(5):
            assert await recall_texts(tools, "Who likes tea?") == ["Ana likes tea"]


async def test_R265_similar_meaning_is_found_without_a_shared_word(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {"Ana takes tea": at_cosine(0.9), "preferred beverage": at_cosine(1.0)}
    await save_memory(tools, "Ana takes tea")

    assert await recall_texts(tools, "preferred beverage") == ["Ana takes tea"]


async def test_R266_exact_words_and_phrases_are_found_without_similar_meaning(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "The part is zx81q": at_cosine(0.0, axis=1),
        "Deploy on green Monday only": at_cosine(0.0, axis=2),
        "Monday is green, deploy": at_cosine(0.0, axis=3),
        "zx81q": at_cosine(1.0),
        '"green Monday"': at_cosine(1.0),
    }
    for content in list(embedder.table)[:3]:
        await save_memory(tools, content)

    assert await recall_texts(tools, "zx81q") == ["The part is zx81q"]
    assert (await recall_texts(tools, '"green Monday"'))[0] == "Deploy on green Monday only"


async def test_R267_memories_linked_to_a_result_are_found_too(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "Berlin launch is in May": at_cosine(0.9),
        "Hotel rooms need a deposit": at_cosine(0.0, axis=1),
        "when do we start": at_cosine(1.0),
    }
    launch = await save_memory(tools, "Berlin launch is in May")
    await save_memory(
        tools,
        "Hotel rooms need a deposit",
        associations=[{"target_id": launch, "relation_type": "caused_by"}],
    )

    assert await recall_texts(tools, "when do we start") == [
        "Berlin launch is in May",
        "Hotel rooms need a deposit",
    ]


async def test_R268_the_score_is_the_sum_of_one_over_sixty_plus_rank(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "zx81q": at_cosine(1.0),
        "zx81q is the part": at_cosine(0.95, axis=1),
        "the long shelf of the zx81q in the back room": at_cosine(0.6, axis=2),
        "meaning alone": at_cosine(0.5, axis=3),
        "the receipt for both": at_cosine(0.0, axis=4),
        "something else": at_cosine(0.0, axis=5),
    }
    meaning = await save_memory(tools, "meaning alone")
    shelf = await save_memory(tools, "the long shelf of the zx81q in the back room", importance=0.1)
    part = await save_memory(
        tools, "zx81q is the part", importance=1.0, associations=[{"target_id": shelf}]
    )
    receipt = await save_memory(
        tools, "the receipt for both", importance=0.9, associations=[{"target_id": shelf}]
    )
    await save_memory(tools, "something else")

    plain = await recall(tools, "zx81q")
    explained = await recall(tools, "zx81q", explain=True)

    assert [(each["id"], each["relevance_score"]) for each in plain] == [
        (part, pytest.approx(1 / 61 + 1 / 61 + 1 / 61)),
        (shelf, pytest.approx(1 / 62 + 1 / 62 + 1 / 63)),
        (receipt, pytest.approx(1 / 62)),
        (meaning, pytest.approx(1 / 63)),
    ]
    assert [{why["source"]: why["rank"] for why in each["why"]} for each in explained] == [
        {"vector": 1, "words": 1, "links": 1},
        {"vector": 2, "words": 2, "links": 3},
        {"links": 2},
        {"vector": 3},
    ]


async def test_each_result_can_explain_why_it_was_found(
    tools: Surface, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "Berlin launch is in May": at_cosine(0.9),
        "Hotel rooms need a deposit": at_cosine(0.0, axis=1),
        "when do we start": at_cosine(1.0),
    }
    launch = await save_memory(tools, "Berlin launch is in May")
    hotel = await save_memory(
        tools,
        "Hotel rooms need a deposit",
        associations=[{"target_id": launch, "relation_type": "caused_by", "weight": 1.0}],
    )

    result = await tools.call("memory_recall", query="when do we start", explain=True)
    plain = await tools.call("memory_recall", query="when do we start")

    found = {each["id"]: each["why"] for each in result["memories"]}
    assert f"[Found by links (rank 1, from {launch} over caused_by).]" in result["summary"]
    assert "[Found by" not in plain["summary"]

    assert [place["source"] for place in found[launch]] == ["vector"]
    assert found[hotel] == [
        {
            "source": "links",
            "rank": 1,
            "score": pytest.approx(0.65),
            "path": [launch, "caused_by", hotel],
        }
    ]


async def test_a_memory_based_on_a_replaced_statement_is_marked(
    tools: Surface, clock: Clock
) -> None:
    plan = await save_memory(tools, "We move to Bergen in May")
    await save_memory(
        tools,
        "The lease in Oslo ends in May",
        associations=[{"target_id": plan, "relation_type": "caused_by"}],
    )
    clock.advance(timedelta(days=1))
    await save_memory(
        tools,
        "We stay in Oslo",
        associations=[{"target_id": plan, "relation_type": "updates"}],
    )

    result = await tools.call("memory_recall", mode="recent")

    assert [(each["content"], each.get("doubted")) for each in result["memories"]] == [
        ("We stay in Oslo", None),
        ("The lease in Oslo ends in May", True),
    ]
    assert "doubted" in result["summary"]


async def test_R276_an_update_shows_the_new_statement_and_keeps_the_old(
    tools: Surface, clock: Clock
) -> None:
    old = await save_memory(tools, "Ana lives in Oslo")
    clock.advance(timedelta(days=7))
    new = await save_memory(
        tools,
        "Ana lives in Bergen",
        associations=[{"target_id": old, "relation_type": "updates"}],
    )
    clock.advance(timedelta(days=1))

    now = await recall_texts(tools, "where does Ana live")
    then = await recall_texts(tools, "where does Ana live", as_of="2026-03-03T00:00:00Z")
    history = await recall(tools, mode="recent", include_history=True)

    assert now == ["Ana lives in Bergen"]
    assert then == ["Ana lives in Oslo"]
    assert [(each["content"], each.get("superseded_by")) for each in history] == [
        ("Ana lives in Bergen", None),
        ("Ana lives in Oslo", new),
    ]
    assert history[1]["valid_until"] == "2026-03-08T12:00:00.000000Z"
    with pytest.raises(ToolRefused, match="exclude each other"):
        await tools.call(
            "memory_recall", mode="recent", include_history=True, as_of="2026-03-03T00:00:00Z"
        )


@pytest.mark.parametrize(
    ("query", "arguments", "day"),
    [
        ("Did Ana go climbing on January 10?", {}, 10),
        ("Did Ana go climbing on 20 January 2026?", {}, 20),
        # The test clock is at 1 March.
        ("Did Ana go climbing yesterday?", {}, 59),
        ("Did Ana go climbing yesterday?", {"asked_at": "2026-01-21T08:00:00+01:00"}, 20),
        ("Did Ana go climbing a week ago?", {"as_of": "2026-02-27T09:00:00Z"}, 51),
        ("Did Ana go climbing yesterday?", {"asked_at": "2026-01-12T20:00:00-08:00"}, 11),
        # PostgreSQL rejects an offset this far west.
        ("Did Ana go climbing yesterday?", {"asked_at": "2026-01-12T20:00:00-18:00"}, 12),
    ],
)
async def test_a_query_that_names_a_day_ranks_that_day_first(
    tools: Surface, embedder: StubEmbedder, query: str, arguments: Object, day: int
) -> None:
    said = {f"Ana went climbing, entry {number}": number for number in (10, 11, 12, 20, 51, 59)}
    # Nearly equal similarities: a tiny difference must not outweigh the day.
    embedder.table = {text: at_cosine(1 - number / 2000) for text, number in said.items()}
    embedder.table[query] = at_cosine(1.0)
    for text, number in said.items():
        at = datetime(2025, 12, 31, 12, tzinfo=UTC) + timedelta(days=number)
        await save_memory(tools, text, said_at=at.isoformat(), channel_id=f"day {number}")

    assert said[(await recall_texts(tools, query, **arguments))[0]] == day


async def test_a_named_day_is_found_among_many_closer_memories(
    tools: Surface, embedder: StubEmbedder
) -> None:
    query = "Did Ana go climbing on 10 January?"
    embedder.table = {query: at_cosine(1.0), "The wall was wet": at_cosine(0.58)}
    await save_memory(tools, "The wall was wet", said_at="2026-01-10T12:00:00Z", channel_id="diary")
    # More than the candidate limit, all from another day.
    for number in range(100, 170):
        embedder.table[f"Rope {number}"] = at_cosine(0.6)
        await save_memory(tools, f"Rope {number}", said_at="2026-02-20T12:00:00Z")

    assert (await recall_texts(tools, query))[0] == "The wall was wet"


@pytest.mark.parametrize(
    ("query", "arguments"),
    [
        ("What did we talk about yesterday?", {}),
        ("Summarize yesterday, please", {}),
        ("What happened on 28 February?", {}),
        ("What did I tell you last weekend?", {"asked_at": "2026-03-03T09:00:00Z"}),
    ],
)
async def test_a_query_for_a_time_only_returns_that_time(
    tools: Surface, query: str, arguments: Object
) -> None:
    # The test clock is at 1 March.
    await save_memory(tools, "We talk every Friday about tea", said_at="2026-02-20T12:00:00Z")
    await save_memory(tools, "Ana bought a kayak", said_at="2026-02-28T09:00:00Z")
    await save_memory(tools, "The boiler was mended", said_at="2026-02-28T23:59:00Z")
    await save_memory(tools, "Ben has moved", said_at="2026-02-27T23:59:59Z")

    result = await tools.call("memory_recall", query=query, explain=True, **arguments)

    found = [each["content"] for each in result["memories"]]
    assert found == ["The boiler was mended", "Ana bought a kayak"]
    assert result["memories"][0]["why"] == [{"source": "time", "rank": 1, "score": 1.0}]
    assert result["total_found"] == 2
    assert result["confidence"] == 1.0


async def test_a_query_for_a_day_also_finds_texts_that_mention_it(tools: Surface) -> None:
    await save_memory(
        tools, "The Lisbon office opens on 12 September", said_at="2026-01-05T09:00:00Z"
    )
    await save_memory(tools, "The Porto office opens on 12 October", said_at="2026-01-05T09:00:00Z")
    await save_memory(tools, "Ana had a cold", said_at="2025-09-12T09:00:00Z")

    found = await recall_texts(tools, "What did I say of 12 September?")

    assert sorted(found) == ["Ana had a cold", "The Lisbon office opens on 12 September"]


async def test_a_time_without_memories_falls_back_to_normal_search(tools: Surface) -> None:
    await save_memory(tools, "It happened yesterday: the dam broke", said_at="2026-01-05T09:00:00Z")

    found = await recall_texts(tools, "What happened yesterday?")

    assert found == ["It happened yesterday: the dam broke"]


async def test_a_query_for_a_time_respects_filters_and_visibility(
    tools: Surface, engine: Engine
) -> None:
    await save_memory(tools, "Ana bought a kayak", said_at="2026-02-28T09:00:00Z", tags=["sport"])
    gone = await save_memory(tools, "Ana sold a canoe", said_at="2026-02-28T10:00:00Z")
    await tools.call("memory_delete", memory_id=gone)
    await save_memory(tools, "The boiler was mended", said_at="2026-02-28T11:00:00Z")
    outsider = Direct(engine, await new_caller(engine))
    await save_memory(outsider, "A stranger's secret", said_at="2026-02-28T12:00:00Z")

    assert await recall_texts(tools, "What happened yesterday?", tags=["sport"]) == [
        "Ana bought a kayak"
    ]
    assert len(await recall_texts(tools, "What happened yesterday?")) == 2


async def test_memories_of_the_same_time_keep_their_saving_order(
    tools: Surface,
) -> None:
    said = [f"Ana: part {number} of the story" for number in range(6)]
    for text in said:
        await save_memory(tools, text, channel_id="tale", said_at="2026-01-10T12:00:00Z")

    found = await recall(tools, mode="recent")

    assert [each["content"] for each in found] == said[::-1]
    assert {each["created_at"][:22] for each in found} == {"2026-01-10T12:00:00.00"}


async def test_an_exact_code_ranks_before_partial_matches(
    tools: Surface, embedder: StubEmbedder
) -> None:
    notes = (
        "Released v2.4.0: new tax engine",
        "Released v2.3.1 with the fix for double invoices",
        "On-call contact: oncall@acme.io",
        "Webhook URL for Stripe is https://hooks.acme.io/stripe/v2",
        "The map host is 10.20.1.14",
        "The mail host is 10.20.14.1",
    )
    right = {
        "v2.3.1": "Released v2.3.1",
        "hooks.acme.io": "Webhook",
        "10.20.14.1": "The mail",
        "2.4.0": "Released v2.4.0",
    }
    # The embedder rates them all as equally similar.
    embedder.table = dict.fromkeys(notes, at_cosine(0.5)) | dict.fromkeys(right, at_cosine(1.0))
    for note in notes:
        await save_memory(tools, note)

    for query, first in right.items():
        assert (await recall_texts(tools, query))[0].startswith(first)


async def test_an_exact_code_is_found_beside_words_that_no_memory_has(
    tools: Surface, embedder: StubEmbedder
) -> None:
    notes = ["Invoice 99-1432 is unpaid", "Invoice 99-1433 was paid in May", "Ana likes tea"]
    queries = ["tell me about 99-1432", "show me 99-1432", "please look up ticket 99-1432 for Bob"]
    embedder.table = dict.fromkeys(notes, at_cosine(0.1)) | dict.fromkeys(queries, at_cosine(1.0))
    for note in notes:
        await save_memory(tools, note)

    for query in queries:
        assert (await recall_texts(tools, query))[0] == "Invoice 99-1432 is unpaid"


async def test_naming_a_time_finds_what_the_query_without_it_finds(
    tools: Surface, embedder: StubEmbedder
) -> None:
    """A time expression is matched with the date of a memory, not with its text."""
    embedder.table = {
        each: at_cosine(0.1) for each in ("What did I cook?", "What did I cook on Saturday?")
    }
    await save_memory(tools, "Cooked jollof rice for the parents", said_at="2026-02-28T12:00:00Z")

    for query in embedder.table:
        assert await recall_texts(tools, query) == ["Cooked jollof rice for the parents"]


async def test_a_typo_still_finds_the_right_memory(tools: Surface, embedder: StubEmbedder) -> None:
    embedder.table = {
        each: at_cosine(0.1) for each in ("mushroms", "hazlenuts", "Do I own a horse?")
    }
    await save_memory(tools, "Ada picks mushrooms")
    await save_memory(tools, "The house is red")

    assert await recall_texts(tools, "mushroms") == ["Ada picks mushrooms"]
    assert await recall_texts(tools, "hazlenuts") == []
    assert await recall_texts(tools, "Do I own a horse?") == []


async def test_repeated_texts_do_not_fill_the_results(tools: Surface) -> None:
    for _ in range(12):
        await save_memory(tools, "The wifi password is rosebud")
    await save_memory(tools, "The guest network has the wifi password daisy")

    found = await recall_texts(tools, "What is the wifi password?")

    assert "The guest network has the wifi password daisy" in found[:2]


async def test_among_similar_matches_the_newer_comes_first(
    tools: Surface, embedder: StubEmbedder, clock: Clock
) -> None:
    old, new = "Mr Castellano has the spare key", "The spare key is with Priya now"
    embedder.table = {
        "Who has the spare key?": at_cosine(1.0),
        old: at_cosine(0.82),
        new: at_cosine(0.8),
    }
    await save_memory(tools, old, said_at="2026-01-05T09:00:00Z")
    for _ in range(5):
        await recall(tools, "Who has the spare key?")
    await save_memory(tools, new, said_at="2026-02-05T09:00:00Z")

    assert await recall_texts(tools, "Who has the spare key?") == [new, old]


@pytest.mark.parametrize("query", ["👍", "?", '"', "\u200b", "()[]{}"])
async def test_a_query_without_words_is_searched_by_meaning_only(
    tools: Surface, embedder: StubEmbedder, query: str
) -> None:
    embedder.table = {query: at_cosine(1.0), "Ana is happy": at_cosine(0.9)}
    await save_memory(tools, "Ana is happy")

    assert await recall_texts(tools, query) == ["Ana is happy"]


async def test_text_before_a_colon_is_a_speaker_only_if_it_resembles_a_name(
    tools: Surface, embedder: StubEmbedder
) -> None:
    said, noted = "Ana Maria de Sousa: soup", "What I want for dinner: soup"
    query = "What does Ana want?"
    embedder.table = {query: at_cosine(1.0), said: at_cosine(0.5), noted: at_cosine(0.5)}
    await save_memory(tools, said)
    await save_memory(tools, noted)

    assert (await recall_texts(tools, query))[0] == said


async def test_a_recall_can_be_filtered_by_tags(tools: Surface) -> None:
    await save_memory(tools, "Tea for the office", tags=["office"])
    await save_memory(tools, "Tea for home", tags=["home"])

    assert await recall_texts(tools, "tea", tags=["home", "garden"]) == ["Tea for home"]


async def test_without_an_embedder_words_are_searched_and_the_result_says_so(
    tools: Surface, embedder: StubEmbedder
) -> None:
    await save_memory(tools, "The gate code is 4711")
    embedder.is_down = True

    result = await tools.call("memory_recall", query="gate code")

    assert [each["content"] for each in result["memories"]] == ["The gate code is 4711"]
    assert result["degraded"] is True
    assert (
        "\n\nFound by words and links alone: search by meaning is unavailable" in result["summary"]
    )


async def test_a_memory_of_another_interface_counts_as_a_fact(
    tools: Surface, engine: Engine, caller: Caller
) -> None:
    from recollect.memories.save import Save, save

    await save(engine, caller, Save("Refunds take five days", category="policy"))

    found: list[Object] = await recall(tools, mode="typed", memory_type="fact")

    assert [(each["content"], each["memory_type"]) for each in found] == [
        ("Refunds take five days", "fact")
    ]
    assert await links_of(engine, caller.workspace_id) == set()
