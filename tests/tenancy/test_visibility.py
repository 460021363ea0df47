"""The visibility predicate in SQL agrees with a plain one in Python, in ten thousand queries.

Hypothesis draws an instance with two orgs: project members, archived projects and memories. Then
drawn callers query it in every way, and each result must match `is_visible`.
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

from recollect.conversations.queries import threads
from recollect.core.domain import (
    NO_FILTER,
    NO_WORKSPACE,
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
from recollect.embeddings.queries import vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.keywords.bm25 import Word
from recollect.keywords.queries import keyword_neighbours, keyword_search, postings, substrings
from recollect.memories.queries import links, memories
from recollect.memories.save import content_digest
from recollect.models.embedder_registry import Embedders
from recollect.tenancy.queries import projects, users, workspaces
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, pseudo_random
from tests.support.instance import new_caller, open_engine

INSTANCES, QUERIES = 40, 250  # queries per instance: ten thousand in total
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
query_draws = st.fixed_dictionaries(
    {
        "workspace": index,
        "user": index,
        "project": st.none() | index,
        "agent": st.none() | index,
        "thread": st.none() | index,
        "is_guest": st.sampled_from([False, False, True]),
        "sees_only_own": st.sampled_from([False, False, True]),
        "is_nowhere": st.sampled_from([False] * 9 + [True]),
    }
)
instance_draws = st.fixed_dictionaries(
    {
        "members": st.sets(st.tuples(index, index, index), max_size=10),
        "archived": st.sets(st.tuples(index, index), max_size=1),
        "memories": st.lists(memory_draws, min_size=4, max_size=14),
        "queries": st.lists(query_draws, min_size=QUERIES, max_size=QUERIES),
    }
)


@dataclass(frozen=True, slots=True)
class FilledWorkspace:
    """A workspace with its users, projects, agents and threads."""

    caller: Caller
    users: list[UserId]
    projects: list[ProjectId]
    agents: list[AgentId]
    threads: list[ThreadId]


@dataclass(frozen=True, slots=True)
class FilledInstance:
    workspaces: list[FilledWorkspace]
    members: set[tuple[UUID, UUID]]
    archived: set[UUID]
    memories: list[Memory]


def pick(options: list[Any], number: int | None) -> Any:
    return None if number is None else options[number % len(options)]


def is_visible(instance: FilledInstance, caller: Caller, memory: Memory, clock: Clock) -> bool:
    """Whether a caller may see a memory: the same rule as the SQL, in Python."""
    if memory.workspace_id != caller.workspace_id or memory.deleted_at:
        return False
    if memory.expires_at and memory.expires_at <= clock.at:
        return False
    is_shown = not caller.sees_only_own or memory.user_id == caller.user_id
    match memory.scope:
        case Scope.WORKSPACE:
            return not caller.is_guest and is_shown
        case Scope.GLOBAL:
            return memory.user_id == caller.user_id
        case Scope.PROJECT:
            if caller.project_id:
                return memory.project_id == caller.project_id
            is_member = (memory.project_id, caller.user_id) in instance.members
            return is_member and memory.project_id not in instance.archived
        case Scope.AGENT:
            return caller.agent_id is not None and memory.agent_id == caller.agent_id
        case Scope.THREAD:
            is_inside = caller.thread_id is not None and memory.thread_id == caller.thread_id
            return is_inside and is_shown


async def build(engine: Engine, clock: Clock, drawn: dict[str, Any]) -> FilledInstance:
    """Build the drawn instance: two workspaces of one org, and one of another."""
    first, other = await new_caller(engine), await new_caller(engine)
    async with engine.pool.everywhere() as db:
        second = await workspaces.add_workspace(db, first.org_id, "second")
        colleagues = [
            await users.add_user(db, org, uuid4().hex, password_hash=None, is_admin=False)
            for org in (first.org_id, first.org_id, other.org_id, other.org_id)
        ]
    first_users = [first.user_id, *colleagues[:2]]
    owners = [
        (first, first_users),
        (replace(first, workspace_id=second), first_users),
        (other, [other.user_id, *colleagues[2:]]),
    ]
    filled = [await fill_workspace(engine, clock, caller, people) for caller, people in owners]
    instance = FilledInstance(filled, set(), set(), [])
    for workspace_number, project_number, user_number in drawn["members"]:
        workspace = pick(filled, workspace_number)
        project, user = pick(workspace.projects, project_number), pick(workspace.users, user_number)
        async with engine.writing(workspace.caller) as db:
            await projects.add_member(db, workspace.caller.workspace_id, project, user, clock.at)
        instance.members.add((project, user))
    for workspace_number, project_number in drawn["archived"]:
        workspace = pick(filled, workspace_number)
        project = pick(workspace.projects, project_number)
        async with engine.writing(workspace.caller) as db:
            await projects.archive_project(db, workspace.caller.workspace_id, project, clock.at)
        instance.archived.add(project)
    for number, each in enumerate(drawn["memories"]):
        instance.memories.append(await add_memory(engine, clock, filled, each, number))
    for workspace in filled:
        await link_all(engine, clock, instance, workspace.caller)
    return instance


async def link_all(engine: Engine, clock: Clock, instance: FilledInstance, caller: Caller) -> None:
    """Link all memories of a workspace in a cycle."""
    ids = [each.id for each in instance.memories if each.workspace_id == caller.workspace_id]
    async with engine.writing(caller) as db:
        for start, end in zip(ids, ids[1:] + ids[:1], strict=True):
            if start != end:
                association = Association(
                    uuid4(), start, end, Relation.RELATED_TO, 0.5, True, clock.at
                )
                await links.put(db, caller.workspace_id, association)


async def fill_workspace(
    engine: Engine, clock: Clock, caller: Caller, users: list[UserId]
) -> FilledWorkspace:
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
    return FilledWorkspace(caller, users, [p for p in made if p], [a for a in agents if a], opened)


async def add_memory(
    engine: Engine, clock: Clock, filled: list[FilledWorkspace], drawn: dict[str, Any], number: int
) -> Memory:
    """Store a drawn memory with its words and its vector, without links."""
    workspace: FilledWorkspace = pick(filled, drawn["workspace"])
    memory = Memory(
        id=MemoryId(uuid4()),
        code=new_code(),
        workspace_id=workspace.caller.workspace_id,
        org_id=workspace.caller.org_id,
        user_id=pick(workspace.users, drawn["user"]),
        project_id=pick(workspace.projects, drawn["project"]),
        agent_id=pick(workspace.agents, drawn["agent"]),
        thread_id=pick(workspace.threads, drawn["thread"]),
        content=f"the same thing {number}",
        created_at=clock.at + timedelta(microseconds=number),
        updated_at=clock.at,
        scope=drawn["scope"],
        expires_at=clock.at if drawn["is_expired"] else None,
    )
    workspace_id = memory.workspace_id
    async with engine.writing(workspace.caller) as db:
        await memories.insert(db, memory, content_digest(memory.content))
        await postings.insert(db, workspace_id, memory.id, {"same": 1, f"number{number}": 1})
        await vectors.insert(
            db, workspace_id, memory.id, 1, pseudo_random(memory.content, DIMENSION)
        )
        if drawn["is_deleted"]:
            await memories.soft_delete(db, workspace_id, memory.id, reason=None, now=clock.at)
            memory = replace(memory, deleted_at=clock.at)
    return memory


def drawn_caller(instance: FilledInstance, drawn: dict[str, Any]) -> Caller:
    """A caller in the drawn scope; other tests check which scopes a caller may use."""
    workspace: FilledWorkspace = pick(instance.workspaces, drawn["workspace"])
    return replace(
        workspace.caller,
        user_id=pick(workspace.users, drawn["user"]),
        workspace_id=NO_WORKSPACE if drawn["is_nowhere"] else workspace.caller.workspace_id,
        project_id=pick(workspace.projects, drawn["project"]),
        agent_id=pick(workspace.agents, drawn["agent"]),
        thread_id=pick(workspace.threads, drawn["thread"]),
        is_guest=drawn["is_guest"],
        sees_only_own=drawn["sees_only_own"],
    )


async def find_visible(
    engine: Engine, caller: Caller, instance: FilledInstance, way: int
) -> set[MemoryId]:
    """The memories that this caller finds, with one of the nine kinds of query."""
    now = engine.now()
    every = [memory.id for memory in instance.memories]
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
                found = await memories.page(db, caller, NO_FILTER, after=None, limit=100, now=now)
                return {memory.id for memory in found}
            case 3:
                found = await memories.browse(
                    db, caller, NO_FILTER, order="importance", limit=100, now=now
                )
                assert await memories.count(db, caller, NO_FILTER, now) == len(found)
                return {memory.id for memory in found}
            case 4:
                point = QueryVector(1, pseudo_random("anything", DIMENSION))
                near = await vectors.candidates(db, caller, point, NO_FILTER, limit=100, now=now)
                whole = await vectors.nearest(db, caller, point, NO_FILTER, limit=100, now=now)
                assert {each.memory.id for each in whole} == {each.id for each in near}
                return {each.id for each in near}
            case 5:
                matches = await keyword_search.search(
                    db, caller, [Word(("same",))], NO_FILTER, limit=100, now=now
                )
                return {each.id for each in matches}
            case 6:
                point = QueryVector(1, pseudo_random("anything", DIMENSION))
                leads = await keyword_search.find_leads(
                    db, caller, [Word(("same",))], NO_FILTER, limit=1, now=now
                )
                around = await keyword_neighbours.find_around(
                    db, caller, leads, point, NO_FILTER, limit=100, now=now
                )
                assert {each.id for each in leads.seen} <= {each.id for each in around.matches}
                return {each.id for each in around.matches}
            case 7:
                steps = await links.follow(db, caller, every, NO_FILTER, limit=500, now=now)
                ends = {step.end_id for step in steps}
                alone = set(every) - {step.start_id for step in steps} - ends
                known = await memories.find_all(db, caller, list(alone), now)
                # The only memory of a workspace has no link.
                assert len(known) <= 1
                return ends | set(known)
            case _:
                matches = await substrings.containing(
                    db, caller, ["same"], NO_FILTER, None, limit=100, now=now
                )
                return {each.id for each in matches}


@pytest.fixture(scope="module")
def visibility_url(databases: TestDatabases) -> str:
    return databases.clone()


def test_R289_R290_R291_R292_R293_R294_R295_every_query_shows_exactly_the_visible_memories(
    visibility_url: str,
) -> None:
    queries = count()

    @settings(
        max_examples=INSTANCES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(instance_draws)
    def property_holds(drawn: dict[str, Any]) -> None:
        anyio.run(run_queries, drawn)

    async def run_queries(drawn: dict[str, Any]) -> None:
        clock = Clock()
        stub = StubEmbedder(dimension=DIMENSION)
        async with open_engine(visibility_url, Embedders(stub), clock) as engine:
            instance = await build(engine, clock, drawn)
            for each in drawn["queries"]:
                caller = drawn_caller(instance, each)
                expected = {
                    memory.id
                    for memory in instance.memories
                    if is_visible(instance, caller, memory, clock)
                }
                assert await find_visible(engine, caller, instance, next(queries)) == expected

    property_holds()

    assert next(queries) >= INSTANCES * QUERIES
