"""Nobody reaches what is another's: every route of this door, crossed with foreign ids.

The cases are made from the route table and the door's own document, as for the statebase door. A
foreigner is of another org, of another workspace, another user of the same workspace, or somebody
who is not in the project. An id of theirs must be answered like an id that nobody has.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4
from zipfile import ZipFile

import httpx2
import pytest

from recollect.domain import Caller
from recollect.doors.front import Door
from recollect.engine.core import Engine
from recollect.server import Server
from recollect.store import projects
from tests.support.alumia import (
    client_of,
    colleague,
    complaint,
    kept,
    new_agent,
    new_project,
    session,
    switch_workspaces,
)
from tests.support.house import neighbour, new_caller, visit
from tests.support.isolation import Case, dump
from tests.support.routes import door_named, fields_of_body, operation, routes_of
from tests.support.statebase import remember

pytestmark = pytest.mark.anyio

# What stands in a path, a query or a body under this name.
THING_BY_NAME = {
    "memory_id": "memory",
    "asset_id": "asset",
    "source_id": "source",
    "session_id": "session",
    "insight_id": "insight",
    "projectId": "project",
    "agentId": "agent",
    "sessionId": "session",
    "id": "session",  # of a source, whose kind is given with it
}
# A body that each route takes: whatever goes wrong then is the id's doing.
NEEDED: dict[str, dict[str, Any]] = {
    "POST /api/v1/memories": {"value": "a new text"},
    "POST /api/v1/memories/recall": {"query": "a text of theirs"},
    "PATCH /api/v1/memories/{memory_id}": {"value": "changed by a stranger"},
    "POST /api/v1/memories/{memory_id}/sources": {"kind": "session", "id": "{session}"},
    "POST /api/v1/sessions": {},
    "POST /api/v1/learning": {"category": "role", "insight": "a stranger"},
    "POST /api/v1/tools/save_learning_insight": {"category": "role", "insight": "a stranger"},
    "PATCH /api/v1/learning/settings": {"enabled": True},
}
UPLOADS = {"POST /api/v1/memories/{memory_id}/assets", "POST /api/v1/import"}


@dataclass(frozen=True, slots=True)
class Things:
    """The ids of one of each."""

    memory: str
    asset: str
    source: str
    session: str
    insight: str
    project: str
    agent: str


def nobodys() -> Things:
    return Things(*(str(uuid4()) for _ in range(7)))


def names_something(name: str) -> bool:
    return name == "id" or name.endswith(("_id", "Id"))


def cases(door: Door, own: Things, foreign: Things) -> Iterator[Case]:
    """Every place of every route where an id can stand, with the foreign one in it."""
    for route in routes_of(door):
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        says = operation(door, route)
        has_body = "requestBody" in says and str(route) not in UPLOADS
        if has_body:
            assert str(route) in NEEDED, f"{route}: which body does it take?"
        body = (
            {
                name: own.session if value == "{session}" else value
                for name, value in NEEDED[str(route)].items()
            }
            if has_body
            else None
        )
        ids = {name: getattr(own, THING_BY_NAME[name]) for name in names}
        for name in names:
            crossed = {**ids, name: getattr(foreign, THING_BY_NAME[name])}
            yield Case(route, f"in the path: {name}", route.path.format(**crossed), {}, body)
        for parameter in says.get("parameters", []):
            name = parameter["name"]
            if parameter["in"] == "query" and names_something(name):
                query = {name: getattr(foreign, THING_BY_NAME[name])}
                yield Case(route, f"in the query: {name}", route.path.format(**ids), query, body)
        for name, _ in fields_of_body(door, route):
            if has_body and body is not None and names_something(name):
                added = {**body, name: getattr(foreign, THING_BY_NAME[name])}
                yield Case(route, f"in the body: {name}", route.path.format(**ids), {}, added)


async def furnished(engine: Engine, http: httpx2.AsyncClient, caller: Caller) -> Things:
    """One of each thing, made through the door; the memory is the project's."""
    project = await new_project(engine, caller)
    agent = await new_agent(engine, caller)
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE agent SET project_id = %s WHERE workspace_id = %s AND id = %s",
            [project, caller.workspace_id, agent],
        )
    talk = await session(http, projectId=project)
    memory = await kept(http, "a text of theirs", scope="project", projectId=project, key="same")
    path = f"/api/v1/memories/{memory['id']}"
    asset = await http.post(f"{path}/assets", files={"file": ("a.txt", b"theirs", "text/plain")})
    source = await http.post(f"{path}/sources", json={"kind": "session", "id": talk})
    insight = await http.post(
        "/api/v1/learning", json={"category": "role", "insight": "theirs alone"}
    )
    return Things(
        memory["id"],
        asset.json()["data"]["id"],
        source.json()["data"]["id"],
        talk,
        insight.json()["data"]["id"],
        project,
        agent,
    )


async def send(http: httpx2.AsyncClient, case: Case) -> tuple[int, Any]:
    files = {"file": ("b.txt", b"strange", "text/plain")} if str(case.route) in UPLOADS else None
    answer = await http.request(
        case.route.method, case.path, params=case.query, json=case.body, files=files
    )
    return answer.status_code, answer.json()


@pytest.fixture(
    params=["another org", "another workspace", "another user", "another user, workspaces on"]
)
async def foreigner(request: pytest.FixtureRequest, engine: Engine, caller: Caller) -> Caller:
    if request.param == "another org":
        return await new_caller(engine)
    if request.param == "another workspace":
        await switch_workspaces(engine, caller, is_on=True)
        return await neighbour(engine, caller)
    if request.param == "another user, workspaces on":
        await switch_workspaces(engine, caller, is_on=True)
    return await colleague(engine, caller)


async def test_R291_R293_R295_S41_foreign_ids_do_not_exist_on_any_route(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    door = door_named(server, "alumia")
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await furnished(engine, theirs, foreigner)
        own = await furnished(engine, ours, caller)
        nobody = nobodys()
        is_elsewhere = caller.workspace_id != foreigner.workspace_id
        before = await dump(engine, foreigner.workspace_id)

        crossed = {str(each): await send(ours, each) for each in cases(door, own, foreign)}
        between = await dump(engine, foreigner.workspace_id)
        absent = {str(each): await send(ours, each) for each in cases(door, own, nobody)}

        assert crossed == absent
        assert {status for status, _ in crossed.values()} == {404}
        if is_elsewhere:
            assert between == before
        for path in (f"/api/v1/memories/{foreign.memory}", f"/api/v1/sessions/{foreign.session}"):
            assert (await theirs.get(path)).status_code == 200


async def test_every_route_of_this_door_has_a_crossing_or_no_place_for_an_id(
    server: Server,
) -> None:
    door = door_named(server, "alumia")
    nobody = nobodys()
    crossed = {each.route for each in cases(door, nobody, nobody)}

    without = {str(route) for route in routes_of(door) if route not in crossed}

    assert without == {
        "GET /api/v1/export",
        "POST /api/v1/import",
        "GET /api/v1/learning",
        "POST /api/v1/learning",
        "POST /api/v1/tools/save_learning_insight",
        "DELETE /api/v1/learning",
        "GET /api/v1/learning/settings",
        "PATCH /api/v1/learning/settings",
    }


async def test_S42_what_is_listed_recalled_and_counted_is_the_callers_alone(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await furnished(engine, theirs, foreigner)
        own = await kept(ours, "our own text", key="same")

        answers = [
            await ours.get("/api/v1/memories"),
            await ours.get("/api/v1/memories", params={"key": "same"}),
            await ours.post("/api/v1/memories/recall", json={"query": "text of theirs"}),
            await ours.get("/api/v1/learning"),
            await ours.get("/v1/memory"),
            await ours.get("/v1/sessions"),
            await ours.get("/v1/traces", params={"action": "memory.created"}),
            await ours.get("/agents/memories", params={"agent_id": "default"}),
        ]

        shown = "".join(answer.text for answer in answers)
        for each in (foreign.memory, foreign.session, foreign.insight, "of theirs"):
            assert each not in shown
        assert [each["id"] for each in answers[0].json()["data"]["items"]] == [own["id"]]
        assert answers[3].json()["data"]["total"] == 0
        assert answers[7].json()["total"] == 1


async def test_S42_an_export_holds_the_callers_own_and_nothing_else(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await furnished(engine, theirs, foreigner)
        own = await furnished(engine, ours, caller)
        await remember(theirs, "everybody there may read this of theirs")

        answer = await ours.get("/api/v1/export")

    with ZipFile(BytesIO(answer.content)) as archive:
        shown = archive.read("recollect.jsonl").decode()
        attached = [name for name in archive.namelist() if name.startswith("files/")]
    for each in fields(foreign):
        assert getattr(foreign, each.name) not in shown
        # An agent goes along where something is its own.
        assert (getattr(own, each.name) in shown) == (each.name != "agent")
    if caller.user_id != foreigner.user_id:
        assert str(foreigner.user_id) not in shown
    assert "everybody there" not in shown
    assert len(attached) == 1


async def test_S42_who_was_put_out_of_a_project_takes_nothing_of_it_along(
    engine: Engine, server: Server, caller: Caller
) -> None:
    project = await new_project(engine, caller)
    async with client_of(engine, server, caller) as http:
        await kept(http, "known to the project", scope="project", projectId=project)
        await kept(http, "known to me")
        async with engine.writing(caller) as db:
            await projects.remove_member(db, caller.workspace_id, UUID(project), caller.user_id)

        answer = await http.get("/api/v1/export")

    with ZipFile(BytesIO(answer.content)) as archive:
        shown = archive.read("recollect.jsonl").decode()
    assert "known to me" in shown
    assert "known to the project" not in shown
    assert project not in shown


async def test_S23_each_right_opens_its_own_routes_alone(
    engine: Engine, server: Server, caller: Caller
) -> None:
    door = door_named(server, "alumia")
    async with client_of(engine, server, caller) as http:
        own = await furnished(engine, http, caller)
    unable = replace(caller, rights=frozenset())
    for right in caller.rights:
        weak = replace(unable, rights=frozenset({right}))
        async with client_of(engine, server, weak) as http:
            for route in routes_of(door):
                names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
                ids = {name: getattr(own, THING_BY_NAME[name]) for name in names}
                body = NEEDED.get(str(route))
                case = Case(route, "", route.path.format(**ids), {}, body)
                if str(route) in {"DELETE /api/v1/learning", "PATCH /api/v1/learning/settings"}:
                    continue
                if body and body.get("id"):
                    case = replace(case, body={**body, "id": own.session})
                needed = {"GET": "read", "DELETE": "delete"}.get(route.method, "write")
                needed = "read" if route.path.endswith("/recall") else needed
                if right == needed:
                    continue
                status, _ = await send(http, case)
                assert status in {403, 404}, (str(route), right, status)


async def test_S07_no_route_of_this_door_answers_without_a_good_key(server: Server) -> None:
    door = door_named(server, "alumia")
    nobody = nobodys()
    wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer rk_00000000_wrong"}]
    async with visit(server) as http:
        for route in routes_of(door):
            names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
            path = route.path.format(**{n: getattr(nobody, THING_BY_NAME[n]) for n in names})
            for headers in wrong:
                answer = await http.request(
                    route.method, path, json=NEEDED.get(str(route)), headers=headers
                )
                assert complaint(answer) == (401, "UNAUTHORIZED")
                assert answer.headers["www-authenticate"] == "Bearer"
