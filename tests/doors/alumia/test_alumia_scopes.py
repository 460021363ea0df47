"""Who sees a key/value memory: users, projects, agents, workspaces, orgs."""

from typing import Any
from uuid import UUID

import httpx2
import pytest

from recollect.domain import Caller
from recollect.engine.core import Engine
from recollect.engine.keys import create_key
from recollect.server import Server
from recollect.store import identity, projects
from tests.support.alumia import (
    client_of,
    colleague,
    complaint,
    kept,
    new_agent,
    new_project,
    recalled,
    session,
    switch_workspaces,
    values,
)
from tests.support.house import neighbour, new_caller, visit

pytestmark = pytest.mark.anyio

ABSENT = (404, "NOT_FOUND")


async def seen(http: httpx2.AsyncClient, memory: dict[str, Any], **names: str) -> bool:
    """Whether a memory is there for get, list and recall: all three say the same."""
    path = f"/api/v1/memories/{memory['id']}"
    got = (await http.get(path, params=names)).status_code == 200
    listed = memory["value"] in await values(http, limit=100, **names)
    found = memory["value"] in await recalled(http, memory["value"], limit=50, **names)
    assert got == listed == found
    return got


async def test_R290_global_is_its_users_in_every_project(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await colleague(engine, caller)
    project = await new_project(engine, caller, other)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, other) as theirs,
    ):
        memory = await kept(ours, "a private thing")

        assert await seen(ours, memory)
        assert await seen(ours, memory, projectId=project)
        assert not await seen(theirs, memory)
        assert not await seen(theirs, memory, projectId=project)


async def test_R291_project_is_its_members_and_its_sessions(
    engine: Engine, server: Server, caller: Caller
) -> None:
    member, stranger = await colleague(engine, caller), await colleague(engine, caller)
    project = await new_project(engine, caller, member)
    elsewhere = await new_project(engine, caller, member, stranger)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, member) as theirs,
        client_of(engine, server, stranger) as strange,
    ):
        memory = await kept(ours, "the plan", scope="project", projectId=project)
        inside = await session(theirs, projectId=project)
        outside = await session(theirs, projectId=elsewhere)

        assert await seen(theirs, memory)
        assert await seen(theirs, memory, projectId=project)
        assert await seen(theirs, memory, sessionId=inside)
        assert not await seen(theirs, memory, sessionId=outside)
        assert not await seen(theirs, memory, projectId=elsewhere)
        assert not await seen(strange, memory)
        for names in ({"projectId": project}, {"sessionId": inside}):
            assert complaint(await strange.get("/api/v1/memories", params=names)) == ABSENT


async def test_R291_who_is_put_out_of_a_project_sees_nothing_more_at_once(
    engine: Engine, server: Server, caller: Caller
) -> None:
    member = await colleague(engine, caller)
    project = await new_project(engine, caller, member)
    async with client_of(engine, server, member) as theirs:
        memory = await kept(theirs, "the plan", scope="project", projectId=project)
        assert await seen(theirs, memory)

        async with engine.writing(caller) as db:
            await projects.remove_member(db, caller.workspace_id, UUID(project), member.user_id)

        assert not await seen(theirs, memory)


async def test_R292_agent_is_the_sessions_of_that_agent(
    engine: Engine, server: Server, caller: Caller
) -> None:
    agent, other = await new_agent(engine, caller), await new_agent(engine, caller)
    async with client_of(engine, server, caller) as http:
        memory = await kept(http, "how I speak", scope="agent", agentId=agent)
        inside, outside = await session(http, agentId=agent), await session(http, agentId=other)

        assert await seen(http, memory, sessionId=inside)
        assert await seen(http, memory, agentId=agent)
        assert not await seen(http, memory, sessionId=outside)
        assert not await seen(http, memory, agentId=other)
        assert not await seen(http, memory)


async def test_R293_R294_workspaces_bound_what_is_seen_when_they_are_on(
    engine: Engine, server: Server, caller: Caller
) -> None:
    elsewhere = await neighbour(engine, caller)
    await switch_workspaces(engine, caller, is_on=True)
    async with (
        client_of(engine, server, caller) as here,
        client_of(engine, server, elsewhere) as there,
    ):
        first, second = await kept(here, "said here"), await kept(there, "said there")
        assert [await seen(here, each) for each in (first, second)] == [True, False]
        assert [await seen(there, each) for each in (first, second)] == [False, True]

        await switch_workspaces(engine, caller, is_on=False)

        assert [await seen(here, each) for each in (first, second)] == [True, True]
        assert [await seen(there, each) for each in (first, second)] == [True, True]
        changed = await there.patch(f"/api/v1/memories/{first['id']}", json={"value": "changed"})
        assert changed.json()["data"]["workspaceId"] == str(caller.workspace_id)


async def test_R294_with_workspaces_off_a_key_is_one_row_in_the_whole_org(
    engine: Engine, server: Server, caller: Caller
) -> None:
    elsewhere = await neighbour(engine, caller)
    async with (
        client_of(engine, server, caller) as here,
        client_of(engine, server, elsewhere) as there,
    ):
        first = await kept(here, "London", key="home")
        second = await kept(there, "Paris", key="home")

        assert first["id"] == second["id"]
        assert await values(here) == await values(there) == ["Paris"]


async def test_N36_workspaces_on_with_none_active_deny_everything(
    engine: Engine, server: Server, caller: Caller
) -> None:
    await switch_workspaces(engine, caller, is_on=True)
    new = await create_key(engine, workspace=str(caller.workspace_id), is_unbound=True)
    async with (
        client_of(engine, server, caller) as http,
        visit(server, Authorization=f"Bearer {new.text}") as nowhere,
    ):
        memory = await kept(http, "said here")
        path = f"/api/v1/memories/{memory['id']}"

        assert await values(nowhere) == await recalled(nowhere, "said here") == []
        assert complaint(await nowhere.get(path)) == ABSENT
        assert complaint(await nowhere.delete(path)) == ABSENT
        refused = await nowhere.post("/api/v1/memories", json={"value": "v"})
        assert complaint(refused) == (422, "VALIDATION_ERROR")
        others = [
            await nowhere.get("/v1/memory"),
            await nowhere.get("/v1/sessions"),
            await nowhere.get("/v1/traces"),
        ]
        assert [answer.json()["data"] for answer in others] == [[], [], []]

        named = {"X-Alumia-Workspace": str(caller.workspace_id)}
        assert (await nowhere.get(path, headers=named)).status_code == 200


async def test_S23_a_header_only_narrows(engine: Engine, server: Server, caller: Caller) -> None:
    stranger, elsewhere = await new_caller(engine), await neighbour(engine, caller)
    await switch_workspaces(engine, caller, is_on=True)
    async with client_of(engine, server, caller) as http:
        await kept(http, "said here")
        for name, value in (
            ("X-Alumia-Org", stranger.org_id),
            ("X-Alumia-Workspace", stranger.workspace_id),
            ("X-Alumia-Workspace", elsewhere.workspace_id),
            ("X-Alumia-Workspace", "nonsense"),
        ):
            answer = await http.get("/api/v1/memories", headers={name: str(value)})
            assert complaint(answer) == ABSENT
        same = {
            "X-Alumia-Org": str(caller.org_id),
            "X-Alumia-Workspace": str(caller.workspace_id),
        }
        assert (await http.get("/api/v1/memories", headers=same)).status_code == 200


async def test_an_unbound_key_enters_only_workspaces_of_its_user(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await colleague(engine, caller)
    await switch_workspaces(engine, caller, is_on=True)
    new = await create_key(
        engine,
        workspace=str(caller.workspace_id),
        user=str(other.user_id),
        is_unbound=True,
    )
    named = {"X-Alumia-Workspace": str(caller.workspace_id)}
    async with visit(server, Authorization=f"Bearer {new.text}", **named) as http:
        assert complaint(await http.get("/api/v1/memories")) == ABSENT

        async with engine.pool.everywhere() as db:
            await identity.add_workspace_member(db, caller.workspace_id, other.user_id)

        assert await values(http) == []


async def test_R295_two_orgs_with_equal_data_see_their_own(
    engine: Engine, server: Server, caller: Caller
) -> None:
    stranger = await new_caller(engine)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, stranger) as theirs,
    ):
        memory = await kept(ours, "the same words", key="same")
        other = await kept(theirs, "the same words", key="same")

        assert memory["id"] != other["id"]
        for http, foreign in ((ours, other), (theirs, memory)):
            path = f"/api/v1/memories/{foreign['id']}"
            assert len(await values(http)) == len(await recalled(http, "same words")) == 1
            assert complaint(await http.get(path)) == ABSENT
            assert complaint(await http.patch(path, json={"value": "x"})) == ABSENT
            assert complaint(await http.delete(path)) == ABSENT
        assert await values(theirs) == ["the same words"]


async def test_other_doors_show_nobody_what_is_anothers(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, other) as theirs,
    ):
        memory = await kept(ours, "the colour is teal", key="colour")
        await kept(theirs, "something else")

        assert (await ours.get(f"/v1/memory/{memory['id']}")).status_code == 200
        assert (await theirs.get(f"/v1/memory/{memory['id']}")).status_code == 404
        assert (await theirs.delete(f"/v1/memory/{memory['id']}")).status_code == 404
        assert (
            await theirs.patch(f"/v1/memory/{memory['id']}", json={"content": "x"})
        ).status_code == 404
        answers = [
            await theirs.get("/v1/memory"),
            await theirs.get("/v1/traces"),
            await theirs.post("/v1/memory/search", json={"query": "the colour", "threshold": 0.0}),
            await theirs.get("/agents/memories", params={"agent_id": "default"}),
            await theirs.get("/agents/memories/graph", params={"agent_id": "default"}),
            await theirs.post("/v1/tools/memory_recall", json={"query": "the colour"}),
        ]
        assert "teal" not in "".join(answer.text for answer in answers)
        assert memory["id"] not in "".join(answer.text for answer in answers)
        forgotten = await theirs.post("/v1/tools/memory_delete", json={"memory_id": memory["id"]})
        assert forgotten.json()["forgotten"] is False
        assert await values(ours) == ["the colour is teal"]
