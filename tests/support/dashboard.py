"""Browsers in front of the composed application."""

import secrets
from datetime import timedelta
from hashlib import sha256
from ipaddress import IPv6Address
from typing import Any

import httpx2

from recollect.domain import Caller, UserId
from recollect.engine.core import Engine
from recollect.engine.keys import hash_password
from recollect.server import Server
from recollect.store import identity, sign_ins
from tests.support.house import visit

PASSWORD = "correct horse battery staple"


async def cookie_for(engine: Engine, user_id: UserId) -> str:
    """A token as a sign-in would give it, without the hashing."""
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


def visit_from(server: Server, address: str | None = None) -> httpx2.AsyncClient:
    """Somebody at an address of their own: guesses are counted by address."""
    address = address or str(IPv6Address(secrets.randbits(128)))
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=server.app, client=(address, 50_000)),
        base_url="http://recollect.test",
    )


async def browse(server: Server, engine: Engine, caller: Caller) -> httpx2.AsyncClient:
    """The browser of somebody who is signed in."""
    return visit(server, cookie=f"session={await cookie_for(engine, caller.user_id)}")


async def new_user(
    engine: Engine, caller: Caller, *, is_admin: bool = False, password: str | None = None
) -> tuple[UserId, str]:
    """Another user of the caller's org, and their login."""
    login = f"user-{secrets.token_hex(6)}"
    async with engine.pool.everywhere() as db:
        user_id = await identity.add_user(
            db,
            caller.org_id,
            login,
            password_hash=hash_password(password) if password else None,
            is_admin=is_admin,
        )
    return user_id, login


def wrong(answer: httpx2.Response) -> tuple[int, str]:
    """The status and code of an error."""
    error: dict[str, Any] = answer.json()["error"]
    assert set(error) == {"code", "message"}
    return answer.status_code, error["code"]


def is_login_page(answer: httpx2.Response) -> bool:
    """Whether this is what strangers get."""
    kind = answer.headers["content-type"]
    return answer.status_code == 401 and kind.startswith("text/html") and "<html" in answer.text
