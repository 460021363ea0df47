"""Signing in by name and password, for clients that keep a session cookie instead of a token."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers

from recollect.domain import Caller
from recollect.doors.cookies import Cookies, check_own_page
from recollect.doors.front import bearer
from recollect.doors.values import Body
from recollect.engine.keys import KeyRing

PREFIX = "/api/auth"
OPEN = frozenset({f"{PREFIX}/login", f"{PREFIX}/logout"})

router = APIRouter()


class Credentials(Body):
    """`POST /api/auth/login`."""

    username: str = Field(min_length=1, max_length=255)
    password: str = Field(min_length=1, max_length=10_000)


class SignedIn(BaseModel):
    """Who is signed in now."""

    username: str


def recogniser(cookies: Cookies, ring: KeyRing) -> Callable[[str, Headers], Awaitable[Caller]]:
    """Knows callers by their token or, where none is sent, by the cookie of a sign-in."""

    async def recognise(method: str, headers: Headers) -> Caller:
        if "authorization" not in headers and cookies.token(headers):
            return await cookies.recognise(method, headers)
        return await ring.recognise(bearer(headers))

    return recognise


@router.post(f"{PREFIX}/login", response_model=SignedIn)
async def sign_in(request: Request, body: Credentials) -> Response:
    """Sign in; the cookie of before, if there is one, is dead."""
    check_own_page(request.method, request.headers)
    cookies: Cookies = request.app.state.cookies
    token = await cookies.sign_ins.sign_in(
        body.username, body.password, address=request.state.address
    )
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return JSONResponse({"username": body.username}, headers={"set-cookie": cookies.given(token)})


@router.post(f"{PREFIX}/logout", status_code=204, response_model=None)
async def sign_out(request: Request) -> Response:
    """Sign out; whoever is not signed in is out already."""
    check_own_page(request.method, request.headers)
    cookies: Cookies = request.app.state.cookies
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.taken})
