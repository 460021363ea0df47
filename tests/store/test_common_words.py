"""Words too common to be read through: counted by a job, and scored all the same."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.domain import ANY, Caller, Scope
from recollect.engine.core import Engine
from recollect.engine.counting import count_words, plan_counts
from recollect.engine.save import Save, save
from recollect.engine.spaces import no_beat
from recollect.engine.words import query_terms
from recollect.engine.workspace_search import SearchWorkspace, search_workspace
from recollect.store import jobs, words
from recollect.store.bm25 import Word
from recollect.store.vectors import Point
from recollect.store.words import Match, too_common
from tests.support.alumia import colleague
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.house import new_caller
from tests.support.papers import upload, work

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


async def found(engine: Engine, caller: Caller, query: str) -> list[Match]:
    async with engine.reading(caller) as db:
        return await words.search(
            db, caller, query_terms(query).words, ANY, limit=50, now=engine.now()
        )


async def test_a_search_that_leaves_common_words_unread_scores_them_all_the_same(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each.id: each for each in await found(engine, full, "Ana tea kettle")}

    monkeypatch.setattr(words, "_COMMON_FROM", 10)
    monkeypatch.setattr(words, "READABLE", 20)
    await count_words(engine, full.workspace_id, no_beat)
    after = await found(engine, full, "Ana tea kettle")

    # Only what has the rare word is found, with the worth it had when all was read.
    assert len(after) == 3
    assert len(before) == len(TEXTS)
    for each in after:
        assert each.score == pytest.approx(before[each.id].score)
        assert each.coverage == pytest.approx(before[each.id].coverage)


async def test_a_query_of_common_words_alone_is_answered_by_the_rarest(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_COMMON_FROM", 10)
    monkeypatch.setattr(words, "READABLE", 1)
    await count_words(engine, full.workspace_id, no_beat)

    assert len(await found(engine, full, "green tea")) == 30


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


def test_the_common_parts_of_a_code_are_left_unread_and_the_rare_ones_are_not() -> None:
    code = Word(("app/main.py",), ("app", "main", "py"))
    assert too_common([code], {"py": 50_000, "main": 2_000}) == {"py"}


async def test_two_common_words_of_one_stem_find_what_has_either(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await save(engine, caller, Save(content=f"The plan of day {number}", category="fact"))
    await save(engine, caller, Save(content="Planning takes an hour", category="fact"))
    monkeypatch.setattr(words, "_COMMON_FROM", 1)
    monkeypatch.setattr(words, "READABLE", 3)
    await count_words(engine, caller.workspace_id, no_beat)

    matches = await found(engine, caller, "plan planning")

    assert len(matches) == 5


async def test_two_common_words_of_one_stem_find_documents(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await upload(engine, caller, f"{number}.txt", f"The plan of day {number}")
    await work(engine)
    monkeypatch.setattr(words, "READABLE", 1)

    results = await search_workspace(engine, caller, SearchWorkspace("plan planning"))

    assert len(results) == 4


async def is_due(engine: Engine, caller: Caller, least: int) -> bool:
    async with engine.pool.everywhere() as db:
        return caller.workspace_id in await words.uncounted(db, least)


async def take_out(engine: Engine, caller: Caller, count: int) -> None:
    """Take the first of the memories out of the index, as erasing them does."""
    matches = await found(engine, caller, "green")
    async with engine.writing(caller) as db:
        await words.remove(db, caller.workspace_id, [each.id for each in matches[:count]])


async def test_a_workspace_is_counted_when_it_is_large_and_again_when_it_has_grown(
    engine: Engine, full: Caller
) -> None:
    async def is_planned(least: int) -> bool:
        await plan_counts(engine, least)
        async with engine.reading(full) as db:
            return await jobs.is_waiting(db, full.workspace_id, "count_words")

    assert not await is_planned(len(TEXTS) + 1)
    assert await is_due(engine, full, len(TEXTS))
    await count_words(engine, full.workspace_id, no_beat)
    assert not await is_due(engine, full, len(TEXTS))
    for number in range(len(TEXTS) // 5):
        await save(engine, full, Save(content=f"News of day {number}", category="fact"))
    assert await is_planned(len(TEXTS))


async def test_a_workspace_is_counted_again_when_it_has_lost_a_tenth(
    engine: Engine, full: Caller
) -> None:
    await count_words(engine, full.workspace_id, no_beat)
    await take_out(engine, full, 3)
    assert not await is_due(engine, full, 20)

    await take_out(engine, full, 1)

    assert await is_due(engine, full, 20)


async def test_what_a_user_has_lost_is_counted_again_though_it_is_little_of_the_workspace(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = [
        await save(engine, full, Save(content=f"My {number}. wish", scope=Scope.GLOBAL))
        for number in range(12)
    ]
    monkeypatch.setattr(words, "_COMMON_FROM", 10)
    await count_words(engine, full.workspace_id, no_beat)
    assert not await is_due(engine, full, 20)

    async with engine.writing(full) as db:
        await words.remove(db, full.workspace_id, [each.memory.id for each in own[:4]])

    assert await is_due(engine, full, 20)


async def test_what_was_counted_is_forgotten_when_a_workspace_is_no_longer_large(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_COMMON_FROM", 10)
    monkeypatch.setattr(words, "READABLE", 10)
    await count_words(engine, full.workspace_id, no_beat)
    await take_out(engine, full, 29)
    stale = await found(engine, full, "green kettle")

    await plan_counts(engine, len(TEXTS))

    assert await counted(engine, full) == (0, 0)
    assert len(stale) == 3  # what is green was not looked for
    assert len(await found(engine, full, "green kettle")) == 4


async def test_a_workspace_of_nearly_the_size_it_was_counted_at_keeps_its_counts(
    engine: Engine, full: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_COMMON_FROM", 10)
    await count_words(engine, full.workspace_id, no_beat)
    before = await counted(engine, full)
    await take_out(engine, full, 1)

    await plan_counts(engine, len(TEXTS))

    assert await counted(engine, full) == before


async def counted(engine: Engine, caller: Caller) -> tuple[int, int]:
    """How many common words are known, and how many censuses."""
    async with engine.reading(caller) as db:
        cursor = await db.execute(
            "SELECT (SELECT count(*) FROM common_word), (SELECT count(*) FROM word_census)"
        )
        [row] = await cursor.fetchall()
    return row


async def test_what_others_keep_for_themselves_in_between_changes_no_score(
    engine: Engine, caller: Caller, clock: Clock, embedder: StubEmbedder
) -> None:
    """What was said right before tells what a memory is about, and not who else saved something."""
    other = await new_caller(engine)
    stranger = await colleague(engine, caller)
    worth: list[list[float]] = []
    for asker in (caller, other):
        await save(engine, asker, Save("Ana: the boiler is broken"))
        clock.advance(timedelta(seconds=1))
        for number in range(35 if asker is caller else 0):
            await save(engine, stranger, Save(f"Private {number}", scope=Scope.GLOBAL))
        clock.advance(timedelta(seconds=1))
        await save(engine, asker, Save("Ana: it was mended on Tuesday"))
        async with engine.reading(asker) as db:
            now, point = engine.now(), Point(1, pseudo_random("anything", embedder.dimension))
            asked = [Word(("boiler",))]
            leads = await words.leads(db, asker, asked, ANY, limit=10, now=now)
            found = await words.around(db, asker, leads, point, ANY, limit=10, now=now)
        worth.append(sorted(each.score for each in found.matches))

    assert worth[0] == worth[1]
    assert worth[0][0] > 0
