"""Saving and recalling memories: storage, search, duplicates and a failing embedder."""

import asyncio
import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from recollect.core.domain import Caller, Filter, Memory, Ref, Relation
from recollect.core.errors import Invalid, NotFound, Unavailable
from recollect.db import job_queue
from recollect.embeddings import generations as embedding
from recollect.embeddings.queries import generations
from recollect.engine import Engine
from recollect.memories.edit import EditMemory, ListMemories, edit, find_memory, list_memories
from recollect.memories.forget import forget, remove
from recollect.memories.links import Link
from recollect.memories.save import Save, Saved, save, save_within
from recollect.models.embedder_registry import Embedders
from recollect.search.semantic import FoundBy, Recall, recall
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import in_new_workspace, new_caller, open_engine, single_embedder

pytestmark = pytest.mark.anyio


async def recalled_texts(
    engine: Engine, caller: Caller, query: str, threshold: float = 0.5
) -> list[str]:
    recalled = await recall(engine, caller, Recall(query=query, limit=10, threshold=threshold))
    return [hit.memory.content for hit in recalled.hits]


async def list_all(engine: Engine, caller: Caller) -> list[Memory]:
    page = await list_memories(engine, caller, ListMemories(limit=100, wanted=Filter()))
    return page.memories


async def test_R108_ids_are_24_random_letters_and_digits_and_never_repeat(
    engine: Engine, caller: Caller
) -> None:
    saves = [
        save(engine, caller, Save(f"statement {number}", wants_vector=False))
        for number in range(1_000)
    ]

    codes = [(await each).memory.code for each in saves]

    assert all(re.fullmatch(r"[A-Za-z0-9]{24}", code) for code in codes)
    assert len({code[:12] for code in codes}) == 1_000


@pytest.mark.parametrize("dimension", [768, 1024, 1536, 3072, 4096])
async def test_R007_any_dimension_works_for_save_recall_update_and_search(
    database_url: str, clock: Clock, dimension: int
) -> None:
    embedder = StubEmbedder(dimension=dimension)
    async with open_engine(database_url, single_embedder(embedder), clock) as engine:
        caller = await new_caller(engine)
        saved = await save(engine, caller, Save("Ada takes her tea without milk"))
        assert saved.memory.has_vector

        assert await recalled_texts(engine, caller, "Ada takes her tea without milk") == [
            "Ada takes her tea without milk"
        ]
        await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ada drinks coffee"))
        assert await recalled_texts(engine, caller, "Ada drinks coffee") == ["Ada drinks coffee"]
        assert await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.9) == []


async def test_R008_an_existing_database_keeps_working_when_the_dimension_changes(
    database_url: str, clock: Clock
) -> None:
    embedder = StubEmbedder(dimension=768)
    async with open_engine(database_url, single_embedder(embedder), clock) as engine:
        caller = await new_caller(engine)
        await save(engine, caller, Save("Ada lives in Oslo"))

        embedder.dimension = 1024
        second = await save(engine, caller, Save("Ben lives in Bergen"))
        during = await recalled_texts(engine, caller, "Ada lives in Oslo")
        await Worker(engine, slots=1).run_until_empty()
        after = [
            await recalled_texts(engine, caller, "Ada lives in Oslo"),
            await recalled_texts(engine, caller, "Ben lives in Bergen"),
        ]

    assert not second.memory.has_vector
    assert during == ["Ada lives in Oslo"]
    assert after == [["Ada lives in Oslo"], ["Ben lives in Bergen"]]


async def test_R071_a_forgotten_memory_keeps_its_row_and_the_time(
    engine: Engine, caller: Caller
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))

    await forget(engine, caller, Ref(id=saved.memory.id), reason="asked to")

    async with engine.pool.writing(caller.workspace_id) as db:
        row = await (
            await db.execute(
                "SELECT content, deleted_at, delete_reason FROM memory WHERE id = %s",
                [saved.memory.id],
            )
        ).fetchone()
    assert row == ("Ada takes her tea without milk", engine.now(), "asked to")


async def test_R072_a_forgotten_memory_is_in_no_list_and_no_search(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))

    await forget(engine, caller, Ref(id=saved.memory.id))

    assert await list_all(engine, caller) == []
    assert await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.0) == []
    embedder.is_down = True
    assert await recalled_texts(engine, caller, "tea without milk", 0.0) == []
    with pytest.raises(NotFound):
        await find_memory(engine, caller, Ref(id=saved.memory.id))


@pytest.mark.parametrize("ahead", [timedelta(seconds=30), timedelta(hours=14), timedelta(days=1)])
async def test_a_time_slightly_in_the_future_is_replaced_by_now(
    engine: Engine, caller: Caller, clock: Clock, ahead: timedelta
) -> None:
    saved = await save(engine, caller, Save("a statement", said_at=clock.at + ahead))

    stored = await find_memory(engine, caller, Ref(id=saved.memory.id))
    assert (stored.created_at, stored.valid_from) == (clock.at, clock.at)
    assert await recalled_texts(engine, caller, "a statement") == ["a statement"]


async def test_a_superseding_memory_dated_ahead_leaves_no_gap(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    old = await save(engine, caller, Save("Ana lives in Oslo"))
    clock.advance(timedelta(minutes=1))
    updates = Link(Ref(id=old.memory.id), Relation.UPDATES)

    await save(
        engine,
        caller,
        Save("Ana lives in Bergen", links=[updates], said_at=clock.at + timedelta(seconds=30)),
    )

    assert [memory.content for memory in await list_all(engine, caller)] == ["Ana lives in Bergen"]


async def test_said_at_more_than_a_day_in_the_future_is_rejected(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    ahead = Save("a statement", said_at=clock.at + timedelta(days=1, microseconds=1))

    with pytest.raises(Invalid, match="`said_at` is more than one day in the future"):
        await save(engine, caller, ahead)

    assert await list_all(engine, caller) == []


async def test_a_memory_from_a_message_dated_ahead_is_current_at_once(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    """Unlike `save`, `save_within` does not reject the date: an import may contain any."""
    ahead = Save("a statement", said_at=clock.at + timedelta(days=400), wants_vector=False)

    async with engine.writing(caller) as db:
        await save_within(engine, db, caller, ahead, None)

    assert [memory.created_at for memory in await list_all(engine, caller)] == [clock.at]


async def test_R115_a_slow_embedder_does_not_delay_a_save(database_url: str, clock: Clock) -> None:
    embedder = StubEmbedder()
    async with open_engine(
        database_url,
        single_embedder(embedder),
        clock,
        embedding_deadline=timedelta(milliseconds=50),
    ) as engine:
        caller = await new_caller(engine)
        embedder.delay = timedelta(minutes=1)

        async with asyncio.timeout(20):
            saved = await save(engine, caller, Save("Ada takes her tea without milk"))

        assert not saved.memory.has_vector
        assert [memory.content for memory in await list_all(engine, caller)] == [
            "Ada takes her tea without milk"
        ]
        embedder.delay = timedelta()
        await Worker(engine, slots=1).run_until_empty()
        assert (await list_all(engine, caller))[0].has_vector
        assert await recalled_texts(engine, caller, "Ada takes her tea without milk") == [
            "Ada takes her tea without milk"
        ]


async def test_R116_search_ranks_by_smallest_cosine_distance(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "query": at_cosine(1.0),
        "far": at_cosine(0.60, axis=1),
        "near": at_cosine(0.90, axis=2),
        "nearer": at_cosine(0.95, axis=3),
    }
    for text in ("far", "nearer", "near"):
        await save(engine, caller, Save(text))

    recalled = await recall(engine, caller, Recall(query="query", limit=10))

    assert [hit.memory.content for hit in recalled.hits] == ["nearer", "near", "far"]
    assert [hit.score for hit in recalled.hits] == pytest.approx([0.95, 0.90, 0.60], abs=0.002)


async def test_R117_duplicates_are_searched_only_in_the_same_workspace(
    engine: Engine, caller: Caller
) -> None:
    elsewhere = await in_new_workspace(engine, caller)
    text = Save("User prefers dark mode", returns_duplicate=True)
    first = await save(engine, caller, text)

    again = await save(engine, caller, text)
    other = await save(engine, elsewhere, text)

    assert again == Saved(first.memory, is_new=False)
    assert other.is_new
    assert len(await list_all(engine, caller)) == len(await list_all(engine, elsewhere)) == 1


@pytest.mark.parametrize(("cosine", "rows"), [(0.92, 1), (0.88, 2)])
async def test_R118_a_rewording_is_skipped_only_above_the_high_threshold(
    engine: Engine, caller: Caller, embedder: StubEmbedder, cosine: float, rows: int
) -> None:
    embedder.table = {
        "User prefers dark mode": at_cosine(1.0),
        "The user likes dark mode": at_cosine(cosine),
    }
    await save(engine, caller, Save("User prefers dark mode", returns_duplicate=True))

    await save(engine, caller, Save("The user likes dark mode", returns_duplicate=True))

    assert len(await list_all(engine, caller)) == rows


async def test_a_correction_is_never_skipped_however_similar_it_is(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "User prefers dark mode": at_cosine(1.0),
        "User prefers light mode": at_cosine(0.999),
    }
    await save(engine, caller, Save("User prefers dark mode", returns_duplicate=True))

    correction = await save(engine, caller, Save("User prefers light mode", returns_duplicate=True))

    assert correction.is_new


async def test_R119_a_forgotten_memory_does_not_block_a_new_save(
    engine: Engine, caller: Caller
) -> None:
    first = await save(engine, caller, Save("User prefers dark mode", returns_duplicate=True))
    await forget(engine, caller, Ref(id=first.memory.id))

    second = await save(engine, caller, Save("User prefers dark mode", returns_duplicate=True))

    assert second.is_new
    assert [memory.id for memory in await list_all(engine, caller)] == [second.memory.id]


async def test_simultaneous_saves_of_one_statement_create_one_row(
    engine: Engine, caller: Caller
) -> None:
    text = Save("User prefers dark mode", returns_duplicate=True)

    results = await asyncio.gather(*(save(engine, caller, text) for _ in range(8)))

    assert sum(result.is_new for result in results) == 1
    assert len({result.memory.id for result in results}) == 1


async def test_R120_each_workspace_uses_its_configured_embedding_endpoint(
    database_url: str, clock: Clock
) -> None:
    ours, theirs = StubEmbedder(endpoint="ours"), StubEmbedder(endpoint="theirs", dimension=16)
    embedders = Embedders(ours, {"theirs": theirs})
    async with open_engine(database_url, embedders, clock) as engine:
        here = await new_caller(engine)
        there = await new_caller(engine, embedder="theirs")

        await save(engine, here, Save("said here"))
        await save(engine, there, Save("said there"))
        answers = [
            await recalled_texts(engine, here, "said here"),
            await recalled_texts(engine, there, "said there"),
        ]

    assert answers == [["said here"], ["said there"]]
    assert "said there" not in ours.seen_texts
    assert "said here" not in theirs.seen_texts


async def test_R121_if_the_embedder_fails_the_text_is_stored_without_vector(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.is_down = True

    saved = await save(engine, caller, Save("Ada takes her tea without milk"))

    assert (saved.is_new, saved.memory.has_vector) == (True, False)
    assert (
        await find_memory(engine, caller, Ref(id=saved.memory.id))
    ).content == saved.memory.content


async def test_R122_with_the_embedder_down_recall_searches_by_words(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    await save(engine, caller, Save("Ada takes her tea without milk"))
    await save(engine, caller, Save("The deadline is in March"))
    embedder.is_down = True

    recalled = await recall(engine, caller, Recall(query="tea with milk", limit=5, threshold=0.7))

    assert recalled.is_degraded
    assert [(hit.memory.content, hit.found_by) for hit in recalled.hits] == [
        ("Ada takes her tea without milk", FoundBy.WORDS)
    ]


async def test_a_memory_without_vector_yet_is_found_by_its_words(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    await save(engine, caller, Save("The deadline is in March"))
    embedder.is_down = True
    await save(engine, caller, Save("Ada takes her tea without milk"))
    embedder.is_down = False

    before = await recalled_texts(engine, caller, "tea without milk", 0.95)
    await Worker(engine, slots=1).run_until_empty()
    after = await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.95)

    assert before == after == ["Ada takes her tea without milk"]


async def test_a_text_the_embedder_refuses_does_not_delay_others(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.is_down = True
    for text in ("one", "poison", "two"):
        await save(engine, caller, Save(text))
    embedder.is_down, embedder.refused = False, {"poison"}

    await Worker(engine, slots=1).run_until_empty()

    assert {memory.content: memory.has_vector for memory in await list_all(engine, caller)} == {
        "one": True,
        "poison": False,
        "two": True,
    }


async def test_a_text_on_which_the_embedder_always_fails_is_refused(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    """Some endpoints respond to a text they cannot read as if they were down."""
    embedder.is_down = True
    for text in ("one", "poison", "two"):
        await save(engine, caller, Save(text))
    embedder.is_down = False
    embedder.failures = {"poison": [Unavailable("embedder")] * 9}

    await Worker(engine, slots=1).run_until_empty()

    async with engine.reading(caller) as db:
        assert not await job_queue.has_unfinished(db, caller.workspace_id, embedding.EMBED_JOB.kind)
    assert {memory.content for memory in await list_all(engine, caller) if memory.has_vector} == {
        "one",
        "two",
    }


async def test_a_refused_text_is_found_by_its_words(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    await save(engine, caller, Save("The deadline is in March"))
    embedder.refused = {"Ada takes her tea without milk"}
    await save(engine, caller, Save("Ada takes her tea without milk"))
    await Worker(engine, slots=1).run_until_empty()

    recalled = await recall(engine, caller, Recall("tea without milk", 5, threshold=0.9))

    assert [(hit.memory.content, hit.found_by) for hit in recalled.hits] == [
        ("Ada takes her tea without milk", FoundBy.WORDS)
    ]


@pytest.mark.parametrize(
    "failures",
    [
        [Unavailable("embedder"), Unavailable("embedder")],
        [Unavailable("embedder", retry_after=timedelta(seconds=1))] * 2,
    ],
)
async def test_a_temporary_failure_is_not_a_refusal(
    engine: Engine,
    caller: Caller,
    clock: Clock,
    embedder: StubEmbedder,
    failures: list[Unavailable],
) -> None:
    embedder.is_down = True
    for text in ("one", "unlucky", "two"):
        await save(engine, caller, Save(text))
    embedder.is_down, embedder.failures = False, {"unlucky": list(failures)}

    for _ in failures:
        await Worker(engine, slots=1).run_until_empty()
        clock.advance(timedelta(minutes=2))
    await Worker(engine, slots=1).run_until_empty()

    assert all(memory.has_vector for memory in await list_all(engine, caller))


async def test_a_failure_of_one_text_does_not_delay_others(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.is_down = True
    for text in ("one", "unlucky", "two"):
        await save(engine, caller, Save(text))
    embedder.is_down = False
    embedder.failures = {"unlucky": [Unavailable("embedder"), Unavailable("embedder")]}

    await Worker(engine, slots=1).run_until_empty()

    assert {memory.content: memory.has_vector for memory in await list_all(engine, caller)} == {
        "one": True,
        "unlucky": False,
        "two": True,
    }


async def test_an_edit_with_equal_values_changes_nothing(
    engine: Engine, caller: Caller, clock: Clock, embedder: StubEmbedder
) -> None:
    saved = await save(engine, caller, Save("a statement", tags=["a"], metadata={"b": 1}))
    before = await find_memory(engine, caller, Ref(id=saved.memory.id))
    embedded_texts = list(embedder.seen_texts)
    clock.advance(timedelta(hours=1))

    after = await edit(
        engine,
        caller,
        Ref(id=saved.memory.id),
        EditMemory(content="a statement", tags=["a"], metadata={"b": 1}),
    )

    assert after == before
    assert embedder.seen_texts == embedded_texts


async def test_an_edited_text_is_found_only_by_its_new_words(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))
    await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ben runs marathons"))
    embedder.is_down = True

    assert await recalled_texts(engine, caller, "tea milk") == []
    assert await recalled_texts(engine, caller, "marathons") == ["Ben runs marathons"]


async def test_an_edited_text_keeps_its_old_vector_until_re_embedded(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))
    embedder.is_down = True
    changed = await edit(
        engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ada drinks coffee")
    )
    embedder.is_down = False

    meanwhile = await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.9)
    by_words = await recalled_texts(engine, caller, "drinks coffee", 0.9)
    await Worker(engine, slots=1).run_until_empty()

    assert not changed.has_vector
    assert meanwhile == by_words == ["Ada drinks coffee"]
    assert await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.9) == []
    assert await recalled_texts(engine, caller, "Ada drinks coffee", 0.9) == ["Ada drinks coffee"]


async def test_an_edit_to_a_refused_text_removes_the_old_vector(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))
    embedder.refused = {"Ben runs marathons"}
    await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ben runs marathons"))
    await Worker(engine, slots=1).run_until_empty()

    assert await recalled_texts(engine, caller, "Ada takes her tea without milk", 0.9) == []


async def test_a_text_edited_during_a_refusal_still_gets_its_vector(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.refused = {"poison"}
    saved = await save(engine, caller, Save("poison"))
    async with engine.reading(caller) as db:
        [missing] = await generations.memories_without_vector(
            db, caller.workspace_id, 1, after=UUID(int=0), limit=10
        )
    embedder.is_down = True
    await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ben runs marathons"))
    async with engine.writing(caller) as db:
        await generations.mark_refused(db, caller.workspace_id, missing.id, missing.content_version)
    embedder.is_down = False
    await Worker(engine, slots=1).run_until_empty()

    assert (await find_memory(engine, caller, Ref(id=saved.memory.id))).has_vector
    assert await recalled_texts(engine, caller, "Ben runs marathons", 0.9) == ["Ben runs marathons"]


async def test_deleting_a_memory_leaves_nothing_in_any_table(
    engine: Engine, caller: Caller
) -> None:
    saved = await save(engine, caller, Save("xyzzy takes her tea without milk"))
    stored = await save(engine, caller, Save("Ben runs marathons"))

    await remove(engine, caller, Ref(id=saved.memory.id))

    async with engine.pool.writing(caller.workspace_id) as db:
        for table in ("memory_vector", "memory_terms", "memory_word"):
            cursor = await db.execute(f"SELECT DISTINCT memory_id FROM {table}")  # pyright: ignore[reportCallIssue, reportArgumentType]
            assert [row[0] for row in await cursor.fetchall()] == [stored.memory.id]
        cursor = await db.execute("SELECT sum(documents) FROM keyword_total")
        assert await cursor.fetchone() == (1,)


async def test_a_memory_expires_at_the_exact_second(
    engine: Engine, caller: Caller, clock: Clock
) -> None:
    await save(engine, caller, Save("short-lived", expires_at=clock.at + timedelta(seconds=10)))
    clock.advance(timedelta(seconds=9))
    before = await list_all(engine, caller)
    clock.advance(timedelta(seconds=1))

    assert [memory.content for memory in before] == ["short-lived"]
    assert await list_all(engine, caller) == []
    assert await recalled_texts(engine, caller, "short-lived", 0.0) == []


@pytest.fixture
async def restarted(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    async with open_engine(database_url, single_embedder(embedder), clock) as engine:
        yield engine


async def test_a_memory_saved_by_one_process_is_visible_to_another(
    engine: Engine, restarted: Engine, caller: Caller
) -> None:
    saved = await save(engine, caller, Save("Ada takes her tea without milk"))

    read = await find_memory(restarted, caller, Ref(code=saved.memory.code[:12]))

    assert read == replace(saved.memory, has_vector=True)
