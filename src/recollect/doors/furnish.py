"""What all doors have in common: how they are set up, callers, errors, OpenAPI documents."""

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
from recollect.domain import Caller
from recollect.doors.complaints import complaint
from recollect.doors.front import Reply
from recollect.engine.core import Engine
from recollect.errors import Failure, Invalid

Answer = Callable[[Failure | Exception], Reply]
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


class NoRoute(Failure):
    """There is no such route behind this door, or not for this method."""

    def __init__(self, status: int, headers: dict[str, str]) -> None:
        message = "There is no such route." if status == 404 else "Not with this method."
        super().__init__(message)
        self.status = status
        self.headers = headers


def new_router(error: type[BaseModel], *also: int) -> APIRouter:
    """A router whose every route may answer with the usual errors, and these, in this envelope."""
    return APIRouter(responses={status: {"model": error} for status in (*_STATUSES, *also)})


def new_app(title: str, description: str, routes: Sequence[BaseRoute]) -> FastAPI:
    """An application with these routes; its documents are served by `docs.py`, for all doors."""
    return FastAPI(
        title=title,
        version=__version__,
        description=description,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # Not by `include_router`, which makes every route once more: 70 ms in the first request.
        routes=list(routes),
    )


def furnish(
    app: FastAPI,
    engine: Engine,
    answer: Answer,
    credentials: Schemes,
    *,
    is_repeatable: bool = True,
) -> None:
    """Give a door the engine, its own envelope for every error, and an honest OpenAPI document.

    `credentials` are the document's security schemes; any one of them opens the door. Requests
    are repeatable where their callers have keys.
    """
    app.state.engine = engine

    async def failed(request: Request, error: Exception) -> Response:
        reply = answer(_in_our_words(error, request))
        if reply.page is not None:
            return HTMLResponse(reply.page, reply.status, dict(reply.headers))
        return JSONResponse(reply.body, reply.status, dict(reply.headers))

    for kind in (Failure, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, failed)
    app.openapi = lambda: _document(app, credentials, is_repeatable=is_repeatable)  # pyright: ignore[reportAttributeAccessIssue]


def _in_our_words(error: Exception, request: Request) -> Failure | Exception:
    match error:
        case RequestValidationError():
            return complaint(error.errors(), below=1)
        case HTTPException(status_code=404):
            return NoRoute(404, {})
        case HTTPException(status_code=405):
            return NoRoute(405, {"allow": ", ".join(_methods(request))})
        case HTTPException():
            return Invalid(_FORM if _is_form(request) else "The request cannot be understood.")
        case _:
            return error


# Most who get it wrong name the type themselves, without the boundary that a client would add.
_FORM = (
    "The form cannot be read. Its `Content-Type` must be `multipart/form-data` with its boundary, "
    "and file names must be short."
)


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("multipart/form-data")


def _methods(request: Request) -> list[str]:
    """All methods of the address; the framework names only those of the first route there."""
    return [
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


# What the front desk reads before any route does.
_ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeat the request with the same key and it is carried out once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def _document(app: FastAPI, credentials: Schemes, *, is_repeatable: bool) -> dict[str, Any]:
    """The generated document, with what the front desk does and without the framework's 422s."""
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
                operation["parameters"] = [*operation.get("parameters", []), _ONCE]
    for unused in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(unused, None)
    document["components"]["securitySchemes"] = credentials
    document["security"] = [{name: []} for name in credentials]
    app.openapi_schema = document
    return document
