"""Shared by the dashboard's routes: error responses, and the caller in a workspace or chat."""

from typing import Annotated, Any

from fastapi import Depends

from recollect.api import ids
from recollect.api.apps import CallerOf, EngineOf
from recollect.api.dashboard.wire import common
from recollect.core.domain import Caller, Ref
from recollect.tenancy.workspaces import enter_thread, enter_workspace

_STATUSES = (400, 403, 404, 405, 409, 413, 415, 429, 500, 503)
_PAGE = {"content": {"text/html": {"schema": {"type": "string"}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    **{status: {"model": common.DashboardErrorObject} for status in _STATUSES},
    401: {"description": "Not signed in. The body is the sign-in page.", **_PAGE},
}


async def _enter_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> Caller:
    return await enter_workspace(engine, caller, ids.workspace(workspace_id))


async def _enter_chat(engine: EngineOf, caller: CallerOf, chat_id: str) -> Caller:
    return await enter_thread(engine, caller, ids.channel(chat_id))


# The caller in the workspace that the path names.
WorkspaceCaller = Annotated[Caller, Depends(_enter_workspace)]
# The caller in the chat that the path names, and in its workspace.
ChatCaller = Annotated[Caller, Depends(_enter_chat)]


def current_chat(caller: Caller) -> Ref:
    """Return the chat that the caller is in."""
    return Ref(id=caller.thread_id)
