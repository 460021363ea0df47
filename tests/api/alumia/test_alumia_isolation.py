"""No route of the alumia interface reaches another caller's rows.

The cases come from the route table and the OpenAPI document, as for the statebase interface. The
other caller is in another org, in another workspace, another user of the same workspace, or not in
the project. One of their ids must get the same response as an unknown id.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from io import BytesIO
from typing import Any
from uuid import UUID, uuid4
from zipfile import ZipFile

import httpx2
import pytest

from recollect.api.gateway import Interface
from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.queries import projects
from tests.support.alumia import (
    add_colleague,
    client_of,
    create_session,
    enable_workspaces,
    error_of,
    new_agent,
    new_project,
    save_memory,
)
from tests.support.instance import connect, in_new_workspace, new_caller
from tests.support.isolation import IsolationRequest, dump
from tests.support.routes import fields_of_body, interface_named, operation, routes_of
from tests.support.statebase import create_memory

pytestmark = pytest.mark.anyio

# The kind of id that a path, query or body parameter of this name takes.
KIND_BY_NAME = {
    "memory_id": "memory",
    "asset_id": "asset",
    "source_id": "source",
    "session_id": "session",
    "insight_id": "insight",
    "projectId": "project",
    "agentId": "agent",
    "sessionId": "session",
    "id": "session",  # of a source with the kind `session`
}
# A valid body for each route, so that only the id can be wrong.
VALID_BODIES: dict[str, dict[str, Any]] = {
    "POST /api/v1/memories": {"value": "a new text"},
    "POST /api/v1/memories/recall": {"query": "a text of theirs"},
    "PATCH /api/v1/memories/{memory_id}": {"value": "changed by an outsider"},
    "POST /api/v1/memories/{memory_id}/sources": {"kind": "session", "id": "{session}"},
    "POST /api/v1/sessions": {},
    "POST /api/v1/learning": {"category": "role", "insight": "an outsider"},
    "POST /api/v1/tools/save_learning_insight": {"category": "role", "insight": "an outsider"},
    "PATCH /api/v1/learning/settings": {"enabled": True},
}
UPLOADS = {"POST /api/v1/memories/{memory_id}/assets", "POST /api/v1/import"}


@dataclass(frozen=True, slots=True)
class AlumiaIds:
    """The id of one row of each kind."""

    memory: str
    asset: str
    source: str
    session: str
    insight: str
    project: str
    agent: str


def unknown_ids() -> AlumiaIds:
    return AlumiaIds(*(str(uuid4()) for _ in range(7)))


def takes_id(name: str) -> bool:
    return name == "id" or name.endswith(("_id", "Id"))


def cases(interface: Interface, own: AlumiaIds, foreign: AlumiaIds) -> Iterator[IsolationRequest]:
    """Yield a case with a foreign id for every parameter of every route that takes an id."""
    for route in routes_of(interface):
        names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
        document = operation(interface, route)
        has_body = "requestBody" in document and str(route) not in UPLOADS
        if has_body:
            assert str(route) in VALID_BODIES, f"{route}: add a valid body"
        body = (
            {
                name: own.session if value == "{session}" else value
                for name, value in VALID_BODIES[str(route)].items()
            }
            if has_body
            else None
        )
        ids = {name: getattr(own, KIND_BY_NAME[name]) for name in names}
        for name in names:
            crossed = {**ids, name: getattr(foreign, KIND_BY_NAME[name])}
            yield IsolationRequest(
                route, f"in the path: {name}", route.path.format(**crossed), {}, body
            )
        for parameter in document.get("parameters", []):
            name = parameter["name"]
            if parameter["in"] == "query" and takes_id(name):
                query = {name: getattr(foreign, KIND_BY_NAME[name])}
                yield IsolationRequest(
                    route, f"in the query: {name}", route.path.format(**ids), query, body
                )
        for name, _ in fields_of_body(interface, route):
            if has_body and body is not None and takes_id(name):
                added = {**body, name: getattr(foreign, KIND_BY_NAME[name])}
                yield IsolationRequest(
                    route, f"in the body: {name}", route.path.format(**ids), {}, added
                )


async def create_all(engine: Engine, http: httpx2.AsyncClient, caller: Caller) -> AlumiaIds:
    """Create one row of each kind through the interface; the memory belongs to the project."""
    project = await new_project(engine, caller)
    agent = await new_agent(engine, caller)
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE agent SET project_id = %s WHERE workspace_id = %s AND id = %s",
            [project, caller.workspace_id, agent],
        )
    talk = await create_session(http, projectId=project)
    memory = await save_memory(
        http, "a text of theirs", scope="project", projectId=project, key="same"
    )
    path = f"/api/v1/memories/{memory['id']}"
    asset = await http.post(f"{path}/assets", files={"file": ("a.txt", b"theirs", "text/plain")})
    source = await http.post(f"{path}/sources", json={"kind": "session", "id": talk})
    insight = await http.post(
        "/api/v1/learning", json={"category": "role", "insight": "theirs alone"}
    )
    return AlumiaIds(
        memory["id"],
        asset.json()["data"]["id"],
        source.json()["data"]["id"],
        talk,
        insight.json()["data"]["id"],
        project,
        agent,
    )


async def send(http: httpx2.AsyncClient, case: IsolationRequest) -> tuple[int, Any]:
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
        await enable_workspaces(engine, caller, is_on=True)
        return await in_new_workspace(engine, caller)
    if request.param == "another user, workspaces on":
        await enable_workspaces(engine, caller, is_on=True)
    return await add_colleague(engine, caller)


async def test_R291_R293_R295_S41_foreign_ids_do_not_exist_on_any_route(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    interface = interface_named(server, "alumia")
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await create_all(engine, theirs, foreigner)
        own = await create_all(engine, ours, caller)
        unknown = unknown_ids()
        is_elsewhere = caller.workspace_id != foreigner.workspace_id
        before = await dump(engine, foreigner.workspace_id)

        crossed = {str(each): await send(ours, each) for each in cases(interface, own, foreign)}
        between = await dump(engine, foreigner.workspace_id)
        absent = {str(each): await send(ours, each) for each in cases(interface, own, unknown)}

        assert crossed == absent
        assert {status for status, _ in crossed.values()} == {404}
        if is_elsewhere:
            assert between == before
        for path in (f"/api/v1/memories/{foreign.memory}", f"/api/v1/sessions/{foreign.session}"):
            assert (await theirs.get(path)).status_code == 200


async def test_every_route_that_takes_an_id_has_a_case(
    server: Server,
) -> None:
    interface = interface_named(server, "alumia")
    unknown = unknown_ids()
    crossed = {each.route for each in cases(interface, unknown, unknown)}

    without = {str(route) for route in routes_of(interface) if route not in crossed}

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


async def test_S42_lists_recall_and_counts_contain_only_the_callers_rows(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await create_all(engine, theirs, foreigner)
        own = await save_memory(ours, "our own text", key="same")

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


async def test_S42_an_export_contains_only_the_callers_own_rows(
    engine: Engine, server: Server, caller: Caller, foreigner: Caller
) -> None:
    async with (
        client_of(engine, server, caller) as ours,
        client_of(engine, server, foreigner) as theirs,
    ):
        foreign = await create_all(engine, theirs, foreigner)
        own = await create_all(engine, ours, caller)
        await create_memory(theirs, "everybody there may read this of theirs")

        answer = await ours.get("/api/v1/export")

    with ZipFile(BytesIO(answer.content)) as archive:
        shown = archive.read("recollect.jsonl").decode()
        attached = [name for name in archive.namelist() if name.startswith("files/")]
    for each in fields(foreign):
        assert getattr(foreign, each.name) not in shown
        # An agent is exported only if an exported row refers to it.
        assert (getattr(own, each.name) in shown) == (each.name != "agent")
    if caller.user_id != foreigner.user_id:
        assert str(foreigner.user_id) not in shown
    assert "everybody there" not in shown
    assert len(attached) == 1


async def test_S42_a_removed_member_cannot_export_project_memories(
    engine: Engine, server: Server, caller: Caller
) -> None:
    project = await new_project(engine, caller)
    async with client_of(engine, server, caller) as http:
        await save_memory(http, "known to the project", scope="project", projectId=project)
        await save_memory(http, "known to me")
        async with engine.writing(caller) as db:
            await projects.remove_member(db, caller.workspace_id, UUID(project), caller.user_id)

        answer = await http.get("/api/v1/export")

    with ZipFile(BytesIO(answer.content)) as archive:
        shown = archive.read("recollect.jsonl").decode()
    assert "known to me" in shown
    assert "known to the project" not in shown
    assert project not in shown


async def test_S23_each_right_gives_access_only_to_its_routes(
    engine: Engine, server: Server, caller: Caller
) -> None:
    interface = interface_named(server, "alumia")
    async with client_of(engine, server, caller) as http:
        own = await create_all(engine, http, caller)
    without_rights = replace(caller, rights=frozenset())
    for right in caller.rights:
        weak = replace(without_rights, rights=frozenset({right}))
        async with client_of(engine, server, weak) as http:
            for route in routes_of(interface):
                names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
                ids = {name: getattr(own, KIND_BY_NAME[name]) for name in names}
                body = VALID_BODIES.get(str(route))
                case = IsolationRequest(route, "", route.path.format(**ids), {}, body)
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


async def test_S07_every_route_requires_a_valid_key(server: Server) -> None:
    interface = interface_named(server, "alumia")
    unknown = unknown_ids()
    wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer rk_00000000_wrong"}]
    async with connect(server) as http:
        for route in routes_of(interface):
            names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
            path = route.path.format(**{n: getattr(unknown, KIND_BY_NAME[n]) for n in names})
            for headers in wrong:
                answer = await http.request(
                    route.method, path, json=VALID_BODIES.get(str(route)), headers=headers
                )
                assert error_of(answer) == (401, "UNAUTHORIZED")
                assert answer.headers["www-authenticate"] == "Bearer"
