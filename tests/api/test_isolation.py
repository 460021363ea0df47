"""No caller can reach another workspace: tests every route with ids of another workspace.

The cases are generated from the route table and the OpenAPI document. A route, path parameter or
field that holds an id and is not classified here fails the test.
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

from recollect.api.gateway import Interface
from recollect.api.tools import tools
from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.models.embedder_registry import Embedders
from recollect.server import Server
from recollect.tenancy.keys import create_key, revoke_key
from tests.support import private_data
from tests.support.alumia import client_of
from tests.support.clock import Clock
from tests.support.dashboard import connect_signed_in
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    ApiClient,
    connect,
    in_new_workspace,
    key_for,
    make_server,
    new_caller,
    open_pool,
)
from tests.support.isolation import IsolationRequest, dump
from tests.support.routes import (
    Route,
    fields_of_body,
    interface_named,
    operation,
    routes_of,
    routes_outside_interfaces,
)
from tests.support.statebase import create_memory, error_of, open_session

pytestmark = pytest.mark.anyio

# The kind of id in a path parameter or field of this name.
THING_BY_NAME = {"memory_id": "memory", "session_id": "session", "trace_id": "trace"}
# Labels that the client chooses freely. They are not ids.
CLIENT_LABELS = {"agent_id", "user_id"}
# The kind of id after which a page of each list starts.
CURSOR_THING_BY_PATH = {
    "/v1/memory": "memory",
    "/v1/memories": "memory",
    "/v1/sessions": "session",
    "/v1/sessions/{session_id}/turns": "turn",
    "/v1/traces": "trace",
    "/v1/sessions/{session_id}/history": "version",
    "/v1/sessions/{session_id}/state/history": "version",
}
# A valid body or query for each route, so that an error can only come from the id.
MINIMAL_INPUT: dict[str, dict[str, Any]] = {
    "POST /v1/memory": {"content": "a new text", "session_id": "{session}"},
    "POST /v1/memories": {"content": "a new text"},
    "POST /v1/memory/search": {"query": "a text of theirs", "threshold": 0.0},
    "POST /v1/memories/search": {"query": "a text of theirs", "threshold": 0.0},
    "GET /v1/memories/search": {"query": "a text of theirs", "threshold": 0.0},
    "PATCH /v1/memory/{memory_id}": {"content": "changed by a outsider"},
    "PATCH /v1/memories/{memory_id}": {"content": "changed by a outsider"},
    "PUT /v1/memories/{memory_id}": {"content": "changed by a outsider"},
    "POST /v1/sessions": {"agent_id": "agent"},
    "PATCH /v1/sessions/{session_id}/state": {"state": {"changed": "by a outsider"}},
    "PUT /v1/sessions/{session_id}/state": {"state": {"changed": "by a outsider"}},
    "POST /v1/sessions/{session_id}/state": {"state": {"changed": "by a outsider"}},
    "POST /v1/sessions/{session_id}/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/state/rollback": {"version": 0},
    "POST /v1/sessions/{session_id}/turns": {"input": "by", "output": "a outsider"},
}


@dataclass(frozen=True, slots=True)
class StatebaseIds:
    """The id of one object of each kind, in the form of this interface."""

    memory: str
    session: str
    turn: str
    trace: str


UNKNOWN_IDS = StatebaseIds(
    memory="mem_aaaaaaaaaaaa",
    session="sess_aaaaaaaaaaaa",
    turn="turn_aaaaaaaaaaaa",
    trace="trace_" + "0" * 31 + "1",
)


async def add_one_of_each(http: httpx2.AsyncClient) -> StatebaseIds:
    """Create one object of each kind through the interface."""
    session = await open_session(http, user_id="ada", initial_state={"secret": "state"})
    memory = await create_memory(http, "a text of theirs", session, tags=["home"], user_id="ada")
    turn = await http.post(
        f"/v1/sessions/{session['id']}/turns", json={"input": "hi", "output": "hello"}
    )
    traces = await http.get("/v1/traces", params={"action": "memory.created"})
    return StatebaseIds(
        memory["id"], session["id"], turn.json()["id"], traces.json()["data"][0]["id"]
    )


def cases(
    interface: Interface, own: StatebaseIds, foreign: StatebaseIds
) -> Iterator[IsolationRequest]:
    """A request for every position of an id in every route, with the foreign id in it."""
    for route in routes_of(interface):
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        given = {
            name: own.session if value == "{session}" else value
            for name, value in MINIMAL_INPUT.get(str(route), {}).items()
        }
        operation_document = operation(interface, route)
        if operation_document.get("requestBody", {}).get("required"):
            assert str(route) in MINIMAL_INPUT, f"{route}: which body does it take?"
        has_body = "requestBody" in operation_document
        query = {} if has_body else given
        body = given if has_body else None

        def address(things: StatebaseIds, route: Route = route, names: list[str] = names) -> str:
            ids = {name: getattr(things, THING_BY_NAME[name]) for name in names}
            return route.path.format(**ids)

        if names:
            yield IsolationRequest(route, "in the path", address(foreign), query, body)
        for parameter in operation_document.get("parameters", []):
            name = parameter["name"]
            if parameter["in"] != "query" or not is_id(name):
                continue
            thing = (
                CURSOR_THING_BY_PATH[route.path]
                if name == "starting_after"
                else THING_BY_NAME[name]
            )
            if thing != "version":
                added = {**query, name: getattr(foreign, thing)}
                yield IsolationRequest(route, f"in the query: {name}", address(own), added, body)
        for name, _ in fields_of_body(interface, route):
            if is_id(name):
                added = {**given, name: getattr(foreign, THING_BY_NAME[name])}
                yield IsolationRequest(route, f"in the body: {name}", address(own), query, added)


def is_id(name: str) -> bool:
    return (name == "starting_after" or name.endswith("_id")) and name not in CLIENT_LABELS


async def send(http: httpx2.AsyncClient, case: IsolationRequest) -> tuple[int, Any]:
    response = await http.request(case.route.method, case.path, params=case.query, json=case.body)
    return response.status_code, response.json() if response.content else None


@pytest.fixture(params=["a workspace of the same org", "another org"])
async def outsider(request: pytest.FixtureRequest, engine: Engine, caller: Caller) -> Caller:
    if request.param == "another org":
        return await new_caller(engine)
    return await in_new_workspace(engine, caller)


async def test_R195_R209_S41_ids_of_another_workspace_are_unknown_on_every_route(
    client: ApiClient, server: Server, engine: Engine, outsider: Caller
) -> None:
    key = await key_for(engine, outsider.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        foreign = await add_one_of_each(http)
    own = await add_one_of_each(client.http)
    before = await dump(engine, outsider.workspace_id)
    interface = interface_named(server, "statebase")

    crossed = {str(each): await send(client.http, each) for each in cases(interface, own, foreign)}
    absent = {
        str(each): await send(client.http, each) for each in cases(interface, own, UNKNOWN_IDS)
    }

    assert crossed == absent
    assert {status for status, _ in crossed.values()} == {200, 400, 404}
    assert all(body["data"] == [] for status, body in crossed.values() if status == 200)
    assert await dump(engine, outsider.workspace_id) == before


async def test_S41_every_form_of_a_foreign_id_is_unknown(
    client: ApiClient, server: Server, engine: Engine, outsider: Caller
) -> None:
    key = await key_for(engine, outsider.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        await add_one_of_each(http)
    spellings: dict[str, list[str]] = {}
    async with engine.pool.everywhere() as db:
        for thing, table in (("memory", "memory"), ("sessions", "thread")):
            query = sql.SQL("SELECT id::text, code FROM {} WHERE workspace_id = %s")
            cursor = await db.execute(query.format(sql.Identifier(table)), [outsider.workspace_id])
            [(uuid, code)] = await cursor.fetchall()
            spellings[thing] = [uuid, code, code[:12], f"mem_{code}", f"sess_{code}"]

    statuses = {
        (await client.http.get(f"/v1/{thing}/{each}")).status_code
        for thing, ids in spellings.items()
        for each in ids
    }

    assert statuses == {404}


async def test_every_route_with_an_id_has_a_case(server: Server) -> None:
    interface = interface_named(server, "statebase")
    crossed = {each.route for each in cases(interface, UNKNOWN_IDS, UNKNOWN_IDS)}

    without = {str(route) for route in routes_of(interface) if route not in crossed}

    assert without == {"POST /v1/sessions"}


async def test_S42_lists_show_only_the_callers_workspace(
    client: ApiClient, server: Server, engine: Engine, outsider: Caller
) -> None:
    key = await key_for(engine, outsider.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        foreign = await add_one_of_each(http)
    paths = ["/v1/memory", "/v1/memories", "/v1/sessions", "/v1/traces"]
    paths += [f"{path}?user_id=ada" for path in paths]

    responses = [await client.http.get(path) for path in paths]
    responses.append(
        await client.http.post(
            "/v1/memory/search", json={"query": "a text of theirs", "threshold": 0.0}
        )
    )

    assert [response.json()["data"] for response in responses] == [[]] * len(responses)
    assert foreign.memory not in "".join(response.text for response in responses)


async def test_S48_equal_texts_in_two_workspaces_are_separate_memories(
    client: ApiClient, server: Server, engine: Engine, outsider: Caller
) -> None:
    key = await key_for(engine, outsider.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        theirs = await create_memory(http, "Ada lives in London", key="home")
        ours = await create_memory(client.http, "Ada lives in London", key="home")

        await client.http.delete(f"/v1/memory/{ours['id']}")

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
async def test_S23_a_header_that_names_another_workspace_grants_nothing(
    client: ApiClient, server: Server, engine: Engine, headers: dict[str, str]
) -> None:
    outsider = await new_caller(engine)
    key = await key_for(engine, outsider.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        await add_one_of_each(http)
    named = {
        name: value.format(
            workspace=outsider.workspace_id, user=outsider.user_id, org=outsider.org_id
        )
        for name, value in headers.items()
    }

    response = await client.http.get("/v1/memory", headers=named)

    assert response.json()["data"] == []


async def bad_credentials(
    engine: Engine, caller: Caller, clock: Clock
) -> dict[str, dict[str, str]]:
    """Credentials that must be refused, by reason."""
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


async def test_N01_S07_no_route_works_without_a_valid_key(
    server: Server, engine: Engine, caller: Caller, clock: Clock
) -> None:
    good = await key_for(engine, caller.workspace_id)
    bad = await bad_credentials(engine, caller, clock)
    interface = interface_named(server, "statebase")
    before = await dump(engine, caller.workspace_id)

    async with connect(server) as http:
        responses = {
            (str(case), reason): await http.request(
                case.method,
                filled(case),
                json=MINIMAL_INPUT.get(str(case)),
                headers=headers,
                params=query,
            )
            for case in routes_of(interface)
            for reason, headers, query in [
                *((reason, headers, {}) for reason, headers in bad.items()),
                ("in the URL", {}, {"api_key": good}),
            ]
        }

    assert len(responses) == len(routes_of(interface)) * 7
    for response in responses.values():
        assert error_of(response) == (401, "authentication_failed", None)
        assert response.headers["www-authenticate"] == "Bearer"
    assert await dump(engine, caller.workspace_id) == before


def filled(route: Route) -> str:
    return route.path.format(
        memory_id=UNKNOWN_IDS.memory, session_id=UNKNOWN_IDS.session, trace_id=UNKNOWN_IDS.trace
    )


async def test_S07_only_routes_without_user_data_are_public(server: Server) -> None:
    public = {
        "/docs": "text/html; charset=utf-8",
        "/docs.css": "text/css; charset=utf-8",
        "/openapi/{interface}.json": "application/json",
        "/health": "application/json",
        "/health/live": "application/json",
        "/health/ready": "application/json",
    }
    outsider = httpx2.ASGITransport(app=server.app, client=("203.0.113.7", 50_000))
    async with httpx2.AsyncClient(transport=outsider, base_url="http://recollect.test") as http:
        responses = {
            path: await http.get(path.replace("{interface}", "statebase"))
            for path in routes_outside_interfaces(server)
        }

    shown = {
        path: response.headers["content-type"]
        for path, response in responses.items()
        if response.is_success
    }
    assert shown == public
    assert responses.keys() - shown.keys() == {"/metrics"}


async def test_S34_no_reading_route_changes_anything(
    engine: Engine, server: Server, caller: Caller
) -> None:
    own = await private_data.add_private_data(engine, server, caller, private_data.PLAIN)
    before = await dump(engine, caller.workspace_id)
    asked = 0
    async with (
        client_of(engine, server, caller) as keyed,
        await connect_signed_in(server, engine, caller) as browser,
    ):
        keyed.headers["X-API-Key"] = keyed.headers["Authorization"].split()[1]
        for interface in server.interfaces:
            if not isinstance(interface.app, FastAPI):
                continue
            http = browser if interface.name == "dashboard" else keyed
            for case in private_data.reading_cases(interface, own):
                response = await http.request(case.route.method, case.path, params=case.query)
                asked += response.is_success
                if case.route.method == "GET":
                    await http.head(case.path, params=case.query)
    after = await dump(engine, caller.workspace_id)

    # An export adds an audit event.
    exports = [each for each in after["event"] if "data.exported" in each]
    after["event"] = [each for each in after["event"] if each not in exports]
    assert after == before
    assert asked > 60


async def test_S64_no_route_and_no_tool_accepts_a_url(server: Server) -> None:
    named: set[str] = set()
    for interface in server.interfaces:
        if isinstance(interface.app, FastAPI):
            for path, methods in interface.app.openapi()["paths"].items():
                for method, operation_document in methods.items():
                    named |= {each["name"] for each in operation_document.get("parameters", [])}
                    named |= {name for name, _ in fields_of_body(interface, Route(method, path))}
    for tool in tools.TOOLS.values():
        named |= set(tool.arguments.model_json_schema()["properties"])

    assert len(named) > 100
    url_name = re.compile(r"ur[il]|endpoint|webhook|callback|host|proxy|upstream", re.IGNORECASE)
    assert {name for name in named if url_name.search(name)} == set()


RIGHTS_BY_ROUTE: dict[str, set[Right]] = {
    "POST /v1/memory": {Right.WRITE},
    "POST /v1/memories": {Right.WRITE},
    "GET /v1/memory": {Right.READ},
    "GET /v1/memories": {Right.READ},
    "POST /v1/memory/search": {Right.READ},
    "POST /v1/memories/search": {Right.READ},
    "GET /v1/memories/search": {Right.READ},
    "GET /v1/memory/{memory_id}": {Right.READ},
    "GET /v1/memories/{memory_id}": {Right.READ},
    # The response shows the existing data, so these need the read right too.
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


async def test_S23_each_route_needs_exactly_its_rights(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    interface = interface_named(server, "statebase")
    sets = {frozenset(Right) - {right} for right in Right}
    sets |= {frozenset(needs) for needs in RIGHTS_BY_ROUTE.values()}
    keys = {
        rights: await key_for(engine, client.caller.workspace_id, rights=sorted(rights))
        for rights in sets
    }

    found: dict[str, set[Right]] = {}
    for route in routes_of(interface):
        things = await add_one_of_each(client.http)
        [case] = [each for each in cases(interface, things, things) if each.route == route][:1] or [
            IsolationRequest(route, "as it is", route.path, body=MINIMAL_INPUT.get(str(route)))
        ]
        async with connect(server) as http:
            lacking = {
                right: await send_as(http, case, keys[frozenset(Right) - {right}])
                for right in Right
                if right in RIGHTS_BY_ROUTE[str(route)]
            }
            enough = await send_as(http, case, keys[frozenset(RIGHTS_BY_ROUTE[str(route)])])
        found[str(route)] = {right for right, status in lacking.items() if status == 403}
        assert 200 <= enough < 300, (route, enough)

    assert found == RIGHTS_BY_ROUTE


async def send_as(http: httpx2.AsyncClient, case: IsolationRequest, key: str) -> int:
    response = await http.request(
        case.route.method,
        case.path,
        params=case.query,
        json=case.body,
        headers={"X-API-Key": key},
    )
    return response.status_code


async def test_S23_the_admin_right_gives_no_access_to_data(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    key = await key_for(engine, client.caller.workspace_id, rights=[Right.ADMIN])
    things = await add_one_of_each(client.http)
    interface = interface_named(server, "statebase")

    async with connect(server) as http:
        statuses = {await send_as(http, case, key) for case in cases(interface, things, things)}

    assert statuses == {403}


@pytest.mark.slow
async def test_S45_many_callers_over_two_connections_see_their_own_rows(
    database_url: str, embedder: StubEmbedder, clock: Clock
) -> None:
    async with open_pool(database_url, size=2) as pool:
        engine = Engine(pool=pool, embedders=Embedders(embedder), now=clock)
        server = make_server(engine)
        keys = [await key_for(engine, (await new_caller(engine)).workspace_id) for _ in range(4)]
        async with connect(server) as http:

            async def one(number: int) -> tuple[str, set[str]]:
                who = number % len(keys)
                headers = {"X-API-Key": keys[who]}
                text = f"of {who}"
                if number < len(keys):
                    await http.post("/v1/memories", json={"content": text}, headers=headers)
                if number % 3:
                    response = await http.get("/v1/memory", headers=headers)
                else:
                    body = {"query": text, "threshold": 0.0}
                    response = await http.post("/v1/memory/search", json=body, headers=headers)
                return text, {each["content"] for each in response.json()["data"]}

            first = [await one(number) for number in range(len(keys))]
            rest = [
                seen
                for start in range(len(keys), 1_000, 50)
                for seen in await asyncio.gather(*map(one, range(start, min(start + 50, 1_000))))
            ]

    assert all(seen == {text} for text, seen in first + rest)
    assert len(first + rest) == 1_000
