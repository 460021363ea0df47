"""Parts of words: the last resort of a search when no memory has any of the query's words."""

import pytest

from recollect.core.domain import NO_FILTER, Caller
from recollect.engine import Engine
from recollect.keywords.queries import substrings
from recollect.memories.save import Save, save

pytestmark = pytest.mark.anyio


async def count_matches(engine: Engine, caller: Caller, fragments: list[str]) -> int:
    """Save one memory and return how many memories contain the fragments."""
    text = "A kettle, a teapot, a doughnut and spoons"
    await save(engine, caller, Save(content=text, category="fact"))
    async with engine.reading(caller) as db:
        matches = await substrings.containing(
            db, caller, fragments, NO_FILTER, None, limit=10, now=engine.now()
        )
    return len(matches)


@pytest.mark.parametrize("fragments", [["ETTLE"], ["ettl", "eapo"], ["ettl", "eapo", "ughn"]])
async def test_one_to_three_parts_of_words_are_searched(
    engine: Engine, caller: Caller, fragments: list[str]
) -> None:
    assert await count_matches(engine, caller, fragments) == 1


@pytest.mark.parametrize("fragments", [[], ["ettl", "eapo", "ughn", "poon"]])
async def test_a_query_with_more_parts_finds_nothing(
    engine: Engine, caller: Caller, fragments: list[str]
) -> None:
    assert await count_matches(engine, caller, fragments) == 0


async def test_the_text_must_contain_every_part(engine: Engine, caller: Caller) -> None:
    assert await count_matches(engine, caller, ["ettl", "fork"]) == 0
