"""One predicate decides who sees what. Here it stands against a plain one, ten thousand times.

A house of two orgs is drawn: who is in which project, what is archived, whose the memories are.
Then everybody looks from everywhere, and each look must show what a few lines of Python say.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.domain import (
    ANY,
    NOWHERE,
    AgentId,
    Association,
    Caller,
    Memory,
    MemoryId,
    ProjectId,
    Ref,
    Relation,
    Scope,
    Thread,
    ThreadId,
    UserId,
    new_code,
)
from recollect.engine.core import Engine
from recollect.engine.save import content_digest
from recollect.models.registry import Embedders
from recollect.store import identity, links, memories, projects, threads, vectors, words
from recollect.store.bm25 import Word
from recollect.store.vectors import Point
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.house import new_caller, open_house

HOUSES, LOOKS = 40, 250  # of each house, so many looks: ten thousand
PROJECTS, AGENTS, THREADS, USERS = 2, 2, 3, 3
DIMENSION = 4

index = st.integers(min_value=0, max_value=7)
memory_draws = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(list(Scope)),
        "workspace": index,
        "user": index,
        "project": index,
        "agent": index,
        "thread": index,
        "is_deleted": st.sampled_from([False, False, False, True]),
        "is_expired": st.sampled_from([False, False, False, True]),
    }
)
look_draws = st.fixed_dictionaries(
    {
        "workspace": index,
        "user": index,
        "project": st.none() | index,
        "agent": st.none() | index,
        "thread": st.none() | index,
        "is_visiting": st.sampled_from([False, False, True]),
        "is_nowhere": st.sampled_from([False] * 9 + [True]),
    }
)
house_draws = st.fixed_dictionaries(
    {
        "members": st.sets(st.tuples(index, index, index), max_size=10),
        "archived": st.sets(st.tuples(index, index), max_size=1),
        "memories": st.lists(memory_draws, min_size=4, max_size=14),
        "looks": st.lists(look_draws, min_size=LOOKS, max_size=LOOKS),
    }
)


@dataclass(frozen=True, slots=True)
class Place:
    """A workspace with its circles."""

    caller: Caller
    users: list[UserId]
    projects: list[ProjectId]
    agents: list[AgentId]
    threads: list[ThreadId]


@dataclass(frozen=True, slots=True)
class House:
    places: list[Place]
    members: set[tuple[UUID, UUID]]
    archived: set[UUID]
    memories: list[Memory]


def pick(options: list[Any], number: int | None) -> Any:
    return None if number is None else options[number % len(options)]


def is_visible(house: House, caller: Caller, memory: Memory, clock: Clock) -> bool:
    """The rule, said once more and plainly."""
    if memory.workspace_id != caller.workspace_id or memory.deleted_at:
        return False
    if memory.expires_at and memory.expires_at <= clock.at:
        return False
    match memory.scope:
        case Scope.WORKSPACE:
            return not caller.is_visiting
        case Scope.GLOBAL:
            return memory.user_id == caller.user_id
        case Scope.PROJECT:
            if caller.project_id:
                return memory.project_id == caller.project_id
            is_member = (memory.project_id, caller.user_id) in house.members
            return is_member and memory.project_id not in house.archived
        case Scope.AGENT:
            return caller.agent_id is not None and memory.agent_id == caller.agent_id
        case Scope.THREAD:
            return caller.thread_id is not None and memory.thread_id == caller.thread_id


async def build(engine: Engine, clock: Clock, drawn: dict[str, Any]) -> House:
    """The house as drawn: two workspaces of one org, a third of another."""
    first, other = await new_caller(engine), await new_caller(engine)
    async with engine.pool.everywhere() as db:
        second = await identity.add_workspace(db, first.org_id, "second")
        colleagues = [
            await identity.add_user(db, org, uuid4().hex, password_hash=None, is_admin=False)
            for org in (first.org_id, first.org_id, other.org_id, other.org_id)
        ]
    users = [first.user_id, *colleagues[:2]]
    homes = [
        (first, users),
        (replace(first, workspace_id=second), users),
        (other, [other.user_id, *colleagues[2:]]),
    ]
    places = [await furnish(engine, clock, caller, people) for caller, people in homes]
    house = House(places, set(), set(), [])
    for place_number, project_number, user_number in drawn["members"]:
        place = pick(places, place_number)
        project, user = pick(place.projects, project_number), pick(place.users, user_number)
        async with engine.writing(place.caller) as db:
            await projects.add_member(db, place.caller.workspace_id, project, user, clock.at)
        house.members.add((project, user))
    for place_number, project_number in drawn["archived"]:
        place = pick(places, place_number)
        project = pick(place.projects, project_number)
        async with engine.writing(place.caller) as db:
            await projects.archive_project(db, place.caller.workspace_id, project, clock.at)
        house.archived.add(project)
    for number, each in enumerate(drawn["memories"]):
        house.memories.append(await put(engine, clock, places, each, number))
    for place in places:
        await link_all(engine, clock, house, place.caller)
    return house


async def link_all(engine: Engine, clock: Clock, house: House, caller: Caller) -> None:
    """A ring through every memory of a workspace."""
    ids = [each.id for each in house.memories if each.workspace_id == caller.workspace_id]
    async with engine.writing(caller) as db:
        for start, end in zip(ids, ids[1:] + ids[:1], strict=True):
            if start != end:
                association = Association(
                    uuid4(), start, end, Relation.RELATED_TO, 0.5, True, clock.at
                )
                await links.put(db, caller.workspace_id, association)


async def furnish(engine: Engine, clock: Clock, caller: Caller, users: list[UserId]) -> Place:
    workspace_id = caller.workspace_id
    async with engine.writing(caller) as db:
        made = [
            await projects.add_project(db, workspace_id, f"project {number}", clock.at)
            for number in range(PROJECTS)
        ]
        agents = [
            await projects.add_agent(
                db, workspace_id, f"agent {number}", project_id=None, now=clock.at
            )
            for number in range(AGENTS)
        ]
        opened = [ThreadId(uuid4()) for _ in range(THREADS)]
        for thread_id in opened:
            await threads.insert(
                db,
                Thread(
                    id=thread_id,
                    code=new_code(),
                    workspace_id=workspace_id,
                    agent=None,
                    subject=None,
                    metadata={},
                    state={},
                    state_version=0,
                    created_at=clock.at,
                    updated_at=clock.at,
                ),
            )
    return Place(caller, users, [p for p in made if p], [a for a in agents if a], opened)


async def put(
    engine: Engine, clock: Clock, places: list[Place], drawn: dict[str, Any], number: int
) -> Memory:
    """A memory as drawn, with words, a vector, and a link to nothing yet."""
    place: Place = pick(places, drawn["workspace"])
    memory = Memory(
        id=MemoryId(uuid4()),
        code=new_code(),
        workspace_id=place.caller.workspace_id,
        org_id=place.caller.org_id,
        user_id=pick(place.users, drawn["user"]),
        project_id=pick(place.projects, drawn["project"]),
        agent_id=pick(place.agents, drawn["agent"]),
        thread_id=pick(place.threads, drawn["thread"]),
        content=f"the same thing {number}",
        created_at=clock.at + timedelta(microseconds=number),
        updated_at=clock.at,
        scope=drawn["scope"],
        expires_at=clock.at if drawn["is_expired"] else None,
    )
    workspace_id = memory.workspace_id
    async with engine.writing(place.caller) as db:
        await memories.insert(db, memory, content_digest(memory.content))
        await words.insert(db, workspace_id, memory.id, {"same": 1, f"number{number}": 1})
        await vectors.insert(
            db, workspace_id, memory.id, 1, pseudo_random(memory.content, DIMENSION)
        )
        if drawn["is_deleted"]:
            await memories.hide(db, workspace_id, memory.id, reason=None, now=clock.at)
            memory = replace(memory, deleted_at=clock.at)
    return memory


def looker(house: House, drawn: dict[str, Any]) -> Caller:
    """Somebody somewhere, inside what was drawn; that they may be there is checked elsewhere."""
    place: Place = pick(house.places, drawn["workspace"])
    return replace(
        place.caller,
        user_id=pick(place.users, drawn["user"]),
        workspace_id=NOWHERE if drawn["is_nowhere"] else place.caller.workspace_id,
        project_id=pick(place.projects, drawn["project"]),
        agent_id=pick(place.agents, drawn["agent"]),
        thread_id=pick(place.threads, drawn["thread"]),
        is_visiting=drawn["is_visiting"],
    )


async def seen_by(engine: Engine, caller: Caller, house: House, way: int) -> set[MemoryId]:
    """What this caller finds, by one of the ways there are to find anything."""
    now = engine.now()
    every = [memory.id for memory in house.memories]
    async with engine.reading(caller) as db:
        match way % 9:
            case 0:
                return {
                    each
                    for each in every
                    if await memories.find(db, caller, Ref(id=each), now) is not None
                }
            case 1:
                return set(await memories.find_all(db, caller, every, now))
            case 2:
                found = await memories.page(db, caller, ANY, after=None, limit=100, now=now)
                return {memory.id for memory in found}
            case 3:
                found = await memories.browse(
                    db, caller, ANY, order="importance", limit=100, now=now
                )
                assert await memories.count(db, caller, ANY, now) == len(found)
                return {memory.id for memory in found}
            case 4:
                point = Point(1, pseudo_random("anything", DIMENSION))
                near = await vectors.candidates(db, caller, point, ANY, limit=100, now=now)
                whole = await vectors.nearest(db, caller, point, ANY, limit=100, now=now)
                assert {each.memory.id for each in whole} == {each.id for each in near}
                return {each.id for each in near}
            case 5:
                matches = await words.search(db, caller, [Word(("same",))], ANY, limit=100, now=now)
                return {each.id for each in matches}
            case 6:
                point = Point(1, pseudo_random("anything", DIMENSION))
                leads = await words.leads(db, caller, [Word(("same",))], ANY, limit=1, now=now)
                around = await words.around(db, caller, leads, point, ANY, limit=100, now=now)
                assert {each.id for each in leads.seen} <= {each.id for each in around.matches}
                return {each.id for each in around.matches}
            case 7:
                steps = await links.follow(db, caller, every, ANY, most=500, now=now)
                ends = {step.end_id for step in steps}
                alone = set(every) - {step.start_id for step in steps} - ends
                known = await memories.find_all(db, caller, list(alone), now)
                # One that has no other to be linked to is reached by no link.
                assert len(known) <= 1
                return ends | set(known)
            case _:
                matches = await words.containing(
                    db, caller, ["same"], ANY, None, limit=100, now=now
                )
                return {each.id for each in matches}


@pytest.fixture(scope="module")
def visibility_url(databases: TestDatabases) -> str:
    return databases.clone()


def test_R289_to_R295_ten_thousand_looks_show_what_the_plain_rule_says(
    visibility_url: str,
) -> None:
    looks = count()

    @settings(
        max_examples=HOUSES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(house_draws)
    def property_holds(drawn: dict[str, Any]) -> None:
        anyio.run(look_around, drawn)

    async def look_around(drawn: dict[str, Any]) -> None:
        clock = Clock()
        stub = StubEmbedder(dimension=DIMENSION)
        async with open_house(visibility_url, Embedders(stub), clock) as engine:
            house = await build(engine, clock, drawn)
            for each in drawn["looks"]:
                caller = looker(house, each)
                expected = {
                    memory.id
                    for memory in house.memories
                    if is_visible(house, caller, memory, clock)
                }
                assert await seen_by(engine, caller, house, next(looks)) == expected

    property_holds()

    assert next(looks) >= HOUSES * LOOKS
