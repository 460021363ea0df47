"""Nobody reaches into another workspace: every route, crossed with ids that are not the caller's.

The cases are made from the route table and the door's own document. A route, a path parameter or a
field that names an id and is not classified here fails the test.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from psycopg import sql

from recollect.domain import Caller, Right
from recollect.doors.front import Door
from recollect.doors.tools import tools
from recollect.engine.core import Engine
from recollect.engine.keys import create_key, revoke_key
from recollect.models.registry import Embedders
from recollect.server import Server
from tests.support import worlds
from tests.support.alumia import client_of
from tests.support.clock import Clock
from tests.support.dashboard import browse
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, neighbour, new_caller, open_pool, serve, visit
from tests.support.isolation import Case, dump
from tests.support.routes import (
    Route,
    door_named,
    fields_of_body,
    operation,
    routes_behind_no_door,
    routes_of,
)
from tests.support.statebase import complaint, open_session, remember

pytestmark = pytest.mark.anyio

# What stands in a path or a field of this name.
THING_BY_NAME = {"memory_id": "memory", "session_id": "session", "trace_id": "trace"}
# Labels of the caller's own choice, and counters: they name nothing of anybody.
NO_IDS = {"agent_id", "user_id"}
# What a page of each list begins after.
PLACE_BY_PATH = {
    "/v1/memory": "memory",
    "/v1/memories": "memory",
    "/v1/sessions": "session",
    "/v1/sessions/{session_id}/turns": "turn",
    "/v1/traces": "trace",
    "/v1/sessions/{session_id}/history": "version",
    "/v1/sessions/{session_id}/state/history": "version",
}
# A body or a query that each route takes: whatever goes wrong then is the id's doing.
NEEDED: dict[str, dict[str, Any]] = {
    "POST /v1/memory": {"content": "a new text", "session_id": "{session}"},
    "POST /v1/memories": {"content": "a new text"},
    "POST /v1/memory/search": {"query": "a text of theirs", "threshold": 0.0},
    "POST /v1/memories/search": {"query": "a text of theirs", "threshold": 0.0},
    "GET /v1/memories/search": {"query": "a text of theirs", "threshold": 0.0},
    "PATCH /v1/memory/{memory_id}": {"content": "changed by a stranger"},
    "PATCH /v1/memories/{memory_id}": {"content": "changed by a stranger"},
    "PUT /v1/memories/{memory_id}": {"content": "changed by a stranger"},
    "POST /v1/sessions": {"agent_id": "agent"},
    "PATCH /v1/sessions/{session_id}/state": {"state": {"changed": "by a stranger"}},
    "PUT /v1/sessions/{session_id}/state": {"state": {"changed": "by a stranger"}},
    "POST /v1/sessions/{session_id}/state": {"state": {"changed": "by a stranger"}},
    "POST /v1/sessions/{session_id}/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/state/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/turns": {"input": "by", "output": "a stranger"},
}


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of one of each, in this door's spelling."""

    memory: str
    session: str
    turn: str
    trace: str


NOBODYS = Things(
    memory="mem_aaaaaaaaaaaa",
    session="sess_aaaaaaaaaaaa",
    turn="turn_aaaaaaaaaaaa",
    trace="trace_" + "0" * 31 + "1",
)


async def furnished(http: httpx2.AsyncClient) -> Things:
    """One of each thing, made through the door."""
    session = await open_session(http, user_id="ada", initial_state={"secret": "state"})
    memory = await remember(http, "a text of theirs", session, tags=["home"], user_id="ada")
    turn = await http.post(
        f"/v1/sessions/{session['id']}/turns", json={"input": "hi", "output": "hello"}
    )
    traces = await http.get("/v1/traces", params={"action": "memory.created"})
    return Things(memory["id"], session["id"], turn.json()["id"], traces.json()["data"][0]["id"])


def cases(door: Door, own: Things, foreign: Things) -> Iterator[Case]:
    """Every place of every route where an id can stand, with the foreign one in it."""
    for route in routes_of(door):
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        given = {
            name: own.session if value == "{session}" else value
            for name, value in NEEDED.get(str(route), {}).items()
        }
        says = operation(door, route)
        if says.get("requestBody", {}).get("required"):
            assert str(route) in NEEDED, f"{route}: which body does it take?"
        has_body = "requestBody" in says
        query = {} if has_body else given
        body = given if has_body else None

        def address(things: Things, route: Route = route, names: list[str] = names) -> str:
            ids = {name: getattr(things, THING_BY_NAME[name]) for name in names}
            return route.path.format(**ids)

        if names:
            yield Case(route, "in the path", address(foreign), query, body)
        for parameter in says.get("parameters", []):
            name = parameter["name"]
            if parameter["in"] != "query" or not names_something(name):
                continue
            thing = PLACE_BY_PATH[route.path] if name == "starting_after" else THING_BY_NAME[name]
            if thing != "version":
                added = {**query, name: getattr(foreign, thing)}
                yield Case(route, f"in the query: {name}", address(own), added, body)
        for name, _ in fields_of_body(door, route):
            if names_something(name):
                added = {**given, name: getattr(foreign, THING_BY_NAME[name])}
                yield Case(route, f"in the body: {name}", address(own), query, added)


def names_something(name: str) -> bool:
    return (name == "starting_after" or name.endswith("_id")) and name not in NO_IDS


async def send(http: httpx2.AsyncClient, case: Case) -> tuple[int, Any]:
    answer = await http.request(case.route.method, case.path, params=case.query, json=case.body)
    return answer.status_code, answer.json() if answer.content else None


@pytest.fixture(params=["a workspace of the same org", "another org"])
async def foreigner(request: pytest.FixtureRequest, engine: Engine, caller: Caller) -> Caller:
    if request.param == "another org":
        return await new_caller(engine)
    return await neighbour(engine, caller)


async def test_R195_R209_S41_another_workspaces_ids_do_not_exist_on_any_route(
    visitor: Visitor, server: Server, engine: Engine, foreigner: Caller
) -> None:
    key = await key_for(engine, foreigner.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        foreign = await furnished(http)
    own = await furnished(visitor.http)
    before = await dump(engine, foreigner.workspace_id)
    door = door_named(server, "statebase")

    crossed = {str(each): await send(visitor.http, each) for each in cases(door, own, foreign)}
    absent = {str(each): await send(visitor.http, each) for each in cases(door, own, NOBODYS)}

    assert crossed == absent
    assert {status for status, _ in crossed.values()} == {200, 400, 404}
    assert all(body["data"] == [] for status, body in crossed.values() if status == 200)
    assert await dump(engine, foreigner.workspace_id) == before


async def test_S41_every_spelling_of_a_foreign_id_is_as_unknown(
    visitor: Visitor, server: Server, engine: Engine, foreigner: Caller
) -> None:
    key = await key_for(engine, foreigner.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        await furnished(http)
    spellings: dict[str, list[str]] = {}
    async with engine.pool.everywhere() as db:
        for thing, table in (("memory", "memory"), ("sessions", "thread")):
            query = sql.SQL("SELECT id::text, code FROM {} WHERE workspace_id = %s")
            cursor = await db.execute(query.format(sql.Identifier(table)), [foreigner.workspace_id])
            [(uuid, code)] = await cursor.fetchall()
            spellings[thing] = [uuid, code, code[:12], f"mem_{code}", f"sess_{code}"]

    statuses = {
        (await visitor.http.get(f"/v1/{thing}/{each}")).status_code
        for thing, ids in spellings.items()
        for each in ids
    }

    assert statuses == {404}


async def test_every_route_has_a_crossing_or_no_place_for_an_id(server: Server) -> None:
    door = door_named(server, "statebase")
    crossed = {each.route for each in cases(door, NOBODYS, NOBODYS)}

    without = {str(route) for route in routes_of(door) if route not in crossed}

    assert without == {"POST /v1/sessions"}


async def test_S42_what_is_listed_is_the_callers_alone(
    visitor: Visitor, server: Server, engine: Engine, foreigner: Caller
) -> None:
    key = await key_for(engine, foreigner.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        foreign = await furnished(http)
    paths = ["/v1/memory", "/v1/memories", "/v1/sessions", "/v1/traces"]
    paths += [f"{path}?user_id=ada" for path in paths]

    answers = [await visitor.http.get(path) for path in paths]
    answers.append(
        await visitor.http.post(
            "/v1/memory/search", json={"query": "a text of theirs", "threshold": 0.0}
        )
    )

    assert [answer.json()["data"] for answer in answers] == [[]] * len(answers)
    assert foreign.memory not in "".join(answer.text for answer in answers)


async def test_S48_equal_texts_in_two_workspaces_are_two_memories(
    visitor: Visitor, server: Server, engine: Engine, foreigner: Caller
) -> None:
    key = await key_for(engine, foreigner.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        theirs = await remember(http, "Ada lives in London", key="home")
        ours = await remember(visitor.http, "Ada lives in London", key="home")

        await visitor.http.delete(f"/v1/memory/{ours['id']}")

        assert theirs["id"] != ours["id"]
        assert (await http.get(f"/v1/memory/{theirs['id']}")).json() == theirs


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Workspace-Id": "{workspace}"},
        {"X-Recollect-Workspace": "{workspace}"},
        {"X-User-Id": "{user}"},
        {"X-Org-Id": "{org}"},
    ],
)
async def test_S23_a_header_that_names_another_workspace_widens_nothing(
    visitor: Visitor, server: Server, engine: Engine, headers: dict[str, str]
) -> None:
    stranger = await new_caller(engine)
    key = await key_for(engine, stranger.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        await furnished(http)
    named = {
        name: value.format(
            workspace=stranger.workspace_id, user=stranger.user_id, org=stranger.org_id
        )
        for name, value in headers.items()
    }

    answer = await visitor.http.get("/v1/memory", headers=named)

    assert answer.json()["data"] == []


async def credentials(engine: Engine, caller: Caller, clock: Clock) -> dict[str, dict[str, str]]:
    """What does not open a door; each with its reason."""
    revoked = await create_key(engine, workspace=str(caller.workspace_id))
    await revoke_key(engine, str(revoked.record.id))
    expired = await key_for(engine, caller.workspace_id, expires_at=clock.at + timedelta(seconds=1))
    clock.advance(timedelta(seconds=1))
    return {
        "none": {},
        "a wrong one": {"X-API-Key": "rk_00000000_wrong"},
        "a wrong bearer": {"Authorization": "Bearer rk_00000000_wrong"},
        "a revoked one": {"X-API-Key": revoked.text},
        "an expired one": {"X-API-Key": expired},
        "a cookie": {"Cookie": "session=1"},
    }


async def test_N01_S07_no_route_answers_without_a_good_key(
    server: Server, engine: Engine, caller: Caller, clock: Clock
) -> None:
    good = await key_for(engine, caller.workspace_id)
    bad = await credentials(engine, caller, clock)
    door = door_named(server, "statebase")
    before = await dump(engine, caller.workspace_id)

    async with visit(server) as http:
        answers = {
            (str(case), reason): await http.request(
                case.method, filled(case), json=NEEDED.get(str(case)), headers=headers, params=query
            )
            for case in routes_of(door)
            for reason, headers, query in [
                *((reason, headers, {}) for reason, headers in bad.items()),
                ("in the address", {}, {"api_key": good}),
            ]
        }

    assert len(answers) == len(routes_of(door)) * 7
    for answer in answers.values():
        assert complaint(answer) == (401, "authentication_failed", None)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert await dump(engine, caller.workspace_id) == before


def filled(route: Route) -> str:
    return route.path.format(
        memory_id=NOBODYS.memory, session_id=NOBODYS.session, trace_id=NOBODYS.trace
    )


async def test_S07_only_what_shows_nobodys_data_is_open(server: Server) -> None:
    open_to_all = {
        "/docs": "text/html; charset=utf-8",
        "/docs.css": "text/css; charset=utf-8",
        "/openapi/{door}.json": "application/json",
        "/health": "application/json",
        "/health/live": "application/json",
        "/health/ready": "application/json",
    }
    stranger = httpx2.ASGITransport(app=server.app, client=("203.0.113.7", 50_000))
    async with httpx2.AsyncClient(transport=stranger, base_url="http://recollect.test") as http:
        answers = {
            path: await http.get(path.replace("{door}", "statebase"))
            for path in routes_behind_no_door(server)
        }

    shown = {
        path: answer.headers["content-type"]
        for path, answer in answers.items()
        if answer.is_success
    }
    assert shown == open_to_all
    assert answers.keys() - shown.keys() == {"/metrics"}


async def test_S34_no_route_that_reads_changes_anything(
    engine: Engine, server: Server, caller: Caller
) -> None:
    own = await worlds.furnished(engine, server, caller, worlds.PLAIN)
    before = await dump(engine, caller.workspace_id)
    asked = 0
    async with (
        client_of(engine, server, caller) as keyed,
        await browse(server, engine, caller) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        for door in server.doors:
            if not isinstance(door.app, FastAPI):
                continue
            http = browser if door.name == "dashboard" else keyed
            for case in worlds.read(door, own):
                answer = await http.request(case.route.method, case.path, params=case.query)
                asked += answer.is_success
    after = await dump(engine, caller.workspace_id)

    # That somebody took everything out is written down.
    exports = [each for each in after["event"] if "data.exported" in each]
    after["event"] = [each for each in after["event"] if each not in exports]
    assert after == before
    assert asked > 60


async def test_S64_no_route_and_no_tool_takes_an_address_to_ask(server: Server) -> None:
    named: set[str] = set()
    for door in server.doors:
        if isinstance(door.app, FastAPI):
            for path, methods in door.app.openapi()["paths"].items():
                for method, says in methods.items():
                    named |= {each["name"] for each in says.get("parameters", [])}
                    named |= {name for name, _ in fields_of_body(door, Route(method, path))}
    for tool in tools.TOOLS.values():
        named |= set(tool.arguments.model_json_schema()["properties"])

    assert len(named) > 100
    address = re.compile(r"ur[il]|endpoint|webhook|callback|host|proxy|upstream", re.IGNORECASE)
    assert {name for name in named if address.search(name)} == set()


NEEDS: dict[str, set[Right]] = {
    "POST /v1/memory": {Right.WRITE},
    "POST /v1/memories": {Right.WRITE},
    "GET /v1/memory": {Right.READ},
    "GET /v1/memories": {Right.READ},
    "POST /v1/memory/search": {Right.READ},
    "POST /v1/memories/search": {Right.READ},
    "GET /v1/memories/search": {Right.READ},
    "GET /v1/memory/{memory_id}": {Right.READ},
    "GET /v1/memories/{memory_id}": {Right.READ},
    # Whoever is shown what was there before must be allowed to read it.
    "PATCH /v1/memory/{memory_id}": {Right.READ, Right.WRITE},
    "PATCH /v1/memories/{memory_id}": {Right.READ, Right.WRITE},
    "PUT /v1/memories/{memory_id}": {Right.READ, Right.WRITE},
    "DELETE /v1/memory/{memory_id}": {Right.DELETE},
    "DELETE /v1/memories/{memory_id}": {Right.DELETE},
    "POST /v1/sessions": {Right.WRITE},
    "GET /v1/sessions": {Right.READ},
    "GET /v1/sessions/{session_id}": {Right.READ},
    "DELETE /v1/sessions/{session_id}": {Right.DELETE},
    "POST /v1/sessions/{session_id}/context": {Right.READ},
    "GET /v1/sessions/{session_id}/state": {Right.READ},
    "PATCH /v1/sessions/{session_id}/state": {Right.READ, Right.WRITE},
    "PUT /v1/sessions/{session_id}/state": {Right.WRITE},
    "POST /v1/sessions/{session_id}/state": {Right.WRITE},
    "GET /v1/sessions/{session_id}/history": {Right.READ},
    "GET /v1/sessions/{session_id}/state/history": {Right.READ},
    "POST /v1/sessions/{session_id}/rollback": {Right.READ, Right.WRITE},
    "POST /v1/sessions/{session_id}/state/rollback": {Right.READ, Right.WRITE},
    "POST /v1/sessions/{session_id}/fork": {Right.READ, Right.WRITE},
    "POST /v1/sessions/{session_id}/turns": {Right.WRITE},
    "GET /v1/sessions/{session_id}/turns": {Right.READ},
    "GET /v1/traces": {Right.READ},
    "GET /v1/traces/{trace_id}": {Right.READ},
}


async def test_S23_each_route_needs_its_rights_and_no_others(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    door = door_named(server, "statebase")
    sets = {frozenset(Right) - {right} for right in Right}
    sets |= {frozenset(needs) for needs in NEEDS.values()}
    keys = {
        rights: await key_for(engine, visitor.caller.workspace_id, rights=sorted(rights))
        for rights in sets
    }

    found: dict[str, set[Right]] = {}
    for route in routes_of(door):
        things = await furnished(visitor.http)
        [case] = [each for each in cases(door, things, things) if each.route == route][:1] or [
            Case(route, "as it is", route.path, body=NEEDED.get(str(route)))
        ]
        async with visit(server) as http:
            lacking = {
                right: await send_as(http, case, keys[frozenset(Right) - {right}])
                for right in Right
                if right in NEEDS[str(route)]
            }
            enough = await send_as(http, case, keys[frozenset(NEEDS[str(route)])])
        found[str(route)] = {right for right, status in lacking.items() if status == 403}
        assert 200 <= enough < 300, (route, enough)

    assert found == NEEDS


async def send_as(http: httpx2.AsyncClient, case: Case, key: str) -> int:
    answer = await http.request(
        case.route.method,
        case.path,
        params=case.query,
        json=case.body,
        headers={"X-API-Key": key},
    )
    return answer.status_code


async def test_S23_admin_is_no_right_to_data(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    key = await key_for(engine, visitor.caller.workspace_id, rights=[Right.ADMIN])
    things = await furnished(visitor.http)
    door = door_named(server, "statebase")

    async with visit(server) as http:
        statuses = {await send_as(http, case, key) for case in cases(door, things, things)}

    assert statuses == {403}


@pytest.mark.slow
async def test_S45_many_callers_over_two_connections_see_their_own_rows(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> None:
    async with open_pool(database_url, size=2) as pool:
        engine = Engine(pool=pool, embedders=Embedders(embedder), now=clock)
        server = serve(engine)
        keys = [await key_for(engine, (await new_caller(engine)).workspace_id) for _ in range(4)]
        async with visit(server) as http:

            async def one(number: int) -> tuple[str, set[str]]:
                who = number % len(keys)
                headers = {"X-API-Key": keys[who]}
                text = f"of {who}"
                if number < len(keys):
                    await http.post("/v1/memories", json={"content": text}, headers=headers)
                if number % 3:
                    answer = await http.get("/v1/memory", headers=headers)
                else:
                    body = {"query": text, "threshold": 0.0}
                    answer = await http.post("/v1/memory/search", json=body, headers=headers)
                return text, {each["content"] for each in answer.json()["data"]}

            first = [await one(number) for number in range(len(keys))]
            rest = [
                seen
                for start in range(len(keys), 1_000, 50)
                for seen in await asyncio.gather(*map(one, range(start, min(start + 50, 1_000))))
            ]

    assert all(seen == {text} for text, seen in first + rest)
    assert len(first + rest) == 1_000
