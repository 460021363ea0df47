"""What the surfaces of this door share: who may come in, and how an application is set up."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.datastructures import Headers

from recollect import __version__
from recollect.doors.front import bearer
from recollect.doors.furnish import Answer, furnish
from recollect.doors.tools.errors import ErrorObject
from recollect.engine.core import Engine

CREDENTIALS: Mapping[str, Mapping[str, Any]] = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
}
_STATUSES = (400, 401, 403, 404, 405, 409, 413, 415, 429, 500, 503)


def credential(headers: Headers) -> str | None:
    """The key as clients of this door send it."""
    return headers.get("x-api-key") or bearer(headers)


def new_router() -> APIRouter:
    """A router whose every route may answer with any of this door's errors."""
    return APIRouter(responses={status: {"model": ErrorObject} for status in _STATUSES})


def new_app(
    router: APIRouter, engine: Engine, answer: Answer, *, title: str, description: str
) -> FastAPI:
    """An application with these routes."""
    app = FastAPI(
        title=title,
        version=__version__,
        description=description,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.include_router(router)
    furnish(app, engine, answer, CREDENTIALS)
    return app
