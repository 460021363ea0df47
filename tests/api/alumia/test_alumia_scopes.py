"""Visibility of key/value memories across users, projects, agents, workspaces and orgs."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import httpx2
import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import create_key
from recollect.tenancy.queries import projects, workspaces
from tests.support.alumia import (
    add_colleague,
    client_of,
    create_session,
    enable_workspaces,
    error_of,
    list_values,
    new_agent,
    new_project,
    recall_values,
    save_memory,
)
from tests.support.instance import connect, in_new_workspace, new_caller

pytestmark = pytest.mark.anyio

ABSENT = (404, "NOT_FOUND")


async def is_visible(http: httpx2.AsyncClient, memory: dict[str, Any], **names: str) -> bool:
    """Whether get, list and recall show a memory; all three must agree."""
    path = f"/api/v1/memories/{memory['id']}"
    is_found = (await http.get(path, params=names)).status_code == 200
    is_listed = memory["value"] in await list_values(http, limit=100, **names)
    is_recalled = memory["value"] in await recall_values(http, memory["value"], limit=50, **names)
    assert is_found == is_listed == is_recalled
    return is_found


async def test_R290_its_user_sees_a_global_memory_anywhere_in_the_org_and_others_nowhere(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await add_colleague(engine, caller)
    elsewhere = await in_new_workspace(engine, caller)
    project, another = [await new_project(engine, caller, other) for _ in range(2)]
    agent = await new_agent(engine, caller)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, elsewhere) as ours_elsewhere,
        client_of(engine, server, other) as theirs,
        client_of(engine, server, replace(other, workspace_id=elsewhere.workspace_id)) as far,
    ):
        memory = await save_memory(ours, "a private thing", scope="global", projectId=project)
        seen: dict[str, bool] = {}
        hidden: dict[str, bool] = {}
        for http, found in ((ours, seen), (theirs, hidden)):
            places = {
                "nothing": {},
                "its project": {"projectId": project},
                "another project": {"projectId": another},
                "an agent": {"agentId": agent},
                "a session": {"sessionId": await create_session(http)},
                "a project's session": {"sessionId": await create_session(http, projectId=another)},
                "an agent's session": {"sessionId": await create_session(http, agentId=agent)},
            }
            found |= {place: await is_visible(http, memory, **n) for place, n in places.items()}
        seen["another workspace"] = await is_visible(ours_elsewhere, memory)
        hidden["another workspace"] = await is_visible(far, memory)

        assert memory["scope"] == "global"
        assert seen == dict.fromkeys(seen, True)
        assert hidden == dict.fromkeys(seen, False)


async def test_R291_members_and_sessions_of_a_project_see_its_memories(
    engine: Engine, server: Server, caller: Caller
) -> None:
    member, outsider = await add_colleague(engine, caller), await add_colleague(engine, caller)
    project = await new_project(engine, caller, member)
    elsewhere = await new_project(engine, caller, member, outsider)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, member) as theirs,
        client_of(engine, server, outsider) as strange,
    ):
        memory = await save_memory(ours, "the plan", scope="project", projectId=project)
        inside = await create_session(theirs, projectId=project)
        outside = await create_session(theirs, projectId=elsewhere)

        assert await is_visible(theirs, memory)
        assert await is_visible(theirs, memory, projectId=project)
        assert await is_visible(theirs, memory, sessionId=inside)
        assert not await is_visible(theirs, memory, sessionId=outside)
        assert not await is_visible(theirs, memory, projectId=elsewhere)
        assert not await is_visible(strange, memory)
        for names in ({"projectId": project}, {"sessionId": inside}):
            assert error_of(await strange.get("/api/v1/memories", params=names)) == ABSENT


async def test_R291_a_removed_member_loses_access_at_once(
    engine: Engine, server: Server, caller: Caller
) -> None:
    member = await add_colleague(engine, caller)
    project = await new_project(engine, caller, member)
    async with client_of(engine, server, member) as theirs:
        memory = await save_memory(theirs, "the plan", scope="project", projectId=project)
        assert await is_visible(theirs, memory)

        async with engine.writing(caller) as db:
            await projects.remove_member(db, caller.workspace_id, UUID(project), member.user_id)

        assert not await is_visible(theirs, memory)


async def test_R292_only_sessions_of_an_agent_see_its_memories(
    engine: Engine, server: Server, caller: Caller
) -> None:
    agent, other = await new_agent(engine, caller), await new_agent(engine, caller)
    colleague = await add_colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, colleague) as theirs,
    ):
        memory = await save_memory(ours, "how I speak", scope="agent", agentId=agent)
        for http in (ours, theirs):
            inside = await create_session(http, agentId=agent)
            outside = await create_session(http, agentId=other)
            without = await create_session(http)

            assert await is_visible(http, memory, sessionId=inside)
            assert await is_visible(http, memory, agentId=agent)
            assert not await is_visible(http, memory, sessionId=outside)
            assert not await is_visible(http, memory, sessionId=without)
            assert not await is_visible(http, memory, agentId=other)
            assert not await is_visible(http, memory)


async def test_R293_R294_workspaces_separate_memories_only_when_they_are_on(
    engine: Engine, server: Server, caller: Caller
) -> None:
    elsewhere = await in_new_workspace(engine, caller)
    await enable_workspaces(engine, caller, is_on=True)
    async with (
        client_of(engine, server, caller) as here,
        client_of(engine, server, elsewhere) as there,
    ):
        first, second = await save_memory(here, "said here"), await save_memory(there, "said there")
        assert [await is_visible(here, each) for each in (first, second)] == [True, False]
        assert [await is_visible(there, each) for each in (first, second)] == [False, True]

        await enable_workspaces(engine, caller, is_on=False)

        assert [await is_visible(here, each) for each in (first, second)] == [True, True]
        assert [await is_visible(there, each) for each in (first, second)] == [True, True]
        changed = await there.patch(f"/api/v1/memories/{first['id']}", json={"value": "changed"})
        assert changed.json()["data"]["workspaceId"] == str(caller.workspace_id)


async def test_R294_with_workspaces_off_a_key_is_unique_in_the_org(
    engine: Engine, server: Server, caller: Caller
) -> None:
    elsewhere = await in_new_workspace(engine, caller)
    async with (
        client_of(engine, server, caller) as here,
        client_of(engine, server, elsewhere) as there,
    ):
        first = await save_memory(here, "London", key="home")
        second = await save_memory(there, "Paris", key="home")

        assert first["id"] == second["id"]
        assert await list_values(here) == await list_values(there) == ["Paris"]


async def test_N36_with_workspaces_on_and_none_active_nothing_is_visible(
    engine: Engine, server: Server, caller: Caller
) -> None:
    await enable_workspaces(engine, caller, is_on=True)
    new = await create_key(engine, workspace=str(caller.workspace_id), is_unbound=True)
    async with (
        client_of(engine, server, caller) as http,
        connect(server, Authorization=f"Bearer {new.text}") as nowhere,
    ):
        memory = await save_memory(http, "said here")
        path = f"/api/v1/memories/{memory['id']}"

        assert await list_values(nowhere) == await recall_values(nowhere, "said here") == []
        assert error_of(await nowhere.get(path)) == ABSENT
        assert error_of(await nowhere.delete(path)) == ABSENT
        refused = await nowhere.post("/api/v1/memories", json={"value": "v"})
        assert error_of(refused) == (422, "VALIDATION_ERROR")
        others = [
            await nowhere.get("/v1/memory"),
            await nowhere.get("/v1/sessions"),
            await nowhere.get("/v1/traces"),
        ]
        assert [answer.json()["data"] for answer in others] == [[], [], []]

        named = {"X-Alumia-Workspace": str(caller.workspace_id)}
        assert (await nowhere.get(path, headers=named)).status_code == 200


async def test_S23_a_header_can_only_narrow_access(
    engine: Engine, server: Server, caller: Caller
) -> None:
    outsider, elsewhere = await new_caller(engine), await in_new_workspace(engine, caller)
    await enable_workspaces(engine, caller, is_on=True)
    async with client_of(engine, server, caller) as http:
        await save_memory(http, "said here")
        for name, value in (
            ("X-Alumia-Org", outsider.org_id),
            ("X-Alumia-Workspace", outsider.workspace_id),
            ("X-Alumia-Workspace", elsewhere.workspace_id),
            ("X-Alumia-Workspace", "nonsense"),
        ):
            answer = await http.get("/api/v1/memories", headers={name: str(value)})
            assert error_of(answer) == ABSENT
        same = {
            "X-Alumia-Org": str(caller.org_id),
            "X-Alumia-Workspace": str(caller.workspace_id),
        }
        assert (await http.get("/api/v1/memories", headers=same)).status_code == 200


async def test_an_unbound_key_enters_only_workspaces_of_its_user(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await add_colleague(engine, caller)
    await enable_workspaces(engine, caller, is_on=True)
    new = await create_key(
        engine,
        workspace=str(caller.workspace_id),
        user=str(other.user_id),
        is_unbound=True,
    )
    named = {"X-Alumia-Workspace": str(caller.workspace_id)}
    async with connect(server, Authorization=f"Bearer {new.text}", **named) as http:
        assert error_of(await http.get("/api/v1/memories")) == ABSENT

        async with engine.pool.everywhere() as db:
            await workspaces.add_workspace_member(db, caller.workspace_id, other.user_id)

        assert await list_values(http) == []


async def test_R295_two_orgs_with_equal_data_see_only_their_own(
    engine: Engine, server: Server, caller: Caller
) -> None:
    outsider = await new_caller(engine)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, outsider) as theirs,
    ):
        memory = await save_memory(ours, "the same words", key="same")
        other = await save_memory(theirs, "the same words", key="same")

        assert memory["id"] != other["id"]
        for http, foreign in ((ours, other), (theirs, memory)):
            path = f"/api/v1/memories/{foreign['id']}"
            assert len(await list_values(http)) == len(await recall_values(http, "same words")) == 1
            assert error_of(await http.get(path)) == ABSENT
            assert error_of(await http.patch(path, json={"value": "x"})) == ABSENT
            assert error_of(await http.delete(path)) == ABSENT
        assert await list_values(theirs) == ["the same words"]


async def test_other_interfaces_hide_another_users_memory(
    engine: Engine, server: Server, caller: Caller
) -> None:
    other = await add_colleague(engine, caller)
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, other) as theirs,
    ):
        memory = await save_memory(ours, "the colour is teal", key="colour")
        await save_memory(theirs, "something else")

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
        assert await list_values(ours) == ["the colour is teal"]
