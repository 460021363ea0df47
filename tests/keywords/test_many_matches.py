"""Words in very many memories: postings are read and matches checked in part, without losses."""

import re

import pytest

from recollect.core.domain import NO_FILTER, Caller, Filter
from recollect.documents.queries import chunks
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.keywords.bm25 import Word
from recollect.keywords.common_words_job import count_words
from recollect.keywords.queries import common_words, keyword_neighbours, keyword_search
from recollect.keywords.queries.keyword_match import KeywordMatch
from recollect.keywords.queries.keyword_search import KeywordLeads
from recollect.memories.save import Save, save
from tests.support.plans import record_plans
from tests.support.sample_files import run_jobs, upload

pytestmark = pytest.mark.anyio

USER = [Word(("user",))]
LIMIT = 3
MAX_CHECKED = 6
MAX_POSTINGS = 10


@pytest.fixture
async def many(engine: Engine, caller: Caller) -> Caller:
    """Forty memories with the word "user": two are tagged "rare", and one of these has a phrase."""
    for number in range(40):
        often = "user " * (number % 7)
        tags = ["rare"] if number in {8, 36} else ["even"] if number % 2 == 0 else []
        text = f"Number {number} of the user {often}" + ("in green tea" if number == 8 else "")
        await save(engine, caller, Save(content=text, category="fact", tags=tags))
    return caller


def check_few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(keyword_search, "_SPARE", 0)
    patch.setattr(keyword_search, "_MAX_EQUALS", 0)
    patch.setattr(keyword_search, "_MAX_CHECKED", MAX_CHECKED)


async def read_few(engine: Engine, caller: Caller, patch: pytest.MonkeyPatch) -> None:
    check_few(patch)
    patch.setattr(common_words, "_MIN_COMMON", MAX_POSTINGS)
    patch.setattr(keyword_search, "MAX_POSTINGS", MAX_POSTINGS)
    await count_words(engine, caller.workspace_id, generations.no_heartbeat)


async def find_leads(
    engine: Engine, caller: Caller, wanted: Filter = NO_FILTER, *, phrases: tuple[str, ...] = ()
) -> KeywordLeads:
    async with engine.reading(caller) as db:
        return await keyword_search.find_leads(
            db, caller, USER, wanted, phrases=phrases, limit=LIMIT, now=engine.now()
        )


async def search(
    engine: Engine, caller: Caller, wanted: Filter = NO_FILTER, *, limit: int = LIMIT
) -> list[KeywordMatch]:
    async with engine.reading(caller) as db:
        return await keyword_search.search(db, caller, USER, wanted, limit=limit, now=engine.now())


async def test_the_most_important_of_many_equal_matches_is_found(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "_SPARE", 0)
    for number in range(20):
        text = f"Day {number} of the user"
        await save(engine, caller, Save(content=text, importance=1.0 if number == 7 else 0.1))

    [first, *_] = await search(engine, caller)

    assert first.importance == 1.0


async def test_a_query_of_many_words_reads_a_bounded_number_of_postings(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyword_search, "MAX_POSTINGS_TOTAL", 12)
    query = [Word((term,)) for term in ("user", "number", "of")]

    async with engine.reading(many) as db:
        found = await keyword_search.find_leads(
            db, many, query, NO_FILTER, limit=LIMIT, now=engine.now()
        )

    assert 0 < len(found.scores) <= 12
    assert sorted(found.scores.sampled) == ["number", "of", "user"]


async def test_only_a_bounded_number_of_matches_is_checked_one_by_one(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_few(monkeypatch)

    with record_plans("ANALYZE, COSTS OFF, TIMING OFF") as plans:
        await find_leads(engine, many, Filter(tags=["even"]))
        await find_leads(engine, many, Filter(tags=["rare"]))
        await find_leads(engine, many, phrases=("no such words",))

    scans = [re.search(r"Scan on first \(.*rows=(\d+)", each.text) for each in plans]
    checked = [int(rows[1]) for rows in scans if rows]
    assert checked == [MAX_CHECKED, MAX_CHECKED, 2, MAX_CHECKED, 0]


@pytest.mark.parametrize("tags", [["rare"], ["even"], ["rare", "even"], ["none"]])
async def test_a_filter_loses_no_results_when_few_matches_are_checked(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch, tags: list[str]
) -> None:
    before = await search(engine, many, Filter(tags=tags))

    check_few(monkeypatch)
    after = await search(engine, many, Filter(tags=tags))

    assert [each.score for each in after] == [each.score for each in before]


@pytest.mark.parametrize("tags", [["rare"], ["none"]])
async def test_a_narrow_filter_loses_nothing_when_a_word_is_read_in_part(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch, tags: list[str]
) -> None:
    before = await search(engine, many, Filter(tags=tags))

    await read_few(engine, many, monkeypatch)
    after = await search(engine, many, Filter(tags=tags))

    assert after == before


async def test_a_phrase_is_found_far_below_the_best_matches(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_few(monkeypatch)

    found = await find_leads(engine, many, phrases=("green tea",))

    assert [each.has_phrases for each in found.seen] == [True, False, False]
    assert found.seen[0].opening.startswith("Number 8 ")


async def test_a_common_word_read_in_part_has_the_same_score(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each.id: each for each in await search(engine, many, limit=100)}

    await read_few(engine, many, monkeypatch)
    found = await find_leads(engine, many)
    after = await search(engine, many, limit=100)

    assert len(found.scores) == MAX_POSTINGS
    assert len(before) == 40
    for each in after:
        assert each.score == pytest.approx(before[each.id].score)
        assert each.coverage == pytest.approx(before[each.id].coverage)


async def test_matches_by_meaning_get_the_score_of_a_partly_read_word(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_jobs(engine)
    before = {each.id: each.score for each in await search(engine, many, limit=100)}
    query = await generations.embed_query(engine, many.workspace_id, "user")
    assert query

    await read_few(engine, many, monkeypatch)
    found = await find_leads(engine, many)
    async with engine.reading(many) as db:
        matches, _ = await keyword_neighbours.find_around(
            db, many, found, query.point, NO_FILTER, limit=100, now=engine.now()
        )

    assert {each.id: each.score for each in matches} == pytest.approx(before)


async def test_a_common_word_of_documents_is_read_in_part(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await upload(engine, caller, f"{number}.txt", f"The user of day {number}")
    await run_jobs(engine)
    monkeypatch.setattr(chunks, "MAX_POSTINGS", 2)

    async with engine.reading(caller) as db:
        found = await chunks.matching(db, caller, USER, limit=10)

    assert list(found.values()) == [1.0, 1.0]
