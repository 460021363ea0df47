"""Which links a search follows where there are more than it can."""

import pytest

from recollect.domain import ANY, Caller, MemoryId, Ref, Relation
from recollect.engine.core import Engine
from recollect.engine.forget import forget
from recollect.engine.link import Link, link
from recollect.engine.save import Save, save
from recollect.store import links

pytestmark = pytest.mark.anyio

# As many as a search follows of all together.
MOST = 20


async def say(engine: Engine, caller: Caller, text: str) -> MemoryId:
    return (await save(engine, caller, Save(text))).memory.id


async def tie(
    engine: Engine,
    caller: Caller,
    one: MemoryId,
    other: MemoryId,
    relation: Relation,
    weight: float,
) -> None:
    await link(engine, caller, Ref(id=one), Link(Ref(id=other), relation, weight))


async def reached(engine: Engine, caller: Caller, *seeds: MemoryId) -> dict[MemoryId, int]:
    """What the seeds lead to, and in how many hops."""
    async with engine.reading(caller) as db:
        steps = await links.follow(db, caller, seeds, ANY, most=MOST, now=engine.now())
    return {step.end_id: step.hop for step in reversed(steps)}


@pytest.mark.parametrize("is_hub_first", [True, False])
async def test_a_hub_crowds_out_nothing_that_another_memory_leads_to(
    engine: Engine, caller: Caller, *, is_hub_first: bool
) -> None:
    # Ids are random, and so is which of the two comes first: both are tried in both places.
    one, other = sorted([await say(engine, caller, name) for name in ("Apollo", "Launch")])
    hub, decision = (one, other) if is_hub_first else (other, one)
    for number in range(2 * MOST):
        member = await say(engine, caller, f"Part {number}")
        await tie(engine, caller, member, hub, Relation.PART_OF, 0.5)
    cause = await say(engine, caller, "The window closes in May")
    await tie(engine, caller, decision, cause, Relation.CAUSED_BY, 1.0)

    found = await reached(engine, caller, hub, decision)

    assert found[cause] == 1
    assert sum(hop == 1 for hop in found.values()) == MOST


async def test_what_is_forgotten_takes_up_no_room_among_the_links(
    engine: Engine, caller: Caller
) -> None:
    hub = await say(engine, caller, "Apollo")
    for number in range(MOST + 5):
        member = await say(engine, caller, f"Part {number}")
        await tie(engine, caller, member, hub, Relation.PART_OF, 0.9)
        await forget(engine, caller, Ref(id=member))
    weak = await say(engine, caller, "The last part")
    await tie(engine, caller, weak, hub, Relation.PART_OF, 0.1)

    assert await reached(engine, caller, hub) == {weak: 1}
    async with engine.reading(caller) as db:
        [shown] = await links.touching(db, caller.workspace_id, [hub], limit=MOST)
    assert shown.source_id == weak


async def test_of_one_memorys_links_the_strongest_are_followed(
    engine: Engine, caller: Caller
) -> None:
    hub = await say(engine, caller, "Apollo")
    members = [await say(engine, caller, f"Part {number}") for number in range(MOST + 10)]
    for number, member in enumerate(members):
        await tie(engine, caller, hub, member, Relation.RELATED_TO, (number + 1) / 100)

    assert set(await reached(engine, caller, hub)) == set(members[-MOST:])
