"""Signing in and out, and who one is."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from recollect import __version__
from recollect.doors.cookies import Cookies, check_own_page
from recollect.doors.dashboard import signin_wire, wire
from recollect.doors.dashboard.common import RESPONSES
from recollect.doors.dashboard.errors import wrong_sign_in
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.engine.catalogue import default_model, list_models
from recollect.engine.signin import introduce
from recollect.engine.workspaces import list_places
from recollect.errors import Unauthenticated

# The page opens whether or not an upstream says in time what it has.
_PATIENCE_SECONDS = 1.0


async def _cookies(request: Request) -> Cookies:
    return request.app.state.cookies


CookiesOf = Annotated[Cookies, Depends(_cookies)]

router = APIRouter(responses=RESPONSES)


@router.post(
    "/login",
    status_code=204,
    response_model=None,
    responses={401: {"model": wire.ErrorObject, "description": "They do not fit."}},
)
async def sign_in(request: Request, cookies: CookiesOf, body: signin_wire.Credentials) -> Response:
    """Sign in; the cookie of before, if there is one, is dead."""
    check_own_page(request.method, request.headers)
    sign_ins = cookies.sign_ins
    try:
        token = await sign_ins.sign_in(body.username, body.password, address=request.state.address)
    except Unauthenticated as failure:
        reply = wrong_sign_in(failure)
        return JSONResponse(reply.body, reply.status, dict(reply.headers))
    await sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.given(token)})


@router.post("/logout", status_code=204, response_model=None)
async def sign_out(request: Request, cookies: CookiesOf) -> Response:
    """Sign this browser out."""
    check_own_page(request.method, request.headers)
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.taken})


@router.post("/chat/api/password", status_code=204, response_model=None)
async def change_password(
    request: Request, cookies: CookiesOf, caller: CallerOf, body: signin_wire.NewPassword
) -> Response:
    """Change one's password; every other browser is signed out, this one gets a new cookie."""
    token = await cookies.sign_ins.change_password(
        caller, current=body.current, new=body.new, address=request.state.address
    )
    return Response(status_code=204, headers={"set-cookie": cookies.given(token)})


@router.get("/chat/api/me")
async def me(engine: EngineOf, caller: CallerOf) -> signin_wire.Me:
    """Who is signed in, and what there is for them."""
    known = await introduce(engine, caller)
    places = await list_places(engine, caller)
    models = await list_models(engine, caller, patience_seconds=_PATIENCE_SECONDS)
    return signin_wire.Me(
        user=signin_wire.UserObject(id=str(caller.user_id), name=known.login),
        org=signin_wire.OrgObject(name=known.org),
        rights=sorted(caller.rights),
        workspaces=[wire.from_place(each) for each in places],
        models=[wire.ModelObject(id=each.id, owned_by=each.owner) for each in models],
        default_model=default_model(engine, models),
        server=signin_wire.ServerObject(version=__version__),
    )
