"""What every request passes first: credentials, limits, headers, envelopes (N01-N04, R227)."""

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

from recollect.domain import KeyId, Right
from recollect.doors.limits import Sort, sort_of
from recollect.engine import keys
from recollect.engine.core import Engine
from recollect.engine.keys import KeyRing, create_key, revoke_key
from recollect.errors import Unauthenticated
from recollect.server import Server
from recollect.store import identity
from recollect.store.identity import KeyRecord
from tests.support.clock import Clock
from tests.support.house import Visitor, key_for, serve, until_blocked, visit
from tests.support.routes import routes_of
from tests.support.statebase import complaint, open_session, problem, remember

pytestmark = pytest.mark.anyio

REFUSED = (401, "authentication_failed", None)


async def test_N01_a_key_opens_the_door_in_either_header(visitor: Visitor, server: Server) -> None:
    async with visit(server) as http:
        answers = [
            await http.get("/v1/memory", headers=headers)
            for headers in (
                {"X-API-Key": visitor.key},
                {"x-api-key": visitor.key},
                {"Authorization": f"Bearer {visitor.key}"},
                {"Authorization": f"bearer  {visitor.key} "},
            )
        ]

    assert [answer.status_code for answer in answers] == [200] * 4


async def test_a_key_in_a_header_nobody_reads_here_is_told_its_place(
    visitor: Visitor, server: Server
) -> None:
    async with visit(server) as http:
        answers = [
            await http.get(path, headers={"X-API-Key": visitor.key})
            for path in ("/v1/models", "/api/v1/memories")
        ]

    assert [answer.status_code for answer in answers] == [401, 401]
    for answer in answers:
        said = answer.json()["error"]["message"]
        assert said == "Here the key travels as `Authorization: Bearer`."


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
async def test_N01_without_a_good_key_nobody_enters(
    server: Server, headers: dict[str, str]
) -> None:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]

    async with visit(server) as http:
        answer = await http.get("/v1/memory", headers=raw)

    assert complaint(answer) == REFUSED
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_N01_a_wrong_key_is_not_saved_by_a_right_one_elsewhere(
    visitor: Visitor, server: Server
) -> None:
    async with visit(server) as http:
        answer = await http.get(
            "/v1/memory",
            headers={"X-API-Key": "rk_wrong", "Authorization": f"Bearer {visitor.key}"},
        )

    assert complaint(answer) == REFUSED


@pytest.mark.parametrize(
    "query", ["api_key={}", "x-api-key={}", "limit=1&apikey={}", "access_token={}", "API_KEY={}"]
)
async def test_N01_S27_a_key_in_the_address_is_refused_and_never_logged(
    visitor: Visitor, server: Server, capsys: pytest.CaptureFixture[str], query: str
) -> None:
    async with visit(server) as http:
        alone = await http.get(f"/v1/memory?{query.format(visitor.key)}")
    beside = await visitor.http.get(f"/v1/memory?{query.format(visitor.key)}")

    for answer in (alone, beside):
        assert answer.status_code == 401
        assert answer.json() == problem(
            "authentication_failed",
            "A key belongs in a header, not in the address.",
            kind="authentication_error",
        )
    written = capsys.readouterr()
    assert visitor.key not in written.out + written.err + alone.text + beside.text


async def test_S24_a_revoked_key_is_refused_by_every_process_at_once(
    visitor: Visitor, engine: Engine
) -> None:
    new = await create_key(engine, workspace=str(visitor.caller.workspace_id))
    first, second = serve(engine), serve(engine)
    async with (
        first.running(),
        second.running(),
        visit(first, **{"X-API-Key": new.text}) as here,
        visit(second, **{"X-API-Key": new.text}) as there,
    ):
        assert [(await each.get("/v1/memory")).status_code for each in (here, there)] == [200, 200]

        await revoke_key(engine, str(new.record.id))

        async with asyncio.timeout(5):
            for each in (here, there):
                while (answer := await each.get("/v1/memory")).status_code == 200:
                    await asyncio.sleep(0)
                assert complaint(answer) == REFUSED


async def test_S24_a_key_revoked_while_it_is_looked_up_is_not_believed(
    visitor: Visitor, engine: Engine
) -> None:
    """The look-up has read a good key, and the news of its end comes before it is done."""
    new = await create_key(engine, workspace=str(visitor.caller.workspace_id))
    ring = KeyRing(engine.pool, engine.now)
    async with engine.pool.everywhere() as db:
        await db.execute("SELECT FROM api_key WHERE id = %s FOR UPDATE", [new.record.id])
        looking = asyncio.create_task(ring.recognise(new.text))
        await until_blocked(engine)
        await identity.revoke(db, str(new.record.id), engine.now())
        ring.forget()
    await looking

    with pytest.raises(Unauthenticated):
        await ring.recognise(new.text)


async def test_a_server_that_cannot_open_a_door_says_so_instead_of_waiting(engine: Engine) -> None:
    server = serve(engine)
    async with server.running():
        pass

    with pytest.raises(RuntimeError):
        async with asyncio.timeout(10), server.running():
            pass


async def test_S24_a_revocation_nobody_heard_of_holds_after_a_minute(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    new = await create_key(engine, workspace=str(visitor.caller.workspace_id))
    async with visit(serve(engine), **{"X-API-Key": new.text}) as http:  # it does not listen
        assert (await http.get("/v1/memory")).status_code == 200
        await revoke_key(engine, str(new.record.id))

        clock.advance(timedelta(seconds=60))

        assert complaint(await http.get("/v1/memory")) == REFUSED


async def test_S24_a_key_ends_at_its_expiry_though_it_was_believed_just_now(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    expires_at = clock.at + timedelta(seconds=10)
    key = await key_for(engine, visitor.caller.workspace_id, expires_at=expires_at)
    async with visit(serve(engine), **{"X-API-Key": key}) as http:
        clock.advance(timedelta(seconds=9))
        assert (await http.get("/v1/memory")).status_code == 200

        clock.advance(timedelta(seconds=1))

        assert complaint(await http.get("/v1/memory")) == REFUSED


@pytest.mark.parametrize("prefix", ["xero_", "sb_", "alm_"])
async def test_S20_a_key_of_another_products_spelling_is_found_by_its_digest(
    visitor: Visitor, engine: Engine, prefix: str
) -> None:
    text = prefix + uuid4().hex
    async with engine.pool.everywhere() as db:
        await identity.add_key(db, a_record(visitor, text, engine))

    async with visit(serve(engine), **{"X-API-Key": text}) as http:
        answer = await http.get("/v1/memory")

    assert answer.status_code == 200


def a_record(visitor: Visitor, text: str, engine: Engine) -> KeyRecord:
    return KeyRecord(
        id=KeyId(uuid4()),
        org_id=visitor.caller.org_id,
        workspace_id=visitor.caller.workspace_id,
        user_id=visitor.caller.user_id,
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


async def test_a_key_is_nowhere_in_the_database_and_in_no_answer(
    visitor: Visitor, engine: Engine
) -> None:
    await remember(visitor.http, "Ada lives in London")

    answers = [
        await visitor.http.get(path)
        for path in ("/v1/memory", "/v1/sessions", "/v1/traces", "/docs", "/openapi/statebase.json")
    ]

    async with engine.pool.everywhere() as db:
        cursor = await db.execute(
            "SELECT key::text FROM api_key key WHERE workspace_id = %s",
            [visitor.caller.workspace_id],
        )
        [(row,)] = await cursor.fetchall()
    assert visitor.key not in row + "".join(answer.text for answer in answers)
    assert hashlib.sha256(visitor.key.encode()).hexdigest() in row


async def test_S22_a_key_is_compared_in_constant_time(
    visitor: Visitor, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def spy(left: bytes, right: bytes) -> bool:
        compared.append((left, right))
        return hmac.compare_digest(left, right)

    monkeypatch.setattr(keys, "hmac", type("Watched", (), {"compare_digest": staticmethod(spy)}))
    await visitor.http.get("/v1/memory")

    digest = hashlib.sha256(visitor.key.encode()).digest()
    assert compared == [(digest, digest)]


async def test_S26_the_last_use_of_a_key_is_written_once_a_minute(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    async def last_use() -> Any:
        async with engine.pool.everywhere() as db:
            cursor = await db.execute(
                "SELECT last_used_at, xmin::text FROM api_key WHERE workspace_id = %s",
                [visitor.caller.workspace_id],
            )
            return await cursor.fetchone()

    await visitor.http.get("/v1/memory")
    first = await last_use()
    for _ in range(50):
        clock.advance(timedelta(seconds=1))
        await visitor.http.get("/v1/memory")
    same = await last_use()
    clock.advance(timedelta(seconds=30))
    await visitor.http.get("/v1/memory")

    assert first[0] == clock.at - timedelta(seconds=80)
    assert same == first
    assert (await last_use())[0] == clock.at


async def test_N02_every_error_has_one_shape(visitor: Visitor, engine: Engine) -> None:
    session = await open_session(visitor.http)
    reader = await key_for(engine, visitor.caller.workspace_id, rights=[Right.READ])
    limited = serve(engine, rate_per_minute=1, rate_burst=1)
    async with (
        visit(limited, **{"X-API-Key": visitor.key}) as hurried,
        visit(serve(engine), **{"X-API-Key": reader}) as reading,
    ):
        await hurried.get("/v1/memory")

        answers = [
            await visitor.http.post("/v1/memory", json={}),
            await reading.post("/v1/sessions", json={"agent_id": "a"}),
            await visitor.http.get("/v1/memory/mem_aaaaaaaaaaaa"),
            await visitor.http.post("/v1/memory/mem_aaaaaaaaaaaa"),
            await visitor.http.post(
                "/v1/memory", json={"session_id": session["id"], "content": "a" * 10_001}
            ),
            await visitor.http.post("/v1/memory", content=b"a=b"),
            await hurried.get("/v1/memory"),
        ]

    def shape(code: str, kind: str, param: str | None, message: str, **more: Any) -> dict[str, Any]:
        error = {"code": code, "message": message, "type": kind, "param": param, **more}
        return {"error": error}

    bad = "invalid_request_error"
    assert [(each.status_code, each.json()) for each in answers] == [
        (400, shape("invalid_request", bad, "content", "`content` is required.")),
        (
            403,
            shape(
                "permission_denied", "permission_error", None, "This key lacks the `write` right."
            ),
        ),
        (404, shape("memory_not_found", bad, None, "There is no such memory.")),
        (405, shape("method_not_allowed", bad, None, "Not with this method.")),
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
    assert {each.headers["content-type"] for each in answers} == {"application/json"}
    assert answers[-1].headers["retry-after"] == "60"


async def test_N03_every_object_says_what_it_is(visitor: Visitor) -> None:
    session = await open_session(visitor.http)
    address = f"/v1/sessions/{session['id']}"
    memory = await remember(visitor.http, "Ada lives in London", session)
    turn = await visitor.http.post(f"{address}/turns", json={"input": "hi", "output": "hello"})

    one = [session, memory, turn.json(), (await visitor.http.get(f"{address}/state")).json()]
    lists = [
        (await visitor.http.get(path)).json()
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


async def test_N03_an_empty_list_has_every_key(visitor: Visitor) -> None:
    answer = await visitor.http.get("/v1/memory")

    assert answer.json() == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def allowance(answer: httpx2.Response) -> tuple[str | None, ...]:
    return tuple(
        answer.headers.get(f"x-ratelimit-{name}") for name in ("limit", "remaining", "reset")
    )


async def test_N04_the_limit_is_a_hundred_a_minute_and_two_hundred_at_once_by_default(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    server = serve(engine, rate_per_minute=100)
    now = int(clock.at.timestamp())

    async with visit(server, **{"X-API-Key": visitor.key}) as http:
        answers = [await http.get("/v1/memory/mem_aaaaaaaaaaaa") for _ in range(201)]

    assert [answer.status_code for answer in answers] == [404] * 200 + [429]
    assert allowance(answers[0]) == ("100", "199", str(now + 1))
    assert [int(answer.headers["x-ratelimit-remaining"]) for answer in answers] == [
        *range(199, -1, -1),
        0,
    ]
    assert allowance(answers[-1]) == ("100", "0", str(now + 120))


async def test_N04_every_answer_says_what_is_left(visitor: Visitor, engine: Engine) -> None:
    server = serve(engine, rate_per_minute=60, rate_burst=100)
    async with visit(server, **{"X-API-Key": visitor.key}) as http:
        answers = [
            await http.get("/v1/memory"),
            await http.post("/v1/sessions", json={"agent_id": "a"}),
            await http.post("/v1/memory", json={}),
            await http.get("/v1/memory/unknown/route"),
            await http.patch("/v1/memory"),
            await http.post("/v1/memory", content=b"x"),
            await http.get("/v1/memory?user_id=%00"),
        ]
    async with visit(server) as http:
        answers += [await http.get("/v1/memory"), await http.get("/v1/memory?api_key=a")]

    assert [(each.status_code, *allowance(each)[:2]) for each in answers] == [
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


async def test_R227_S50_too_many_requests_are_refused_until_the_window_has_passed(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    server = serve(engine, rate_per_minute=60, rate_burst=2)
    async with visit(server, **{"X-API-Key": visitor.key}) as http:
        allowed = [(await http.get("/v1/memory")).status_code for _ in range(2)]
        refused = await http.get("/v1/memory")
        clock.advance(timedelta(seconds=int(refused.headers["retry-after"])))
        later = [(await http.get("/v1/memory")).status_code for _ in range(2)]

    assert allowed == [200, 200]
    assert refused.status_code == 429
    assert refused.json() == {
        "error": {
            "code": "rate_limit_exceeded",
            "message": "Too many requests. Try again later.",
            "type": "rate_limit_error",
            "param": None,
            "retry_after": 1,
        }
    }
    assert later == [200, 429]


async def test_S50_each_sort_of_request_has_a_limit_of_its_own(
    visitor: Visitor, engine: Engine, clock: Clock
) -> None:
    asked: dict[str, tuple[str, str, dict[str, Any]]] = {
        "rate_writes": ("POST", "/v1/sessions", {"json": {"agent_id": "a"}}),
        "rate_searches": ("POST", "/v1/memories/search", {"json": {"query": "tea"}}),
        "rate_turns": ("POST", "/v1/responses", {"json": {"model": "none", "input": "tea"}}),
        "rate_uploads": ("POST", "/api/v1/import", {"files": {"file": ("a.jsonl", b"{}")}}),
    }
    limits = dict.fromkeys(asked, 2)
    server = serve(engine, rate_per_minute=600, **limits)
    async with visit(server, Authorization=f"Bearer {visitor.key}") as http:
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


async def test_S50_every_route_is_of_some_sort(server: Server) -> None:
    """What costs as a search or a turn does is told from what is merely read or written."""
    told = {
        (route.path, sort_of(route.method, re.sub(r"{[^}]*}", "x", route.path)))
        for door in server.doors
        if isinstance(door.app, FastAPI)
        for route in routes_of(door)
    }

    assert {path for path, sort in told if sort is Sort.TURN} == {
        "/v1/chat/completions",
        "/v1/responses",
        "/api/chats/{chat_id}",
        "/chat/api/chats/{chat_id}/turns",
    }
    assert {path for path, sort in told if sort is Sort.SEARCH} == {
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
    assert sort_of("POST", "/mcp", call) is Sort.SEARCH
    assert sort_of("POST", "/mcp", {**call, "params": {"name": "memory_save"}}) is Sort.WRITE
    assert sort_of("POST", "/mcp", {**call, "method": "tools/list"}) is Sort.READ
    assert sort_of("POST", "/lisbon/v1/chat/completions") is Sort.TURN


async def test_R227_a_refused_request_does_nothing(visitor: Visitor, engine: Engine) -> None:
    server = serve(engine, rate_per_minute=1, rate_burst=1)
    async with visit(server, **{"X-API-Key": visitor.key}) as http:
        await http.get("/v1/memory")
        refused = await http.post("/v1/sessions", json={"agent_id": "a"})

    assert refused.status_code == 429
    assert (await visitor.http.get("/v1/sessions")).json()["data"] == []


async def test_R227_each_key_has_an_allowance_of_its_own(visitor: Visitor, engine: Engine) -> None:
    other = await key_for(engine, visitor.caller.workspace_id)
    async with visit(serve(engine, rate_per_minute=1, rate_burst=1)) as http:
        statuses = [
            (await http.get("/v1/memory", headers={"X-API-Key": key})).status_code
            for key in (visitor.key, visitor.key, other, other)
        ]

    assert statuses == [200, 429, 200, 429]


async def test_wrong_keys_are_counted_by_address_and_cost_nobody_else(
    visitor: Visitor, engine: Engine
) -> None:
    server = serve(engine, rate_per_minute=1, rate_burst=2)
    async with visit(server) as http:
        guesses = [
            (
                await http.get(
                    "/v1/memory", headers={"X-API-Key": f"rk_{n}", "X-Forwarded-For": f"10.0.0.{n}"}
                )
            ).status_code
            for n in range(4)
        ]
        good = await http.get("/v1/memory", headers={"X-API-Key": visitor.key})

    assert guesses == [401, 401, 429, 429]
    assert good.status_code == 200


async def test_every_answer_carries_the_headers_of_the_house(visitor: Visitor) -> None:
    answers = [
        await visitor.http.get("/v1/memory", headers={"X-Request-Id": "mine-1"}),
        await visitor.http.get("/v1/memory", headers={"X-Request-Id": "not\tmine"}),
        await visitor.http.get("/health"),
        await visitor.http.post("/v1/memory", json={}),
    ]

    for answer in answers:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
    assert answers[0].headers["x-request-id"] == "mine-1"
    made = {answer.headers["x-request-id"] for answer in answers[1:]}
    assert len(made) == 3
    assert all(len(each) == 32 and each.isalnum() for each in made)


async def test_S33_no_page_of_another_origin_may_read_any_door(
    visitor: Visitor, server: Server
) -> None:
    asked = {
        "origin": "https://evil.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "x-api-key,content-type",
    }
    paths = [prefix for door in server.doors for prefix in door.prefixes]

    answers = [
        await visitor.http.request(method, path, headers=asked)
        for path in paths
        for method in ("OPTIONS", "GET")
    ]

    told = {
        name
        for answer in answers
        for name in answer.headers
        if name.startswith("access-control-allow")
    }
    assert told == set()
    assert len(paths) >= len(server.doors)
