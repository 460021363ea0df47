"""Sign-in and sign-out: passwords, cookies, forged requests (S01-S15, S30-S32)."""

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator
from datetime import timedelta
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from argon2 import PasswordHasher

from recollect.core.domain import Caller, Right
from recollect.core.errors import RateLimited, Unauthenticated
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy import orgs
from recollect.tenancy import sign_in as signin
from recollect.tenancy.queries import orgs as orgs_queries
from recollect.tenancy.queries import sign_ins
from recollect.tenancy.queries import workspaces as workspaces_queries
from recollect.tenancy.sign_in import SessionLifetime, SignIns, retry_delay
from tests.support.clock import Clock
from tests.support.dashboard import (
    PASSWORD,
    connect_from,
    connect_signed_in,
    error_of,
    is_login_page,
    new_user,
)
from tests.support.instance import connect, in_new_workspace, key_for, make_server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def login(engine: Engine, caller: Caller) -> str:
    _, name = await new_user(engine, caller, password=PASSWORD)
    return name


@pytest.fixture
async def client(server: Server) -> AsyncGenerator[httpx2.AsyncClient]:
    async with connect_from(server) as http:
        yield http


async def log_in(http: httpx2.AsyncClient, login: str, password: str = PASSWORD) -> httpx2.Response:
    return await http.post("/login", json={"username": login, "password": password})


async def test_R046_the_right_password_signs_in(
    client: httpx2.AsyncClient, login: str, caller: Caller
) -> None:
    signed_in = await log_in(client, login)
    response = await client.get("/chat/api/me")

    assert signed_in.status_code == 204
    assert response.status_code == 200
    me = response.json()
    assert me["user"]["name"] == login
    assert me["org"] == {"name": "an org"}
    assert me["rights"] == ["delete", "read", "write"]
    assert me["workspaces"] == [
        {"id": f"ws_{caller.workspace_id}", "name": "default", "is_default": True}
    ]


async def test_S11_S93_the_cookie_is_http_only_and_bound_to_the_host(
    engine: Engine, client: httpx2.AsyncClient, login: str
) -> None:
    plain = (await log_in(client, login)).headers["set-cookie"]
    secure = make_server(engine, https=True)
    async with connect_from(secure) as http:
        safe = (await log_in(http, login)).headers["set-cookie"]
        token = safe.partition("=")[2].partition(";")[0]
        as_plain = await http.get("/chat/api/me", headers={"cookie": f"session={token}"})
        as_safe = await http.get("/chat/api/me", headers={"cookie": f"__Host-session={token}"})

    assert plain.startswith("session=")
    assert plain.partition("; ")[2] == "Max-Age=2592000; Path=/; HttpOnly; SameSite=Lax"
    assert safe.startswith("__Host-session=")
    assert safe.partition("; ")[2] == "Max-Age=2592000; Path=/; HttpOnly; SameSite=Lax; Secure"
    assert len(token) == 43
    assert is_login_page(as_plain)
    assert as_safe.status_code == 200
    assert as_safe.headers["strict-transport-security"] == "max-age=31536000"


async def test_S10_only_the_digest_of_the_token_is_stored(
    engine: Engine, client: httpx2.AsyncClient, login: str
) -> None:
    await log_in(client, login)
    token = client.cookies["session"]
    digest = sha256(token.encode()).digest()

    async with engine.pool.everywhere() as db:
        found = await sign_ins.find(db, digest)
        rows = await (await db.execute("SELECT sign_in::text FROM sign_in")).fetchall()
        await sign_ins.end(db, digest)
    after = await client.get("/chat/api/me")

    assert found is not None
    stored = "".join(row for (row,) in rows)
    assert digest.hex() in stored
    assert token not in stored
    assert is_login_page(after)


async def test_S12_signing_in_again_ends_the_previous_session(
    client: httpx2.AsyncClient, server: Server, login: str
) -> None:
    await log_in(client, login)
    before = client.cookies["session"]

    await log_in(client, login)

    async with connect(server, cookie=f"session={before}") as other:
        assert is_login_page(await other.get("/chat/api/me"))
    assert client.cookies["session"] != before


@pytest.mark.parametrize(
    ("idle", "is_in"),
    [(timedelta(days=7) - timedelta(seconds=1), True), (timedelta(days=7), False)],
)
async def test_S13_a_session_idle_for_a_week_ends(
    server: Server, engine: Engine, caller: Caller, clock: Clock, *, idle: timedelta, is_in: bool
) -> None:
    async with await connect_signed_in(server, engine, caller) as http:
        clock.advance(idle)

        response = await http.get("/chat/api/me")

    assert (response.status_code == 200) == is_in


async def test_S13_a_session_ends_after_thirty_days(
    server: Server, engine: Engine, caller: Caller, clock: Clock
) -> None:
    async with await connect_signed_in(server, engine, caller) as http:
        for _ in range(29):
            clock.advance(timedelta(days=1))
            assert (await http.get("/chat/api/me")).status_code == 200
        clock.advance(timedelta(days=1) - timedelta(seconds=1))
        assert (await http.get("/chat/api/me")).status_code == 200
        clock.advance(timedelta(seconds=1))

        assert is_login_page(await http.get("/chat/api/me"))


async def test_S14_signing_out_ends_only_this_session(
    server: Server, engine: Engine, caller: Caller
) -> None:
    async with (
        await connect_signed_in(server, engine, caller) as one,
        await connect_signed_in(server, engine, caller) as other,
    ):
        response = await one.post("/logout")

        assert response.status_code == 204
        assert "Max-Age=0" in response.headers["set-cookie"]
        assert is_login_page(await one.get("/chat/api/me"))
        assert (await other.get("/chat/api/me")).status_code == 200


async def test_S14_a_new_password_ends_every_other_session(
    server: Server, client: httpx2.AsyncClient, login: str
) -> None:
    async with connect_from(server) as other:
        await log_in(client, login)
        await log_in(other, login)
        before = client.cookies["session"]

        refused = await client.post(
            "/chat/api/password", json={"current": "not it", "new": "another long one"}
        )
        short = await client.post("/chat/api/password", json={"current": PASSWORD, "new": "short"})
        changed = await client.post(
            "/chat/api/password", json={"current": PASSWORD, "new": "another long one"}
        )

        assert error_of(refused) == (400, "invalid_request")
        assert error_of(short) == (400, "invalid_request")
        assert changed.status_code == 204
        assert is_login_page(await other.get("/chat/api/me"))
        assert client.cookies["session"] != before
        assert (await client.get("/chat/api/me")).status_code == 200
        assert error_of(await log_in(other, login)) == (401, "wrong_sign_in")
        assert (await log_in(other, login, "another long one")).status_code == 204


async def test_S14_archiving_a_user_ends_their_sessions(
    server: Server, engine: Engine, caller: Caller
) -> None:
    async with await connect_signed_in(server, engine, caller) as http:
        await orgs.archive_user(engine, str(caller.user_id), is_archived=True)

        assert is_login_page(await http.get("/chat/api/me"))


async def test_resetting_a_password_ends_all_sessions(
    client: httpx2.AsyncClient, engine: Engine, login: str
) -> None:
    await log_in(client, login)

    password = await orgs.reset_password(engine, login)

    assert is_login_page(await client.get("/chat/api/me"))
    assert (await log_in(client, login)).status_code == 401
    assert (await log_in(client, login, password)).status_code == 204


async def test_R047_S15_dashboard_routes_accept_no_api_key(
    server: Server, caller: Caller, engine: Engine
) -> None:
    key = await key_for(engine, caller.workspace_id)
    bearer = {"authorization": f"Bearer {key}"}
    async with (
        connect(server) as http,
        await connect_signed_in(server, engine, caller) as browser,
    ):
        with_key = await http.get("/chat/api/me", headers=bearer)
        with_both = await browser.get("/chat/api/me", headers=bearer)
        cookie_elsewhere = await browser.get("/v1/memory")
        bad_key_elsewhere = await browser.get("/v1/memory", headers={"x-api-key": "rk_wrong"})

    assert is_login_page(with_key)
    assert with_both.status_code == 200
    assert cookie_elsewhere.status_code == 401
    assert bad_key_elsewhere.status_code == 401


async def test_S01_S04_an_old_hash_is_upgraded_at_sign_in(
    client: httpx2.AsyncClient, engine: Engine, login: str
) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1).hash(PASSWORD)
    async with engine.pool.everywhere() as db:
        account = await sign_ins.find_account(db, login=login)
        assert account is not None
        await sign_ins.set_password(db, account.id, weak)

    assert (await log_in(client, login)).status_code == 204

    async with engine.pool.everywhere() as db:
        after = await sign_ins.find_account(db, login=login)
    assert after is not None
    assert str(after.password_hash).startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (await log_in(client, login)).status_code == 204


async def test_S03_an_unknown_user_looks_like_a_wrong_password(
    client: httpx2.AsyncClient, engine: Engine, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time depends on the hash parameters, which must be the same for both."""
    hashed: list[str] = []
    real = signin._verify

    def recorded(stored_hash: str, password: str) -> bool:
        hashed.append(stored_hash.rpartition("$")[0].rpartition("$")[0])
        return real(stored_hash, password)

    monkeypatch.setattr(signin, "_verify", recorded)

    known = await log_in(client, login, "wrong")
    unknown = await log_in(client, "unknown-user", "wrong")

    assert error_of(known) == (401, "wrong_sign_in")
    assert (unknown.status_code, unknown.json()) == (known.status_code, known.json())
    assert len(hashed) == 2
    assert hashed[0] == hashed[1]


async def test_S03_an_account_without_a_password_cannot_sign_in(
    engine: Engine, caller: Caller
) -> None:
    """Tries an empty password and short ones."""
    _, login = await new_user(engine, caller)
    sign_in = SignIns(engine.pool, engine.now, SessionLifetime())

    for password in ("", "A", "A" * 43):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in(login, password, address=None)


async def test_S05_S51_failures_are_counted_across_processes_without_a_lockout(
    engine: Engine, login: str, clock: Clock
) -> None:
    processes = [SignIns(engine.pool, engine.now, SessionLifetime()) for _ in range(2)]
    found: list[type] = []

    for number in range(8):
        with pytest.raises((Unauthenticated, RateLimited)) as caught:
            await processes[number % 2].sign_in(login, "wrong", address=secrets.token_hex(8))
        found.append(caught.type)
    clock.advance(timedelta(seconds=1))
    token = await processes[0].sign_in(login, PASSWORD, address=None)

    assert found == [Unauthenticated] * 5 + [RateLimited] * 3
    assert token


async def test_S05_concurrent_failures_are_all_counted(engine: Engine, login: str) -> None:
    process = SignIns(engine.pool, engine.now, SessionLifetime())

    results = await asyncio.gather(
        *(process.sign_in(login, "wrong", address=None) for _ in range(20)),
        return_exceptions=True,
    )

    assert sum(isinstance(each, Unauthenticated) for each in results) == 5
    assert sum(isinstance(each, RateLimited) for each in results) == 15


async def test_S05_an_address_that_tries_many_accounts_is_limited(engine: Engine) -> None:
    process = SignIns(engine.pool, engine.now, SessionLifetime())
    address = secrets.token_hex(8)
    found: list[type] = []

    for number in range(32):
        with pytest.raises((Unauthenticated, RateLimited)) as caught:
            await process.sign_in(f"{address} {number}", "wrong", address=address)
        found.append(caught.type)

    assert found == [Unauthenticated] * 30 + [RateLimited] * 2


def test_S05_delays_grow_up_to_a_maximum() -> None:
    waits = [retry_delay(failures, 5).total_seconds() for failures in range(1, 20)]

    assert waits[:8] == [0, 0, 0, 0, 1, 2, 4, 8]
    assert max(waits) == 60


async def test_S05_a_limited_sign_in_has_retry_after(
    client: httpx2.AsyncClient, login: str
) -> None:
    for _ in range(5):
        await log_in(client, login, "wrong")

    response = await log_in(client, login)

    assert error_of(response) == (429, "rate_limited")
    assert response.headers["retry-after"] == "1"


async def test_S02_at_most_two_passwords_are_hashed_at_once(
    engine: Engine, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = SignIns(engine.pool, engine.now, SessionLifetime())
    running, max_running = 0, 0
    real = signin._verify

    def counted(stored_hash: str, password: str) -> bool:
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        try:
            return real(stored_hash, password)
        finally:
            running -= 1

    monkeypatch.setattr(signin, "_verify", counted)

    await asyncio.gather(*(process.sign_in(login, PASSWORD, address=None) for _ in range(5)))

    assert max_running == 2


async def test_S02_a_sign_in_that_waits_too_long_is_refused(
    client: httpx2.AsyncClient, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashing: list[str] = []
    go_on = threading.Event()

    def slow(stored_hash: str, _: str) -> bool:
        hashing.append(stored_hash)
        return not go_on.wait(30)

    monkeypatch.setattr(signin, "_verify", slow)
    monkeypatch.setattr(signin, "_HASH_WAIT_SECONDS", 0.01)
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(log_in(client, f"{login} {number}")) for number in range(2)]
        await until(lambda: len(hashing) == 2)

        refused = await log_in(client, login)
        go_on.set()

    assert error_of(refused) == (429, "rate_limited")
    assert "retry-after" in refused.headers
    assert [each.result().status_code for each in running] == [401, 401]


async def test_S02_many_sign_ins_do_not_block_other_requests(
    server: Server, client: httpx2.AsyncClient, login: str
) -> None:
    async def flood() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(_guess(server, login, number)) for number in range(24)]
        return [each.result() for each in tries]

    flooding = asyncio.create_task(flood())
    live_checks = 0
    while not flooding.done():
        assert (await client.get("/health/live")).status_code == 200
        live_checks += 1
        await asyncio.sleep(0.001)

    assert set(flooding.result()) <= {401, 429}
    # If hashing blocked the event loop, there would be about one check per sign-in.
    assert live_checks > 2 * 24


async def _guess(server: Server, login: str, number: int) -> int:
    """Sign in with a wrong password from a new address; only the first three share an account."""
    async with connect_from(server) as http:
        return (await log_in(http, login if number < 3 else f"{login}-{number}", "no")).status_code


async def test_S53_forwarded_addresses_are_trusted_only_from_known_proxies(engine: Engine) -> None:
    proxy = f"proxy-{secrets.token_hex(4)}"

    async def attempt(**settings: Any) -> list[int]:
        async with connect_from(make_server(engine, **settings), proxy) as http:
            return [
                (
                    await http.post(
                        "/login",
                        json={"username": f"{proxy} {number} {settings}", "password": "wrong"},
                        headers={"x-forwarded-for": f"10.9.8.7, 203.0.113.{number}"},
                    )
                ).status_code
                for number in range(32)
            ]

    trusted = await attempt(proxies=f"192.0.2.1, {proxy}")
    forged = await attempt()

    assert trusted == [401] * 32
    assert forged == [401] * 30 + [429] * 2


FORGED: list[dict[str, str]] = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://recollect.test.evil.example"},
    {"origin": "http://recollect.test:8080"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
]
OWN: list[dict[str, str]] = [
    {},
    {"sec-fetch-site": "same-origin", "origin": "http://recollect.test"},
    {"sec-fetch-site": "none"},
    {"origin": "https://recollect.test"},
    {"sec-fetch-mode": "cors"},
]


@pytest.mark.parametrize("headers", FORGED, ids=str)
async def test_S30_a_write_from_another_site_is_denied(
    server: Server, engine: Engine, caller: Caller, headers: dict[str, str], login: str
) -> None:
    async with await connect_signed_in(server, engine, caller) as http:
        body = {"current": PASSWORD, "new": "set by another"}
        change = await http.post("/chat/api/password", json=body, headers=headers)
        sign_out = await http.post("/logout", headers=headers)
        credentials = {"username": login, "password": PASSWORD}
        sign_in = await http.post("/login", json=credentials, headers=headers)
        still = await http.get("/chat/api/me", headers=headers)

    assert [error_of(each) for each in (change, sign_out, sign_in)] == [(403, "denied")] * 3
    assert still.status_code == 200


@pytest.mark.parametrize("headers", OWN, ids=str)
async def test_S31_same_origin_pages_and_programs_may_write(
    client: httpx2.AsyncClient, login: str, headers: dict[str, str]
) -> None:
    credentials = {"username": login, "password": PASSWORD}

    response = await client.post("/login", json=credentials, headers=headers)

    assert response.status_code == 204


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_S32_a_body_must_be_json(
    client: httpx2.AsyncClient, login: str, media_type: str
) -> None:
    response = await client.post(
        "/login",
        content=f'{{"username": "{login}", "password": "{PASSWORD}"}}',
        headers={"content-type": media_type},
    )

    assert error_of(response) == (415, "unsupported_media_type")
    assert "set-cookie" not in response.headers


@pytest.mark.parametrize(
    "body", [{}, {"username": "ada"}, {"username": "", "password": "x"}, {"username": 1}, [], "x"]
)
async def test_a_sign_in_without_name_or_password_is_rejected(
    client: httpx2.AsyncClient, body: Any
) -> None:
    assert error_of(await client.post("/login", json=body)) == (400, "invalid_request")


async def test_a_member_sees_only_workspaces_they_may_enter(
    server: Server, engine: Engine, caller: Caller
) -> None:
    other = await in_new_workspace(engine, caller)
    user_id, _ = await new_user(engine, caller)
    member = Caller(caller.org_id, user_id, caller.workspace_id, frozenset({Right.READ}))

    async def workspaces() -> list[str]:
        async with await connect_signed_in(server, engine, member) as http:
            return [each["id"] for each in (await http.get("/chat/api/me")).json()["workspaces"]]

    initially = await workspaces()
    async with engine.pool.everywhere() as db:
        await workspaces_queries.add_workspace_member(db, other.workspace_id, user_id)
    as_member = await workspaces()
    async with engine.pool.everywhere() as db:
        await orgs_queries.set_workspaces(db, caller.org_id, is_on=True)
    with_workspaces_on = await workspaces()

    assert initially == [f"ws_{caller.workspace_id}"]
    assert as_member == [f"ws_{caller.workspace_id}", f"ws_{other.workspace_id}"]
    assert with_workspaces_on == [f"ws_{other.workspace_id}"]


async def test_R048_a_request_without_a_session_gets_the_sign_in_page(
    client: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    key = await key_for(engine, caller.workspace_id)
    responses = [
        await client.request(method, path, headers=headers)
        for method in ("GET", "POST", "PATCH", "PUT", "DELETE")
        for path in ("/chat/api/me", "/chat/api/no/such/route")
        for headers in ({}, {"cookie": "session=wrong"}, {"authorization": f"Bearer {key}"})
    ]

    assert all(is_login_page(response) for response in responses)
    assert {response.headers["cache-control"] for response in responses} == {"no-store"}
