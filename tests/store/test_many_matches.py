"""Words of very many memories: read and looked at in part, and nothing that a filter leaves lost."""

import re

import pytest

from recollect.domain import ANY, Caller, Filter
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.counting import count_words
from recollect.engine.save import Save, save
from recollect.store import chunks, words
from recollect.store.bm25 import Word
from recollect.store.words import Leads, Match
from tests.support.papers import upload, work
from tests.support.plans import explained

pytestmark = pytest.mark.anyio

USER = [Word(("user",))]
LIMIT = 3
LOOKED_AT = 6
MOST_POSTINGS = 10


@pytest.fixture
async def many(engine: Engine, caller: Caller) -> Caller:
    """Forty memories about the user, two of them rare, and one of the two with a phrase."""
    for number in range(40):
        often = "user " * (number % 7)
        tags = ["rare"] if number in {8, 36} else ["even"] if number % 2 == 0 else []
        text = f"Number {number} of the user {often}" + ("in green tea" if number == 8 else "")
        await save(engine, caller, Save(content=text, category="fact", tags=tags))
    return caller


def look_at_few(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(words, "_SPARE", 0)
    patch.setattr(words, "_EQUALS", 0)
    patch.setattr(words, "_LOOKED_AT", LOOKED_AT)


async def read_few(engine: Engine, caller: Caller, patch: pytest.MonkeyPatch) -> None:
    look_at_few(patch)
    patch.setattr(words, "_COMMON_FROM", MOST_POSTINGS)
    patch.setattr(words, "MOST_POSTINGS", MOST_POSTINGS)
    await count_words(engine, caller.workspace_id, spaces.no_beat)


async def leads(
    engine: Engine, caller: Caller, wanted: Filter = ANY, *, phrases: tuple[str, ...] = ()
) -> Leads:
    async with engine.reading(caller) as db:
        return await words.leads(
            db, caller, USER, wanted, phrases=phrases, limit=LIMIT, now=engine.now()
        )


async def search(
    engine: Engine, caller: Caller, wanted: Filter = ANY, *, limit: int = LIMIT
) -> list[Match]:
    async with engine.reading(caller) as db:
        return await words.search(db, caller, USER, wanted, limit=limit, now=engine.now())


async def test_of_very_many_worth_the_same_the_most_important_are_found(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_SPARE", 0)
    for number in range(20):
        text = f"Day {number} of the user"
        await save(engine, caller, Save(content=text, importance=1.0 if number == 7 else 0.1))

    [first, *_] = await search(engine, caller)

    assert first.importance == 1.0


async def test_however_many_words_are_asked_for_a_bounded_number_of_postings_is_read(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(words, "_POSTINGS_IN_ALL", 12)
    asked = [Word((term,)) for term in ("user", "number", "of")]

    async with engine.reading(many) as db:
        found = await words.leads(db, many, asked, ANY, limit=LIMIT, now=engine.now())

    assert 0 < len(found.worth) <= 12
    assert sorted(found.worth.sampled) == ["number", "of", "user"]


async def test_no_more_matches_are_looked_at_one_by_one_than_a_search_can_afford(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_few(monkeypatch)

    with explained("ANALYZE, COSTS OFF, TIMING OFF") as plans:
        await leads(engine, many, Filter(tags=["even"]))
        await leads(engine, many, Filter(tags=["rare"]))
        await leads(engine, many, phrases=("no such words",))

    told = [re.search(r"Scan on first \(.*rows=(\d+)", each.text) for each in plans]
    looked_at = [int(rows[1]) for rows in told if rows]
    assert looked_at == [LOOKED_AT, LOOKED_AT, 2, LOOKED_AT, 0]


@pytest.mark.parametrize("tags", [["rare"], ["even"], ["rare", "even"], ["none"]])
async def test_what_a_filter_leaves_is_found_as_if_every_match_were_looked_at(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch, tags: list[str]
) -> None:
    before = await search(engine, many, Filter(tags=tags))

    look_at_few(monkeypatch)
    after = await search(engine, many, Filter(tags=tags))

    assert [each.score for each in after] == [each.score for each in before]


@pytest.mark.parametrize("tags", [["rare"], ["none"]])
async def test_a_filter_that_leaves_few_loses_none_of_them_though_a_word_is_read_in_part(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch, tags: list[str]
) -> None:
    before = await search(engine, many, Filter(tags=tags))

    await read_few(engine, many, monkeypatch)
    after = await search(engine, many, Filter(tags=tags))

    assert after == before


async def test_a_phrase_is_found_far_below_the_best_matches(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_few(monkeypatch)

    found = await leads(engine, many, phrases=("green tea",))

    assert [each.has_phrases for each in found.seen] == [True, False, False]
    assert found.seen[0].opening.startswith("Number 8 ")


async def test_a_very_common_word_is_read_in_part_and_is_worth_the_same(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {each.id: each for each in await search(engine, many, limit=100)}

    await read_few(engine, many, monkeypatch)
    found = await leads(engine, many)
    after = await search(engine, many, limit=100)

    assert len(found.worth) == MOST_POSTINGS
    assert len(before) == 40
    for each in after:
        assert each.score == pytest.approx(before[each.id].score)
        assert each.coverage == pytest.approx(before[each.id].coverage)


async def test_what_is_near_in_meaning_is_asked_for_a_word_that_was_read_in_part(
    engine: Engine, many: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await work(engine)
    before = {each.id: each.score for each in await search(engine, many, limit=100)}
    asked = await spaces.embed_query(engine, many.workspace_id, "user")
    assert asked

    await read_few(engine, many, monkeypatch)
    found = await leads(engine, many)
    async with engine.reading(many) as db:
        matches, _ = await words.around(
            db, many, found, asked.point, ANY, limit=100, now=engine.now()
        )

    assert {each.id: each.score for each in matches} == pytest.approx(before)


async def test_a_very_common_word_of_documents_is_read_in_part(
    engine: Engine, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        await upload(engine, caller, f"{number}.txt", f"The user of day {number}")
    await work(engine)
    monkeypatch.setattr(chunks, "MOST_POSTINGS", 2)

    async with engine.reading(caller) as db:
        found = await chunks.matching(db, caller, USER, limit=10)

    assert list(found.values()) == [1.0, 1.0]
