"""Set-up that all interfaces share: dependencies, error handlers and OpenAPI documents."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match

from recollect import __version__
from recollect.api.errors import ErrorReply, MethodNotAllowed, NoRoute
from recollect.api.field_errors import field_error
from recollect.core.domain import Caller
from recollect.core.errors import Failure, Invalid
from recollect.engine import Engine

MakeReply = Callable[[Failure | Exception], ErrorReply]
Schemes = Mapping[str, Mapping[str, Any]]

BEARER: Schemes = {"bearer": {"type": "http", "scheme": "bearer"}}
KEY_OR_BEARER: Schemes = {"key": {"type": "apiKey", "in": "header", "name": "X-API-Key"}, **BEARER}

_STATUSES = (400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503)
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


async def _engine(request: Request) -> Engine:
    return request.app.state.engine


async def _caller(request: Request) -> Caller:
    return request.state.caller


EngineOf = Annotated[Engine, Depends(_engine)]
CallerOf = Annotated[Caller, Depends(_caller)]


def new_router(error: type[BaseModel], *also: int) -> APIRouter:
    """A router that documents the usual error statuses, and `also`, for every route."""
    return APIRouter(responses={status: {"model": error} for status in (*_STATUSES, *also)})


def new_app(title: str, description: str, routes: Sequence[BaseRoute]) -> FastAPI:
    """An application with these routes. `docs.py` serves the documentation of all interfaces."""
    return FastAPI(
        title=title,
        version=__version__,
        description=description,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # `include_router` would build every route again, which takes 70 ms in the first request.
        routes=list(routes),
    )


def set_up(
    app: FastAPI,
    engine: Engine,
    error_reply: MakeReply,
    credentials: Schemes,
    *,
    is_repeatable: bool = True,
) -> None:
    """Give an application the engine, its error format, and a correct OpenAPI document.

    `credentials` are the document's security schemes; each of them is sufficient. Requests are
    repeatable if their callers have keys.
    """
    app.state.engine = engine

    async def failed(request: Request, error: Exception) -> Response:
        reply = error_reply(_to_failure(error, request))
        if reply.page is not None:
            return HTMLResponse(reply.page, reply.status, dict(reply.headers))
        return JSONResponse(reply.body, reply.status, dict(reply.headers))

    for kind in (Failure, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)
    app.openapi = lambda: _document(app, credentials, is_repeatable=is_repeatable)  # pyright: ignore[reportAttributeAccessIssue]


def _to_failure(error: Exception, request: Request) -> Failure | Exception:
    match error:
        case RequestValidationError():
            return field_error(error.errors(), skip=1)  # the first part is `body` or `query`
        case HTTPException(status_code=404):
            return NoRoute()
        case HTTPException(status_code=405):
            return MethodNotAllowed(", ".join(_methods(request)))
        case HTTPException():
            return Invalid(_UNREADABLE_FORM if _is_form(request) else "The request is invalid.")
        case _:
            return error


# The usual mistake is to set the header by hand, without the boundary that an HTTP library adds.
_UNREADABLE_FORM = (
    "The form cannot be read. Its `Content-Type` must be `multipart/form-data` with its boundary, "
    "and file names must be short."
)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("multipart/form-data")


def _methods(request: Request) -> list[str]:
    """All methods of the path. The framework reports only those of the first matching route."""
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


# The gateway reads this header, so no route declares it.
_IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated with the same key is carried out only once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _document(app: FastAPI, credentials: Schemes, *, is_repeatable: bool) -> dict[str, Any]:
    """The generated document, plus what the gateway adds, minus the framework's 422 responses."""
    if app.openapi_schema:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    for path in document["paths"].values():
        for method, operation in path.items():
            if "HTTPValidationError" in str(operation["responses"].get("422")):
                del operation["responses"]["422"]
            if method != "get" and is_repeatable:
                operation["parameters"] = [*operation.get("parameters", []), _IDEMPOTENCY_KEY]
    for unused in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(unused, None)
    document["components"]["securitySchemes"] = credentials
    document["security"] = [{name: []} for name in credentials]
    app.openapi_schema = document
    return document
