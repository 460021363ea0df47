"""Routes to sign in and out, change the password, and read the current user."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from recollect import __version__
from recollect.api.apps import CallerOf, EngineOf
from recollect.api.cookies import Cookies, check_same_origin
from recollect.api.dashboard.common import RESPONSES
from recollect.api.dashboard.errors import wrong_sign_in
from recollect.api.dashboard.wire import common
from recollect.api.dashboard.wire import sign_in as sign_in_wire
from recollect.chat.model_list import default_model, list_models
from recollect.core.errors import Unauthenticated
from recollect.tenancy.sign_in import find_profile
from recollect.tenancy.workspaces import list_own_workspaces

# The page must open even if an upstream is slow to list its models.
_MODEL_LIST_SECONDS = 1.0


async def _cookies(request: Request) -> Cookies:
    return request.app.state.cookies


CookiesOf = Annotated[Cookies, Depends(_cookies)]

router = APIRouter(responses=RESPONSES)


@router.post(
    "/login",
    status_code=204,
    response_model=None,
    responses={401: {"model": common.DashboardErrorObject, "description": "Wrong password."}},
)
async def sign_in(
    request: Request, cookies: CookiesOf, body: sign_in_wire.DashboardCredentials
) -> Response:
    """Sign in. An earlier session of this browser ends."""
    check_same_origin(request.method, request.headers)
    sign_ins = cookies.sign_ins
    try:
        token = await sign_ins.sign_in(body.username, body.password, address=request.state.address)
    except Unauthenticated as failure:
        reply = wrong_sign_in(failure)
        return JSONResponse(reply.body, reply.status, dict(reply.headers))
    await sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.set_cookie(token)})


@router.post("/logout", status_code=204, response_model=None)
async def sign_out(request: Request, cookies: CookiesOf) -> Response:
    """Sign this browser out."""
    check_same_origin(request.method, request.headers)
    await cookies.sign_ins.sign_out(cookies.token(request.headers))
    return Response(status_code=204, headers={"set-cookie": cookies.clear_cookie})


@router.post("/chat/api/password", status_code=204, response_model=None)
async def change_password(
    request: Request, cookies: CookiesOf, caller: CallerOf, body: sign_in_wire.NewPassword
) -> Response:
    """Change the caller's password, sign out all other browsers, and set a new cookie."""
    token = await cookies.sign_ins.change_password(
        caller, current=body.current, new=body.new, address=request.state.address
    )
    return Response(status_code=204, headers={"set-cookie": cookies.set_cookie(token)})


@router.get("/chat/api/me")
async def me(engine: EngineOf, caller: CallerOf) -> sign_in_wire.Me:
    """Return the signed-in user, with their workspaces and models."""
    account = await find_profile(engine, caller)
    workspaces = await list_own_workspaces(engine, caller)
    models = await list_models(engine, caller, timeout_seconds=_MODEL_LIST_SECONDS)
    return sign_in_wire.Me(
        user=sign_in_wire.DashboardUserObject(id=str(caller.user_id), name=account.login),
        org=sign_in_wire.DashboardOrgObject(name=account.org),
        rights=sorted(caller.rights),
        workspaces=[common.from_workspace(each) for each in workspaces],
        models=[common.ModelObject(id=each.id, owned_by=each.owner) for each in models],
        default_model=default_model(engine, models),
        server=sign_in_wire.ServerObject(version=__version__),
    )
