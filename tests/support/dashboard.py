"""Helpers for tests of the dashboard: clients with a session cookie."""

import secrets
from datetime import timedelta
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Any

import httpx2

from recollect.core.domain import Caller, UserId
from recollect.engine import Engine
from recollect.server import Server
from recollect.tenancy.keys import hash_password
from recollect.tenancy.queries import sign_ins, users
from tests.support.instance import connect

PASSWORD = "correct horse battery staple"


async def cookie_for(engine: Engine, user_id: UserId) -> str:
    """A session token as after a sign-in, without hashing a password."""
    token = secrets.token_urlsafe(32)
    now = engine.now()
    async with engine.pool.everywhere() as db:
        await sign_ins.add(
            db,
            sha256(token.encode()).digest(),
            user_id,
            now=now,
            expires_at=now + timedelta(days=30),
        )
    return token


def connect_from(server: Server, address: str | None = None) -> httpx2.AsyncClient:
    """A client with its own address, by default a random one. Failed sign-ins count by address."""
    address = address or str(IPv6Address(secrets.randbits(128)))
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app, client=(address, 50_000)),
        base_url="http://recollect.test",
    )


async def connect_signed_in(server: Server, engine: Engine, caller: Caller) -> httpx2.AsyncClient:
    """A client with the caller's session cookie."""
    return connect(server, cookie=f"session={await cookie_for(engine, caller.user_id)}")


async def new_user(
    engine: Engine, caller: Caller, *, is_admin: bool = False, password: str | None = None
) -> tuple[UserId, str]:
    """Create another user in the caller's org; return the id and the login."""
    login = f"user-{secrets.token_hex(6)}"
    async with engine.pool.everywhere() as db:
        user_id = await users.add_user(
            db,
            caller.org_id,
            login,
            password_hash=hash_password(password) if password else None,
            is_admin=is_admin,
        )
    return user_id, login


def error_of(response: httpx2.Response) -> tuple[int, str]:
    """The status and code of an error."""
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"code", "message"}
    return response.status_code, error["code"]


def is_login_page(response: httpx2.Response) -> bool:
    """Whether this is the login page, which unauthenticated browsers get."""
    kind = response.headers["content-type"]
    return response.status_code == 401 and kind.startswith("text/html") and "<html" in response.text
