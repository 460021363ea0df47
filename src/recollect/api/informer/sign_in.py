"""Sign in with username and password, for clients that use a session cookie, not a token."""

from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.datastructures import Headers

from recollect.api.cookies import Cookies, check_same_origin
from recollect.api.fields import Body
from recollect.api.gateway import bearer
from recollect.core.domain import Caller
from recollect.tenancy.keys import KeyCache

PREFIX = "/api/auth"
OPEN = frozenset({f"{PREFIX}/login", f"{PREFIX}/logout"})

router = APIRouter()


class InformerCredentials(Body):
    """`POST /api/auth/login`."""

    username: str = Field(min_length=1, max_length=255)
    password: str = Field(min_length=1, max_length=10_000)


class SignedIn(BaseModel):
    """The signed-in user."""

    username: str


def recogniser(
    cookies: Cookies, key_cache: KeyCache
) -> Callable[[str, Headers], Awaitable[Caller]]:
    """Return a function that finds the caller by token or, without one, by session cookie."""

    async def recognise(method: str, headers: Headers) -> Caller:
        if "authorization" not in headers and cookies.token(headers):
            return await cookies.recognise(method, headers)
        return await key_cache.recognise(bearer(headers))

    return recognise


@router.post(f"{PREFIX}/login", response_model=SignedIn)
async def sign_in(request: Request, body: InformerCredentials) -> Response:
    """Sign in; an earlier session cookie of this client becomes invalid."""
    check_same_origin(request.method, request.headers)
    cookies: Cookies = request.app.state.cookies
    token = await cookies.sign_ins.sign_in(
        body.username, body.password, address=request.state.address
    )
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return JSONResponse(
        {"username": body.username}, headers={"set-cookie": cookies.set_cookie(token)}
    )


@router.post(f"{PREFIX}/logout", status_code=204, response_model=None)
async def sign_out(request: Request) -> Response:
    """Sign out; without a session, this does nothing."""
    check_same_origin(request.method, request.headers)
    cookies: Cookies = request.app.state.cookies
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.clear_cookie})
