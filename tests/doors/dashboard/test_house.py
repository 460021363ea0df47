"""Workspaces as a whole, and the house around them: graph, search, jobs, usage, keys, members."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from recollect.domain import Caller, Ref, Relation, Right
from recollect.engine.documents import keep_artifact
from recollect.engine.learning import Said, learn_from, lesson_of
from recollect.engine.link import Link, link
from recollect.models.librarian import NAME, Librarian
from recollect.settings import Price
from recollect.store import identity, jobs
from recollect.store.jobs import NewJob
from recollect.worker import Worker
from tests.doors.dashboard.conftest import Desk, Object
from tests.doors.dashboard.test_chats import turn
from tests.support.clock import Clock
from tests.support.dashboard import (
    PASSWORD,
    browse,
    is_login_page,
    new_user,
    visit_from,
    wrong,
)
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.house import neighbour, new_caller, serve, visit
from tests.support.routes import door_named, operation, routes_of
from tests.support.upstream import Endpoint, Raw, chats_of

pytestmark = pytest.mark.anyio


async def get(desk: Desk, path: str, **query: Any) -> Any:
    answer = await desk.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ref(memory: Object) -> Ref:
    return Ref(code=memory["id"].removeprefix("mem_"))


# Workspaces.


async def test_N15_N16_N17_workspaces_are_made_named_and_put_away(desk: Desk) -> None:
    made = await desk.http.post("/chat/api/workspaces", json={"name": "Garden"})
    path = f"/chat/api/workspaces/{made.json()['id']}"
    same = await desk.http.post("/chat/api/workspaces", json={"name": "Garden"})
    renamed = await desk.http.patch(path, json={"name": "Orchard"})
    listed = await get(desk, "/chat/api/workspaces")
    read = await get(desk, path)
    gone = await desk.http.delete(path)
    default = await desk.http.delete(desk.workspace)

    assert made.status_code == 201
    assert made.json()["id"].startswith("ws_")
    assert wrong(same) == (409, "conflict")
    assert [each["name"] for each in listed["items"]] == ["default", "Orchard"]
    assert read == renamed.json() == {**made.json(), "name": "Orchard"}
    assert gone.status_code == 204
    assert wrong(await desk.http.get(path)) == (404, "workspace_not_found")
    assert wrong(default) == (400, "invalid_request")


async def test_only_an_admin_arranges_workspaces_and_members(desk: Desk) -> None:
    user_id, _ = await new_user(desk.engine, desk.caller)
    member = replace(desk.caller, user_id=user_id)
    async with await browse(desk.server, desk.engine, member) as http:
        answers = [
            await http.post("/chat/api/workspaces", json={"name": "Mine"}),
            await http.patch(desk.workspace, json={"name": "Mine"}),
            await http.delete(desk.workspace),
            await http.post("/chat/api/members", json={"name": "friend"}),
            await http.delete(f"/chat/api/members/{desk.caller.user_id}"),
            await http.post("/chat/api/keys", json={"name": "k", "rights": ["admin"]}),
        ]

    assert [wrong(each) for each in answers] == [(403, "denied")] * 6


# The graph.


async def test_N23_the_graph_has_every_kind_of_thing_and_of_tie(desk: Desk) -> None:
    decision = await desk.remember("We use PostgreSQL", category="decision")
    milestone = await desk.remember("Version 1 shipped", category="Milestone")
    plain = await desk.remember_here(content="Ada drinks tea")
    await link(
        desk.engine, desk.caller, ref(decision), Link(ref(milestone), Relation.CAUSED_BY, 0.7)
    )
    await link(desk.engine, desk.caller, ref(plain), Link(ref(decision), Relation.CONTRADICTS))
    artifact = await keep_artifact(
        desk.engine, desk.caller, "plan.md", "The plan.", thread=Ref(id=desk.thread.id)
    )

    found = await get(desk, f"{desk.workspace}/graph")
    only = await get(desk, f"{desk.workspace}/graph", kind="decision")

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
    refused = await desk.http.get(f"{desk.workspace}/graph", params={"kind": "dream"})
    assert wrong(refused) == (400, "invalid_request")


async def test_N23_what_is_alike_is_tied_by_likeness(desk: Desk, embedder: StubEmbedder) -> None:
    embedder.table |= {"one thing": at_cosine(1.0), "nearly that": at_cosine(0.95)}
    for text in ("one thing", "nearly that"):
        await desk.remember(text)

    found = await get(desk, f"{desk.workspace}/graph")

    assert [(each["kind"], each["relation"]) for each in found["edges"]] == [
        ("similarity", "updates")
    ]


# What waits.


async def test_S74_what_waits_is_accepted_or_rejected(desk: Desk) -> None:
    engine = replace(desk.engine, is_reviewed=True)
    for text in ("I live in Paris.", "I love green tea.", "I work at Acme."):
        async with engine.writing(desk.caller) as db:
            said = Said(text, "turn", engine.now())
            await learn_from(engine, db, desk.caller, lesson_of(desk.caller, said))
    await Worker(engine, slots=1).run_until_empty()
    path = f"{desk.workspace}/pending"

    first = await get(desk, path, limit=2)
    rest = await get(desk, path, limit=2, cursor=first["next_cursor"])
    waiting = [*first["items"], *rest["items"]]
    kept = await desk.http.post(f"{path}/{waiting[0]['id']}/accept")
    gone = await desk.http.post(f"{path}/{waiting[1]['id']}/reject")
    left = await get(desk, path)

    assert len({each["id"] for each in waiting}) == 3
    assert {each["reason"] for each in waiting} == {"review"}
    assert kept.status_code == 200
    assert kept.json()["content"] == waiting[0]["content"]
    assert gone.status_code == 204
    assert [each["id"] for each in left["items"]] == [waiting[2]["id"]]
    assert [each["id"] for each in await desk.listed()] == [kept.json()["id"]]
    for verb in ("accept", "reject"):
        for name in (waiting[0]["id"], f"lrn_{uuid4()}", "nonsense"):
            answer = await desk.http.post(f"{path}/{name}/{verb}")
            assert wrong(answer) == (404, "candidate_not_found")


# Jobs.


async def test_jobs_are_seen_and_buried_ones_tried_again(desk: Desk, clock: Clock) -> None:
    workspace_id = desk.caller.workspace_id
    async with desk.engine.pool.writing(workspace_id) as db:
        for number in range(3):
            await jobs.enqueue(
                db, workspace_id, [NewJob("distil", dedupe_key=str(number))], clock.at
            )
        clock.advance(timedelta(seconds=1))
    async with desk.engine.pool.everywhere() as db:
        await db.execute(
            "UPDATE job SET status = 'buried', attempts = 5, last_error = 'ValueError'"
            " WHERE workspace_id = %s AND dedupe_key = '1'",
            [workspace_id],
        )

    found = await get(desk, "/chat/api/jobs")
    [buried] = (await get(desk, "/chat/api/jobs", state="buried"))["items"]
    page = await get(desk, "/chat/api/jobs", limit=2)
    again = await desk.http.post(f"/chat/api/jobs/{buried['id']}/retry")
    twice = await desk.http.post(f"/chat/api/jobs/{buried['id']}/retry")

    mine = [each for each in found["items"] if each["kind"] == "distil"]
    assert {each["state"] for each in mine} == {"pending", "buried"}
    assert found["counts"]["buried"] == 1
    assert (buried["tries"], buried["error"]) == (5, "ValueError")
    assert page["has_more"]
    rest = await get(desk, "/chat/api/jobs", cursor=page["next_cursor"])
    ids = [each["id"] for each in [*page["items"], *rest["items"]]]
    assert sorted(ids) == sorted(each["id"] for each in found["items"])
    assert (again.json()["state"], again.json()["tries"]) == ("pending", 0)
    assert wrong(twice) == (409, "conflict")
    assert wrong(await desk.http.post(f"/chat/api/jobs/{uuid4()}/retry")) == (404, "job_not_found")
    refused = await desk.http.get("/chat/api/jobs", params={"state": "lost"})
    assert wrong(refused) == (400, "invalid_request")


# Usage and settings.


async def test_S54_usage_is_told_by_day_failures_included(
    modelled: Desk, endpoint: Endpoint, clock: Clock
) -> None:
    priced = replace(modelled.engine, prices={"m1": Price(2.0, 4.0)})
    async with await browse(serve(priced), priced, modelled.caller) as http:
        await turn(replace(modelled, http=http), "Hello?")
    endpoint.script = [Raw([b"data: x\n\n"], breaks=True)]
    await turn(modelled, "And now?")
    clock.advance(timedelta(days=1))
    await turn(modelled, "Today?")

    found = await get(modelled, f"{modelled.workspace}/usage", days=7)
    today = await get(modelled, f"{modelled.workspace}/usage", days=1)

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
        answer = await modelled.http.get(f"{modelled.workspace}/usage", params={"days": days})
        assert wrong(answer) == (400, "invalid_request")


async def test_settings_tell_models_and_embedder(modelled: Desk) -> None:
    await modelled.remember("Ada drinks tea")

    found = await get(modelled, "/chat/api/settings")
    there = await get(
        modelled, "/chat/api/settings", workspace=f"ws_{modelled.caller.workspace_id}"
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


async def test_with_no_model_configured_the_first_that_is_listed_is_offered(
    desk: Desk, endpoint: Endpoint
) -> None:
    endpoint.reset()
    chats = chats_of(endpoint.url, {NAME: Librarian(lambda: 1_700_000_000.0)})
    engine = replace(desk.engine, chats=chats)

    async with await browse(serve(engine), engine, desk.caller) as http:
        me = (await http.get("/chat/api/me")).json()

    assert me["default_model"] == "m1"
    await chats.aclose()


# Keys.


async def test_S21_a_key_is_shown_once_and_works_until_it_is_revoked(
    desk: Desk, clock: Clock
) -> None:
    made = await desk.http.post(
        "/chat/api/keys", json={"name": "laptop", "rights": ["read", "write"], "expires_days": 30}
    )
    key = made.json()

    async with visit(desk.server, **{"X-API-Key": key["key"]}) as http:
        before = await http.post("/v1/memories", json={"content": "by key"})
        listed = await get(desk, "/chat/api/keys")
        revoked = await desk.http.post(f"/chat/api/keys/{key['id']}/revoke")
        desk.server.ring.forget()
        after = await http.get("/v1/memories")

    assert made.status_code == 201
    assert key["expires_at"] == "2026-03-31T12:00:00.000000Z"
    assert before.status_code == 201
    assert key["key"] not in str(listed)
    assert [each["name"] for each in listed["items"]] == ["laptop"]
    assert listed["items"][0]["shown"].startswith(key["key"][:6])
    assert revoked.status_code == 204
    assert after.status_code == 401
    assert (await get(desk, "/chat/api/keys"))["items"][0]["revoked_at"] is not None
    assert [each["content"] for each in await desk.listed()] == ["by key"]


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
async def test_a_key_that_cannot_be_is_explained(desk: Desk, body: Object) -> None:
    assert wrong(await desk.http.post("/chat/api/keys", json=body)) == (400, "invalid_request")


async def test_people_see_and_end_their_own_keys_and_an_admin_all(desk: Desk) -> None:
    user_id, _ = await new_user(desk.engine, desk.caller)
    member = replace(desk.caller, user_id=user_id)
    body = {"name": "of the admin", "rights": ["read"]}
    of_admin = (await desk.http.post("/chat/api/keys", json=body)).json()

    async with await browse(desk.server, desk.engine, member) as http:
        own = (await http.post("/chat/api/keys", json={**body, "name": "own"})).json()
        seen = (await http.get("/chat/api/keys")).json()["items"]
        refused = await http.post(f"/chat/api/keys/{of_admin['id']}/revoke")
    stranger = await new_caller(desk.engine)
    async with await browse(desk.server, desk.engine, stranger) as http:
        foreign = await http.post(f"/chat/api/keys/{own['id']}/revoke")
        elsewhere = await http.post(
            "/chat/api/keys", json={**body, "workspace_id": f"ws_{desk.caller.workspace_id}"}
        )
    by_admin = await desk.http.post(f"/chat/api/keys/{own['id']}/revoke")

    assert [each["id"] for each in seen] == [own["id"]]
    assert wrong(refused) == wrong(foreign) == (404, "key_not_found")
    assert wrong(elsewhere) == (404, "workspace_not_found")
    assert by_admin.status_code == 204


# Members.


async def test_a_member_is_let_in_and_put_out(desk: Desk) -> None:
    name = f"friend-{uuid4().hex[:8]}"
    made = await desk.http.post(
        "/chat/api/members", json={"name": name, "password": PASSWORD, "rights": ["read"]}
    )
    unnamed = await desk.http.post("/chat/api/members", json={"name": f"{name} two"})
    listed = await get(desk, "/chat/api/members")
    async with visit_from(desk.server) as http:
        entered = await http.post("/login", json={"username": name, "password": PASSWORD})
        inside = await http.get("/chat/api/me")
        gone = await desk.http.delete(f"/chat/api/members/{made.json()['id']}")
        after = await http.get("/chat/api/me")
        again = await http.post("/login", json={"username": name, "password": PASSWORD})

    assert made.status_code == 201
    assert (made.json()["role"], made.json()["password"]) == ("member", None)
    assert len(unnamed.json()["password"]) == 16
    assert name in [each["name"] for each in listed["items"]]
    assert (entered.status_code, inside.status_code) == (204, 200)
    assert gone.status_code == 204
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
async def test_a_member_that_cannot_be_is_explained(desk: Desk, body: Object) -> None:
    assert wrong(await desk.http.post("/chat/api/members", json=body)) == (400, "invalid_request")


async def test_S12_a_member_becomes_an_admin_and_one_no_longer_with_what_was_an_admins(
    desk: Desk,
) -> None:
    user_id, _ = await new_user(desk.engine, desk.caller)
    path = f"/chat/api/members/{user_id}"
    them = replace(desk.caller, user_id=user_id)

    risen = await desk.http.patch(path, json={"role": "admin"})
    async with await browse(desk.server, desk.engine, them) as http:
        body = {"name": "k", "rights": ["read", "admin"]}
        made = (await http.post("/chat/api/keys", json=body)).json()
        plain = (await http.post("/chat/api/keys", json={**body, "rights": ["read"]})).json()
        fallen = await desk.http.patch(path, json={"role": "member"})
        assert is_login_page(await http.get("/chat/api/me"))
    async with await browse(desk.server, desk.engine, them) as http:
        refused = await http.patch(
            f"/chat/api/members/{desk.caller.user_id}", json={"role": "member"}
        )
        keys = (await http.get("/chat/api/keys")).json()["items"]

    assert (risen.json()["role"], fallen.json()["role"]) == ("admin", "member")
    assert wrong(refused) == (403, "denied")
    revoked = {each["id"]: each["revoked_at"] is not None for each in keys}
    assert revoked == {made["id"]: True, plain["id"]: False}
    own = await desk.http.patch(f"/chat/api/members/{desk.caller.user_id}", json={"role": "member"})
    assert wrong(own) == (409, "conflict")
    stranger = await new_caller(desk.engine)
    for other in (stranger.user_id, uuid4(), "nonsense"):
        answer = await desk.http.patch(f"/chat/api/members/{other}", json={"role": "admin"})
        assert wrong(answer) == (404, "member_not_found")
    nonsense = await desk.http.patch(path, json={"role": "king"})
    assert wrong(nonsense) == (400, "invalid_request")


async def test_nobody_removes_themselves_or_strangers(desk: Desk) -> None:
    stranger = await new_caller(desk.engine)
    taken = await desk.http.post("/chat/api/members", json={"name": "somebody-taken"})
    twice = await desk.http.post("/chat/api/members", json={"name": "somebody-taken"})

    answers = [
        await desk.http.delete(f"/chat/api/members/{each}")
        for each in (desk.caller.user_id, stranger.user_id, uuid4(), "nonsense")
    ]

    assert [wrong(each) for each in answers] == [
        (409, "conflict"),
        *[(404, "member_not_found")] * 3,
    ]
    assert taken.status_code == 201
    assert wrong(twice) == (409, "conflict")


async def test_S83_what_people_arrange_is_in_the_audit_for_them_alone(desk: Desk) -> None:
    await desk.http.post("/chat/api/keys", json={"name": "k", "rights": ["read"]})
    name = f"friend-{uuid4().hex[:8]}"
    member = await desk.http.post("/chat/api/members", json={"name": name, "password": PASSWORD})
    async with visit_from(desk.server) as http:
        await http.post("/login", json={"username": name, "password": PASSWORD})

    async with desk.engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT action, user_id::text, is_private FROM event"
            " WHERE workspace_id = %s AND action NOT LIKE 'session%%'"
            " AND action NOT LIKE 'message%%' ORDER BY at, action",
            [desk.caller.workspace_id],
        )
        found = await cursor.fetchall()

    me = str(desk.caller.user_id)
    assert found == [
        ("key.created", me, True),
        ("user.created", me, True),
        ("user.signed_in", member.json()["id"], True),
    ]


# Every route, for those who may not.


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
# A body each route takes: what goes wrong then is the id's doing.
NEEDED: dict[str, Object] = {
    "POST /chat/api/workspaces": {"name": "theirs"},
    "PATCH /chat/api/workspaces/{workspace_id}": {"name": "theirs"},
    "POST /chat/api/workspaces/{workspace_id}/memories": {"content": "by a stranger"},
    "PATCH /chat/api/workspaces/{workspace_id}/memories/{memory_id}": {"content": "by a stranger"},
    "POST /chat/api/workspaces/{workspace_id}/memories/{memory_id}/pin": {"pinned": True},
    "PATCH /chat/api/chats/{chat_id}": {"title": "theirs"},
    "POST /chat/api/chats/{chat_id}/turns": {"content": "by a stranger"},
    "POST /chat/api/{chat_id}/memory": {"content": "by a stranger"},
    "PATCH /chat/api/members/{member_id}": {"role": "member"},
    "PATCH /chat/api/{chat_id}/memories/{memory_id}": {"content": "by a stranger"},
}
# Name nothing of anybody's but one's own.
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


async def test_S41_no_route_finds_what_is_of_strangers(desk: Desk) -> None:
    """Every route of the door's document, with ids of another org in its address."""
    made = await desk.remember_here(content="a text of theirs")
    key = (await desk.http.post("/chat/api/keys", json={"name": "k", "rights": ["read"]})).json()
    artifact = await keep_artifact(desk.engine, desk.caller, "a.md", "Theirs.", thread=None)
    [job, *_] = (await get(desk, "/chat/api/jobs"))["items"]
    named = {
        "workspace": desk.caller.workspace_id,
        "chat": desk.thread.code,
        "memory": made["id"],
        "job": job["id"],
        "key": key["id"],
        "user": desk.caller.user_id,
        "document": f"cart_{artifact.code}",
    }
    door = door_named(desk.server, "dashboard")
    routes = [
        each
        for each in routes_of(door)
        if each.path.startswith("/chat/api") and str(each) not in NO_IDS and each.method != "HEAD"
    ]
    stranger = await new_caller(desk.engine)
    crossed: dict[str, int] = {}

    async with await browse(desk.server, desk.engine, stranger) as http:
        for route in routes:
            says = operation(door, route)
            needs_query = {
                each["name"]: "x"
                for each in says["parameters"]
                if each["in"] == "query" and each.get("required")
            }
            path = route.path.format(**{name: text.format(**named) for name, text in IDS.items()})
            files = {"file": ("a.txt", b"text")} if path.endswith("/documents") else None
            body = NEEDED.get(str(route))
            is_upload = files is not None and route.method == "POST"
            answer = await http.request(
                route.method,
                path,
                params=needs_query,
                json=None if is_upload else body,
                files=files if is_upload else None,
            )
            crossed[str(route)] = answer.status_code

    assert len(crossed) > 25
    assert {name: status for name, status in crossed.items() if status != 404} == {}
    assert (await desk.listed())[0]["content"] == "a text of theirs"


async def test_S07_no_route_of_the_document_answers_strangers(desk: Desk) -> None:
    door = door_named(desk.server, "dashboard")
    routes = [each for each in routes_of(door) if each.path.startswith("/chat/api")]
    named = dict.fromkeys(IDS, "x")

    async with visit(desk.server) as http:
        answers = {
            str(each): await http.request(each.method, each.path.format(**named)) for each in routes
        }

    assert [name for name, answer in answers.items() if not is_login_page(answer)] == []


async def test_a_workspace_that_was_left_is_no_place_any_more(desk: Desk) -> None:
    closed = await neighbour(desk.engine, desk.caller)
    user_id, _ = await new_user(desk.engine, desk.caller)
    member = Caller(desk.caller.org_id, user_id, closed.workspace_id, frozenset({Right.READ}))
    path = f"/chat/api/workspaces/ws_{closed.workspace_id}/memories"
    async with await browse(desk.server, desk.engine, member) as http:
        before = await http.get(path)
        async with desk.engine.pool.everywhere() as db:
            await identity.add_workspace_member(db, closed.workspace_id, user_id)
        inside = await http.get(path)
        async with desk.engine.pool.everywhere() as db:
            await identity.remove_workspace_member(db, closed.workspace_id, user_id)
        after = await http.get(path)

    assert wrong(before) == wrong(after) == (404, "workspace_not_found")
    assert inside.status_code == 200


async def test_a_house_without_a_place_says_so(desk: Desk) -> None:
    """Workspaces on, and somebody who was let into none."""
    user_id, _ = await new_user(desk.engine, desk.caller)
    member = replace(desk.caller, user_id=user_id)
    async with desk.engine.pool.everywhere() as db:
        await identity.set_workspaces(db, desk.caller.org_id, is_on=True)
    async with await browse(serve(desk.engine), desk.engine, member) as http:
        me = (await http.get("/chat/api/me")).json()
        chats = await http.get("/chat/api/chats")
        begun = await http.post("/chat/api/chats", json={"title": "x"})
        others = [
            await http.get(path)
            for path in ("/chat/api/jobs", "/chat/api/settings", "/chat/api/keys")
        ]

    assert me["workspaces"] == []
    assert chats.json()["items"] == []
    assert wrong(begun) == (400, "invalid_request")
    assert [each.status_code for each in others] == [200] * 3


async def test_the_librarian_answers_where_no_model_is_configured(
    modelled: Desk, endpoint: Endpoint
) -> None:
    await modelled.remember("Ada lives in London")

    events = await turn(modelled, "Where does Ada live?", model="recollect-librarian")

    [told] = [each.data for each in events if each.name == "message.completed"]
    assert told["content"]
    assert endpoint.asked == []
