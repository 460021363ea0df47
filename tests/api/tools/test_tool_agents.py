"""`/agents/memories`: list, search, graph and changes."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import connect, key_for
from tests.support.tools import (
    Direct,
    Object,
    Surface,
    fetch_rows,
    links_of,
    memory_row,
    save_memory,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http(
    engine: Engine, caller: Caller, server: Server
) -> AsyncGenerator[httpx2.AsyncClient]:
    key = await key_for(engine, caller.workspace_id)
    async with connect(server, authorization=f"Bearer {key}") as found:
        yield found


@pytest.fixture
def tools(engine: Engine, caller: Caller) -> Surface:
    return Direct(engine, caller)


async def get(http: httpx2.AsyncClient, path: str = "", **parameters: Any) -> Object:
    parameters = {"agent_id": "default"} | parameters
    response = await http.get(f"/agents/memories{path}", params=parameters)
    assert response.status_code == 200, response.text
    return response.json()


def contents(objects: list[Object]) -> list[str]:
    return [each["content"] for each in objects]


async def test_N38_a_list_contains_memories_and_the_total(
    http: httpx2.AsyncClient, tools: Surface, clock: Clock, embedder: StubEmbedder
) -> None:
    embedder.table["tea"] = at_cosine(1.0)
    embedder.table["Ship on Fridays"] = at_cosine(0.0)
    first = await save_memory(tools, "Tea", source="user stated", channel_id="#tea", importance=0.2)
    clock.advance(timedelta(minutes=1))
    await save_memory(tools, "Ship on Fridays", memory_type="decision", importance=0.9)
    clock.advance(timedelta(minutes=1))
    await tools.call("memory_recall", mode="recent", tags=["none"])
    await tools.call("memory_recall", query="tea")

    page = await get(http)

    assert contents(page["memories"]) == ["Ship on Fridays", "Tea"]
    assert page["total"] == 2
    assert page["memories"][1] == {
        "id": first,
        "content": "Tea",
        "memory_type": "fact",
        "importance": 0.2,
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:00.000000Z",
        "last_accessed_at": "2026-03-01T12:02:00.000000Z",
        "access_count": 1,
        "source": "user stated",
        "channel_id": "#tea",
        "forgotten": False,
    }
    assert contents((await get(http, sort="importance"))["memories"])[0] == "Ship on Fridays"
    assert contents((await get(http, sort="most_accessed"))["memories"])[0] == "Tea"
    typed = await get(http, memory_type="decision")
    assert (contents(typed["memories"]), typed["total"]) == (["Ship on Fridays"], 1)


async def test_N38_pages_are_limited_but_the_total_counts_everything(
    http: httpx2.AsyncClient, tools: Surface, clock: Clock
) -> None:
    for number in range(60):
        clock.advance(timedelta(seconds=1))
        await save_memory(tools, f"Invoice {number}")

    pages = [await get(http, limit=25, offset=offset) for offset in (0, 25, 50, 75)]

    assert [len(each["memories"]) for each in pages] == [25, 25, 10, 0]
    assert {each["total"] for each in pages} == {60}
    assert len({each["id"] for page in pages for each in page["memories"]}) == 60
    assert len((await get(http))["memories"]) == 50
    assert len((await get(http, limit=201))["memories"]) == 60
    assert len((await get(http, "/graph"))["nodes"]) == 60
    assert len((await get(http, "/search", q="invoice"))["results"]) == 20
    assert len((await get(http, "/search", q="invoice", limit=101))["results"]) == 60


async def test_N38_a_search_ranks_and_does_not_count_as_access(
    http: httpx2.AsyncClient, tools: Surface, engine: Engine, embedder: StubEmbedder
) -> None:
    embedder.table = {
        "Ana takes tea": at_cosine(0.9),
        "Ben takes coffee": at_cosine(0.7, axis=1),
        "drinks?": at_cosine(1.0),
    }
    ana = await save_memory(tools, "Ana takes tea")
    await save_memory(tools, "Ben takes coffee", memory_type="preference")

    page = await get(http, "/search", q="drinks?")

    assert set(page) == {"results", "sessions"}
    assert page["sessions"] == []
    assert [
        (each["memory"]["content"], each["rank"], each["score"]) for each in page["results"]
    ] == [
        ("Ana takes tea", 1, pytest.approx(1 / 61)),
        ("Ben takes coffee", 2, pytest.approx(1 / 62)),
    ]
    narrow = await get(http, "/search", q="drinks?", memory_type="preference")
    assert [each["memory"]["content"] for each in narrow["results"]] == ["Ben takes coffee"]
    assert (await memory_row(engine, ana))["access_count"] == 0


async def chain(tools: Surface, length: int) -> list[str]:
    """Save memories, each of which is part of the previous one; return their ids."""
    created = [await save_memory(tools, "link 0")]
    for number in range(1, length):
        parent = {"target_id": created[-1], "relation_type": "part_of", "weight": 0.7}
        created.append(await save_memory(tools, f"link {number}", associations=[parent]))
    return created


async def test_N38_the_graph_contains_nodes_edges_and_the_total(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    one, two, three = await chain(tools, 3)

    page = await get(http, "/graph")
    part = await get(http, "/graph", limit=2)

    assert set(page) == {"nodes", "edges", "total"}
    assert {each["id"] for each in page["nodes"]} == {one, two, three}
    assert page["total"] == part["total"] == 3
    by_source = {edge["source_id"]: edge for edge in page["edges"]}
    assert {source: edge["target_id"] for source, edge in by_source.items()} == {
        two: one,
        three: two,
    }
    assert by_source[two] == {
        "id": by_source[two]["id"],
        "source_id": two,
        "target_id": one,
        "relation_type": "part_of",
        "weight": 0.7,
        "created_at": "2026-03-01T12:00:00.000000Z",
    }
    shown = {each["id"] for each in part["nodes"]}
    assert all({edge["source_id"], edge["target_id"]} <= shown for edge in part["edges"])


async def test_N38_neighbours_are_up_to_three_links_away(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    created = await chain(tools, 6)

    found = {
        depth: [
            each["content"]
            for each in (await get(http, "/graph/neighbors", memory_id=created[0], depth=depth))[
                "nodes"
            ]
        ]
        for depth in (1, 2, 3, 4)
    }
    page = await get(http, "/graph/neighbors", memory_id=created[1], exclude=f"{created[0]}, x")

    assert found == {
        1: ["link 1"],
        2: ["link 1", "link 2"],
        3: ["link 1", "link 2", "link 3"],
        4: ["link 1", "link 2", "link 3"],
    }
    assert set(page) == {"nodes", "edges"}
    assert contents(page["nodes"]) == ["link 2"]
    assert len(page["edges"]) == 2


async def test_a_forgotten_memory_is_not_a_neighbour(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    one, two, _ = await chain(tools, 3)

    await tools.call("memory_delete", memory_id=two)

    assert await get(http, "/graph/neighbors", memory_id=one, depth=3) == {"nodes": [], "edges": []}
    assert contents((await get(http, "/graph"))["nodes"]) != []
    assert (await get(http, "/graph"))["edges"] == []


async def test_N38_an_agent_must_be_named_and_known(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    saved = await save_memory(tools, "Tea")
    paths = {
        "": {},
        "/search": {"q": "tea"},
        "/graph": {},
        "/graph/neighbors": {"memory_id": saved},
    }

    unnamed = [
        await http.get(f"/agents/memories{path}", params=more) for path, more in paths.items()
    ]
    unknown = [
        await http.get(f"/agents/memories{path}", params={"agent_id": "nobody", **more})
        for path, more in paths.items()
    ]

    assert {each.status_code for each in unnamed} == {400}
    assert {each.text for each in unnamed} == {
        '{"error":{"message":"`agent_id` is required.","type":"invalid_request"}}'
    }
    assert {(each.status_code, each.json()["error"]["message"]) for each in unknown} == {
        (404, "There is no such agent.")
    }


async def test_an_agent_sees_the_memories_of_its_own_threads(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    session = await http.post("/v1/sessions", json={"agent_id": "cook"})
    await save_memory(tools, "Soup at noon", channel_id=session.json()["id"])
    await save_memory(tools, "Tea at four")
    await http.post("/agents/memories?agent_id=guard", json={"content": "Gate at six"})
    await http.post(
        "/agents/memories?agent_id=guard", json={"content": "Lock at ten", "channel_id": "#night"}
    )

    listed = {
        agent: set(contents((await get(http, agent_id=agent))["memories"]))
        for agent in ("cook", "guard", "default")
    }
    graph = await get(http, "/graph", agent_id="cook")
    found = await get(http, "/search", agent_id="cook", q="soup tea gate at noon")

    assert listed == {
        "cook": {"Soup at noon"},
        "guard": {"Gate at six", "Lock at ten"},
        "default": {"Soup at noon", "Tea at four", "Gate at six", "Lock at ten"},
    }
    assert contents(graph["nodes"]) == ["Soup at noon"]
    assert [each["memory"]["content"] for each in found["results"]] == ["Soup at noon"]


async def save_as(http: httpx2.AsyncClient, agent: str, content: str, channel: str) -> Object:
    response = await http.post(
        "/agents/memories",
        params={"agent_id": agent},
        json={"content": content, "channel_id": channel},
    )
    assert response.status_code == 201, response.text
    return response.json()["memory"]


async def test_an_agent_takes_over_an_unowned_conversation_it_saves_in(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    await save_memory(tools, "Ship on Fridays", channel_id="#team")

    created = await save_as(http, "bob", "Freeze on Thursdays", "#team")

    assert created["channel_id"] == "#team"
    assert set(contents((await get(http, agent_id="bob"))["memories"])) == {
        "Ship on Fridays",
        "Freeze on Thursdays",
    }
    [session] = (await http.get("/v1/sessions")).json()["data"]
    assert (session["agent_id"], session["memory_count"]) == ("bob", 2)


async def test_saving_in_another_agents_conversation_creates_a_separate_one(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    await save_as(http, "bob", "Ship on Fridays", "#team")

    created = [await save_as(http, "carol", f"Soup at {hour}", "#team") for hour in ("one", "two")]
    await save_as(http, "carol", "Soup at three", created[0]["channel_id"])
    await save_memory(tools, "Tea at four", channel_id="#team")

    assert {each["channel_id"] for each in created} == {"agent:carol/#team"}
    assert {
        agent: set(contents((await get(http, agent_id=agent))["memories"]))
        for agent in ("bob", "carol")
    } == {
        "bob": {"Ship on Fridays", "Tea at four"},
        "carol": {"Soup at one", "Soup at two", "Soup at three"},
    }


async def test_every_id_form_of_a_foreign_session_gives_the_same_conversation(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    session = (await http.post("/v1/sessions", json={"agent_id": "cook"})).json()
    [[thread_id, code]] = await fetch_rows(
        engine, "SELECT id, code FROM thread WHERE workspace_id = %s", caller.workspace_id
    )

    created = [
        await save_as(http, "guard", "Gate at six", id_form)
        for id_form in (session["id"], str(thread_id), f"sess_{code}")
    ]

    assert {each["channel_id"] for each in created} == {f"agent:guard/{thread_id}"}
    assert (await get(http, agent_id="cook"))["total"] == 0


async def test_a_reserved_conversation_name_taken_by_another_agent_conflicts(
    http: httpx2.AsyncClient,
) -> None:
    await save_as(http, "bob", "Ship on Fridays", "#team")
    await save_as(http, "dave", "Gate at six", "agent:carol/#team")

    response = await http.post(
        "/agents/memories",
        params={"agent_id": "carol"},
        json={"content": "Soup at noon", "channel_id": "#team"},
    )

    assert (response.status_code, response.json()["error"]) == (
        409,
        {
            "message": "This conversation belongs to another agent. Use another `channel_id`.",
            "type": "conflict",
        },
    )


async def test_agents_that_save_concurrently_get_separate_conversations(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    await save_memory(tools, "Ship on Fridays", channel_id="#team")
    saves = [(agent, f"{agent} {number}") for number in range(4) for agent in ("bob", "carol")]

    await asyncio.gather(*(save_as(http, agent, content, "#team") for agent, content in saves))

    listed = {
        agent: contents((await get(http, agent_id=agent))["memories"]) for agent in dict(saves)
    }
    assert {agent: set(each) - {"Ship on Fridays"} for agent, each in listed.items()} == {
        agent: {content for owner, content in saves if owner == agent} for agent in listed
    }
    assert sum("Ship on Fridays" in each for each in listed.values()) == 1


async def test_an_agent_can_change_only_its_own_memories(http: httpx2.AsyncClient) -> None:
    created = await http.post("/agents/memories?agent_id=cook", json={"content": "Soup at noon"})
    await http.post("/agents/memories?agent_id=guard", json={"content": "Gate at six"})
    path = f"/agents/memories/{created.json()['memory']['id']}"

    responses = [
        await http.put(f"{path}?agent_id=guard", json={"content": "changed"}),
        await http.delete(f"{path}?agent_id=guard"),
        await http.post(f"{path}/reopen?agent_id=guard"),
        await http.get(
            "/agents/memories/graph/neighbors",
            params={"agent_id": "guard", "memory_id": created.json()["memory"]["id"]},
        ),
    ]

    assert [each.status_code for each in responses] == [404] * 4
    assert contents((await get(http, agent_id="cook"))["memories"]) == ["Soup at noon"]


async def test_a_memory_is_created_changed_and_forgotten(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    agent = {"agent_id": "default"}
    created = await http.post(
        "/agents/memories", params=agent, json={"content": "Tea at four", "memory_type": "event"}
    )
    path = f"/agents/memories/{created.json()['memory']['id']}"

    changed = await http.put(
        path,
        params=agent,
        json={"content": "Tea at five", "memory_type": "goal", "importance": 0.9},
    )
    deleted = await http.delete(path, params=agent | {"reason": "no more zeppelins"})
    again = await http.delete(path, params=agent)

    assert (created.status_code, created.json()["success"]) == (201, True)
    memory = changed.json()["memory"]
    assert (memory["content"], memory["memory_type"], memory["importance"]) == (
        "Tea at five",
        "goal",
        0.9,
    )
    assert deleted.json() == {
        "success": True,
        "forgotten": True,
        "message": "Forgotten: Tea at five",
    }
    assert again.status_code == 404
    audited = "SELECT reason FROM event WHERE workspace_id = %s AND reason IS NOT NULL"
    assert await fetch_rows(engine, audited, caller.workspace_id) == [("no more zeppelins",)]


async def test_an_idempotency_key_reused_for_another_agent_conflicts(
    http: httpx2.AsyncClient,
) -> None:
    again = {"Idempotency-Key": "once"}

    responses = [
        await http.post(
            "/agents/memories", params={"agent_id": agent}, json={"content": "x"}, headers=again
        )
        for agent in ("cook", "cook", "guard")
    ]

    assert [response.status_code for response in responses] == [201, 201, 409]


async def test_N40_repeating_a_link_overwrites_its_weight(
    http: httpx2.AsyncClient, tools: Surface, engine: Engine, caller: Caller
) -> None:
    one, two = await save_memory(tools, "one"), await save_memory(tools, "two")
    path = f"/agents/memories/{one}/associations"

    first, second = [
        await http.post(
            path, params={"agent_id": "default"}, json={"target_id": two, "weight": each}
        )
        for each in (0.3, 0.6)
    ]

    assert await links_of(engine, caller.workspace_id) == {(one, "related_to", two, 0.6)}
    assert first.json()["association"] == second.json()["association"] | {"weight": 0.3}
    assert (
        await http.post(path, params={"agent_id": "default"}, json={"target_id": one})
    ).json() == {
        "error": {"message": "A memory cannot be linked to itself.", "type": "invalid_request"}
    }


async def test_unlinking_or_reopening_undoes_an_update(
    http: httpx2.AsyncClient, tools: Surface
) -> None:
    agent = {"agent_id": "default"}
    old, new = await save_memory(tools, "Ana in Oslo"), await save_memory(tools, "Ana in Bergen")
    link = {"target_id": old, "relation_type": "updates"}
    path = f"/agents/memories/{new}/associations"

    await http.post(path, params=agent, json=link)
    replaced = contents((await get(http))["memories"])
    deleted = await http.delete(f"{path}/{old}", params=agent | {"relation_type": "updates"})
    unlinked = contents((await get(http))["memories"])
    await http.post(path, params=agent, json=link)
    reopened = await http.post(f"/agents/memories/{old}/reopen", params=agent)
    again = await http.post(f"/agents/memories/{old}/reopen", params=agent)

    assert replaced == ["Ana in Bergen"]
    assert deleted.json() == {"success": True}
    assert set(unlinked) == {"Ana in Oslo", "Ana in Bergen"}
    assert reopened.json()["memory"]["content"] == "Ana in Oslo"
    assert set(contents((await get(http))["memories"])) == {"Ana in Oslo", "Ana in Bergen"}
    assert (again.status_code, again.json()["error"]["type"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("", {"limit": 0}),
        ("", {"offset": -1}),
        ("", {"offset": 10**12}),
        ("", {"limit": "many"}),
        ("", {"memory_type": "rumour"}),
        ("", {"sort": "sideways"}),
        ("", {"agent_id": ""}),
        ("/search", {}),
        ("/search", {"q": ""}),
        ("/graph/neighbors", {}),
        ("/graph/neighbors", {"memory_id": "x", "depth": 0}),
    ],
)
async def test_invalid_parameters_are_rejected(
    http: httpx2.AsyncClient, path: str, parameters: Object
) -> None:
    response = await http.get(
        f"/agents/memories{path}", params={"agent_id": "default"} | parameters
    )

    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request")


async def test_a_blank_search_error_names_the_parameter_q(
    http: httpx2.AsyncClient,
) -> None:
    response = await http.get("/agents/memories/search", params={"agent_id": "default", "q": " "})

    assert (response.status_code, response.json()["error"]["message"]) == (
        400,
        "`q` must not be empty.",
    )
