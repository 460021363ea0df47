"""The gateway: credentials, rate limits, headers and error formats (N01-N04, R227)."""

import asyncio
import hashlib
import hmac
import re
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from fastapi import FastAPI

from recollect.api.rate_limits import RequestKind, request_kind
from recollect.core.domain import KeyId, Right
from recollect.core.errors import Unauthenticated
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy import keys
from recollect.tenancy.keys import KeyCache, create_key, revoke_key
from recollect.tenancy.queries import keys as keys_queries
from recollect.tenancy.queries.keys import KeyRecord
from tests.support.clock import Clock
from tests.support.instance import ApiClient, connect, key_for, make_server, wait_until_blocked
from tests.support.routes import routes_of
from tests.support.statebase import create_memory, error_body, error_of, open_session

pytestmark = pytest.mark.anyio

REFUSED = (401, "authentication_failed", None)


async def test_N01_a_key_is_accepted_in_either_header(client: ApiClient, server: Server) -> None:
    async with connect(server) as http:
        responses = [
            await http.get("/v1/memory", headers=headers)
            for headers in (
                {"X-API-Key": client.key},
                {"x-api-key": client.key},
                {"Authorization": f"Bearer {client.key}"},
                {"Authorization": f"bearer  {client.key} "},
            )
        ]

    assert [response.status_code for response in responses] == [200] * 4


async def test_a_key_in_an_unused_header_gets_a_hint(client: ApiClient, server: Server) -> None:
    async with connect(server) as http:
        responses = [
            await http.get(path, headers={"X-API-Key": client.key})
            for path in ("/v1/models", "/api/v1/memories")
        ]

    assert [response.status_code for response in responses] == [401, 401]
    for response in responses:
        message = response.json()["error"]["message"]
        assert message == "Send the key as `Authorization: Bearer`, not as `X-API-Key`."


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": "rk_wrong"},
        {"X-API-Key": "é"},
        {"X-API-Key": "a" * 5_000},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer rk_wrong"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Cookie": "session=abc"},
    ],
)
async def test_N01_requests_without_a_valid_key_are_refused(
    server: Server, headers: dict[str, str]
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]

    async with connect(server) as http:
        response = await http.get("/v1/memory", headers=raw)

    assert error_of(response) == REFUSED
    assert response.headers["www-authenticate"] == "Bearer"


async def test_N01_a_wrong_key_is_refused_despite_a_valid_one(
    client: ApiClient, server: Server
) -> None:
    async with connect(server) as http:
        response = await http.get(
            "/v1/memory",
            headers={"X-API-Key": "rk_wrong", "Authorization": f"Bearer {client.key}"},
        )

    assert error_of(response) == REFUSED


@pytest.mark.parametrize(
    "query", ["api_key={}", "x-api-key={}", "limit=1&apikey={}", "access_token={}", "API_KEY={}"]
)
async def test_N01_S27_a_key_in_the_url_is_refused_and_never_logged(
    client: ApiClient, server: Server, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    async with connect(server) as http:
        alone = await http.get(f"/v1/memory?{query.format(client.key)}")
    beside = await client.http.get(f"/v1/memory?{query.format(client.key)}")

    for response in (alone, beside):
        assert response.status_code == 401
        assert response.json() == error_body(
            "authentication_failed",
            "Send the key in a header, not in the URL.",
            kind="authentication_error",
        )
    written = capsys.readouterr()
    assert client.key not in written.out + written.err + alone.text + beside.text


async def test_S24_a_revoked_key_is_refused_by_every_process_at_once(
    client: ApiClient, engine: Engine
) -> None:
    new = await create_key(engine, workspace=str(client.caller.workspace_id))
    first, second = make_server(engine), make_server(engine)
    async with (
        first.running(),
        second.running(),
        connect(first, **{"X-API-Key": new.text}) as here,
        connect(second, **{"X-API-Key": new.text}) as there,
    ):
        assert [(await each.get("/v1/memory")).status_code for each in (here, there)] == [200, 200]

        await revoke_key(engine, str(new.record.id))

        async with asyncio.timeout(5):
            for each in (here, there):
                while (response := await each.get("/v1/memory")).status_code == 200:
                    await asyncio.sleep(0)
                assert error_of(response) == REFUSED


async def test_S24_a_key_revoked_during_its_lookup_is_not_cached(
    client: ApiClient, engine: Engine
) -> None:
    """The lookup has read a valid key, and the revocation arrives before the lookup is done."""
    new = await create_key(engine, workspace=str(client.caller.workspace_id))
    key_cache = KeyCache(engine.pool, engine.now)
    async with engine.pool.everywhere() as db:
        await db.execute("SELECT FROM api_key WHERE id = %s FOR UPDATE", [new.record.id])
        lookup = asyncio.create_task(key_cache.recognise(new.text))
        await wait_until_blocked(engine)
        await keys_queries.revoke_keys(db, str(new.record.id), engine.now())
        key_cache.forget()
    await lookup

    with pytest.raises(Unauthenticated):
        await key_cache.recognise(new.text)


async def test_a_server_that_cannot_start_fails_instead_of_waiting(engine: Engine) -> None:
    server = make_server(engine)
    async with server.running():
        pass

    with pytest.raises(RuntimeError):
        async with asyncio.timeout(10), server.running():
            pass


async def test_S24_a_missed_revocation_takes_effect_after_a_minute(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    new = await create_key(engine, workspace=str(client.caller.workspace_id))
    async with connect(
        make_server(engine), **{"X-API-Key": new.text}
    ) as http:  # it does not listen
        assert (await http.get("/v1/memory")).status_code == 200
        await revoke_key(engine, str(new.record.id))

        clock.advance(timedelta(seconds=60))

        assert error_of(await http.get("/v1/memory")) == REFUSED


async def test_S24_a_cached_key_ends_at_its_expiry(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    expires_at = clock.at + timedelta(seconds=10)
    key = await key_for(engine, client.caller.workspace_id, expires_at=expires_at)
    async with connect(make_server(engine), **{"X-API-Key": key}) as http:
        clock.advance(timedelta(seconds=9))
        assert (await http.get("/v1/memory")).status_code == 200

        clock.advance(timedelta(seconds=1))

        assert error_of(await http.get("/v1/memory")) == REFUSED


@pytest.mark.parametrize("prefix", ["xero_", "sb_", "alm_"])
async def test_S20_a_key_with_another_prefix_is_found_by_its_digest(
    client: ApiClient, engine: Engine, prefix: str
) -> None:
    text = prefix + uuid4().hex
    async with engine.pool.everywhere() as db:
        await keys_queries.add_key(db, key_record(client, text, engine))

    async with connect(make_server(engine), **{"X-API-Key": text}) as http:
        response = await http.get("/v1/memory")

    assert response.status_code == 200


def key_record(client: ApiClient, text: str, engine: Engine) -> KeyRecord:
    return KeyRecord(
        id=KeyId(uuid4()),
        org_id=client.caller.org_id,
        workspace_id=client.caller.workspace_id,
        user_id=client.caller.user_id,
        name="imported",
        digest=hashlib.sha256(text.encode()).digest(),
        prefix=text[:5],
        last_four=text[-4:],
        rights=(Right.READ,),
        created_at=engine.now(),
        expires_at=None,
        revoked_at=None,
        last_used_at=None,
    )


async def test_S20_S21_a_key_is_in_no_response_and_not_in_the_database(
    client: ApiClient, engine: Engine
) -> None:
    await create_memory(client.http, "Ada lives in London")

    responses = [
        await client.http.get(path)
        for path in ("/v1/memory", "/v1/sessions", "/v1/traces", "/docs", "/openapi/statebase.json")
    ]

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT key::text FROM api_key key WHERE workspace_id = %s",
            [client.caller.workspace_id],
        )
        [(row,)] = await cursor.fetchall()
    assert client.key not in row + "".join(response.text for response in responses)
    assert hashlib.sha256(client.key.encode()).hexdigest() in row


async def test_S22_a_key_is_compared_in_constant_time(
    client: ApiClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def recorded_compare(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(
        keys, "hmac", type("Watched", (), {"compare_digest": staticmethod(recorded_compare)})
    )
    await client.http.get("/v1/memory")

    digest = hashlib.sha256(client.key.encode()).digest()
    assert compared == [(digest, digest)]


async def test_S26_the_last_use_of_a_key_is_written_once_a_minute(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    async def last_use() -> Any:
        async with engine.pool.everywhere() as db:
            cursor = await db.execute(
                "SELECT last_used_at, xmin::text FROM api_key WHERE workspace_id = %s",
                [client.caller.workspace_id],
            )
            return await cursor.fetchone()

    await client.http.get("/v1/memory")
    first = await last_use()
    for _ in range(50):
        clock.advance(timedelta(seconds=1))
        await client.http.get("/v1/memory")
    same = await last_use()
    clock.advance(timedelta(seconds=30))
    await client.http.get("/v1/memory")

    assert first[0] == clock.at - timedelta(seconds=80)
    assert same == first
    assert (await last_use())[0] == clock.at


async def test_N02_every_error_has_one_shape(client: ApiClient, engine: Engine) -> None:
    session = await open_session(client.http)
    reader = await key_for(engine, client.caller.workspace_id, rights=[Right.READ])
    limited = make_server(engine, rate_per_minute=1, rate_burst=1)
    async with (
        connect(limited, **{"X-API-Key": client.key}) as hurried,
        connect(make_server(engine), **{"X-API-Key": reader}) as reading,
    ):
        await hurried.get("/v1/memory")

        responses = [
            await client.http.post("/v1/memory", json={}),
            await reading.post("/v1/sessions", json={"agent_id": "a"}),
            await client.http.get("/v1/memory/mem_aaaaaaaaaaaa"),
            await client.http.post("/v1/memory/mem_aaaaaaaaaaaa"),
            await client.http.post(
                "/v1/memory", json={"session_id": session["id"], "content": "a" * 10_001}
            ),
            await client.http.post("/v1/memory", content=b"a=b"),
            await hurried.get("/v1/memory"),
        ]

    def shape(code: str, kind: str, param: str | None, message: str, **more: Any) -> dict[str, Any]:
        error = {"code": code, "message": message, "type": kind, "param": param, **more}
        return {"error": error}

    bad = "invalid_request_error"
    assert [(each.status_code, each.json()) for each in responses] == [
        (400, shape("invalid_request", bad, "content", "`content` is required.")),
        (
            403,
            shape(
                "permission_denied", "permission_error", None, "This key lacks the `write` right."
            ),
        ),
        (404, shape("memory_not_found", bad, None, "There is no such memory.")),
        (405, shape("method_not_allowed", bad, None, "Method not allowed.")),
        (
            413,
            shape(
                "content_too_large",
                bad,
                "content",
                "`content` may have at most 10,000 characters; this has 10,001.",
            ),
        ),
        (415, shape("invalid_request", bad, None, "The body must be `application/json`.")),
        (
            429,
            shape(
                "rate_limit_exceeded",
                "rate_limit_error",
                None,
                "Too many requests. Try again later.",
                retry_after=60,
            ),
        ),
    ]
    assert {each.headers["content-type"] for each in responses} == {"application/json"}
    assert responses[-1].headers["retry-after"] == "60"


async def test_N03_every_object_names_its_type(client: ApiClient) -> None:
    session = await open_session(client.http)
    address = f"/v1/sessions/{session['id']}"
    memory = await create_memory(client.http, "Ada lives in London", session)
    turn = await client.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})

    one = [session, memory, turn.json(), (await client.http.get(f"{address}/state")).json()]
    lists = [
        (await client.http.get(path)).json()
        for path in (
            "/v1/memory",
            "/v1/memories",
            "/v1/sessions",
            "/v1/traces",
            f"{address}/turns",
            f"{address}/history",
        )
    ]

    assert [each["object"] for each in one] == ["session", "memory", "turn", "state"]
    assert [sorted(each) for each in lists] == [
        ["data", "first_id", "has_more", "last_id", "object"]
    ] * len(lists)
    assert {each["object"] for each in lists} == {"list"}


async def test_N03_an_empty_list_has_every_key(client: ApiClient) -> None:
    response = await client.http.get("/v1/memory")

    assert response.json() == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def allowance(response: httpx2.Response) -> tuple[str | None, ...]:
    return tuple(
        response.headers.get(f"x-ratelimit-{name}") for name in ("limit", "remaining", "reset")
    )


async def test_N04_the_default_limit_is_100_per_minute_and_200_at_once(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    server = make_server(engine, rate_per_minute=100)
    now = int(clock.at.timestamp())

    async with connect(server, **{"X-API-Key": client.key}) as http:
        responses = [await http.get("/v1/memory/mem_aaaaaaaaaaaa") for _ in range(201)]

    assert [response.status_code for response in responses] == [404] * 200 + [429]
    assert allowance(responses[0]) == ("100", "199", str(now + 1))
    assert [int(response.headers["x-ratelimit-remaining"]) for response in responses] == [
        *range(199, -1, -1),
        0,
    ]
    assert allowance(responses[-1]) == ("100", "0", str(now + 120))


async def test_N04_every_response_shows_the_remaining_requests(
    client: ApiClient, engine: Engine
) -> None:
    server = make_server(engine, rate_per_minute=60, rate_burst=100)
    async with connect(server, **{"X-API-Key": client.key}) as http:
        responses = [
            await http.get("/v1/memory"),
            await http.post("/v1/sessions", json={"agent_id": "a"}),
            await http.post("/v1/memory", json={}),
            await http.get("/v1/memory/unknown/route"),
            await http.patch("/v1/memory"),
            await http.post("/v1/memory", content=b"x"),
            await http.get("/v1/memory?user_id=%00"),
        ]
    async with connect(server) as http:
        responses += [await http.get("/v1/memory"), await http.get("/v1/memory?api_key=a")]

    assert [(each.status_code, *allowance(each)[:2]) for each in responses] == [
        (200, "60", "99"),
        (201, "60", "98"),
        (400, "60", "97"),
        (404, "60", "96"),
        (405, "60", "95"),
        (415, "60", "94"),
        (400, "60", "93"),
        (401, "60", "99"),
        (401, "60", "98"),
    ]


async def test_S50_each_kind_of_request_has_its_own_limit(
    client: ApiClient, engine: Engine, clock: Clock
) -> None:
    asked: dict[str, tuple[str, str, dict[str, Any]]] = {
        "rate_writes": ("POST", "/v1/sessions", {"json": {"agent_id": "a"}}),
        "rate_searches": ("POST", "/v1/memories/search", {"json": {"query": "tea"}}),
        "rate_turns": ("POST", "/v1/responses", {"json": {"model": "none", "input": "tea"}}),
        "rate_uploads": ("POST", "/api/v1/import", {"files": {"file": ("a.jsonl", b"{}")}}),
    }
    limits = dict.fromkeys(asked, 2)
    server = make_server(engine, rate_per_minute=600, **limits)
    async with connect(server, Authorization=f"Bearer {client.key}") as http:
        for method, path, sent in asked.values():
            first = await http.request(method, path, **sent)
            second = await http.request(method, path, **sent)
            refused = await http.request(method, path, **sent)
            clock.advance(timedelta(seconds=int(refused.headers["retry-after"])))
            again = await http.request(method, path, **sent)
            read = await http.get("/v1/memory")

            assert 429 not in {first.status_code, second.status_code, again.status_code}, path
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "30"), path
            assert [each.headers["x-ratelimit-remaining"] for each in (first, second, refused)] == [
                *("1", "0", "0")
            ]
            assert (read.status_code, read.headers["x-ratelimit-limit"]) == (200, "600")


async def test_S50_every_route_has_the_right_kind(server: Server) -> None:
    """Searches and turns are expensive and differ from plain reads and writes."""
    kinds = {
        (route.path, request_kind(route.method, re.sub(r"{[^}]*}", "x", route.path)))
        for interface in server.interfaces
        if isinstance(interface.app, FastAPI)
        for route in routes_of(interface)
    }

    assert {path for path, kind in kinds if kind is RequestKind.TURN} == {
        "/v1/chat/completions",
        "/v1/responses",
        "/api/chats/{chat_id}",
        "/chat/api/chats/{chat_id}/turns",
    }
    assert {path for path, kind in kinds if kind is RequestKind.SEARCH} == {
        "/v1/memory/search",
        "/v1/memories/search",
        "/v1/sessions/{session_id}/context",
        "/v1/tools/memory_recall",
        "/agents/memories/search",
        "/api/v1/memories/recall",
        "/api/chats/{chat_id}/memories/search",
        "/v1/workspaces/{workspace_id}/search",
        "/v1/embeddings",
        "/chat/api/workspaces/{workspace_id}/search",
    }
    call = {"method": "tools/call", "params": {"name": "memory_recall"}}
    assert request_kind("POST", "/mcp", call) is RequestKind.SEARCH
    assert (
        request_kind("POST", "/mcp", {**call, "params": {"name": "memory_save"}})
        is RequestKind.WRITE
    )
    assert request_kind("POST", "/mcp", {**call, "method": "tools/list"}) is RequestKind.READ
    assert request_kind("POST", "/lisbon/v1/chat/completions") is RequestKind.TURN


MEMORY_REQUESTS: list[tuple[str, str, dict[str, Any] | None, int]] = [
    ("POST", "/v1/memory", {"content": "Ada drinks tea", "session_id": "{session}"}, 201),
    ("POST", "/v1/memory/search", {"query": "Ada lives in Oslo"}, 200),
    ("GET", "/v1/memory/{memory}", None, 200),
    ("PATCH", "/v1/memory/{memory}", {"content": "Ada lives in Bergen"}, 200),
    ("DELETE", "/v1/memory/{memory}", None, 204),
    ("GET", "/v1/memory", None, 200),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), MEMORY_REQUESTS)
async def test_R227_S50_a_memory_route_is_refused_above_the_limit_and_serves_after_the_window(
    client: ApiClient,
    engine: Engine,
    clock: Clock,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    status: int,
) -> None:
    session = await open_session(client.http)
    memory = await create_memory(client.http, "Ada lives in Oslo", session)
    path = path.format(memory=memory["id"])
    if body and "session_id" in body:
        body = body | {"session_id": session["id"]}
    server = make_server(engine, rate_per_minute=3, rate_burst=3)
    async with connect(server, **{"X-API-Key": client.key}) as http:
        allowed = [(await http.get("/v1/sessions")).status_code for _ in range(3)]

        refused = await http.request(method, path, json=body)
        after_refusal = (await client.http.get("/v1/memory")).json()["data"]
        clock.advance(timedelta(seconds=19))
        too_early = await http.request(method, path, json=body)
        clock.advance(timedelta(seconds=1))
        served = await http.request(method, path, json=body)

    assert allowed == [200] * 3
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "20")
    assert refused.json() == {
        "error": {
            "code": "rate_limit_exceeded",
            "message": "Too many requests. Try again later.",
            "type": "rate_limit_error",
            "param": None,
            "retry_after": 20,
        }
    }
    assert after_refusal == [memory]  # the refused request did nothing
    assert (too_early.status_code, served.status_code) == (429, status)


async def test_R227_of_simultaneous_requests_only_the_allowed_number_is_served(
    client: ApiClient, engine: Engine
) -> None:
    session = await open_session(client.http)
    server = make_server(engine, rate_per_minute=60, rate_burst=5)
    body = {"content": "Ada drinks tea", "session_id": session["id"]}
    async with connect(server, **{"X-API-Key": client.key}) as http:
        responses = await asyncio.gather(*(http.post("/v1/memory", json=body) for _ in range(12)))

    assert sorted(each.status_code for each in responses) == [201] * 5 + [429] * 7
    assert len((await client.http.get("/v1/memory")).json()["data"]) == 5


async def test_R227_each_key_has_its_own_allowance(client: ApiClient, engine: Engine) -> None:
    other = await key_for(engine, client.caller.workspace_id)
    async with connect(make_server(engine, rate_per_minute=1, rate_burst=1)) as http:
        statuses = [
            (await http.get("/v1/memory", headers={"X-API-Key": key})).status_code
            for key in (client.key, client.key, other, other)
        ]

    assert statuses == [200, 429, 200, 429]


async def test_S50_wrong_keys_are_counted_by_address_only(
    client: ApiClient, engine: Engine
) -> None:
    server = make_server(engine, rate_per_minute=1, rate_burst=2)
    async with connect(server) as http:
        guesses = [
            (
                await http.get(
                    "/v1/memory", headers={"X-API-Key": f"rk_{n}", "X-Forwarded-For": f"10.0.0.{n}"}
                )
            ).status_code
            for n in range(4)
        ]
        good = await http.get("/v1/memory", headers={"X-API-Key": client.key})

    assert guesses == [401, 401, 429, 429]
    assert good.status_code == 200


async def test_S93_every_response_has_the_security_headers(client: ApiClient) -> None:
    responses = [
        await client.http.get("/v1/memory", headers={"X-Request-Id": "mine-1"}),
        await client.http.get("/v1/memory", headers={"X-Request-Id": "not\tmine"}),
        await client.http.get("/health"),
        await client.http.post("/v1/memory", json={}),
    ]

    for response in responses:
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["referrer-policy"] == "no-referrer"
        assert response.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in response.headers
    assert responses[0].headers["x-request-id"] == "mine-1"
    made = {response.headers["x-request-id"] for response in responses[1:]}
    assert len(made) == 3
    assert all(len(each) == 32 and each.isalnum() for each in made)


async def test_S33_no_interface_allows_cross_origin_reads(
    client: ApiClient, server: Server
) -> None:
    asked = {
        "origin": "https://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-api-key,content-type",
    }
    paths = [prefix for interface in server.interfaces for prefix in interface.prefixes]

    responses = [
        await client.http.request(method, path, headers=asked)
        for path in paths
        for method in ("OPTIONS", "GET")
    ]

    allowed = {
        name
        for response in responses
        for name in response.headers
        if name.startswith("access-control-allow")
    }
    assert allowed == set()
    assert len(paths) >= len(server.interfaces)
