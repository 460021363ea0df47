"""Workspaces, the graph, candidates, jobs, usage, settings, keys and members."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from recollect.core.domain import Caller, Ref, Relation, Right
from recollect.core.settings import Price
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.documents.documents import save_artifact
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.memories.links import Link, link
from recollect.models.librarian import NAME, Librarian
from recollect.tenancy.queries import orgs as orgs_queries
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.worker import Worker
from tests.api.dashboard.conftest import Dashboard, Object
from tests.api.dashboard.test_chats import turn
from tests.support.clock import Clock
from tests.support.dashboard import (
    PASSWORD,
    connect_from,
    connect_signed_in,
    error_of,
    is_login_page,
    new_user,
)
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import connect, in_new_workspace, make_server, new_caller
from tests.support.routes import interface_named, operation, routes_of
from tests.support.sample_files import run_jobs
from tests.support.upstream import Endpoint, RawAnswer, chat_models_at

pytestmark = pytest.mark.anyio


async def get(dashboard: Dashboard, path: str, **query: Any) -> Any:
    response = await dashboard.http.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


def ref(memory: Object) -> Ref:
    return Ref(code=memory["id"].removeprefix("mem_"))


# Workspaces.


async def test_N15_N16_N17_workspaces_are_created_renamed_and_archived(
    dashboard: Dashboard,
) -> None:
    created = await dashboard.http.post("/chat/api/workspaces", json={"name": "Garden"})
    path = f"/chat/api/workspaces/{created.json()['id']}"
    same = await dashboard.http.post("/chat/api/workspaces", json={"name": "Garden"})
    renamed = await dashboard.http.patch(path, json={"name": "Orchard"})
    listed = await get(dashboard, "/chat/api/workspaces")
    read = await get(dashboard, path)
    deleted = await dashboard.http.delete(path)
    default = await dashboard.http.delete(dashboard.workspace)

    assert created.status_code == 201
    assert created.json()["id"].startswith("ws_")
    assert error_of(same) == (409, "conflict")
    assert [each["name"] for each in listed["items"]] == ["default", "Orchard"]
    assert read == renamed.json() == {**created.json(), "name": "Orchard"}
    assert deleted.status_code == 204
    assert error_of(await dashboard.http.get(path)) == (404, "workspace_not_found")
    assert error_of(default) == (400, "invalid_request")


async def test_only_an_admin_manages_workspaces_and_members(dashboard: Dashboard) -> None:
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    member = replace(dashboard.caller, user_id=user_id)
    async with await connect_signed_in(dashboard.server, dashboard.engine, member) as http:
        responses = [
            await http.post("/chat/api/workspaces", json={"name": "Mine"}),
            await http.patch(dashboard.workspace, json={"name": "Mine"}),
            await http.delete(dashboard.workspace),
            await http.post("/chat/api/members", json={"name": "friend"}),
            await http.delete(f"/chat/api/members/{dashboard.caller.user_id}"),
            await http.post("/chat/api/keys", json={"name": "k", "rights": ["admin"]}),
        ]

    assert [error_of(each) for each in responses] == [(403, "denied")] * 6


# The graph.


async def test_N23_the_graph_has_every_kind_of_node_and_edge(dashboard: Dashboard) -> None:
    decision = await dashboard.remember("We use PostgreSQL", category="decision")
    milestone = await dashboard.remember("Version 1 shipped", category="Milestone")
    plain = await dashboard.remember_in_chat(content="Ada drinks tea")
    await link(
        dashboard.engine,
        dashboard.caller,
        ref(decision),
        Link(ref(milestone), Relation.CAUSED_BY, 0.7),
    )
    await link(
        dashboard.engine, dashboard.caller, ref(plain), Link(ref(decision), Relation.CONTRADICTS)
    )
    artifact = await save_artifact(
        dashboard.engine,
        dashboard.caller,
        "plan.md",
        "The plan.",
        thread=Ref(id=dashboard.thread.id),
    )

    found = await get(dashboard, f"{dashboard.workspace}/graph")
    only = await get(dashboard, f"{dashboard.workspace}/graph", kind="decision")

    assert {(each["id"], each["kind"]) for each in found["nodes"]} == {
        (decision["id"], "decision"),
        (milestone["id"], "milestone"),
        (plain["id"], "memory"),
        (f"cart_{artifact.code}", "artifact"),
    }
    edges = {(each["source"], each["target"], each["kind"]) for each in found["edges"]}
    assert edges == {
        (decision["id"], milestone["id"], "explicit"),
        (plain["id"], decision["id"], "contradicts"),
        (plain["id"], f"cart_{artifact.code}", "provenance"),
    }
    assert [each["id"] for each in only["nodes"]] == [decision["id"]]
    assert only["edges"] == []
    refused = await dashboard.http.get(f"{dashboard.workspace}/graph", params={"kind": "dream"})
    assert error_of(refused) == (400, "invalid_request")


async def test_N23_similar_memories_have_a_similarity_edge(
    dashboard: Dashboard, embedder: StubEmbedder
) -> None:
    embedder.table |= {
        "one thing": at_cosine(1.0),
        "nearly that": at_cosine(0.95),
        "something else": at_cosine(0.5, axis=1),
    }
    one, near, other = [
        await dashboard.remember(text) for text in ("one thing", "nearly that", "something else")
    ]

    found = await get(dashboard, f"{dashboard.workspace}/graph")

    assert {each["id"] for each in found["nodes"]} == {one["id"], near["id"], other["id"]}
    edges = [
        (each["source"], each["target"], each["kind"], each["relation"]) for each in found["edges"]
    ]
    assert edges == [(near["id"], one["id"], "similarity", "updates")]


# Candidates.


async def test_S74_candidates_can_be_accepted_or_rejected(dashboard: Dashboard) -> None:
    engine = replace(dashboard.engine, needs_review=True)
    for text in ("I live in Paris.", "I love green tea.", "I work at Acme."):
        async with engine.writing(dashboard.caller) as db:
            learning_input = LearningInput(text, "turn", engine.now())
            await learn_from(
                engine, db, dashboard.caller, inbox_item_of(dashboard.caller, learning_input)
            )
    await Worker(engine, slots=1).run_until_empty()
    path = f"{dashboard.workspace}/pending"

    first = await get(dashboard, path, limit=2)
    rest = await get(dashboard, path, limit=2, cursor=first["next_cursor"])
    waiting = [*first["items"], *rest["items"]]
    accepted = await dashboard.http.post(f"{path}/{waiting[0]['id']}/accept")
    deleted = await dashboard.http.post(f"{path}/{waiting[1]['id']}/reject")
    left = await get(dashboard, path)

    assert len({each["id"] for each in waiting}) == 3
    assert {each["reason"] for each in waiting} == {"review"}
    assert accepted.status_code == 200
    assert accepted.json()["content"] == waiting[0]["content"]
    assert deleted.status_code == 204
    assert [each["id"] for each in left["items"]] == [waiting[2]["id"]]
    assert [each["id"] for each in await dashboard.listed()] == [accepted.json()["id"]]
    for verb in ("accept", "reject"):
        for name in (waiting[0]["id"], f"lrn_{uuid4()}", "nonsense"):
            response = await dashboard.http.post(f"{path}/{name}/{verb}")
            assert error_of(response) == (404, "candidate_not_found")


# Jobs.


async def test_jobs_are_listed_and_failed_ones_can_be_retried(
    dashboard: Dashboard, clock: Clock
) -> None:
    workspace_id = dashboard.caller.workspace_id
    async with dashboard.engine.pool.writing(workspace_id) as db:
        for number in range(3):
            await job_queue.enqueue(
                db, workspace_id, [NewJob("distil", dedupe_key=str(number))], clock.at
            )
        clock.advance(timedelta(seconds=1))
    async with dashboard.engine.pool.everywhere() as db:
        await db.execute(
            "UPDATE job SET status = 'failed', attempts = 5, last_error = 'ValueError'"
            " WHERE workspace_id = %s AND dedupe_key = '1'",
            [workspace_id],
        )

    found = await get(dashboard, "/chat/api/jobs")
    [failed] = (await get(dashboard, "/chat/api/jobs", state="failed"))["items"]
    page = await get(dashboard, "/chat/api/jobs", limit=2)
    again = await dashboard.http.post(f"/chat/api/jobs/{failed['id']}/retry")
    twice = await dashboard.http.post(f"/chat/api/jobs/{failed['id']}/retry")

    mine = [each for each in found["items"] if each["kind"] == "distil"]
    assert {each["state"] for each in mine} == {"pending", "failed"}
    assert found["counts"]["failed"] == 1
    assert (failed["tries"], failed["error"]) == (5, "ValueError")
    assert page["has_more"]
    rest = await get(dashboard, "/chat/api/jobs", cursor=page["next_cursor"])
    ids = [each["id"] for each in [*page["items"], *rest["items"]]]
    assert sorted(ids) == sorted(each["id"] for each in found["items"])
    assert (again.json()["state"], again.json()["tries"]) == ("pending", 0)
    assert error_of(twice) == (409, "conflict")
    assert error_of(await dashboard.http.post(f"/chat/api/jobs/{uuid4()}/retry")) == (
        404,
        "job_not_found",
    )
    refused = await dashboard.http.get("/chat/api/jobs", params={"state": "lost"})
    assert error_of(refused) == (400, "invalid_request")


# Usage and settings.


async def test_S54_a_failed_background_call_is_in_the_ledger(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    await turn(with_model, "I live in Oslo.")
    endpoint.default = RawAnswer([b"{}"], 500, "application/json")

    await run_jobs(with_model.engine)

    found = await get(with_model, f"{with_model.workspace}/usage", days=1)
    calls = {each["purpose"]: (each["calls"], each["failed"]) for each in found["calls"]}
    assert calls["turn"] == (1, 0)
    assert calls["distil"] == (1, 1)


async def test_S54_usage_is_reported_by_day_with_failures(
    with_model: Dashboard, endpoint: Endpoint, clock: Clock
) -> None:
    priced = replace(with_model.engine, prices={"m1": Price(2.0, 4.0)})
    async with await connect_signed_in(make_server(priced), priced, with_model.caller) as http:
        await turn(replace(with_model, http=http), "Hello?")
    endpoint.script = [RawAnswer([b"data: x\n\n"], breaks=True)]
    await turn(with_model, "And now?")
    clock.advance(timedelta(days=1))
    await turn(with_model, "Today?")

    found = await get(with_model, f"{with_model.workspace}/usage", days=7)
    today = await get(with_model, f"{with_model.workspace}/usage", days=1)

    turns = [each for each in found["calls"] if each["purpose"] == "turn"]
    assert [(each["day"], each["calls"], each["failed"]) for each in turns] == [
        ("2026-03-01", 2, 1),
        ("2026-03-02", 1, 0),
    ]
    assert turns[0]["input_tokens"] == 10
    assert turns[0]["cost"] == pytest.approx(10 * 2 / 1e6 + 5 * 4 / 1e6)
    assert [(each["day"], each["count"]) for each in found["recall"]] == [
        ("2026-03-01", 1),
        ("2026-03-02", 1),
    ]
    assert 0 <= found["recall"][0]["p50"] <= found["recall"][0]["p95"]
    assert [each["day"] for each in today["recall"]] == ["2026-03-02"]
    for days in (0, 367, "x"):
        response = await with_model.http.get(f"{with_model.workspace}/usage", params={"days": days})
        assert error_of(response) == (400, "invalid_request")


async def test_settings_show_models_and_embedder(with_model: Dashboard) -> None:
    await with_model.remember("Ada drinks tea")

    found = await get(with_model, "/chat/api/settings")
    there = await get(
        with_model, "/chat/api/settings", workspace=f"ws_{with_model.caller.workspace_id}"
    )

    assert found == there
    assert [(each["id"], each["is_default"]) for each in found["models"]] == [
        ("recollect-librarian", False),
        ("m1", True),
    ]
    assert found["embedder"] == {
        "model": "stub",
        "dimensions": 8,
        "generations": [{"id": "1", "model": "stub", "state": "current", "done": 1, "total": 1}],
    }
    assert found["limits"]["content_bytes"] == 50_000
    assert "sk-upstream" not in str(found)


async def test_without_a_configured_model_the_first_listed_is_the_default(
    dashboard: Dashboard, endpoint: Endpoint
) -> None:
    endpoint.reset()
    chats = chat_models_at(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)})
    engine = replace(dashboard.engine, chat_models=chats)

    async with await connect_signed_in(make_server(engine), engine, dashboard.caller) as http:
        me = (await http.get("/chat/api/me")).json()

    assert me["default_model"] == "m1"
    await chats.aclose()


# Keys.


async def test_S21_a_key_is_shown_once_and_works_until_it_is_revoked(
    dashboard: Dashboard, clock: Clock
) -> None:
    created = await dashboard.http.post(
        "/chat/api/keys", json={"name": "laptop", "rights": ["read", "write"], "expires_days": 30}
    )
    key = created.json()

    async with connect(dashboard.server, **{"X-API-Key": key["key"]}) as http:
        before = await http.post("/v1/memories", json={"content": "by key"})
        listed = await get(dashboard, "/chat/api/keys")
        revoked = await dashboard.http.post(f"/chat/api/keys/{key['id']}/revoke")
        dashboard.server.key_cache.forget()
        after = await http.get("/v1/memories")

    assert created.status_code == 201
    assert key["expires_at"] == "2026-03-31T12:00:00.000000Z"
    assert before.status_code == 201
    assert key["key"] not in str(listed)
    assert [each["name"] for each in listed["items"]] == ["laptop"]
    assert listed["items"][0]["shown"].startswith(key["key"][:6])
    assert revoked.status_code == 204
    assert after.status_code == 401
    assert (await get(dashboard, "/chat/api/keys"))["items"][0]["revoked_at"] is not None
    assert [each["content"] for each in await dashboard.listed()] == ["by key"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": "x"},
        {"name": "", "rights": ["read"]},
        {"name": "x", "rights": []},
        {"name": "x", "rights": ["fly"]},
        {"name": "x", "rights": ["read"], "expires": "2020-01-01T00:00:00Z"},
        {"name": "x", "rights": ["read"], "expires_days": 0},
    ],
)
async def test_an_invalid_key_request_is_rejected(dashboard: Dashboard, body: Object) -> None:
    assert error_of(await dashboard.http.post("/chat/api/keys", json=body)) == (
        400,
        "invalid_request",
    )


async def test_members_manage_their_own_keys_and_admins_all_keys(dashboard: Dashboard) -> None:
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    member = replace(dashboard.caller, user_id=user_id)
    body = {"name": "of the admin", "rights": ["read"]}
    of_admin = (await dashboard.http.post("/chat/api/keys", json=body)).json()

    async with await connect_signed_in(dashboard.server, dashboard.engine, member) as http:
        own = (await http.post("/chat/api/keys", json={**body, "name": "own"})).json()
        seen = (await http.get("/chat/api/keys")).json()["items"]
        refused = await http.post(f"/chat/api/keys/{of_admin['id']}/revoke")
    outsider = await new_caller(dashboard.engine)
    async with await connect_signed_in(dashboard.server, dashboard.engine, outsider) as http:
        foreign = await http.post(f"/chat/api/keys/{own['id']}/revoke")
        elsewhere = await http.post(
            "/chat/api/keys", json={**body, "workspace_id": f"ws_{dashboard.caller.workspace_id}"}
        )
    by_admin = await dashboard.http.post(f"/chat/api/keys/{own['id']}/revoke")

    assert [each["id"] for each in seen] == [own["id"]]
    assert error_of(refused) == error_of(foreign) == (404, "key_not_found")
    assert error_of(elsewhere) == (404, "workspace_not_found")
    assert by_admin.status_code == 204


# Members.


async def test_a_member_can_be_added_and_removed(dashboard: Dashboard) -> None:
    name = f"friend-{uuid4().hex[:8]}"
    created = await dashboard.http.post(
        "/chat/api/members", json={"name": name, "password": PASSWORD, "rights": ["read"]}
    )
    unnamed = await dashboard.http.post("/chat/api/members", json={"name": f"{name} two"})
    listed = await get(dashboard, "/chat/api/members")
    async with connect_from(dashboard.server) as http:
        signed_in = await http.post("/login", json={"username": name, "password": PASSWORD})
        inside = await http.get("/chat/api/me")
        deleted = await dashboard.http.delete(f"/chat/api/members/{created.json()['id']}")
        after = await http.get("/chat/api/me")
        again = await http.post("/login", json={"username": name, "password": PASSWORD})

    assert created.status_code == 201
    assert (created.json()["role"], created.json()["password"]) == ("member", None)
    assert len(unnamed.json()["password"]) == 16
    assert name in [each["name"] for each in listed["items"]]
    assert (signed_in.status_code, inside.status_code) == (204, 200)
    assert deleted.status_code == 204
    assert is_login_page(after)
    assert again.status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "x", "password": "short"},
        {"name": "a\nb"},
        {"name": "x", "rights": ["fly"]},
    ],
)
async def test_an_invalid_member_is_rejected(dashboard: Dashboard, body: Object) -> None:
    assert error_of(await dashboard.http.post("/chat/api/members", json=body)) == (
        400,
        "invalid_request",
    )


async def test_S12_losing_the_admin_role_ends_sessions_and_admin_keys(
    dashboard: Dashboard,
) -> None:
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    path = f"/chat/api/members/{user_id}"
    member = replace(dashboard.caller, user_id=user_id)

    promoted = await dashboard.http.patch(path, json={"role": "admin"})
    async with await connect_signed_in(dashboard.server, dashboard.engine, member) as http:
        body = {"name": "k", "rights": ["read", "admin"]}
        created = (await http.post("/chat/api/keys", json=body)).json()
        plain = (await http.post("/chat/api/keys", json={**body, "rights": ["read"]})).json()
        demoted = await dashboard.http.patch(path, json={"role": "member"})
        assert is_login_page(await http.get("/chat/api/me"))
    async with await connect_signed_in(dashboard.server, dashboard.engine, member) as http:
        refused = await http.patch(
            f"/chat/api/members/{dashboard.caller.user_id}", json={"role": "member"}
        )
        keys = (await http.get("/chat/api/keys")).json()["items"]

    assert (promoted.json()["role"], demoted.json()["role"]) == ("admin", "member")
    assert error_of(refused) == (403, "denied")
    revoked = {each["id"]: each["revoked_at"] is not None for each in keys}
    assert revoked == {created["id"]: True, plain["id"]: False}
    own = await dashboard.http.patch(
        f"/chat/api/members/{dashboard.caller.user_id}", json={"role": "member"}
    )
    assert error_of(own) == (409, "conflict")
    outsider = await new_caller(dashboard.engine)
    for other in (outsider.user_id, uuid4(), "nonsense"):
        response = await dashboard.http.patch(f"/chat/api/members/{other}", json={"role": "admin"})
        assert error_of(response) == (404, "member_not_found")
    nonsense = await dashboard.http.patch(path, json={"role": "king"})
    assert error_of(nonsense) == (400, "invalid_request")


async def test_admins_cannot_remove_themselves_or_users_of_another_org(
    dashboard: Dashboard,
) -> None:
    outsider = await new_caller(dashboard.engine)
    taken = await dashboard.http.post("/chat/api/members", json={"name": "taken-name"})
    twice = await dashboard.http.post("/chat/api/members", json={"name": "taken-name"})

    responses = [
        await dashboard.http.delete(f"/chat/api/members/{each}")
        for each in (dashboard.caller.user_id, outsider.user_id, uuid4(), "nonsense")
    ]

    assert [error_of(each) for each in responses] == [
        (409, "conflict"),
        *[(404, "member_not_found")] * 3,
    ]
    assert taken.status_code == 201
    assert error_of(twice) == (409, "conflict")


async def test_S83_account_changes_are_private_audit_events(dashboard: Dashboard) -> None:
    await dashboard.http.post("/chat/api/keys", json={"name": "k", "rights": ["read"]})
    name = f"friend-{uuid4().hex[:8]}"
    member = await dashboard.http.post(
        "/chat/api/members", json={"name": name, "password": PASSWORD}
    )
    async with connect_from(dashboard.server) as http:
        await http.post("/login", json={"username": name, "password": PASSWORD})

    async with dashboard.engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT action, user_id::text, is_private FROM event"
            " WHERE workspace_id = %s AND action NOT LIKE 'session%%'"
            " AND action NOT LIKE 'message%%' ORDER BY at, action",
            [dashboard.caller.workspace_id],
        )
        found = await cursor.fetchall()

    me = str(dashboard.caller.user_id)
    assert found == [
        ("key.created", me, True),
        ("user.created", me, True),
        ("user.signed_in", member.json()["id"], True),
    ]


# Every route, without access.


IDS = {
    "workspace_id": "ws_{workspace}",
    "chat_id": "chat_{chat}",
    "memory_id": "{memory}",
    "pending_id": f"lrn_{uuid4()}",
    "job_id": "{job}",
    "key_id": "{key}",
    "member_id": "{user}",
    "document_id": "{document}",
}
# A valid body for each route, so that a failure can only come from the id.
NEEDED: dict[str, Object] = {
    "POST /chat/api/workspaces": {"name": "theirs"},
    "PATCH /chat/api/workspaces/{workspace_id}": {"name": "theirs"},
    "POST /chat/api/workspaces/{workspace_id}/memories": {"content": "by an outsider"},
    "PATCH /chat/api/workspaces/{workspace_id}/memories/{memory_id}": {"content": "by an outsider"},
    "POST /chat/api/workspaces/{workspace_id}/memories/{memory_id}/pin": {"pinned": True},
    "PATCH /chat/api/chats/{chat_id}": {"title": "theirs"},
    "POST /chat/api/chats/{chat_id}/turns": {"content": "by an outsider"},
    "POST /chat/api/{chat_id}/memory": {"content": "by an outsider"},
    "PATCH /chat/api/members/{member_id}": {"role": "member"},
    "PATCH /chat/api/{chat_id}/memories/{memory_id}": {"content": "by an outsider"},
}
# Routes without ids, which return only the caller's own data.
NO_IDS = {
    "POST /login",
    "POST /logout",
    "POST /chat/api/password",
    "GET /chat/api/me",
    "GET /chat/api/jobs",
    "GET /chat/api/settings",
    "GET /chat/api/keys",
    "POST /chat/api/keys",
    "GET /chat/api/members",
    "POST /chat/api/members",
    "GET /chat/api/workspaces",
    "POST /chat/api/workspaces",
    "GET /chat/api/chats",
    "POST /chat/api/chats",
}


async def test_S41_no_route_finds_things_of_another_org(dashboard: Dashboard) -> None:
    """Call every documented route with ids of another org in the path."""
    created = await dashboard.remember_in_chat(content="a text of theirs")
    key = (
        await dashboard.http.post("/chat/api/keys", json={"name": "k", "rights": ["read"]})
    ).json()
    artifact = await save_artifact(
        dashboard.engine, dashboard.caller, "a.md", "Theirs.", thread=None
    )
    [job, *_] = (await get(dashboard, "/chat/api/jobs"))["items"]
    named = {
        "workspace": dashboard.caller.workspace_id,
        "chat": dashboard.thread.code,
        "memory": created["id"],
        "job": job["id"],
        "key": key["id"],
        "user": dashboard.caller.user_id,
        "document": f"cart_{artifact.code}",
    }
    interface = interface_named(dashboard.server, "dashboard")
    routes = [
        each
        for each in routes_of(interface)
        if each.path.startswith("/chat/api") and str(each) not in NO_IDS and each.method != "HEAD"
    ]
    outsider = await new_caller(dashboard.engine)
    statuses: dict[str, int] = {}

    async with await connect_signed_in(dashboard.server, dashboard.engine, outsider) as http:
        for route in routes:
            description = operation(interface, route)
            needs_query = {
                each["name"]: "x"
                for each in description["parameters"]
                if each["in"] == "query" and each.get("required")
            }
            path = route.path.format(**{name: text.format(**named) for name, text in IDS.items()})
            files = {"file": ("a.txt", b"text")} if path.endswith("/documents") else None
            body = NEEDED.get(str(route))
            is_upload = files is not None and route.method == "POST"
            response = await http.request(
                route.method,
                path,
                params=needs_query,
                json=None if is_upload else body,
                files=files if is_upload else None,
            )
            statuses[str(route)] = response.status_code

    assert len(statuses) > 25
    assert {name: status for name, status in statuses.items() if status != 404} == {}
    assert (await dashboard.listed())[0]["content"] == "a text of theirs"


async def test_S07_every_documented_route_needs_a_session(dashboard: Dashboard) -> None:
    interface = interface_named(dashboard.server, "dashboard")
    routes = [each for each in routes_of(interface) if each.path.startswith("/chat/api")]
    named = dict.fromkeys(IDS, "x")

    async with connect(dashboard.server) as http:
        responses = {
            str(each): await http.request(each.method, each.path.format(**named)) for each in routes
        }

    assert [name for name, response in responses.items() if not is_login_page(response)] == []


async def test_a_user_removed_from_a_workspace_loses_access(dashboard: Dashboard) -> None:
    closed = await in_new_workspace(dashboard.engine, dashboard.caller)
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    member = Caller(dashboard.caller.org_id, user_id, closed.workspace_id, frozenset({Right.READ}))
    path = f"/chat/api/workspaces/ws_{closed.workspace_id}/memories"
    async with await connect_signed_in(dashboard.server, dashboard.engine, member) as http:
        before = await http.get(path)
        async with dashboard.engine.pool.everywhere() as db:
            await workspaces_queries.add_workspace_member(db, closed.workspace_id, user_id)
        inside = await http.get(path)
        async with dashboard.engine.pool.everywhere() as db:
            await workspaces_queries.remove_workspace_member(db, closed.workspace_id, user_id)
        after = await http.get(path)

    assert error_of(before) == error_of(after) == (404, "workspace_not_found")
    assert inside.status_code == 200


async def test_a_user_without_any_workspace_gets_empty_lists(dashboard: Dashboard) -> None:
    """Workspaces are switched on, and the user is a member of none."""
    user_id, _ = await new_user(dashboard.engine, dashboard.caller)
    member = replace(dashboard.caller, user_id=user_id)
    async with dashboard.engine.pool.everywhere() as db:
        await orgs_queries.set_workspaces(db, dashboard.caller.org_id, is_on=True)
    async with await connect_signed_in(
        make_server(dashboard.engine), dashboard.engine, member
    ) as http:
        me = (await http.get("/chat/api/me")).json()
        chats = await http.get("/chat/api/chats")
        new_chat = await http.post("/chat/api/chats", json={"title": "x"})
        others = [
            await http.get(path)
            for path in ("/chat/api/jobs", "/chat/api/settings", "/chat/api/keys")
        ]

    assert me["workspaces"] == []
    assert chats.json()["items"] == []
    assert error_of(new_chat) == (400, "invalid_request")
    assert [each.status_code for each in others] == [200] * 3


async def test_the_librarian_answers_without_calling_a_model(
    with_model: Dashboard, endpoint: Endpoint
) -> None:
    await with_model.remember("Ada lives in London")

    events = await turn(with_model, "Where does Ada live?", model="recollect-librarian")

    [message] = [each.data for each in events if each.name == "message.completed"]
    assert message["content"]
    assert endpoint.requests == []
