"""Parts of words, the last resort of a search that knows none of the words asked for."""

import pytest

from recollect.domain import ANY, Caller
from recollect.engine.core import Engine
from recollect.engine.save import Save, save
from recollect.store import words

pytestmark = pytest.mark.anyio


async def found(engine: Engine, caller: Caller, fragments: list[str]) -> int:
    """How many memories hold the fragments, of one."""
    text = "A kettle, a teapot, a doughnut and spoons"
    await save(engine, caller, Save(content=text, category="fact"))
    async with engine.reading(caller) as db:
        matches = await words.containing(
            db, caller, fragments, ANY, None, limit=10, now=engine.now()
        )
    return len(matches)


@pytest.mark.parametrize("fragments", [["ETTLE"], ["ettl", "eapo"], ["ettl", "eapo", "ughn"]])
async def test_one_to_three_parts_of_words_are_looked_for(
    engine: Engine, caller: Caller, fragments: list[str]
) -> None:
    assert await found(engine, caller, fragments) == 1


@pytest.mark.parametrize("fragments", [[], ["ettl", "eapo", "ughn", "poon"]])
async def test_no_whole_workspace_is_read_for_a_longer_question(
    engine: Engine, caller: Caller, fragments: list[str]
) -> None:
    assert await found(engine, caller, fragments) == 0


async def test_every_part_has_to_stand_in_the_text(engine: Engine, caller: Caller) -> None:
    assert await found(engine, caller, ["ettl", "fork"]) == 0
