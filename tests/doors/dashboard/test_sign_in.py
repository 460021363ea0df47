"""Signing in and out of the dashboard: passwords, cookies, forged requests (S01-S15, S30-S32)."""

import asyncio
import secrets
from collections.abc import AsyncGenerator
from datetime import timedelta
from hashlib import sha256
from typing import Any

import httpx2
import pytest
from argon2 import PasswordHasher

from recollect.domain import Caller, Right
from recollect.engine import signin, tenants
from recollect.engine.core import Engine
from recollect.engine.signin import Life, SignIns, pause
from recollect.errors import RateLimited, Unauthenticated
from recollect.server import Server
from recollect.store import identity, sign_ins
from tests.support.clock import Clock
from tests.support.dashboard import PASSWORD, browse, is_login_page, new_user, visit_from, wrong
from tests.support.house import Visitor, key_for, neighbour, serve, visit

pytestmark = pytest.mark.anyio


@pytest.fixture
async def login(engine: Engine, caller: Caller) -> str:
    _, name = await new_user(engine, caller, password=PASSWORD)
    return name


@pytest.fixture
async def stranger(server: Server) -> AsyncGenerator[httpx2.AsyncClient]:
    async with visit_from(server) as http:
        yield http


async def enter(http: httpx2.AsyncClient, login: str, password: str = PASSWORD) -> httpx2.Response:
    return await http.post("/login", json={"username": login, "password": password})


async def test_R046_whoever_knows_the_password_is_let_in(
    stranger: httpx2.AsyncClient, login: str, caller: Caller
) -> None:
    entered = await enter(stranger, login)
    answer = await stranger.get("/chat/api/me")

    assert entered.status_code == 204
    assert answer.status_code == 200
    told = answer.json()
    assert told["user"]["name"] == login
    assert told["org"] == {"name": "an org"}
    assert told["rights"] == ["delete", "read", "write"]
    assert told["workspaces"] == [
        {"id": f"ws_{caller.workspace_id}", "name": "default", "is_default": True}
    ]


async def test_S11_the_cookie_is_for_this_host_and_no_script(
    engine: Engine, stranger: httpx2.AsyncClient, login: str
) -> None:
    plain = (await enter(stranger, login)).headers["set-cookie"]
    secure = serve(engine, https=True)
    async with visit_from(secure) as http:
        safe = (await enter(http, login)).headers["set-cookie"]
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


async def test_S10_only_the_digest_of_the_token_is_kept(
    engine: Engine, stranger: httpx2.AsyncClient, login: str
) -> None:
    await enter(stranger, login)
    token = stranger.cookies["session"]
    digest = sha256(token.encode()).digest()

    async with engine.pool.everywhere() as db:
        found = await sign_ins.find(db, digest)
        await sign_ins.end(db, digest)
    after = await stranger.get("/chat/api/me")

    assert found is not None
    assert is_login_page(after)


async def test_S12_signing_in_again_ends_the_token_of_before(
    stranger: httpx2.AsyncClient, server: Server, login: str
) -> None:
    await enter(stranger, login)
    before = stranger.cookies["session"]

    await enter(stranger, login)

    async with visit(server, cookie=f"session={before}") as thief:
        assert is_login_page(await thief.get("/chat/api/me"))
    assert stranger.cookies["session"] != before


@pytest.mark.parametrize(
    ("idle", "is_in"),
    [(timedelta(days=7) - timedelta(seconds=1), True), (timedelta(days=7), False)],
)
async def test_S13_a_browser_that_says_nothing_for_a_week_is_signed_out(
    server: Server, engine: Engine, caller: Caller, clock: Clock, *, idle: timedelta, is_in: bool
) -> None:
    async with await browse(server, engine, caller) as http:
        clock.advance(idle)

        answer = await http.get("/chat/api/me")

    assert (answer.status_code == 200) == is_in


async def test_S13_after_thirty_days_even_a_busy_browser_signs_in_again(
    server: Server, engine: Engine, caller: Caller, clock: Clock
) -> None:
    async with await browse(server, engine, caller) as http:
        for _ in range(29):
            clock.advance(timedelta(days=1))
            assert (await http.get("/chat/api/me")).status_code == 200
        clock.advance(timedelta(days=1))

        assert is_login_page(await http.get("/chat/api/me"))


async def test_S14_logging_out_ends_this_session_alone(
    server: Server, engine: Engine, caller: Caller
) -> None:
    async with (
        await browse(server, engine, caller) as one,
        await browse(server, engine, caller) as other,
    ):
        answer = await one.post("/logout")

        assert answer.status_code == 204
        assert "Max-Age=0" in answer.headers["set-cookie"]
        assert is_login_page(await one.get("/chat/api/me"))
        assert (await other.get("/chat/api/me")).status_code == 200


async def test_S14_a_new_password_ends_every_other_session(
    server: Server, stranger: httpx2.AsyncClient, login: str
) -> None:
    async with visit_from(server) as other:
        await enter(stranger, login)
        await enter(other, login)
        before = stranger.cookies["session"]

        refused = await stranger.post(
            "/chat/api/password", json={"current": "not it", "new": "another long one"}
        )
        short = await stranger.post(
            "/chat/api/password", json={"current": PASSWORD, "new": "short"}
        )
        changed = await stranger.post(
            "/chat/api/password", json={"current": PASSWORD, "new": "another long one"}
        )

        assert wrong(refused) == (400, "invalid_request")
        assert wrong(short) == (400, "invalid_request")
        assert changed.status_code == 204
        assert is_login_page(await other.get("/chat/api/me"))
        assert stranger.cookies["session"] != before
        assert (await stranger.get("/chat/api/me")).status_code == 200
        assert wrong(await enter(other, login)) == (401, "wrong_sign_in")
        assert (await enter(other, login, "another long one")).status_code == 204


async def test_S14_whoever_is_put_away_is_signed_out(
    server: Server, engine: Engine, caller: Caller
) -> None:
    async with await browse(server, engine, caller) as http:
        await tenants.archive_user(engine, str(caller.user_id), is_over=True)

        assert is_login_page(await http.get("/chat/api/me"))


async def test_a_password_the_operator_resets_signs_everybody_out(
    stranger: httpx2.AsyncClient, engine: Engine, login: str
) -> None:
    await enter(stranger, login)

    password = await tenants.reset_password(engine, login)

    assert is_login_page(await stranger.get("/chat/api/me"))
    assert (await enter(stranger, login)).status_code == 401
    assert (await enter(stranger, login, password)).status_code == 204


async def test_R047_S15_no_key_opens_a_route_of_the_dashboard(
    server: Server, visitor: Visitor, engine: Engine
) -> None:
    bearer = {"authorization": f"Bearer {visitor.key}"}
    async with visit(server) as http, await browse(server, engine, visitor.caller) as browser:
        with_key = await http.get("/chat/api/me", headers=bearer)
        with_both = await browser.get("/chat/api/me", headers=bearer)
        cookie_elsewhere = await browser.get("/v1/memory")
        bad_key_elsewhere = await browser.get("/v1/memory", headers={"x-api-key": "rk_wrong"})

    assert is_login_page(with_key)
    assert with_both.status_code == 200
    assert cookie_elsewhere.status_code == 401
    assert bad_key_elsewhere.status_code == 401


async def test_S01_S04_an_old_hash_is_renewed_when_its_owner_signs_in(
    stranger: httpx2.AsyncClient, engine: Engine, login: str
) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=8 * 1024, parallelism=1).hash(PASSWORD)
    async with engine.pool.everywhere() as db:
        account = await sign_ins.account(db, login=login)
        assert account is not None
        await sign_ins.set_password(db, account.id, weak)

    assert (await enter(stranger, login)).status_code == 204

    async with engine.pool.everywhere() as db:
        after = await sign_ins.account(db, login=login)
    assert after is not None
    assert str(after.password_hash).startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert (await enter(stranger, login)).status_code == 204


async def test_S03_an_unknown_user_is_answered_as_a_wrong_password_is(
    stranger: httpx2.AsyncClient, engine: Engine, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long it takes is decided by what is hashed, and that is the same for both."""
    hashed: list[str] = []
    real = signin._verify

    def noted(kept: str, password: str) -> bool:
        hashed.append(kept.rpartition("$")[0].rpartition("$")[0])
        return real(kept, password)

    monkeypatch.setattr(signin, "_verify", noted)

    known = await enter(stranger, login, "wrong")
    unknown = await enter(stranger, "nobody-at-all", "wrong")

    assert wrong(known) == (401, "wrong_sign_in")
    assert (unknown.status_code, unknown.json()) == (known.status_code, known.json())
    assert len(hashed) == 2
    assert hashed[0] == hashed[1]


async def test_S03_no_password_fits_nobody(engine: Engine, caller: Caller) -> None:
    """An account without a password cannot be signed in to, whatever is tried."""
    _, login = await new_user(engine, caller)
    sign_in = SignIns(engine.pool, engine.now, Life())

    for password in ("", "A", "A" * 43):
        with pytest.raises(Unauthenticated):
            await sign_in.sign_in(login, password, address=None)


async def test_S05_guesses_are_counted_across_processes_and_nobody_is_locked_out(
    engine: Engine, login: str, clock: Clock
) -> None:
    processes = [SignIns(engine.pool, engine.now, Life()) for _ in range(2)]
    found: list[type] = []

    for number in range(8):
        with pytest.raises((Unauthenticated, RateLimited)) as caught:
            await processes[number % 2].sign_in(login, "wrong", address=secrets.token_hex(8))
        found.append(caught.type)
    clock.advance(timedelta(seconds=1))
    token = await processes[0].sign_in(login, PASSWORD, address=None)

    assert found == [Unauthenticated] * 5 + [RateLimited] * 3
    assert token


async def test_S05_many_guesses_at_once_are_as_many(engine: Engine, login: str) -> None:
    door = SignIns(engine.pool, engine.now, Life())

    tried = await asyncio.gather(
        *(door.sign_in(login, "wrong", address=None) for _ in range(20)), return_exceptions=True
    )

    assert sum(isinstance(each, Unauthenticated) for each in tried) == 5
    assert sum(isinstance(each, RateLimited) for each in tried) == 15


async def test_S05_an_address_that_guesses_at_many_accounts_is_slowed(engine: Engine) -> None:
    door = SignIns(engine.pool, engine.now, Life())
    address = secrets.token_hex(8)
    found: list[type] = []

    for number in range(32):
        with pytest.raises((Unauthenticated, RateLimited)) as caught:
            await door.sign_in(f"{address} {number}", "wrong", address=address)
        found.append(caught.type)

    assert found == [Unauthenticated] * 30 + [RateLimited] * 2


def test_S05_pauses_grow_and_end() -> None:
    waits = [pause(failures, 5).total_seconds() for failures in range(1, 20)]

    assert waits[:8] == [0, 0, 0, 0, 1, 2, 4, 8]
    assert max(waits) == 60


async def test_S05_a_browser_is_told_when_to_come_back(
    stranger: httpx2.AsyncClient, login: str
) -> None:
    for _ in range(5):
        await enter(stranger, login, "wrong")

    answer = await enter(stranger, login)

    assert wrong(answer) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "1"


async def test_S02_two_passwords_are_hashed_at_once_and_no_more(
    engine: Engine, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = SignIns(engine.pool, engine.now, Life())
    running, most = 0, 0
    real = signin._verify

    def counted(kept: str, password: str) -> bool:
        nonlocal running, most
        running += 1
        most = max(most, running)
        try:
            return real(kept, password)
        finally:
            running -= 1

    monkeypatch.setattr(signin, "_verify", counted)

    await asyncio.gather(*(door.sign_in(login, PASSWORD, address=None) for _ in range(5)))

    assert most == 2


async def test_S02_a_flood_of_sign_ins_keeps_nobody_else_waiting(
    server: Server, stranger: httpx2.AsyncClient, login: str
) -> None:
    async def flood() -> list[int]:
        async with asyncio.TaskGroup() as group:
            tries = [group.create_task(_guess(server, login, number)) for number in range(24)]
        return [each.result() for each in tries]

    flooding = asyncio.create_task(flood())
    answers = 0
    while not flooding.done():
        assert (await stranger.get("/health/live")).status_code == 200
        answers += 1
        await asyncio.sleep(0.001)

    assert set(flooding.result()) <= {401, 429}
    # If a password were hashed where requests are answered, there would be one answer for each.
    assert answers > 2 * 24


async def _guess(server: Server, login: str, number: int) -> int:
    """A wrong password from an address of its own, at an account of its own but for a few."""
    async with visit_from(server) as http:
        return (await enter(http, login if number < 3 else f"{login}-{number}", "no")).status_code


async def test_S53_only_a_proxy_of_the_operators_says_for_whom_it_asks(engine: Engine) -> None:
    proxy = f"proxy-{secrets.token_hex(4)}"

    async def tries(**settings: Any) -> list[int]:
        async with visit_from(serve(engine, **settings), proxy) as http:
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

    believed = await tries(proxies=f"192.0.2.1, {proxy}")
    forged = await tries()

    assert believed == [401] * 32
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
async def test_S30_a_write_from_another_sites_page_is_refused(
    server: Server, engine: Engine, caller: Caller, headers: dict[str, str], login: str
) -> None:
    async with await browse(server, engine, caller) as http:
        body = {"current": PASSWORD, "new": "set by another"}
        change = await http.post("/chat/api/password", json=body, headers=headers)
        leave = await http.post("/logout", headers=headers)
        credentials = {"username": login, "password": PASSWORD}
        enter = await http.post("/login", json=credentials, headers=headers)
        still = await http.get("/chat/api/me", headers=headers)

    assert [wrong(each) for each in (change, leave, enter)] == [(403, "denied")] * 3
    assert still.status_code == 200


@pytest.mark.parametrize("headers", OWN, ids=str)
async def test_S31_our_own_page_and_programs_may_write(
    stranger: httpx2.AsyncClient, login: str, headers: dict[str, str]
) -> None:
    credentials = {"username": login, "password": PASSWORD}

    answer = await stranger.post("/login", json=credentials, headers=headers)

    assert answer.status_code == 204


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
async def test_S32_a_body_is_json_or_nothing(
    stranger: httpx2.AsyncClient, login: str, media_type: str
) -> None:
    answer = await stranger.post(
        "/login",
        content=f'{{"username": "{login}", "password": "{PASSWORD}"}}',
        headers={"content-type": media_type},
    )

    assert wrong(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "body", [{}, {"username": "ada"}, {"username": "", "password": "x"}, {"username": 1}, [], "x"]
)
async def test_a_sign_in_without_name_or_password_is_explained(
    stranger: httpx2.AsyncClient, body: Any
) -> None:
    assert wrong(await stranger.post("/login", json=body)) == (400, "invalid_request")


async def test_a_member_is_where_they_may_be(
    server: Server, engine: Engine, caller: Caller
) -> None:
    other = await neighbour(engine, caller)
    user_id, _ = await new_user(engine, caller)
    member = Caller(caller.org_id, user_id, caller.workspace_id, frozenset({Right.READ}))

    async def places() -> list[str]:
        async with await browse(server, engine, member) as http:
            return [each["id"] for each in (await http.get("/chat/api/me")).json()["workspaces"]]

    at_first = await places()
    async with engine.pool.everywhere() as db:
        await identity.add_workspace_member(db, other.workspace_id, user_id)
    let_in = await places()
    async with engine.pool.everywhere() as db:
        await identity.set_workspaces(db, caller.org_id, is_on=True)
    told_apart = await places()

    assert at_first == [f"ws_{caller.workspace_id}"]
    assert let_in == [f"ws_{caller.workspace_id}", f"ws_{other.workspace_id}"]
    assert told_apart == [f"ws_{other.workspace_id}"]


async def test_R048_strangers_get_the_page_where_one_signs_in(
    stranger: httpx2.AsyncClient, engine: Engine, caller: Caller
) -> None:
    key = await key_for(engine, caller.workspace_id)
    answers = [
        await stranger.request(method, path, headers=headers)
        for method in ("GET", "POST", "PATCH", "PUT", "DELETE")
        for path in ("/chat/api/me", "/chat/api/no/such/route")
        for headers in ({}, {"cookie": "session=wrong"}, {"authorization": f"Bearer {key}"})
    ]

    assert all(is_login_page(answer) for answer in answers)
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
