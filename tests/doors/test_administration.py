"""Arranging an org over HTTP: by its admins, within it, and with everything that goes when it goes."""

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from psycopg import sql

from recollect.domain import Caller, Right
from recollect.engine.core import Engine
from recollect.engine.erase_receipts import read_receipt, verify
from recollect.engine.keys import create_key
from recollect.server import Server
from tests.support.alumia import colleague
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.house import Visitor, key_for, new_caller, only, open_house, serve, visit
from tests.support.routes import door_named, operation, routes_of
from tests.support.statebase import complaint, remember
from tests.support.traces import leave_traces, rows_by_table

pytestmark = pytest.mark.anyio

Http = httpx2.AsyncClient

# What each route is asked with; whatever goes wrong then is the id's doing or the right's.
BODIES: dict[str, dict[str, Any]] = {
    "POST /v1/admin/orgs": {"name": "Acme", "admin": "somebody"},
    "PATCH /v1/admin/orgs/{org}": {"name": "taken over"},
    "POST /v1/admin/users": {"login": "somebody"},
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


# What is written down of a project or an agent.
CIRCLE_ACTS = ("created", "renamed", "archived", "restored")
LISTS = ("orgs", "users", "workspaces", "projects", "agents", "erasures", "keys")


async def made(http: Http, path: str, **body: Any) -> dict[str, Any]:
    answer = await http.post(f"/v1/admin/{path}", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(http: Http, path: str) -> list[Any]:
    answer = await http.get(f"/v1/admin/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


async def test_an_admin_arranges_users_workspaces_projects_and_agents(visitor: Visitor) -> None:
    http = visitor.http
    login = uuid4().hex
    user = await made(http, "users", login=login)
    workspace = await made(http, "workspaces", name="research")
    inside = {"workspace": workspace["id"]}
    project = await made(http, "projects?workspace=research", name="apollo")
    agent = await made(http, "agents?workspace=research", name="scribe", project="apollo")

    invited = await http.put(f"/v1/admin/projects/apollo/members/{login}", params=inside)
    entered = await http.put(f"/v1/admin/workspaces/research/members/{user['id']}")
    renamed = await http.patch(
        f"/v1/admin/projects/{project['id']}", params=inside, json={"name": "gemini"}
    )
    put_out = await http.delete(f"/v1/admin/projects/gemini/members/{login}", params=inside)
    left = await http.delete(f"/v1/admin/workspaces/research/members/{login}")
    again = await http.delete(f"/v1/admin/workspaces/research/members/{login}")

    assert invited.json()["members"] == entered.json()["data"] == [user["id"]]
    assert (renamed.json()["name"], renamed.json()["members"]) == ("gemini", [user["id"]])
    assert (put_out.json()["members"], left.json()["data"]) == ([], [])
    assert complaint(again) == (404, "resource_not_found", None)
    assert agent["project_id"] == project["id"]
    assert {each["login"] for each in await listed(http, "users")} > {login}
    assert [each["name"] for each in await listed(http, "workspaces")] == ["default", "research"]
    assert [each["id"] for each in await listed(http, "agents?workspace=research")] == [agent["id"]]
    taken = await http.post("/v1/admin/users", json={"login": login})
    assert complaint(taken) == (409, "conflict", None)
    unnamed = await http.post("/v1/admin/users", json={"login": " "})
    assert complaint(unnamed)[:2] == (400, "invalid_request")


async def test_S83_the_audit_names_who_arranged_a_project_and_tells_nobody_else(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    http, caller = visitor.http, visitor.caller
    project = await made(http, "projects", name="apollo")
    agent = await made(http, "agents", name="scribe", project="apollo")
    member = f"/v1/admin/projects/apollo/members/{caller.user_id}"
    for asked in (
        http.put(member),
        http.delete(member),
        *(
            http.patch(f"/v1/admin/{path}", json=body)
            for path in (f"projects/{project['id']}", f"agents/{agent['id']}")
            for body in ({"name": "gemini"}, {"archived": True}, {"archived": False})
        ),
    ):
        assert (await asked).status_code == 200

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT action, actor, user_id FROM event WHERE workspace_id = %s",
            [caller.workspace_id],
        )
        noted = await cursor.fetchall()
    kinds = [f"{each}.{act}" for each in ("project", "agent") for act in CIRCLE_ACTS]
    assert sorted(action for action, _, _ in noted) == sorted(
        [*kinds, "project.joined", "project.left"]
    )
    assert {(actor, user_id) for _, actor, user_id in noted} == {(visitor.key[:11], caller.user_id)}
    stranger = await colleague(engine, caller)
    key = await key_for(engine, caller.workspace_id, user=str(stranger.user_id))
    async with visit(server, **{"X-API-Key": key}) as theirs:
        assert (await theirs.get("/v1/traces")).json()["data"] == []
    assert len((await http.get("/v1/traces")).json()["data"]) == len(noted)


async def test_what_is_deleted_was_archived_and_leaves_a_receipt(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    http = visitor.http
    grace = await colleague(engine, visitor.caller)
    await leave_traces(engine, server, grace, "xqvgraceab")
    path = f"/v1/admin/users/{grace.user_id}"

    too_early = await http.delete(path)
    archived = await http.patch(path, json={"archived": True})
    counted = await http.delete(path, params={"dry_run": True})
    gone = await http.delete(path)

    assert complaint(too_early) == (409, "conflict", None)
    assert archived.json()["archived_at"]
    assert counted.json()["receipt"] is None
    assert counted.json()["counts"] == gone.json()["counts"]
    receipt = gone.json()["receipt"]
    assert await listed(http, "erasures") == [receipt]
    checked = await http.post(f"/v1/admin/erasures/{receipt['receipt']}/verify")
    assert checked.json()["is_good"] is True
    assert (await verify(engine, read_receipt(gone.text.partition('"receipt":')[2][:-1]))).is_good
    left = await rows_by_table(engine, grace.workspace_id, "xqvgraceab")
    assert sum(left.values()) == 0
    assert complaint(await http.delete(path)) == (404, "resource_not_found", None)


async def test_a_workspace_a_project_and_an_agent_are_deleted(visitor: Visitor) -> None:
    http = visitor.http
    for thing, name in (("workspaces", "attic"), ("agents", "scribe"), ("projects", "apollo")):
        await made(http, thing, name=name)
        early = await http.delete(f"/v1/admin/{thing}/{name}")
        await http.patch(f"/v1/admin/{thing}/{name}", json={"archived": True})
        gone = await http.delete(f"/v1/admin/{thing}/{name}")

        assert (early.status_code, gone.status_code) == (409, 200), gone.text
        assert gone.json()["receipt"]["kind"] == thing[:-1]
        assert name not in [each["name"] for each in await listed(http, thing)]
    stays = await http.patch("/v1/admin/workspaces/default", json={"archived": True})
    assert complaint(stays)[:2] == (400, "invalid_request")


async def test_S85_a_session_a_key_and_a_subject_are_erased_over_http(visitor: Visitor) -> None:
    http = visitor.http
    first = await remember(http, "in a session", user_id="ada")
    second = await remember(http, "about ada", user_id="ada")
    third = await remember(http, "of a key", key="drink")

    for body, memory in (
        ({"session": first["session_id"]}, first),
        ({"subject": "ada"}, second),
        ({"key": "drink"}, third),
    ):
        counted = await http.post("/v1/admin/erasures", json={**body, "dry_run": True})
        assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 200
        erased = await http.post("/v1/admin/erasures", json=body)
        assert erased.status_code == 201, erased.text
        assert counted.json()["counts"]["memory"] == erased.json()["counts"]["memory"] == 1
        assert (await http.get(f"/v1/memory/{memory['id']}")).status_code == 404

    for bad in ({}, {"session": "a", "key": "b"}, {"user": "a", "subject": "b"}):
        assert complaint(await http.post("/v1/admin/erasures", json=bad))[0] == 400
    absent = await http.post("/v1/admin/erasures", json={"session": "sess_aaaaaaaaaaaa"})
    assert complaint(absent) == (404, "session_not_found", None)


async def test_nobody_shuts_themselves_out(visitor: Visitor) -> None:
    own = visitor.caller
    answers = [
        await visitor.http.patch(f"/v1/admin/users/{own.user_id}", json={"archived": True}),
        await visitor.http.delete(f"/v1/admin/users/{own.user_id}"),
        await visitor.http.patch(f"/v1/admin/orgs/{own.org_id}", json={"archived": True}),
        await visitor.http.post("/v1/admin/erasures", json={"user": str(own.user_id)}),
    ]

    assert [complaint(each)[:2] for each in answers] == [(400, "invalid_request")] * 4


async def test_S20_S21_a_key_made_over_http_is_told_once_and_nowhere_kept(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    http = visitor.http
    once = {"Idempotency-Key": "a key"}
    body = {"name": "laptop", "rights": ["read"], "expires_at": "2100-01-01T00:00:00Z"}

    answer = await http.post("/v1/admin/keys", json=body, headers=once)
    again = await http.post("/v1/admin/keys", json=body, headers=once)
    guest = await http.post("/v1/admin/users", json={"login": uuid4().hex}, headers=once)
    key = answer.json()
    turned = (await http.post(f"/v1/admin/keys/{key['id']}/rotate", json={"keep_hours": 24})).json()

    assert answer.status_code == 201
    # The answer is the secret: whoever asks again is told that it was given, not what it was.
    assert complaint(again) == (409, "conflict", None)
    shown = {name: value for name, value in key.items() if name != "key"}
    assert shown == {
        "object": "key",
        "id": key["id"],
        "name": "laptop",
        "shown": f"{key['key'][:11]}…{key['key'][-4:]}",
        "rights": ["read"],
        "user_id": str(visitor.caller.user_id),
        "workspace_id": str(visitor.caller.workspace_id),
        "created_at": key["created_at"],
        "expires_at": "2100-01-01T00:00:00.000000Z",
        "revoked_at": None,
        "last_used_at": None,
    }
    for text in (key["key"], turned["key"]):
        async with visit(server, **{"X-API-Key": text}) as theirs:
            assert (await theirs.get("/v1/memory")).status_code == 200
            assert (await theirs.post("/v1/memories", json={"content": "x"})).status_code == 403
    everything = await (await http.get("/v1/admin/keys")).aread()
    stored = await whole_database(engine)
    for secret in (key["key"], turned["key"], guest.json()["password"]):
        assert secret.encode() not in everything
        assert secret not in stored
        assert secret.encode().hex() not in stored

    revoked = await http.post("/v1/admin/keys/laptop/revoke")
    server.ring.forget()  # as the listener does, which is not running here
    assert {each["id"] for each in revoked.json()["data"]} == {key["id"], turned["id"]}
    async with visit(server, **{"X-API-Key": turned["key"]}) as theirs:
        assert complaint(await theirs.get("/v1/memory"))[0] == 401
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


async def test_S23_nobody_gives_a_key_more_than_their_own_has(
    visitor: Visitor, server: Server, engine: Engine, clock: Clock
) -> None:
    theirs = await colleague(engine, visitor.caller)
    ends = clock.at + timedelta(hours=1)
    narrow = await key_for(
        engine,
        visitor.caller.workspace_id,
        rights=[Right.ADMIN, Right.READ],
        expires_at=ends,
        name="narrow",
    )
    wide = await create_key(engine, workspace=str(visitor.caller.workspace_id))
    others = await create_key(
        engine, workspace=str(visitor.caller.workspace_id), user=str(theirs.user_id)
    )

    async with visit(server, **{"X-API-Key": narrow}) as http:

        async def refused(path: str, **body: Any) -> tuple[int, str]:
            return complaint(await http.post(f"/v1/admin/keys{path}", json=body))[:2]

        denied = [
            await refused("", rights=["read", "write"]),
            await refused("", user=str(theirs.user_id)),
            await refused("", expires_at=(ends + timedelta(seconds=1)).isoformat()),
            await refused(f"/{wide.record.id}/rotate"),
            await refused(f"/{others.record.id}/rotate"),
        ]
        usual = await made(http, "keys")
        elsewhere = await made(http, "workspaces", name="research")
        other = await made(http, "keys", workspace="research", rights=["read"])
        wrong = [
            await refused("", rights=[]),
            await refused("", rights=["root"]),
            await refused("", expires_at="2001-01-01T00:00:00Z"),
            await refused("", spelling="sk-"),
            await refused("/narrow/rotate", keep_hours=25),
        ]
        absent = await refused("", workspace="nowhere")
        ended = await http.post(f"/v1/admin/keys/{others.record.id}/revoke")

    assert denied == [(403, "permission_denied")] * 5
    assert (usual["rights"], usual["expires_at"][:19]) == (["admin", "read"], f"{ends:%FT%T}")
    assert other["workspace_id"] == elsewhere["id"]
    assert wrong == [(400, "invalid_request")] * 5
    assert absent == (404, "resource_not_found")
    assert ended.status_code == 200


async def requests_for(
    http: Http, server: Server, things: dict[str, str]
) -> dict[str, httpx2.Response]:
    """Every route of the door, with these ids in its address and body."""
    door = door_named(server, "administration")
    answers: dict[str, httpx2.Response] = {}
    for route in routes_of(door):
        body = BODIES.get(str(route))
        if operation(door, route).get("requestBody", {}).get("required"):
            assert body, f"{route}: which body does it take?"
        filled = {
            name: value.format(**things) if isinstance(value, str) else value
            for name, value in (body or {}).items()
        }
        answers[str(route)] = await http.request(
            route.method, route.path.format(**things), json=filled if body else None
        )
    return answers


async def things_of(engine: Engine, http: Http, caller: Caller) -> dict[str, str]:
    """One of each in an org."""
    guest = await colleague(engine, caller)
    erased = await http.post("/v1/admin/erasures", json={"key": "nothing"})
    return {
        "org": str(caller.org_id),
        "user": str(guest.user_id),
        "workspace": (await made(http, "workspaces", name=uuid4().hex))["id"],
        "project": (await made(http, "projects", name=uuid4().hex))["id"],
        "agent": (await made(http, "agents", name=uuid4().hex))["id"],
        "key": (await made(http, "keys", name=uuid4().hex))["id"],
        "receipt": erased.json()["receipt"]["receipt"],
    }


async def test_S41_an_admin_of_another_org_finds_nothing_on_any_route(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    theirs = await new_caller(engine)
    key = await key_for(engine, theirs.workspace_id)
    async with visit(server, **{"X-API-Key": key}) as http:
        foreign = await things_of(engine, http, theirs)
        before = [await listed(http, each) for each in LISTS]

        crossed = await requests_for(visitor.http, server, foreign)
        nobody = {name: str(uuid4()) for name in foreign}
        absent = await requests_for(visitor.http, server, nobody)

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


async def test_S23_every_route_needs_the_right_and_an_admin(
    visitor: Visitor, server: Server, engine: Engine
) -> None:
    own = await things_of(engine, visitor.http, visitor.caller)
    workspace = str(visitor.caller.workspace_id)
    plain = await colleague(engine, visitor.caller)
    lacking = [
        await create_key(
            engine, workspace=workspace, rights=[Right.READ, Right.WRITE, Right.DELETE]
        ),
        await create_key(engine, workspace=workspace, user=str(plain.user_id)),
    ]

    for key in lacking:
        async with visit(server, **{"X-API-Key": key.text}) as http:
            answers = await requests_for(http, server, own)
        assert {complaint(each)[:2] for each in answers.values()} == {(403, "permission_denied")}
    async with visit(server) as http:
        answers = await requests_for(http, server, own)
    assert {complaint(each)[:2] for each in answers.values()} == {(401, "authentication_failed")}


@pytest.fixture
async def house(
    databases: TestDatabases, embedder: StubEmbedder, clock: Clock
) -> AsyncGenerator[Engine]:
    """A house of its own: who has its first org is known."""
    async with open_house(databases.clone(), only(embedder), clock) as engine:
        yield engine


async def test_an_admin_of_the_first_org_makes_and_removes_others(house: Engine) -> None:
    server = serve(house)
    first = await new_caller(house)
    async with visit(server, **{"X-API-Key": await key_for(house, first.workspace_id)}) as http:
        acme = await made(http, "orgs", name="Acme", admin="wile")
        key = await create_key(house, user="wile", workspace=await default_of(house, acme["id"]))
        async with visit(server, **{"X-API-Key": key.text}) as theirs:
            assert [each["name"] for each in await listed(theirs, "orgs")] == ["Acme"]
            refused = await theirs.post("/v1/admin/orgs", json={"name": "B", "admin": "b"})
            path = f"/v1/admin/orgs/{acme['id']}"
            switched = await theirs.patch(path, json={"workspaces_on": True, "name": "Acme Ltd"})
            kept_off = await theirs.patch(f"/v1/admin/orgs/{first.org_id}", json={"name": "ours"})
            archived = await http.patch(path, json={"archived": True})
            server.ring.forget()  # as the listener does, which is not running here
            shut = await theirs.get("/v1/admin/orgs")
            gone = await http.delete(path)

        assert acme["admin"]["password"]
        assert complaint(refused)[:2] == (403, "permission_denied")
        assert (switched.json()["workspaces_on"], switched.json()["name"]) == (True, "Acme Ltd")
        assert complaint(kept_off)[:2] == (404, "resource_not_found")
        assert archived.json()["archived_at"]
        assert complaint(shut)[:2] == (401, "authentication_failed")
        assert gone.json()["receipt"]["kind"] == "org"
        assert [each["id"] for each in await listed(http, "orgs")] == [str(first.org_id)]


async def default_of(engine: Engine, org_id: str) -> str:
    async with engine.pool.everywhere() as db:
        row = await (
            await db.execute("SELECT id FROM workspace WHERE org_id = %s", [org_id])
        ).fetchone()
    assert row
    return str(row[0])
