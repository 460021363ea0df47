"""The routes of chats, of what was said in them, and of turns."""

from typing import Annotated

from fastapi import APIRouter, Query, Request

from recollect.domain import MESSAGE_PREFIXES, Caller, parse_ref
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import chat_wire, wire
from recollect.doors.dashboard.common import RESPONSES, Chatting, here
from recollect.doors.dashboard.turns import Turns, TurnStream
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.doors.under_way import Place
from recollect.doors.values import clamped
from recollect.engine.chats import ChangeChat, change_chat
from recollect.engine.talk import (
    Say,
    begin_chat,
    end_chat,
    list_talks,
    prepare,
    said_in,
    stop_elsewhere,
)
from recollect.engine.threads import get_thread
from recollect.engine.workspaces import enter_place
from recollect.errors import Invalid

_USUAL, _MOST = 20, 100

router = APIRouter(responses=RESPONSES)


@router.get("/chat/api/chats")
async def get_chats(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[chat_wire.ChatParameters, Query()]
) -> wire.Page[chat_wire.ChatObject]:
    """Chats of a workspace, the latest first; of the default one where none is named."""
    if parameters.workspace:
        wanted = refs.workspace(parameters.workspace)
        caller = await enter_place(engine, caller, wanted)
    asked = {"q": parameters.q, "in": caller.workspace_id}
    found, place = await list_talks(
        engine,
        caller,
        words=parameters.q,
        after=place_of(parameters.cursor, caller, asked),
        limit=clamped(parameters.limit, default=_USUAL, most=_MOST),
    )
    return wire.Page(
        items=[chat_wire.from_thread(each) for each in found],
        next_cursor=cursor_at(place, caller, asked) if place else None,
        has_more=place is not None,
    )


@router.post("/chat/api/chats", status_code=201)
async def create_chat(
    engine: EngineOf, caller: CallerOf, body: chat_wire.NewChat
) -> chat_wire.ChatObject:
    """Begin a chat, in the default workspace where none is named."""
    if body.workspace_id is not None:
        wanted = refs.workspace(body.workspace_id)
        caller = await enter_place(engine, caller, wanted)
    return chat_wire.from_thread(await begin_chat(engine, caller, body.title))


@router.get("/chat/api/chats/{chat_id}")
async def get_chat(request: Request, engine: EngineOf, caller: Chatting) -> chat_wire.OneChat:
    """One chat."""
    found = chat_wire.from_thread(await get_thread(engine, caller, here(caller)))
    is_answering = _turns(request).is_answering(_place(caller))
    return chat_wire.OneChat(**found.model_dump(), is_answering=is_answering)


@router.patch("/chat/api/chats/{chat_id}")
async def rename_chat(
    engine: EngineOf, caller: Chatting, body: chat_wire.ChatChange
) -> chat_wire.ChatObject:
    """Give a chat another title."""
    return chat_wire.from_thread(
        await change_chat(engine, caller, here(caller), ChangeChat(name=body.title))
    )


@router.delete("/chat/api/chats/{chat_id}", status_code=204)
async def delete_chat(engine: EngineOf, caller: Chatting) -> None:
    """Delete a chat and all that was said in it; what was learnt there stays."""
    await end_chat(engine, caller, here(caller))


@router.get("/chat/api/chats/{chat_id}/messages")
async def get_messages(
    engine: EngineOf, caller: Chatting, parameters: Annotated[wire.PageParameters, Query()]
) -> wire.Page[chat_wire.MessageObject]:
    """What was said last, oldest first; the cursor leads to what was said before."""
    before = parse_ref(parameters.cursor, *MESSAGE_PREFIXES) if parameters.cursor else None
    if parameters.cursor and before is None:
        raise Invalid("`cursor` is none of ours.", field="cursor")
    limit = clamped(parameters.limit, default=_USUAL, most=_MOST)
    told, has_more = await said_in(engine, caller, here(caller), before=before, limit=limit)
    return wire.Page(
        items=[chat_wire.from_told(each) for each in told],
        next_cursor=wire.message_id(told[0].message.code) if has_more else None,
        has_more=has_more,
    )


@router.post(
    "/chat/api/chats/{chat_id}/turns",
    response_model=None,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def take_turn(
    request: Request, engine: EngineOf, caller: Chatting, body: chat_wire.NewTurn
) -> TurnStream:
    """Say something and hear the answer as it comes, as a stream of events."""
    say = Say(body.content, kind=body.kind, model=body.model, is_temporary=body.temporary)
    speaker, ask = await prepare(engine, caller, here(caller), say)
    return _turns(request).begin(engine, _place(caller), speaker, ask)


@router.post("/chat/api/chats/{chat_id}/stop")
async def stop_turn(request: Request, engine: EngineOf, caller: Chatting) -> chat_wire.Stopped:
    """Break off one's answer that is under way; what was said so far is kept."""
    is_here = _turns(request).stop(_place(caller))
    if not is_here:
        await stop_elsewhere(engine, caller)
    return chat_wire.Stopped(stopped=is_here)


def _place(caller: Caller) -> Place:
    return Place(caller.workspace_id, caller.user_id, caller.thread_id)


def _turns(request: Request) -> Turns:
    return request.app.state.turns
