"""Routes of chats, their messages, and turns."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from recollect.api import ids
from recollect.api.apps import CallerOf, EngineOf
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.dashboard.common import RESPONSES, ChatCaller, current_chat
from recollect.api.dashboard.turns import Turns, TurnStream
from recollect.api.dashboard.wire import chats, common
from recollect.api.fields import clamp
from recollect.api.running_turns import TurnOwner
from recollect.chat.dashboard_chats import (
    ChatMessage,
    create_dashboard_chat,
    delete_dashboard_chat,
    list_chat_messages,
    list_dashboard_chats,
    prepare_turn,
    stop_elsewhere,
)
from recollect.chat.informer_chats import ChangeChat, change_chat
from recollect.conversations.threads import get_thread
from recollect.core.domain import MESSAGE_PREFIXES, Caller, parse_ref
from recollect.core.errors import Invalid
from recollect.tenancy.workspaces import enter_workspace

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100

router = APIRouter(responses=RESPONSES)


@router.get("/chat/api/chats")
async def get_chats(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[chats.DashboardChatParameters, Query()],
) -> common.DashboardPage[chats.DashboardChatObject]:
    """List the chats of a workspace, newest first. Default: the default workspace."""
    if parameters.workspace:
        caller = await enter_workspace(engine, caller, ids.workspace(parameters.workspace))
    filters = {"q": parameters.q, "in": caller.workspace_id}
    found, position = await list_dashboard_chats(
        engine,
        caller,
        words=parameters.q,
        after=read_cursor(parameters.cursor, caller, filters),
        limit=clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT),
    )
    return common.DashboardPage(
        items=[chats.from_thread(each) for each in found],
        next_cursor=make_cursor(position, caller, filters) if position else None,
        has_more=position is not None,
    )


@router.post("/chat/api/chats", status_code=201)
async def create_chat(
    engine: EngineOf, caller: CallerOf, body: chats.DashboardNewChat
) -> chats.DashboardChatObject:
    """Create a chat. Default: in the default workspace."""
    if body.workspace_id is not None:
        caller = await enter_workspace(engine, caller, ids.workspace(body.workspace_id))
    return chats.from_thread(await create_dashboard_chat(engine, caller, body.title))


@router.get("/chat/api/chats/{chat_id}")
async def get_chat(
    request: Request, engine: EngineOf, caller: ChatCaller
) -> chats.DashboardChatDetail:
    """Return one chat."""
    found = chats.from_thread(await get_thread(engine, caller, current_chat(caller)))
    is_answering = _turns(request).is_answering(_turn_owner(caller))
    return chats.DashboardChatDetail(**found.model_dump(), is_answering=is_answering)


@router.patch("/chat/api/chats/{chat_id}")
async def rename_chat(
    engine: EngineOf, caller: ChatCaller, body: chats.DashboardChatChange
) -> chats.DashboardChatObject:
    """Change the title of a chat."""
    return chats.from_thread(
        await change_chat(engine, caller, current_chat(caller), ChangeChat(name=body.title))
    )


@router.delete("/chat/api/chats/{chat_id}", status_code=204)
async def delete_chat(engine: EngineOf, caller: ChatCaller) -> None:
    """Delete a chat and its messages. Memories learnt from it stay."""
    await delete_dashboard_chat(engine, caller, current_chat(caller))


@router.get("/chat/api/chats/{chat_id}/messages")
async def get_messages(
    engine: EngineOf,
    caller: ChatCaller,
    parameters: Annotated[common.DashboardPageParameters, Query()],
) -> common.DashboardPage[chats.DashboardMessageObject]:
    """Return the last messages, oldest first. The cursor leads to earlier ones."""
    before = parse_ref(parameters.cursor, *MESSAGE_PREFIXES) if parameters.cursor else None
    if parameters.cursor and before is None:
        raise Invalid("`cursor` is invalid.", field="cursor")
    limit = clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    messages, has_more = await list_chat_messages(
        engine, caller, current_chat(caller), before=before, limit=limit
    )
    return common.DashboardPage(
        items=[chats.from_message(each) for each in messages],
        next_cursor=common.message_id(messages[0].message.code) if has_more else None,
        has_more=has_more,
    )


@router.post(
    "/chat/api/chats/{chat_id}/turns",
    response_model=None,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def take_turn(
    request: Request, engine: EngineOf, caller: ChatCaller, body: chats.DashboardNewTurn
) -> TurnStream:
    """Send a message and stream the answer as server-sent events."""
    message = ChatMessage(
        body.content, kind=body.kind, model=body.model, is_temporary=body.temporary
    )
    turn_caller, ask = await prepare_turn(engine, caller, current_chat(caller), message)
    return _turns(request).start(engine, _turn_owner(caller), turn_caller, ask)


@router.post("/chat/api/chats/{chat_id}/stop")
async def stop_turn(request: Request, engine: EngineOf, caller: ChatCaller) -> chats.Stopped:
    """Stop the caller's running answer. The text so far is kept."""
    is_stopped = _turns(request).stop(_turn_owner(caller))
    if not is_stopped:
        await stop_elsewhere(engine, caller)
    return chats.Stopped(stopped=is_stopped)


def _turn_owner(caller: Caller) -> TurnOwner:
    return TurnOwner(caller.workspace_id, caller.user_id, caller.thread_id)


def _turns(request: Request) -> Turns:
    return request.app.state.turns
