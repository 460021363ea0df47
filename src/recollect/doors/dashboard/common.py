"""What the routes of this door share: the place in which a request acts, and ids."""

from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request

from recollect.domain import Caller
from recollect.doors.dashboard import wire
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.engine.signin import enter_workspace
from recollect.errors import NotFound

_STATUSES = (400, 403, 404, 405, 409, 413, 415, 429, 500, 503)
_PAGE = {"content": {"text/html": {"schema": {"type": "string"}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    **{status: {"model": wire.ErrorObject} for status in _STATUSES},
    401: {"description": "Not signed in: the page where one signs in.", **_PAGE},
}


def workspace_id(value: UUID) -> str:
    """A workspace's id as this door writes it."""
    return f"ws_{value}"


def read_workspace_id(text: str) -> UUID:
    """A workspace's id, with or without its prefix; raise `NotFound` when it can be none."""
    try:
        return UUID(text.removeprefix("ws_"))
    except ValueError:
        raise NotFound("workspace") from None


async def _inside(engine: EngineOf, caller: CallerOf, request: Request) -> Caller:
    return await enter_workspace(
        engine, caller, read_workspace_id(request.path_params["workspace_id"])
    )


# The caller in the workspace that the address names.
Inside = Annotated[Caller, Depends(_inside)]
