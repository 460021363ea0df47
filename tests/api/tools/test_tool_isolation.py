"""No route and no tool can reach another workspace, whatever ids it is given.

A test fails if a route of these interfaces has no case here.
"""

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import create_key, revoke_key
from tests.support.clock import Clock
from tests.support.instance import connect, in_new_workspace, key_for, new_caller
from tests.support.routes import interface_named, routes_of
from tests.support.tools import Direct, Object, OverMcp, fetch_rows, mcp_client, save_memory

pytestmark = pytest.mark.anyio

# The texts share words, so the same query would find both without isolation.
THEIRS = "The gate code of theirs is 47110815"
OURS = "The gate code of ours is 1234"


@dataclass(frozen=True, slots=True)
class ForeignIdCall:
    """A request with one id that does not belong to the caller."""

    route: str
    path: str
    query: Object = field(default_factory=dict[str, Any])
    body: Object | None = None


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of one workspace."""

    memory: str
    thread: str
    agent: str


UNKNOWN = Things("00000000-0000-4000-8000-000000000000", "sess_aaaaaaaaaaaa", "nobody")


async def populate(engine: Engine, caller: Caller, content: str, agent: str) -> Things:
    tools = Direct(engine, caller)
    memory = await save_memory(tools, content, channel_id="#gate")
    await save_memory(tools, f"{content}, {agent} says", channel_id="#gate")
    async with engine.pool.everywhere() as db:
        await db.execute(
            "UPDATE thread SET agent = %s WHERE workspace_id = %s", [agent, caller.workspace_id]
        )
    select = "SELECT code FROM thread WHERE workspace_id = %s"
    [(code,)] = await fetch_rows(engine, select, caller.workspace_id)
    return Things(memory, f"sess_{code[:12]}", agent)


def cases(own: Things, foreign: Things) -> Iterator[ForeignIdCall]:
    """Yield a case for each parameter of each route that can hold a foreign id."""
    save, recall, delete = (f"/v1/tools/memory_{verb}" for verb in ("save", "recall", "delete"))
    yield ForeignIdCall("POST /v1/tools/memory_delete", delete, body={"memory_id": foreign.memory})
    yield ForeignIdCall(
        "POST /v1/tools/memory_save",
        save,
        body={"content": "x", "associations": [{"target_id": foreign.memory}]},
    )
    yield ForeignIdCall(
        "POST /v1/tools/memory_save", save, body={"content": "y", "channel_id": foreign.thread}
    )
    question = {"query": "gate code of theirs 47110815", "channel_id": foreign.thread}
    yield ForeignIdCall("POST /v1/tools/memory_recall", recall, body=question)
    all_agents, own_agent = {"agent_id": "default"}, {"agent_id": own.agent}
    for path, more in (
        ("", {}),
        ("/search", {"q": "gate code 47110815"}),
        ("/graph", {}),
        ("/graph/neighbors", {"memory_id": own.memory}),
    ):
        query = {"agent_id": foreign.agent, **more}
        yield ForeignIdCall(f"GET /agents/memories{path}", f"/agents/memories{path}", query)
    for agent in (all_agents, own_agent):
        yield ForeignIdCall(
            "GET /agents/memories/graph/neighbors",
            "/agents/memories/graph/neighbors",
            {**agent, "memory_id": foreign.memory},
        )
        memory = f"/agents/memories/{foreign.memory}"
        of = "/agents/memories/{memory_id}"
        link = {"target_id": own.memory}
        yield ForeignIdCall(f"PUT {of}", memory, agent, {"content": "changed by an outsider"})
        yield ForeignIdCall(f"DELETE {of}", memory, agent)
        yield ForeignIdCall(f"POST {of}/reopen", f"{memory}/reopen", agent)
        yield ForeignIdCall(f"POST {of}/associations", f"{memory}/associations", agent, link)
        yield ForeignIdCall(
            f"POST {of}/associations",
            f"/agents/memories/{own.memory}/associations",
            agent,
            {"target_id": foreign.memory},
        )
        unlink = f"DELETE {of}/associations/{{target_id}}"
        yield ForeignIdCall(unlink, f"{memory}/associations/{own.memory}", agent)
        yield ForeignIdCall(
            unlink, f"/agents/memories/{own.memory}/associations/{foreign.memory}", agent
        )
    yield ForeignIdCall(
        "POST /agents/memories",
        "/agents/memories",
        all_agents,
        {
            "content": "z",
            "channel_id": foreign.thread,
            "associations": [{"target_id": foreign.memory}],
        },
    )


async def send(http: httpx2.AsyncClient, case: ForeignIdCall) -> httpx2.Response:
    method = case.route.split()[0]
    return await http.request(method, case.path, params=case.query, json=case.body)


def outcome(response: httpx2.Response) -> tuple[int, Any]:
    """Return the status and the error, without the data of a success, because new ids differ."""
    return response.status_code, response.json().get("error")


async def dump(engine: Engine, caller: Caller) -> list[Any]:
    return [
        await fetch_rows(
            engine,
            f"SELECT t::text FROM {table} t WHERE workspace_id = %s ORDER BY 1",
            caller.workspace_id,
        )
        for table in ("memory", "thread", "memory_link", "memory_word", "event")
    ]


@pytest.fixture(params=["a workspace of the same org", "another org"])
async def foreigner(request: pytest.FixtureRequest, engine: Engine, caller: Caller) -> Caller:
    if request.param == "another org":
        return await new_caller(engine)
    return await in_new_workspace(engine, caller)


@pytest.fixture
async def http(
    engine: Engine, caller: Caller, server: Server
) -> AsyncGenerator[httpx2.AsyncClient]:
    key = await key_for(engine, caller.workspace_id)
    async with connect(server, authorization=f"Bearer {key}") as found:
        yield found


async def test_S41_S75_no_route_finds_things_of_another_workspace(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller, foreigner: Caller
) -> None:
    foreign = await populate(engine, foreigner, THEIRS, "theirs")
    own = await populate(engine, caller, OURS, "ours")
    before = await dump(engine, foreigner)

    crossed = [await send(http, each) for each in cases(own, foreign)]
    absent = [await send(http, each) for each in cases(own, UNKNOWN)]

    assert [outcome(each) for each in crossed] == [outcome(each) for each in absent]
    assert {each.status_code for each in crossed} == {200, 201, 404}
    assert all("47110815" not in each.text for each in crossed)
    assert await dump(engine, foreigner) == before
    dangling = await fetch_rows(
        engine,
        "SELECT count(*) FROM memory_link WHERE workspace_id = %s AND target_id = %s",
        caller.workspace_id,
        foreign.memory,
    )
    assert dangling == [(0,)]


async def test_S41_every_route_has_an_isolation_case(server: Server) -> None:
    routes = {
        str(route)
        for name in ("tools", "agents")
        for route in routes_of(interface_named(server, name))
    }

    assert routes - {each.route for each in cases(UNKNOWN, UNKNOWN)} == {"GET /v1/tools"}
    assert {str(route) for route in routes_of(interface_named(server, "mcp"))} == {
        "POST /mcp",
        "POST /mcp/",
    }


async def test_S41_S48_mcp_does_not_find_things_of_another_workspace(
    server: Server, engine: Engine, caller: Caller, foreigner: Caller
) -> None:
    foreign = await populate(engine, foreigner, THEIRS, "theirs")
    await populate(engine, caller, OURS, "ours")
    before = await dump(engine, foreigner)
    key = await key_for(engine, caller.workspace_id)

    async with server.running(), mcp_client(server, key) as client:
        tools = OverMcp(client)
        with pytest.raises(MCPError, match="no such memory"):
            await client.read_resource(f"memory://{foreign.memory}")
        deleted = await tools.call("memory_delete", memory_id=foreign.memory)
        found = [
            await tools.call("memory_recall", **arguments)
            for arguments in (
                {"query": "gate code"},
                {"mode": "recent"},
                {"mode": "important", "include_history": True},
                {"mode": "typed", "memory_type": "fact"},
            )
        ]

    assert deleted["forgotten"] is False
    assert all("47110815" not in str(each) for each in found)
    assert all("1234" in str(each) for each in found)
    assert await dump(engine, foreigner) == before


async def test_S07_every_route_needs_a_valid_key(
    server: Server, engine: Engine, caller: Caller, clock: Clock
) -> None:
    good = await key_for(engine, caller.workspace_id)
    revoked = await create_key(engine, workspace=str(caller.workspace_id))
    await revoke_key(engine, str(revoked.record.id))
    expired = await key_for(engine, caller.workspace_id, expires_at=clock.at + timedelta(seconds=1))
    clock.advance(timedelta(seconds=1))
    bad: list[tuple[dict[str, str], dict[str, str]]] = [
        ({}, {}),
        ({"authorization": "Bearer rk_00000000_wrong"}, {}),
        ({"authorization": f"Bearer {revoked.text}"}, {}),
        ({"authorization": f"Bearer {expired}"}, {}),
        ({"authorization": f"Basic {good}"}, {}),
        ({"cookie": f"session={good}"}, {}),
        ({}, {"api_key": good}),
    ]

    async with connect(server) as http:
        responses = [
            await http.request(
                each.route.split()[0],
                each.path,
                params={**each.query, **query},
                json=each.body,
                headers=headers,
            )
            for each in [*cases(UNKNOWN, UNKNOWN), ForeignIdCall("GET /v1/tools", "/v1/tools")]
            for headers, query in bad
        ]

    assert {
        (response.status_code, response.headers["www-authenticate"]) for response in responses
    } == {(401, "Bearer")}


NEEDS: dict[str, set[Right]] = {
    "POST /v1/tools/memory_save": {Right.WRITE},
    "POST /v1/tools/memory_recall": {Right.READ},
    "POST /v1/tools/memory_delete": {Right.DELETE},
    "GET /agents/memories": {Right.READ},
    "GET /agents/memories/search": {Right.READ},
    "GET /agents/memories/graph": {Right.READ},
    "GET /agents/memories/graph/neighbors": {Right.READ},
    "POST /agents/memories": {Right.WRITE},
    # The response shows the memory, so it also needs the read right.
    "PUT /agents/memories/{memory_id}": {Right.READ, Right.WRITE},
    "DELETE /agents/memories/{memory_id}": {Right.DELETE},
    "POST /agents/memories/{memory_id}/associations": {Right.WRITE},
    "DELETE /agents/memories/{memory_id}/associations/{target_id}": {Right.WRITE},
    "POST /agents/memories/{memory_id}/reopen": {Right.READ, Right.WRITE},
}


async def test_S23_each_route_requires_its_rights(
    server: Server, engine: Engine, caller: Caller
) -> None:
    own = await populate(engine, caller, OURS, "ours")
    lacking = {
        right: await key_for(engine, caller.workspace_id, rights=sorted(set(Right) - {right}))
        for right in Right
    }

    needed: dict[str, set[Right]] = {route: set() for route in NEEDS}
    async with connect(server) as http:
        for right, key in lacking.items():
            http.headers["authorization"] = f"Bearer {key}"
            for case in cases(own, UNKNOWN):
                if (await send(http, case)).status_code == 403:
                    needed[case.route].add(right)

    assert needed == NEEDS
