"""Workspaces and their memories, with and without a project in the path."""

import re
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.server import Server
from recollect.tenancy.keys import create_key
from recollect.tenancy.orgs import invite_to_workspace
from recollect.tenancy.queries import orgs, users
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import connect, in_new_workspace, key_for, make_server, new_caller

pytestmark = pytest.mark.anyio

MEMORY = re.compile(r"mem_[A-Za-z0-9]{24}")
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"


@pytest.fixture
async def http(
    engine: Engine, server: Server, caller: Caller
) -> AsyncGenerator[httpx2.AsyncClient]:
    """A client with a key of the org."""
    new = await create_key(engine, workspace=str(caller.workspace_id), is_unbound=True)
    async with connect(server, Authorization=f"Bearer {new.text}") as found:
        yield found


def workspace_path(caller: Caller) -> str:
    return f"/proj_{caller.org_id}/v1/workspaces/ws_{caller.workspace_id}"


def error_code(answer: httpx2.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return answer.status_code, error["code"]


async def test_N16_N17_a_project_has_a_default_workspace_and_every_method_works(
    http: httpx2.AsyncClient, caller: Caller
) -> None:
    base = f"/proj_{caller.org_id}/v1/workspaces"
    [default] = (await http.get(base)).json()["items"]
    assert default["is_default"]
    assert re.fullmatch(f"ws_{UUID}", default["id"])
    assert re.fullmatch(f"proj_{UUID}", default["project_id"])

    created = await http.post(base, json={"name": "Research"})
    assert created.status_code == 201
    path = f"{base}/{created.json()['id']}"
    assert (await http.get(path)).json() == created.json()
    renamed = await http.patch(path, json={"name": "Reading"})
    assert renamed.json() == {**created.json(), "name": "Reading"}
    assert (await http.patch(path, json={})).json() == renamed.json()
    assert [each["name"] for each in (await http.get(base)).json()["items"]] == [
        default["name"],
        "Reading",
    ]
    assert (await http.delete(path)).status_code == 204
    assert error_code(await http.get(path)) == (404, "workspace_not_found")
    assert (await http.get(base)).json()["items"] == [default]
    assert error_code(await http.delete(f"{base}/{default['id']}")) == (400, "invalid_request")


async def test_a_second_workspace_with_the_same_name_is_rejected(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/workspaces", json={"name": "Twice"})
    again = await http.post("/v1/workspaces", json={"name": "Twice"})

    assert error_code(again) == (409, "conflict")
    assert again.headers["x-should-retry"] == "false"


async def test_R052_a_key_creates_lists_changes_and_deletes_memories(
    http: httpx2.AsyncClient, caller: Caller
) -> None:
    memories = f"{workspace_path(caller)}/memories"
    body = {"content": "Quarterly review meets every Thursday", "category": "fact"}

    created = await http.post(memories, json=body)

    assert created.status_code == 201
    shown = created.json()
    assert MEMORY.fullmatch(shown["id"])
    assert shown | body == shown
    assert (shown["source_type"], shown["source_chat_id"], shown["summary"]) == ("user", None, None)
    assert shown["workspace_id"] == f"ws_{caller.workspace_id}"
    assert (await http.post(memories, json=body)).status_code == 200  # a duplicate
    assert (await http.get(memories)).json() == {
        "items": [shown],
        "next_cursor": None,
        "has_more": False,
    }
    path = f"{memories}/{shown['id']}"
    changed = await http.patch(path, json={"content": "It meets on Fridays", "category": "x"})
    assert (changed.json()["content"], changed.json()["category"]) == (
        "It meets on Fridays",
        "fact",
    )
    assert (await http.get(path)).json() == changed.json()
    assert (await http.delete(path)).status_code == 204
    assert (await http.get(memories)).json()["items"] == []
    assert error_code(await http.delete(path)) == (404, "memory_not_found")
    assert error_code(await http.patch(path, json={"content": "A"})) == (404, "memory_not_found")


async def test_paging_by_cursor_returns_each_memory_once(
    http: httpx2.AsyncClient, caller: Caller, clock: Clock
) -> None:
    memories = f"{workspace_path(caller)}/memories"
    for number in range(7):
        await http.post(memories, json={"content": f"Number {number}."})
        clock.advance(timedelta(seconds=number % 2))  # some share a time

    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = (await http.get(memories, params={"limit": 3, **cursor})).json()
        seen += [each["content"] for each in page["items"]]
        # Memories created or forgotten meanwhile do not shift the pages.
        await http.post(memories, json={"content": f"Added after {len(seen)}."})
        await http.delete(f"{memories}/{page['items'][-1]['id']}")
        if not page["has_more"]:
            break
        cursor = {"cursor": page["next_cursor"]}

    assert sorted(seen) == [f"Number {number}." for number in range(7)]


async def test_search_is_best_first_and_labels_each_result(
    http: httpx2.AsyncClient, caller: Caller, embedder: StubEmbedder
) -> None:
    embedder.table = {"tea?": at_cosine(1.0), "Tea.": at_cosine(0.9), "Rain.": at_cosine(0.4)}
    await http.post(
        f"{workspace_path(caller)}/memories", json={"content": "Rain.", "category": "decision"}
    )
    await http.post(f"{workspace_path(caller)}/memories", json={"content": "Tea."})

    found = (await http.post(f"{workspace_path(caller)}/search", json={"query": "tea?"})).json()
    second = await http.post(
        f"{workspace_path(caller)}/search", json={"query": "tea?", "limit": 1, "offset": 1}
    )
    none = await http.post(
        f"{workspace_path(caller)}/search", json={"query": "tea?", "types": ["artifact"]}
    )

    assert [(each["type"], each["content"]) for each in found["items"]] == [
        ("memory", "Tea."),
        ("decision", "Rain."),
    ]
    assert found["items"][0]["score"] >= 0.9
    assert second.json()["items"] == found["items"][1:]
    assert none.json()["items"] == []


async def test_the_longest_allowed_query_works(http: httpx2.AsyncClient, caller: Caller) -> None:
    query = "".join(chr(0x4E00 + number) for number in range(10_000))

    found = await http.post(f"{workspace_path(caller)}/search", json={"query": query})

    assert (found.status_code, found.json()["items"]) == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/memories", {}, (400, "invalid_request")),
        ("POST", "/memories", {"content": " "}, (400, "invalid_request")),
        ("POST", "/memories", {"content": 5}, (400, "invalid_request")),
        ("POST", "/memories", {"content": "é" * 30_000}, (413, "request_too_large")),
        ("PATCH", "/memories/mem_1", {"content": "A"}, (404, "memory_not_found")),
        ("GET", "/memories?limit=0", None, (400, "invalid_request")),
        ("GET", "/memories?cursor=x", None, (400, "invalid_request")),
        ("POST", "/search", {"query": ""}, (400, "invalid_request")),
        ("POST", "/search", {"query": "a" * 10_001}, (400, "invalid_request")),
        ("POST", "/search", {"query": "a", "types": ["x"]}, (400, "invalid_request")),
        ("POST", "/pending/1/accept", None, (404, "candidate_not_found")),
        ("PATCH", "", {"name": " "}, (400, "invalid_request")),
        ("PUT", "/memories", {}, (405, "method_not_allowed")),
        ("GET", "/nothing", None, (404, "not_found")),
    ],
)
async def test_N19_bad_requests_get_the_openai_object(
    http: httpx2.AsyncClient,
    caller: Caller,
    method: str,
    path: str,
    body: Any,
    expected: tuple[int, str],
) -> None:
    assert (
        error_code(await http.request(method, workspace_path(caller) + path, json=body)) == expected
    )


async def test_N19_bad_json_and_bad_keys_get_the_openai_object(
    http: httpx2.AsyncClient, server: Server, caller: Caller
) -> None:
    headers = {"content-type": "application/json"}
    bad = await http.post(f"{workspace_path(caller)}/memories", content=b"{", headers=headers)
    assert error_code(bad) == (400, "json_parse_error")
    async with connect(server, Authorization="Bearer rk_00000000_wrong") as outsider:
        assert error_code(await outsider.get(workspace_path(caller))) == (
            401,
            "authentication_error",
        )


@pytest.mark.parametrize("right", list(Right))
async def test_N24_S23_each_route_needs_its_right(
    server: Server, engine: Engine, caller: Caller, http: httpx2.AsyncClient, right: Right
) -> None:
    workspace = workspace_path(caller)
    created = (await http.post(f"{workspace}/memories", json={"content": "A."})).json()
    memory = f"{workspace}/memories/{created['id']}"
    requests: list[tuple[set[Right], str, str, dict[str, str] | None]] = [
        ({Right.READ}, "GET", "/v1/workspaces", None),
        ({Right.READ}, "GET", workspace, None),
        ({Right.READ}, "GET", f"{workspace}/memories", None),
        ({Right.READ}, "GET", memory, None),
        ({Right.READ}, "POST", f"{workspace}/search", {"query": "A."}),
        ({Right.WRITE}, "POST", f"{workspace}/memories", {"content": "B."}),
        ({Right.READ, Right.WRITE}, "PATCH", memory, {"content": "C."}),
        ({Right.DELETE}, "DELETE", memory, None),
        ({Right.ADMIN}, "POST", "/v1/workspaces", {"name": "A"}),
        ({Right.ADMIN}, "PATCH", workspace, {"name": "B"}),
        ({Right.ADMIN, Right.DELETE}, "DELETE", workspace, None),
    ]
    before = (await http.get(f"{workspace}/memories")).json()["items"]
    key = await create_key(
        engine, workspace=str(caller.workspace_id), rights=[right], is_unbound=True
    )
    async with connect(server, Authorization=f"Bearer {key.text}") as limited:
        refused = {
            (method, path): await limited.request(method, path, json=body)
            for needed, method, path, body in requests
            if not needed <= {right}
        }
        after = (await http.get(f"{workspace}/memories")).json()["items"]
        served = {
            (method, path): (await limited.request(method, path, json=body)).status_code
            for needed, method, path, body in requests
            if needed <= {right} and method != "DELETE"
        }

    for request, answer in refused.items():
        assert error_code(answer) == (403, "scope_insufficient"), request
    assert after == before
    assert [request for request, status in served.items() if status >= 400] == []


async def test_the_project_in_the_path_is_an_id_or_a_name(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    async with engine.pool.everywhere() as db:
        await orgs.rename_org(db, caller.org_id, "Ada & Co.")
    other = await new_caller(engine)

    assert (await http.get("/ada-co/v1/workspaces")).status_code == 200
    assert (await http.get(f"/{caller.org_id}/v1/models")).status_code == 200
    assert error_code(await http.get(f"/proj_{other.org_id}/v1/workspaces")) == (
        404,
        "project_not_found",
    )
    assert error_code(await http.get("/unknown/v1/models")) == (404, "project_not_found")


ROUTES = [
    ("GET", "", None),
    ("PATCH", "", {"name": "Taken over"}),
    ("DELETE", "", None),
    ("GET", "/memories", None),
    ("POST", "/memories", {"content": "Created by an outsider."}),
    ("POST", "/search", {"query": "secret"}),
    ("GET", "/pending", None),
    ("POST", "/pending/lrn_{pending}/accept", None),
    ("POST", "/pending/lrn_{pending}/reject", None),
    ("GET", "/memories/{memory}", None),
    ("PATCH", "/memories/{memory}", {"content": "Changed by an outsider."}),
    ("DELETE", "/memories/{memory}", None),
]


async def create_content(
    engine: Engine, caller: Caller, http: httpx2.AsyncClient
) -> dict[str, str]:
    """Create a memory and a candidate; return their ids."""
    created = await http.post(f"{workspace_path(caller)}/memories", json={"content": "A secret."})
    with_review = replace(engine, needs_review=True)
    async with engine.writing(caller) as db:
        source = LearningInput("I live in Oslo.", "turn", engine.now())
        await learn_from(engine, db, caller, inbox_item_of(caller, source))
    await Worker(with_review, slots=1).run_until_empty()
    [waiting] = (await http.get(f"{workspace_path(caller)}/pending")).json()["items"]
    return {"memory": created.json()["id"], "pending": waiting["id"].removeprefix("lrn_")}


@pytest.mark.parametrize("whose", ["another org", "a workspace's key", "a member of another"])
async def test_S41_another_users_workspace_cannot_be_reached(
    http: httpx2.AsyncClient, server: Server, engine: Engine, caller: Caller, whose: str
) -> None:
    ids = await create_content(engine, caller, http)
    if whose == "another org":
        outsider = await new_caller(engine)
        key = (await create_key(engine, workspace=str(outsider.workspace_id), is_unbound=True)).text
    elif whose == "a workspace's key":
        outsider = await in_new_workspace(engine, caller)
        key = await key_for(engine, outsider.workspace_id)
    else:
        outsider = await in_new_workspace(engine, caller)
        async with engine.pool.everywhere() as db:
            login = f"guest-{outsider.workspace_id}"
            await users.add_user(db, caller.org_id, login, password_hash=None, is_admin=False)
            await orgs.set_workspaces(db, caller.org_id, is_on=True)
        await invite_to_workspace(engine, str(outsider.workspace_id), login)
        key = (
            await create_key(
                engine, workspace=str(outsider.workspace_id), user=login, is_unbound=True
            )
        ).text
    before = [
        (await http.get(f"{workspace_path(caller)}/{each}")).text
        for each in ("memories", "pending")
    ]

    async with connect(server, Authorization=f"Bearer {key}") as client:
        base = f"/proj_{outsider.org_id}/v1/workspaces"
        for method, template, body in ROUTES:
            path = template.format(**ids)
            address = f"{base}/ws_{caller.workspace_id}{path}"
            answer = await client.request(method, address, json=body)
            assert answer.status_code in {403, 404}, (method, template, answer.text)
            assert (method, answer.status_code) in {(method, 404), ("DELETE", 403)}
            # The ids do not work in their own workspace either.
            own = f"{base}/ws_{outsider.workspace_id}{path}"
            if "{" in template:
                assert (await client.request(method, own, json=body)).status_code == 404
        listed = (await client.get(base)).json()["items"]
        assert [each["id"] for each in listed] == [f"ws_{outsider.workspace_id}"]

    after = [
        (await http.get(f"{workspace_path(caller)}/{each}")).text
        for each in ("memories", "pending")
    ]
    assert after == before


async def test_a_cursor_is_valid_only_in_its_own_workspace(
    http: httpx2.AsyncClient, caller: Caller
) -> None:
    for text in ("A.", "B."):
        await http.post(f"{workspace_path(caller)}/memories", json={"content": text})
    page = (await http.get(f"{workspace_path(caller)}/memories", params={"limit": 1})).json()
    other = (await http.post("/v1/workspaces", json={"name": "Other"})).json()["id"]

    answer = await http.get(
        f"/v1/workspaces/{other}/memories", params={"cursor": page["next_cursor"]}
    )

    assert error_code(answer) == (400, "invalid_request")


async def test_a_candidate_is_accepted_or_rejected(
    http: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    ids = await create_content(engine, caller, http)
    pending = f"{workspace_path(caller)}/pending"
    [waiting] = (await http.get(pending)).json()["items"]
    assert (waiting["quote"], waiting["reason"]) == ("I live in Oslo.", "review")

    accepted = await http.post(f"{pending}/{waiting['id']}/accept")

    assert accepted.json()["content"] == waiting["content"]
    assert accepted.json()["source_type"] == "model"
    assert (await http.get(pending)).json()["items"] == []
    again = await http.post(f"{pending}/{ids['pending']}/reject")
    assert error_code(again) == (404, "candidate_not_found")


async def test_a_repeated_request_is_executed_once(
    http: httpx2.AsyncClient, caller: Caller
) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"content": "Said once."}
    first = await http.post(f"{workspace_path(caller)}/memories", json=body, headers=headers)
    second = await http.post(f"{workspace_path(caller)}/memories", json=body, headers=headers)
    assert (second.status_code, second.json()) == (201, first.json())

    other = (await http.post("/v1/workspaces", json={"name": "Elsewhere"})).json()["id"]
    elsewhere = await http.post(
        f"/v1/workspaces/{other}/memories", json=body, headers={"Idempotency-Key": "two"}
    )
    assert error_code(elsewhere) == (400, "invalid_request")


async def test_a_memory_of_another_interface_is_listed(engine: Engine, caller: Caller) -> None:
    """N15: a memory of one interface is visible in the others."""
    server = make_server(engine)
    key = await key_for(engine, caller.workspace_id)
    async with connect(server, Authorization=f"Bearer {key}") as client:
        await client.post("/v1/memories", json={"content": "From another interface."})

        [found] = (await client.get(f"{workspace_path(caller)}/memories")).json()["items"]

    assert (found["content"], found["source_type"]) == ("From another interface.", "user")
