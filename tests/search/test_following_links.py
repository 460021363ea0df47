"""Following links from a hub: only visible links count, and few of them are read."""

import re
from typing import Any

import pytest

from recollect.core.domain import NO_FILTER, Caller, Filter, MemoryId, Ref, Relation
from recollect.engine import Engine
from recollect.memories.links import Link
from recollect.memories.queries import links
from recollect.memories.queries.links import LinkStep
from recollect.memories.save import Save, save
from recollect.search.memory_graph import neighbours
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller, open_engine, single_embedder
from tests.support.plans import record_plans

pytestmark = pytest.mark.anyio

MOST = 200
MEMBERS = 10_000

# Inserted in one statement, because saving thousands of members takes too long.
_MEMBERS = """
    WITH member AS (
        INSERT INTO memory (
            workspace_id, id, code, org_id, user_id, content, content_digest, importance,
            importance_base, lifecycle, scope, origin, created_at, updated_at, deleted_at
        )
        SELECT %(workspace_id)s, gen_random_uuid(), left(replace(gen_random_uuid()::text, '-', ''), 24),
            %(org_id)s, %(user_id)s, 'member', '', 0.5, 0.5, 'permanent', %(scope)s, 'user',
            %(now)s, %(now)s, CASE WHEN %(is_forgotten)s THEN %(now)s::timestamptz END
        FROM generate_series(1, %(count)s)
        RETURNING id
    )
    INSERT INTO memory_link (
        workspace_id, id, source_id, target_id, relation, weight, is_authored, created_at
    )
    SELECT %(workspace_id)s, gen_random_uuid(), id, %(hub_id)s, 'part_of', %(weight)s, true, %(now)s
    FROM member
"""


async def save_text(engine: Engine, caller: Caller, text: str, *links_wanted: Link) -> MemoryId:
    return (
        await save(engine, caller, Save(text, links=links_wanted, wants_vector=False))
    ).memory.id


async def add_members(
    engine: Engine, caller: Caller, hub_id: MemoryId, count: int, **options: Any
) -> None:
    """Insert memories that are a part of the hub."""
    values: dict[str, Any] = {
        "workspace_id": caller.workspace_id,
        "org_id": caller.org_id,
        "user_id": caller.user_id,
        "hub_id": hub_id,
        "count": count,
        "weight": 0.5,
        "scope": "workspace",
        "is_forgotten": False,
        "now": engine.now(),
    }
    async with engine.writing(caller) as db:
        await db.execute(_MEMBERS, values | options)


async def follow(
    engine: Engine, caller: Caller, *ids: MemoryId, wanted: Filter = NO_FILTER
) -> list[LinkStep]:
    async with engine.searching(caller) as db:
        return await links.follow(db, caller, ids, wanted, limit=MOST, now=engine.now())


@pytest.mark.parametrize("weight", [0.9, 0.5, 0.1])
async def test_many_parts_of_a_memory_do_not_crowd_out_its_cause(
    engine: Engine, caller: Caller, weight: float
) -> None:
    cause = await save_text(engine, caller, "the cause")
    hub = await save_text(engine, caller, "hub", Link(Ref(id=cause), Relation.CAUSED_BY, weight))
    await add_members(engine, caller, hub, 250)

    steps = await follow(engine, caller, hub)

    assert cause in {step.end_id for step in steps if step.hop == 1}
    assert len([step for step in steps if step.hop == 1]) == MOST


async def test_invisible_links_do_not_use_up_the_limit(engine: Engine, caller: Caller) -> None:
    colleague = await add_colleague(engine, caller)
    hub = await save_text(engine, caller, "hub")
    await add_members(engine, colleague, hub, 300, weight=0.9, scope="global")
    part = await save_text(engine, caller, "a part", Link(Ref(id=hub), Relation.PART_OF, 0.2))

    steps = await follow(engine, caller, hub)

    assert [step.end_id for step in steps] == [part]


async def test_filtered_out_links_do_not_use_up_the_limit(engine: Engine, caller: Caller) -> None:
    hub = await save_text(engine, caller, "hub")
    await add_members(engine, caller, hub, 150, weight=0.9)
    ask = Save("a part", tags=["wanted"], links=[Link(Ref(id=hub), Relation.PART_OF, 0.2)])
    part = (await save(engine, caller, ask)).memory.id

    steps = await follow(engine, caller, hub, wanted=Filter(tags=["wanted"]))

    assert [step.end_id for step in steps] == [part]


async def test_the_second_hop_is_not_crowded_out_either(engine: Engine, caller: Caller) -> None:
    hub, far = await save_text(engine, caller, "hub"), await save_text(engine, caller, "far away")
    await add_members(engine, caller, hub, 250, weight=0.9)
    near = await save_text(engine, caller, "near", Link(Ref(id=far), Relation.CAUSED_BY, 0.2))
    seed = await save_text(engine, caller, "seed", Link(Ref(id=hub)), Link(Ref(id=near)))

    steps = await follow(engine, caller, seed)

    assert {step.end_id for step in steps if step.hop == 1} == {hub, near}
    assert far in {step.end_id for step in steps if step.hop == 2}
    assert seed not in {step.end_id for step in steps}


async def test_forgotten_neighbours_do_not_hide_a_live_one(engine: Engine, caller: Caller) -> None:
    hub = await save_text(engine, caller, "hub")
    await add_members(engine, caller, hub, 600, weight=0.9, is_forgotten=True)
    part = await save_text(engine, caller, "a part", Link(Ref(id=hub), Relation.PART_OF, 0.2))

    graph = await neighbours(engine, caller, Ref(id=hub), depth=1)

    assert [memory.id for memory in graph.memories] == [part]


async def test_private_neighbours_of_others_do_not_hide_the_callers_own(
    engine: Engine, caller: Caller
) -> None:
    colleague = await add_colleague(engine, caller)
    hub = await save_text(engine, caller, "hub")
    await add_members(engine, colleague, hub, 600, weight=0.9, scope="global")
    part = await save_text(engine, caller, "a part", Link(Ref(id=hub), Relation.PART_OF, 0.2))

    graph = await neighbours(engine, caller, Ref(id=hub), depth=1)

    assert [memory.id for memory in graph.memories] == [part]


@pytest.mark.parametrize("is_analysed", [True, False])
async def test_thousands_of_links_of_a_hub_are_read_at_most_once(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock, *, is_analysed: bool
) -> None:
    """In a database of its own: the plan depends on the statistics of all rows."""
    async with open_engine(databases.clone(), single_embedder(embedder), clock) as engine:
        caller = await new_caller(engine)
        await check_links_read(engine, caller, is_analysed=is_analysed)


async def check_links_read(engine: Engine, caller: Caller, *, is_analysed: bool) -> None:
    hub = await save_text(engine, caller, "hub")
    unlinked = [await save_text(engine, caller, f"memory {number}") for number in range(10)]
    await add_members(engine, caller, hub, MEMBERS)

    async with engine.pool.writing(caller.workspace_id) as db:
        if is_analysed:
            await db.execute("ANALYZE memory_link")
        with record_plans("ANALYZE, TIMING OFF, COSTS OFF") as plans:
            seeds = [hub, *unlinked]
            steps = await links.follow(db, caller, seeds, NO_FILTER, limit=MOST, now=engine.now())

    assert len(steps) == MOST
    plan = plans[0].text
    scans = re.findall(r" on memory_link \w+ \(actual rows=([\d.]+) loops=(\d+)\)", plan)
    assert scans
    # A few hundred. A plan may sort all links once, but never once per memory without links.
    assert sum(float(rows) * int(loops) for rows, loops in scans) < 1.2 * MEMBERS
    assert "Seq Scan on memory_link" not in plan
