"""What the routes of this door share: the place in which a request acts, and ids."""

from typing import Annotated, Any

from fastapi import Depends

from recollect.domain import Caller, Ref
from recollect.doors import refs
from recollect.doors.dashboard import wire
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.engine.workspaces import enter_chat, enter_place

_STATUSES = (400, 403, 404, 405, 409, 413, 415, 429, 500, 503)
_PAGE = {"content": {"text/html": {"schema": {"type": "string"}}}}
RESPONSES: dict[int | str, dict[str, Any]] = {
    **{status: {"model": wire.ErrorObject} for status in _STATUSES},
    401: {"description": "Not signed in: the page where one signs in.", **_PAGE},
}


async def _inside(engine: EngineOf, caller: CallerOf, workspace_id: str) -> Caller:
    return await enter_place(engine, caller, refs.workspace(workspace_id))


async def _chatting(engine: EngineOf, caller: CallerOf, chat_id: str) -> Caller:
    return await enter_chat(engine, caller, refs.channel(chat_id))


# The caller in the workspace that the address names.
Inside = Annotated[Caller, Depends(_inside)]
# The caller in the chat that the address names, and in its workspace.
Chatting = Annotated[Caller, Depends(_chatting)]


def here(caller: Caller) -> Ref:
    """The chat that the caller is in."""
    return Ref(id=caller.thread_id)
