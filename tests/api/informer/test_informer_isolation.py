"""Access to the Informer interface: credentials, rights, and isolation of workspaces."""

import json
from typing import Any

import httpx2
import pytest

from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.server import Server
from tests.support.dashboard import PASSWORD, connect_from, connect_signed_in, new_user
from tests.support.informer import Http, Object, add_messages, create_memory, error_of, new_chat
from tests.support.instance import connect, in_new_workspace, key_for, make_server, new_caller
from tests.support.routes import Route, interface_named, operation, routes_of

pytestmark = pytest.mark.anyio

UNKNOWN = "aaaaaaaaaaaa"


async def test_N26_a_session_cookie_and_a_token_both_work(engine: Engine, caller: Caller) -> None:
    _, login = await new_user(engine, caller, password=PASSWORD)
    server = make_server(engine)
    async with connect_from(server) as http:
        wrong = await http.post(
            "/api/auth/login", json={"username": login, "password": "not this one"}
        )
        signed_in = await http.post(
            "/api/auth/login", json={"username": login, "password": PASSWORD}
        )
        http.headers["cookie"] = signed_in.headers["set-cookie"].split(";")[0]
        chat = await new_chat(http)
        cross_site = await http.post(
            "/api/chats", json={}, headers={"origin": "https://evil.example"}
        )
        key = await key_for(engine, caller.workspace_id)
        async with connect(server, Authorization=f"Bearer {key}") as program:
            same = await program.get(f"/api/chats/{chat}")
        signed_out = await http.post("/api/auth/logout")
        after = await http.get("/api/chats")

    assert error_of(wrong) == (401, "Unauthorized")
    assert (signed_in.status_code, signed_in.json()) == (200, {"username": login})
    assert "HttpOnly" in signed_in.headers["set-cookie"]
    assert error_of(cross_site) == (403, "Forbidden")
    assert same.status_code == 200
    assert signed_out.status_code == 204
    assert error_of(after) == (401, "Unauthorized")


async def test_S15_a_valid_cookie_does_not_excuse_a_bad_token(
    engine: Engine, server: Server, caller: Caller
) -> None:
    async with await connect_signed_in(server, engine, caller) as http:
        with_cookie = await http.get("/api/chats")
        for bad in ("Bearer rk_00000000_wrong", "Bearer ", "Basic YTpi", ""):
            answer = await http.get("/api/chats", headers={"Authorization": bad})
            assert error_of(answer) == (401, "Unauthorized"), bad

    assert with_cookie.status_code == 200


# Other workspaces.

BODIES: dict[str, Object] = {
    "POST /api/chats": {"name": "mine"},
    "PUT /api/chats/{chat_id}": {"name": "changed by an outsider"},
    "POST /api/chats/{chat_id}": {"content": "by an outsider"},
    "POST /api/chats/{chat_id}/messages": {"content": "by an outsider"},
    "PUT /api/messages/{message_id}": {"content": "by an outsider"},
    "POST /api/messages/{message_id}/files": {"filename": "a", "data": "aGk="},
    "POST /api/chats/{chat_id}/memories": {"messageIds": ["{message_id}"], "summary": "x"},
    "POST /api/chats/{chat_id}/memories/search": {"query": "a secret of theirs"},
    "PUT /api/memories/{memory_id}": {"action": "regenerate"},
}
WITHOUT_IDS = {"GET /api/chats", "POST /api/chats"}
NEEDS: dict[str, set[Right]] = {
    "GET": {Right.READ},
    "POST": {Right.WRITE},
    "PUT": {Right.READ, Right.WRITE},
    "DELETE": {Right.DELETE},
}
SIGN_IN = {"POST /api/auth/login", "POST /api/auth/logout"}
SEARCH = "POST /api/chats/{chat_id}/memories/search"
TURN = "POST /api/chats/{chat_id}"


async def create_content(http: Http) -> dict[str, str]:
    chat = await new_chat(http)
    [message] = await add_messages(http, chat, "a secret of theirs")
    upload = {"filename": "secret.txt", "data": "aGk="}
    file = (await http.post(f"/api/messages/{message}/files", json=upload)).json()
    created = await create_memory(http, chat, [message], summary="a secret of theirs")
    return {
        "chat_id": chat,
        "message_id": message,
        "file_id": file["id"],
        "memory_id": created["id"],
    }


async def send(http: Http, route: Route, ids: dict[str, str], **more: Any) -> httpx2.Response:
    body = BODIES.get(str(route))
    if body:
        body = json.loads(json.dumps(body).replace("{message_id}", ids["message_id"]))
    return await http.request(route.method, route.path.format(**ids), json=body, **more)


def guarded(server: Server) -> list[Route]:
    """Every route except signing in and out."""
    return [
        each for each in routes_of(interface_named(server, "informer")) if str(each) not in SIGN_IN
    ]


@pytest.mark.parametrize("whose", ["a workspace of the same org", "another org"])
async def test_S41_ids_of_other_workspaces_are_not_found_on_any_route(
    http: Http, engine: Engine, caller: Caller, server: Server, whose: str
) -> None:
    other = (
        await new_caller(engine)
        if whose == "another org"
        else await in_new_workspace(engine, caller)
    )
    key = await key_for(engine, other.workspace_id)
    async with connect(server, Authorization=f"Bearer {key}") as other_http:
        foreign = await create_content(other_http)
        before = await _content(other_http, foreign)
        own = await create_content(http)
        routes = guarded(server)

        for route in routes:
            if operation(interface_named(server, "informer"), route).get("requestBody"):
                assert str(route) in BODIES, f"{route}: add its body to BODIES"
            if str(route) in WITHOUT_IDS:
                continue
            answer = await send(http, route, foreign)
            unknown = await send(http, route, dict.fromkeys(foreign, UNKNOWN))
            assert (answer.status_code, answer.json()) == (unknown.status_code, unknown.json())
            assert error_of(answer) == (404, "Not Found"), route

        mixed = {"messageIds": [foreign["message_id"]], "summary": "x"}
        crossed = await http.post(f"/api/chats/{own['chat_id']}/memories", json=mixed)
        assert crossed.status_code == 400
        chats = (await http.get("/api/chats")).json()["results"]
        assert [each["id"] for each in chats] == [own["chat_id"]]
        assert await _content(other_http, foreign) == before


async def _content(http: Http, ids: dict[str, str]) -> list[str]:
    paths = ["/api/chats/{chat_id}", "/api/chats/{chat_id}/messages", "/api/memories/{memory_id}"]
    return [(await http.get(path.format(**ids))).text for path in paths]


async def test_S23_each_route_needs_its_rights(
    http: Http, engine: Engine, caller: Caller, server: Server
) -> None:
    keys = {
        right: await key_for(
            engine, caller.workspace_id, rights=[each for each in Right if each is not right]
        )
        for right in Right
    }
    for route in guarded(server):
        ids = await create_content(http)
        needed = NEEDS[route.method]
        if str(route) == SEARCH:
            needed = {Right.READ}
        for right in needed:
            async with connect(server, Authorization=f"Bearer {keys[right]}") as lacking:
                answer = await send(lacking, route, ids)
            if str(route) != TURN:  # without a model it fails before it writes
                assert error_of(answer) == (403, "Forbidden"), (route, right)


async def test_S07_N25_every_route_needs_a_valid_credential(server: Server) -> None:
    names: list[str] = ["chat_id", "message_id", "file_id", "memory_id"]
    ids = dict.fromkeys(names, UNKNOWN)
    for headers in ({}, {"Authorization": "Bearer rk_00000000_wrong"}, {"Cookie": "session=x"}):
        async with connect(server, **headers) as outsider:
            for route in guarded(server):
                answer = await send(outsider, route, ids)
                assert error_of(answer) == (401, "Unauthorized")
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("POST", "/api/chats", b"{", 400),
        ("POST", "/api/chats", b'{"name": "a\\u0000b"}', 400),
        ("POST", "/api/chats", b"[]", 400),
        ("POST", "/api/chats/{chat}/messages", b'{"content": 5}', 400),
        ("POST", "/api/chats/{chat}/messages", b'{"messages": []}', 400),
        ("POST", "/api/chats/{chat}/messages", b'{"content": "a", "createdAt": "soon"}', 400),
        ("GET", "/api/chats?limit=0", b"", 400),
        ("GET", "/api/chats?offset=-1", b"", 400),
        ("GET", "/api/chats?offset=99999999999999999999", b"", 400),
        ("GET", "/api/chats/{chat}/messages?after=x", b"", 400),
        ("PATCH", "/api/chats/{chat}", b"{}", 405),
        ("GET", "/api/chats/{chat}/nothing", b"", 404),
    ],
)
async def test_N25_bad_input_gets_the_error_object_of_this_interface(
    http: Http, method: str, path: str, content: bytes, status: int
) -> None:
    chat = await new_chat(http)

    answer = await http.request(
        method,
        path.format(chat=chat),
        content=content,
        headers={"content-type": "application/json"},
    )

    assert error_of(answer)[0] == status
