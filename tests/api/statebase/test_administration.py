"""Administer an org over HTTP: rights, isolation, deletion and erasure."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from psycopg import sql

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.portability.erasure_receipts import read_receipt, verify
from recollect.server import Server
from recollect.tenancy.keys import create_key
from tests.support.alumia import add_colleague
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import (
    ApiClient,
    connect,
    key_for,
    make_server,
    new_caller,
    open_engine,
    single_embedder,
)
from tests.support.personal_data import leave_traces, rows_by_table
from tests.support.routes import interface_named, operation, routes_of
from tests.support.statebase import create_memory, error_of

pytestmark = pytest.mark.anyio

Http = httpx2.AsyncClient

# A valid body for each route, so that a failure can only come from the id or a missing right.
BODIES: dict[str, dict[str, Any]] = {
    "POST /v1/admin/orgs": {"name": "Acme", "admin": "someone"},
    "PATCH /v1/admin/orgs/{org}": {"name": "taken over"},
    "POST /v1/admin/users": {"login": "someone"},
    "PATCH /v1/admin/users/{user}": {"archived": True},
    "POST /v1/admin/workspaces": {"name": "research"},
    "PATCH /v1/admin/workspaces/{workspace}": {"name": "taken over"},
    "POST /v1/admin/projects": {"name": "apollo"},
    "PATCH /v1/admin/projects/{project}": {"name": "taken over"},
    "POST /v1/admin/agents": {"name": "scribe"},
    "PATCH /v1/admin/agents/{agent}": {"name": "taken over"},
    "POST /v1/admin/keys": {"name": "laptop", "workspace": "{workspace}"},
    "POST /v1/admin/keys/{key}/rotate": {"keep_hours": 1},
    "POST /v1/admin/erasures": {"user": "{user}"},
}


# Audited actions on a project or an agent.
AUDITED_ACTIONS = ("created", "renamed", "archived", "restored")
LISTS = ("orgs", "users", "workspaces", "projects", "agents", "erasures", "keys")


async def create(http: Http, path: str, **body: Any) -> dict[str, Any]:
    response = await http.post(f"/v1/admin/{path}", json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def listed(http: Http, path: str) -> list[Any]:
    response = await http.get(f"/v1/admin/{path}")
    assert response.status_code == 200, response.text
    return response.json()["data"]


async def test_an_admin_manages_users_workspaces_projects_and_agents(client: ApiClient) -> None:
    http = client.http
    login = uuid4().hex
    user = await create(http, "users", login=login)
    workspace = await create(http, "workspaces", name="research")
    in_research = {"workspace": workspace["id"]}
    project = await create(http, "projects?workspace=research", name="apollo")
    agent = await create(http, "agents?workspace=research", name="scribe", project="apollo")

    invited = await http.put(f"/v1/admin/projects/apollo/members/{login}", params=in_research)
    joined = await http.put(f"/v1/admin/workspaces/research/members/{user['id']}")
    renamed = await http.patch(
        f"/v1/admin/projects/{project['id']}", params=in_research, json={"name": "gemini"}
    )
    removed = await http.delete(f"/v1/admin/projects/gemini/members/{login}", params=in_research)
    left = await http.delete(f"/v1/admin/workspaces/research/members/{login}")
    again = await http.delete(f"/v1/admin/workspaces/research/members/{login}")

    assert invited.json()["members"] == joined.json()["data"] == [user["id"]]
    assert (renamed.json()["name"], renamed.json()["members"]) == ("gemini", [user["id"]])
    assert (removed.json()["members"], left.json()["data"]) == ([], [])
    assert error_of(again) == (404, "resource_not_found", None)
    assert agent["project_id"] == project["id"]
    assert {each["login"] for each in await listed(http, "users")} > {login}
    assert [each["name"] for each in await listed(http, "workspaces")] == ["default", "research"]
    assert [each["id"] for each in await listed(http, "agents?workspace=research")] == [agent["id"]]
    taken = await http.post("/v1/admin/users", json={"login": login})
    assert error_of(taken) == (409, "conflict", None)
    unnamed = await http.post("/v1/admin/users", json={"login": " "})
    assert error_of(unnamed)[:2] == (400, "invalid_request")


async def test_S83_project_changes_are_audited_and_hidden_from_other_users(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    http, caller = client.http, client.caller
    project = await create(http, "projects", name="apollo")
    agent = await create(http, "agents", name="scribe", project="apollo")
    member = f"/v1/admin/projects/apollo/members/{caller.user_id}"
    for request in (
        http.put(member),
        http.delete(member),
        *(
            http.patch(f"/v1/admin/{path}", json=body)
            for path in (f"projects/{project['id']}", f"agents/{agent['id']}")
            for body in ({"name": "gemini"}, {"archived": True}, {"archived": False})
        ),
    ):
        assert (await request).status_code == 200

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT action, actor, user_id FROM event WHERE workspace_id = %s",
            [caller.workspace_id],
        )
        audited = await cursor.fetchall()
    kinds = [f"{each}.{act}" for each in ("project", "agent") for act in AUDITED_ACTIONS]
    assert sorted(action for action, _, _ in audited) == sorted(
        [*kinds, "project.joined", "project.left"]
    )
    assert {(actor, user_id) for _, actor, user_id in audited} == {
        (client.key[:11], caller.user_id)
    }
    outsider = await add_colleague(engine, caller)
    key = await key_for(engine, caller.workspace_id, user=str(outsider.user_id))
    async with connect(server, **{"X-API-Key": key}) as theirs:
        assert (await theirs.get("/v1/traces")).json()["data"] == []
    assert len((await http.get("/v1/traces")).json()["data"]) == len(audited)


async def test_only_an_archived_user_can_be_deleted_which_leaves_a_receipt(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    http = client.http
    grace = await add_colleague(engine, client.caller)
    await leave_traces(engine, server, grace, "xqvgraceab")
    path = f"/v1/admin/users/{grace.user_id}"

    not_archived = await http.delete(path)
    archived = await http.patch(path, json={"archived": True})
    preview = await http.delete(path, params={"dry_run": True})
    deleted = await http.delete(path)

    assert error_of(not_archived) == (409, "conflict", None)
    assert archived.json()["archived_at"]
    assert preview.json()["receipt"] is None
    assert preview.json()["counts"] == deleted.json()["counts"]
    receipt = deleted.json()["receipt"]
    assert await listed(http, "erasures") == [receipt]
    checked = await http.post(f"/v1/admin/erasures/{receipt['receipt']}/verify")
    assert checked.json()["is_good"] is True
    assert (
        await verify(engine, read_receipt(deleted.text.partition('"receipt":')[2][:-1]))
    ).is_good
    left = await rows_by_table(engine, grace.workspace_id, "xqvgraceab")
    assert sum(left.values()) == 0
    assert error_of(await http.delete(path)) == (404, "resource_not_found", None)


async def test_archived_workspaces_projects_and_agents_can_be_deleted(client: ApiClient) -> None:
    http = client.http
    for thing, name in (("workspaces", "attic"), ("agents", "scribe"), ("projects", "apollo")):
        await create(http, thing, name=name)
        not_archived = await http.delete(f"/v1/admin/{thing}/{name}")
        await http.patch(f"/v1/admin/{thing}/{name}", json={"archived": True})
        deleted = await http.delete(f"/v1/admin/{thing}/{name}")

        assert (not_archived.status_code, deleted.status_code) == (409, 200), deleted.text
        assert deleted.json()["receipt"]["kind"] == thing[:-1]
        assert name not in [each["name"] for each in await listed(http, thing)]
    default = await http.patch("/v1/admin/workspaces/default", json={"archived": True})
    assert error_of(default)[:2] == (400, "invalid_request")


async def test_S85_a_session_a_key_and_a_subject_can_be_erased(client: ApiClient) -> None:
    http = client.http
    first = await create_memory(http, "in a session", user_id="ada")
    second = await create_memory(http, "about ada", user_id="ada")
    third = await create_memory(http, "of a key", key="drink")

    for body, memory in (
        ({"session": first["session_id"]}, first),
        ({"subject": "ada"}, second),
        ({"key": "drink"}, third),
    ):
        preview = await http.post("/v1/admin/erasures", json={**body, "dry_run": True})
        assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 200
        erased = await http.post("/v1/admin/erasures", json=body)
        assert erased.status_code == 201, erased.text
        assert preview.json()["counts"]["memory"] == erased.json()["counts"]["memory"] == 1
        assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 404

    for bad in ({}, {"session": "a", "key": "b"}, {"user": "a", "subject": "b"}):
        assert error_of(await http.post("/v1/admin/erasures", json=bad))[0] == 400
    absent = await http.post("/v1/admin/erasures", json={"session": "sess_aaaaaaaaaaaa"})
    assert error_of(absent) == (404, "session_not_found", None)


async def test_admins_cannot_archive_delete_or_erase_themselves(client: ApiClient) -> None:
    own = client.caller
    responses = [
        await client.http.patch(f"/v1/admin/users/{own.user_id}", json={"archived": True}),
        await client.http.delete(f"/v1/admin/users/{own.user_id}"),
        await client.http.patch(f"/v1/admin/orgs/{own.org_id}", json={"archived": True}),
        await client.http.post("/v1/admin/erasures", json={"user": str(own.user_id)}),
    ]

    assert [error_of(each)[:2] for each in responses] == [(400, "invalid_request")] * 4


async def test_S20_S21_a_new_key_is_shown_once_and_never_stored(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    http = client.http
    once = {"Idempotency-Key": "a key"}
    body = {"name": "laptop", "rights": ["read"], "expires_at": "2100-01-01T00:00:00Z"}

    response = await http.post("/v1/admin/keys", json=body, headers=once)
    again = await http.post("/v1/admin/keys", json=body, headers=once)
    new_user = await http.post("/v1/admin/users", json={"login": uuid4().hex}, headers=once)
    key = response.json()
    rotated = (
        await http.post(f"/v1/admin/keys/{key['id']}/rotate", json={"keep_hours": 24})
    ).json()

    assert response.status_code == 201
    # The response contains the secret, so a repeated request gets a conflict instead.
    assert error_of(again) == (409, "conflict", None)
    shown = {name: value for name, value in key.items() if name != "key"}
    assert shown == {
        "object": "key",
        "id": key["id"],
        "name": "laptop",
        "shown": f"{key['key'][:11]}…{key['key'][-4:]}",
        "rights": ["read"],
        "user_id": str(client.caller.user_id),
        "workspace_id": str(client.caller.workspace_id),
        "created_at": key["created_at"],
        "expires_at": "2100-01-01T00:00:00.000000Z",
        "revoked_at": None,
        "last_used_at": None,
    }
    for text in (key["key"], rotated["key"]):
        async with connect(server, **{"X-API-Key": text}) as theirs:
            assert (await theirs.get("/v1/memory")).status_code == 200
            assert (await theirs.post("/v1/memories", json={"content": "x"})).status_code == 403
    everything = await (await http.get("/v1/admin/keys")).aread()
    stored = await whole_database(engine)
    for secret in (key["key"], rotated["key"], new_user.json()["password"]):
        assert secret.encode() not in everything
        assert secret not in stored
        assert secret.encode().hex() not in stored

    revoked = await http.post("/v1/admin/keys/laptop/revoke")
    server.key_cache.forget()  # as the listener does, which is not running here
    assert {each["id"] for each in revoked.json()["data"]} == {key["id"], rotated["id"]}
    async with connect(server, **{"X-API-Key": rotated["key"]}) as theirs:
        assert error_of(await theirs.get("/v1/memory"))[0] == 401
    actions = {each["action"] for each in (await http.get("/v1/traces")).json()["data"]}
    assert actions >= {"key.created", "key.rotated", "key.revoked"}


async def whole_database(engine: Engine) -> str:
    """Every row of every table, as text."""
    async with engine.pool.everywhere() as db:
        names = await db.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition"
            " AND relnamespace = 'public'::regnamespace"
        )
        found = [
            await (
                await db.execute(
                    sql.SQL("SELECT string_agg(each::text, ' ') FROM {} each").format(
                        sql.Identifier(name)
                    )
                )
            ).fetchone()
            for (name,) in await names.fetchall()
        ]
    return " ".join(str(each) for each in found)


async def test_S23_a_new_key_cannot_exceed_the_callers_key(
    client: ApiClient, server: Server, engine: Engine, clock: Clock
) -> None:
    theirs = await add_colleague(engine, client.caller)
    ends = clock.at + timedelta(hours=1)
    limited_key = await key_for(
        engine,
        client.caller.workspace_id,
        rights=[Right.ADMIN, Right.READ],
        expires_at=ends,
        name="limited_key",
    )
    full_key = await create_key(engine, workspace=str(client.caller.workspace_id))
    other_key = await create_key(
        engine, workspace=str(client.caller.workspace_id), user=str(theirs.user_id)
    )

    async with connect(server, **{"X-API-Key": limited_key}) as http:

        async def refused(path: str, **body: Any) -> tuple[int, str]:
            return error_of(await http.post(f"/v1/admin/keys{path}", json=body))[:2]

        denied = [
            await refused("", rights=["read", "write"]),
            await refused("", user=str(theirs.user_id)),
            await refused("", expires_at=(ends + timedelta(seconds=1)).isoformat()),
            await refused(f"/{full_key.record.id}/rotate"),
            await refused(f"/{other_key.record.id}/rotate"),
        ]
        default = await create(http, "keys")
        elsewhere = await create(http, "workspaces", name="research")
        other = await create(http, "keys", workspace="research", rights=["read"])
        wrong = [
            await refused("", rights=[]),
            await refused("", rights=["root"]),
            await refused("", expires_at="2001-01-01T00:00:00Z"),
            await refused("", spelling="sk-"),
            await refused("/limited_key/rotate", keep_hours=25),
        ]
        absent = await refused("", workspace="nowhere")
        revoked = await http.post(f"/v1/admin/keys/{other_key.record.id}/revoke")

    assert denied == [(403, "permission_denied")] * 5
    assert (default["rights"], default["expires_at"][:19]) == (["admin", "read"], f"{ends:%FT%T}")
    assert other["workspace_id"] == elsewhere["id"]
    assert wrong == [(400, "invalid_request")] * 5
    assert absent == (404, "resource_not_found")
    assert revoked.status_code == 200


async def requests_for(
    http: Http, server: Server, things: dict[str, str]
) -> dict[str, httpx2.Response]:
    """Call every route of the interface, with these ids in its path and body."""
    interface = interface_named(server, "administration")
    answers: dict[str, httpx2.Response] = {}
    for route in routes_of(interface):
        body = BODIES.get(str(route))
        if operation(interface, route).get("requestBody", {}).get("required"):
            assert body, f"{route} needs a body in BODIES"
        filled = {
            name: value.format(**things) if isinstance(value, str) else value
            for name, value in (body or {}).items()
        }
        answers[str(route)] = await http.request(
            route.method, route.path.format(**things), json=filled if body else None
        )
    return answers


async def things_of(engine: Engine, http: Http, caller: Caller) -> dict[str, str]:
    """Create one of each kind in an org and return the ids."""
    other_user = await add_colleague(engine, caller)
    erased = await http.post("/v1/admin/erasures", json={"key": "nothing"})
    return {
        "org": str(caller.org_id),
        "user": str(other_user.user_id),
        "workspace": (await create(http, "workspaces", name=uuid4().hex))["id"],
        "project": (await create(http, "projects", name=uuid4().hex))["id"],
        "agent": (await create(http, "agents", name=uuid4().hex))["id"],
        "key": (await create(http, "keys", name=uuid4().hex))["id"],
        "receipt": erased.json()["receipt"]["receipt"],
    }


async def test_S41_admin_routes_do_not_find_things_of_another_org(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    theirs = await new_caller(engine)
    key = await key_for(engine, theirs.workspace_id)
    async with connect(server, **{"X-API-Key": key}) as http:
        foreign = await things_of(engine, http, theirs)
        before = [await listed(http, each) for each in LISTS]

        crossed = await requests_for(client.http, server, foreign)
        unknown = {name: str(uuid4()) for name in foreign}
        absent = await requests_for(client.http, server, unknown)

        after = [await listed(http, each) for each in LISTS]
    named = {name for name in crossed if "{" in name}
    named |= {"POST /v1/admin/erasures", "POST /v1/admin/keys"}
    assert {name: (crossed[name].status_code, crossed[name].json()) for name in named} == {
        name: (absent[name].status_code, absent[name].json()) for name in named
    }
    assert {crossed[name].status_code for name in named} == {404}
    for name in set(crossed) - named:
        assert not any(each in crossed[name].text for each in foreign.values()), name
    assert before == after


async def test_S23_every_route_needs_the_admin_right_and_an_admin(
    client: ApiClient, server: Server, engine: Engine
) -> None:
    own = await things_of(engine, client.http, client.caller)
    workspace = str(client.caller.workspace_id)
    member = await add_colleague(engine, client.caller)
    insufficient_keys = [
        await create_key(
            engine, workspace=workspace, rights=[Right.READ, Right.WRITE, Right.DELETE]
        ),
        await create_key(engine, workspace=workspace, user=str(member.user_id)),
    ]

    for key in insufficient_keys:
        async with connect(server, **{"X-API-Key": key.text}) as http:
            responses = await requests_for(http, server, own)
        assert {error_of(each)[:2] for each in responses.values()} == {(403, "permission_denied")}
    async with connect(server) as http:
        responses = await requests_for(http, server, own)
    assert {error_of(each)[:2] for each in responses.values()} == {(401, "authentication_failed")}


@pytest.fixture
async def instance(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """An engine on a new database, where the test creates the first org."""
    async with open_engine(databases.clone(), single_embedder(embedder), clock) as engine:
        yield engine


async def test_an_admin_of_the_first_org_creates_and_deletes_orgs(instance: Engine) -> None:
    server = make_server(instance)
    first = await new_caller(instance)
    async with connect(
        server, **{"X-API-Key": await key_for(instance, first.workspace_id)}
    ) as http:
        acme = await create(http, "orgs", name="Acme", admin="wile")
        key = await create_key(
            instance, user="wile", workspace=await default_workspace(instance, acme["id"])
        )
        async with connect(server, **{"X-API-Key": key.text}) as theirs:
            assert [each["name"] for each in await listed(theirs, "orgs")] == ["Acme"]
            refused = await theirs.post("/v1/admin/orgs", json={"name": "B", "admin": "b"})
            path = f"/v1/admin/orgs/{acme['id']}"
            switched = await theirs.patch(path, json={"workspaces_on": True, "name": "Acme Ltd"})
            foreign = await theirs.patch(f"/v1/admin/orgs/{first.org_id}", json={"name": "ours"})
            archived = await http.patch(path, json={"archived": True})
            server.key_cache.forget()  # as the listener does, which is not running here
            rejected = await theirs.get("/v1/admin/orgs")
            deleted = await http.delete(path)

        assert acme["admin"]["password"]
        assert error_of(refused)[:2] == (403, "permission_denied")
        assert (switched.json()["workspaces_on"], switched.json()["name"]) == (True, "Acme Ltd")
        assert error_of(foreign)[:2] == (404, "resource_not_found")
        assert archived.json()["archived_at"]
        assert error_of(rejected)[:2] == (401, "authentication_failed")
        assert deleted.json()["receipt"]["kind"] == "org"
        assert [each["id"] for each in await listed(http, "orgs")] == [str(first.org_id)]


async def default_workspace(engine: Engine, org_id: str) -> str:
    async with engine.pool.everywhere() as db:
        row = await (
            await db.execute("SELECT id FROM workspace WHERE org_id = %s", [org_id])
        ).fetchone()
    assert row
    return str(row[0])
