"""Words too common to read their postings: a job counts them, and they still add to the score."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.domain import NO_FILTER, Caller, Scope
from recollect.db import job_queue
from recollect.documents.workspace_search import SearchWorkspace, search_workspace
from recollect.embeddings.generations import no_heartbeat
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.keywords.bm25 import Word
from recollect.keywords.common_words_job import count_words, plan_counts
from recollect.keywords.queries import (
    common_words,
    keyword_neighbours,
    keyword_search,
    postings,
    read_limits,
)
from recollect.keywords.queries.keyword_match import KeywordMatch
from recollect.keywords.queries.read_limits import too_common
from recollect.keywords.tokenizer import query_terms
from recollect.memories.save import Save, save
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.instance import new_caller
from tests.support.sample_files import run_jobs, upload

pytestmark = pytest.mark.anyio

TEXTS = [
    *(f"Ana drinks green tea in room {number}" for number in range(30)),
    "Ana keeps a kettle",
    "The kettle is for tea",
    "Ana has tea from the red kettle",
]


@pytest.fixture
async def full(engine: Engine, caller: Caller) -> Caller:
    for text in TEXTS:
        await save(engine, caller, Save(content=text, category="fact"))
    return caller


async def search(engine: Engine, caller: Caller, query: str) -> list[KeywordMatch]:
    async with engine.reading(caller) as db:
        return await keyword_search.search(
            db, caller, query_terms(query).words, NO_FILTER, limit=50, now=engine.now()
        )


async def test_common_words_that_are_not_read_keep_their_score(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each.id: each for each in await search(engine, full, "Ana tea kettle")}

    monkeypatch.setattr(common_words, "_MIN_COMMON", 10)
    monkeypatch.setattr(read_limits, "READABLE", 20)
    await count_words(engine, full.workspace_id, no_heartbeat)
    after = await search(engine, full, "Ana tea kettle")

    # Only memories with the rare word are found, with the score they had when all was read.
    assert len(after) == 3
    assert len(before) == len(TEXTS)
    for each in after:
        assert each.score == pytest.approx(before[each.id].score)
        assert each.coverage == pytest.approx(before[each.id].coverage)


async def test_a_query_of_common_words_only_reads_the_rarest(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_words, "_MIN_COMMON", 10)
    monkeypatch.setattr(read_limits, "READABLE", 1)
    await count_words(engine, full.workspace_id, no_heartbeat)

    assert len(await search(engine, full, "green tea")) == 30


@given(
    st.lists(
        st.lists(st.sampled_from("abcd"), min_size=1, unique=True).map(
            lambda each: Word(tuple(each))
        ),
        min_size=1,
        unique=True,
    ),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1_000, 9_000)),
)
def test_the_rarest_word_is_read_in_all_its_forms(
    query: list[Word], counts: dict[str, int]
) -> None:
    rest = too_common(query, counts)

    rarest = min(sum(counts.get(term, 0) for term in word.forms) for word in query)
    assert any(
        sum(counts.get(term, 0) for term in word.forms) == rarest and rest.isdisjoint(word.forms)
        for word in query
    )


def test_only_the_common_parts_of_a_code_are_not_read() -> None:
    code = Word(("app/main.py",), ("app", "main", "py"))
    assert too_common([code], {"py": 50_000, "main": 2_000}) == {"py"}


async def test_two_common_words_of_one_stem_find_memories_with_either(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await save(engine, caller, Save(content=f"The plan of day {number}", category="fact"))
    await save(engine, caller, Save(content="Planning takes an hour", category="fact"))
    monkeypatch.setattr(common_words, "_MIN_COMMON", 1)
    monkeypatch.setattr(read_limits, "READABLE", 3)
    await count_words(engine, caller.workspace_id, no_heartbeat)

    matches = await search(engine, caller, "plan planning")

    assert len(matches) == 5


async def test_two_common_words_of_one_stem_find_documents(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await upload(engine, caller, f"{number}.txt", f"The plan of day {number}")
    await run_jobs(engine)
    monkeypatch.setattr(read_limits, "READABLE", 1)

    results = await search_workspace(engine, caller, SearchWorkspace("plan planning"))

    assert len(results) == 4


async def is_due(engine: Engine, caller: Caller, min_memories: int) -> bool:
    async with engine.pool.everywhere() as db:
        return caller.workspace_id in await common_words.workspaces_to_count(db, min_memories)


async def remove_from_index(engine: Engine, caller: Caller, count: int) -> None:
    """Remove the first memories from the index, as erasing them does."""
    matches = await search(engine, caller, "green")
    async with engine.writing(caller) as db:
        await postings.remove(db, caller.workspace_id, [each.id for each in matches[:count]])


async def test_a_workspace_is_counted_when_large_and_again_after_growth(
    engine: Engine, full: Caller
) -> None:
    async def is_planned(min_memories: int) -> bool:
        await plan_counts(engine, min_memories)
        async with engine.reading(full) as db:
            return await job_queue.has_unfinished(db, full.workspace_id, "count_words")

    assert not await is_planned(len(TEXTS) + 1)
    assert await is_due(engine, full, len(TEXTS))
    await count_words(engine, full.workspace_id, no_heartbeat)
    assert not await is_due(engine, full, len(TEXTS))
    for number in range(len(TEXTS) // 5):
        await save(engine, full, Save(content=f"News of day {number}", category="fact"))
    assert await is_planned(len(TEXTS))


async def test_a_workspace_is_counted_again_after_losing_a_tenth(
    engine: Engine, full: Caller
) -> None:
    await count_words(engine, full.workspace_id, no_heartbeat)
    await remove_from_index(engine, full, 3)
    assert not await is_due(engine, full, 20)

    await remove_from_index(engine, full, 1)

    assert await is_due(engine, full, 20)


async def test_a_user_who_lost_memories_causes_a_new_count(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [
        await save(engine, full, Save(content=f"My {number}. wish", scope=Scope.GLOBAL))
        for number in range(12)
    ]
    monkeypatch.setattr(common_words, "_MIN_COMMON", 10)
    await count_words(engine, full.workspace_id, no_heartbeat)
    assert not await is_due(engine, full, 20)

    async with engine.writing(full) as db:
        await postings.remove(db, full.workspace_id, [each.memory.id for each in own[:4]])

    assert await is_due(engine, full, 20)


async def test_counts_are_deleted_when_a_workspace_is_no_longer_large(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_words, "_MIN_COMMON", 10)
    monkeypatch.setattr(read_limits, "READABLE", 10)
    await count_words(engine, full.workspace_id, no_heartbeat)
    await remove_from_index(engine, full, 29)
    stale = await search(engine, full, "green kettle")

    await plan_counts(engine, len(TEXTS))

    assert await count_rows(engine, full) == (0, 0)
    assert len(stale) == 3  # the postings of "green" were not read
    assert len(await search(engine, full, "green kettle")) == 4


async def test_a_workspace_of_about_the_same_size_keeps_its_counts(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common_words, "_MIN_COMMON", 10)
    await count_words(engine, full.workspace_id, no_heartbeat)
    before = await count_rows(engine, full)
    await remove_from_index(engine, full, 1)

    await plan_counts(engine, len(TEXTS))

    assert await count_rows(engine, full) == before


async def count_rows(engine: Engine, caller: Caller) -> tuple[int, int]:
    """Return the number of rows in `common_word` and in `common_word_run`."""
    async with engine.reading(caller) as db:
        cursor = await db.execute(
            "SELECT (SELECT count(*) FROM common_word), (SELECT count(*) FROM common_word_run)"
        )
        [row] = await cursor.fetchall()
    return row


async def test_private_memories_of_others_in_between_change_no_score(
    engine: Engine, caller: Caller, clock: Clock, embedder: StubEmbedder
) -> None:
    """The memory saved right before shows its topic; memories of others do not."""
    other = await new_caller(engine)
    colleague = await add_colleague(engine, caller)
    scores: list[list[float]] = []
    for reader in (caller, other):
        await save(engine, reader, Save("Ana: the boiler is broken"))
        clock.advance(timedelta(seconds=1))
        for number in range(35 if reader is caller else 0):
            await save(engine, colleague, Save(f"Private {number}", scope=Scope.GLOBAL))
        clock.advance(timedelta(seconds=1))
        await save(engine, reader, Save("Ana: it was mended on Tuesday"))
        async with engine.reading(reader) as db:
            now, point = engine.now(), QueryVector(1, pseudo_random("anything", embedder.dimension))
            query = [Word(("boiler",))]
            leads = await keyword_search.find_leads(db, reader, query, NO_FILTER, limit=10, now=now)
            search = await keyword_neighbours.find_around(
                db, reader, leads, point, NO_FILTER, limit=10, now=now
            )
        scores.append(sorted(each.score for each in search.matches))

    assert scores[0] == scores[1]
    assert scores[0][0] > 0
