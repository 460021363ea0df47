"""The routes of chats, messages, files and memories of conversations."""

import re
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from recollect.doors import refs
from recollect.doors.cookies import Cookies
from recollect.doors.files import Sent, download
from recollect.doors.front import BROKEN, MIB, Door, bearer
from recollect.doors.furnish import BEARER, CallerOf, EngineOf, furnish, new_app, new_router
from recollect.doors.informer import file_wire, memory_wire, signin, wire
from recollect.doors.informer.errors import ErrorObject, answer
from recollect.doors.informer.turns import take_turn
from recollect.doors.under_way import UnderWay
from recollect.engine import chats
from recollect.engine.attachments import (
    MOST_BYTES,
    attach_file,
    delete_file,
    get_file,
    list_files,
    read_file,
)
from recollect.engine.chats import change_chat, list_chats
from recollect.engine.core import Engine
from recollect.engine.keys import KeyRing
from recollect.engine.messages import (
    append,
    clear_messages,
    delete_message,
    edit_message,
    get_message,
    list_messages,
)
from recollect.engine.segments import (
    get_made,
    list_made,
    make_memory,
    regenerate,
    remove_made,
    search_made,
)
from recollect.engine.threads import close_thread, get_thread

PREFIXES = ("/api/chats", "/api/messages", "/api/memories", signin.PREFIX)
_UPLOADS = re.compile(r"/api/messages/[^/]+/files")
# Enough for a file of 5 MiB as base64.
MOST_BODY_BYTES = 8 * MIB


router = new_router(ErrorObject)


def door(engine: Engine, ring: KeyRing, cookies: Cookies, under_way: UnderWay) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: conversations",
        "Chats, their messages and files, and the memories made of them.",
        [*router.routes, *signin.router.routes],
    )
    app.state.cookies = cookies
    app.state.under_way = under_way
    cookie = {"cookie": {"type": "apiKey", "in": "cookie", "name": cookies.name}}
    furnish(app, engine, answer, {**BEARER, **cookie})
    return Door(
        "informer",
        PREFIXES,
        app,
        answer,
        bearer,
        most_bytes=MOST_BODY_BYTES,
        recognise=signin.recogniser(cookies, ring),
        is_open=signin.OPEN.__contains__,
        uploads=_UPLOADS,
        most_upload_bytes=MOST_BYTES + 64 * 1024,
    )


# Chats.


@router.get("/api/chats")
async def get_chats(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[wire.ChatParameters, Query()]
) -> wire.ChatPage:
    """Chats, pinned ones first, then by their last change."""
    found, total = await list_chats(
        engine, caller, offset=parameters.offset, limit=parameters.limit
    )
    return wire.ChatPage(
        total=total,
        limit=parameters.limit,
        offset=parameters.offset,
        results=[wire.from_chat(each) for each in found],
    )


@router.post("/api/chats", status_code=201)
async def create_chat(engine: EngineOf, caller: CallerOf, body: wire.NewChat) -> wire.ChatObject:
    """Begin a chat, with its first messages if there are any."""
    first = [wire.to_message(each) for each in body.messages or []]
    return wire.from_chat(await chats.create_chat(engine, caller, wire.to_open(body), first))


@router.get("/api/chats/{chat_id}")
async def get_chat(engine: EngineOf, caller: CallerOf, chat_id: str) -> wire.ChatObject:
    """One chat."""
    return wire.from_chat(await get_thread(engine, caller, refs.chat(chat_id)))


@router.put("/api/chats/{chat_id}")
async def rename_chat(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: wire.ChatChange
) -> wire.ChatObject:
    """Rename or pin a chat, or change its model or instructions."""
    ref = refs.chat(chat_id)
    return wire.from_chat(await change_chat(engine, caller, ref, wire.to_change_chat(body)))


@router.delete("/api/chats/{chat_id}", status_code=204)
async def delete_chat(engine: EngineOf, caller: CallerOf, chat_id: str) -> None:
    """Delete a chat with its messages, files and memories."""
    await close_thread(engine, caller, refs.chat(chat_id))


@router.post("/api/chats/{chat_id}", response_model=None)
async def post_turn(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: wire.SaidMessage, request: Request
) -> StreamingResponse:
    """Say something and have the chat's model answer, as a stream of UI messages."""
    under_way: UnderWay = request.app.state.under_way

    def break_off() -> None:
        request.scope["state"][BROKEN] = True

    message = wire.to_message(body)
    stream = await take_turn(under_way, engine, caller, refs.chat(chat_id), message, break_off)
    return StreamingResponse(
        stream,
        media_type="text/event-stream",
        headers={
            "x-vercel-ai-ui-message-stream": "v1",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        },
    )


# Messages.


@router.get("/api/chats/{chat_id}/messages")
async def get_messages(
    engine: EngineOf,
    caller: CallerOf,
    chat_id: str,
    parameters: Annotated[wire.MessageParameters, Query()],
) -> wire.Hal:
    """The messages of a chat, oldest first."""
    page = await list_messages(engine, caller, refs.chat(chat_id), wire.to_list(parameters))
    path = f"/api/chats/{wire.chat_id(page.thread_code)}/messages"
    items = [wire.from_message(each) for each in page.messages]
    return wire.hal(path, "inf:message", items, start=parameters.start, total=page.total)


@router.post("/api/chats/{chat_id}/messages", status_code=201)
async def post_message(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: wire.SaidMessages | wire.SaidMessage
) -> wire.MessageObject | wire.MessageList:
    """Keep a message, or several at once, without asking any model."""
    ref = refs.chat(chat_id)
    if isinstance(body, wire.SaidMessages):
        new = [wire.to_message(each) for each in body.messages]
        kept = await append(engine, caller, ref, new)
        return wire.MessageList(messages=[wire.from_message(each.message) for each in kept])
    [one] = await append(engine, caller, ref, [wire.to_message(body)])
    return wire.from_message(one.message)


@router.delete("/api/chats/{chat_id}/messages", status_code=204)
async def delete_messages(engine: EngineOf, caller: CallerOf, chat_id: str) -> None:
    """Delete all messages of a chat; its memories stay and lose their references."""
    await clear_messages(engine, caller, refs.chat(chat_id))


@router.get("/api/messages/{message_id}")
async def get_one_message(
    engine: EngineOf, caller: CallerOf, message_id: str
) -> wire.MessageObject:
    """One message."""
    return wire.from_message(await get_message(engine, caller, refs.message(message_id)))


@router.put("/api/messages/{message_id}")
async def change_message(
    engine: EngineOf, caller: CallerOf, message_id: str, body: wire.MessageChange
) -> wire.MessageObject:
    """Change what is sent of a message."""
    ref = refs.message(message_id)
    return wire.from_message(await edit_message(engine, caller, ref, wire.to_edit(body)))


@router.delete("/api/messages/{message_id}", status_code=204)
async def delete_one_message(engine: EngineOf, caller: CallerOf, message_id: str) -> None:
    """Delete a message and its files."""
    await delete_message(engine, caller, refs.message(message_id))


# Files.


@router.get("/api/messages/{message_id}/files")
async def get_files(engine: EngineOf, caller: CallerOf, message_id: str) -> file_wire.FileList:
    """The files of a message."""
    found = await list_files(engine, caller, refs.message(message_id))
    return file_wire.FileList(files=[file_wire.from_file(each) for each in found])


_EITHER = {
    "required": True,
    "content": {
        "application/json": {"schema": file_wire.NewFile.model_json_schema()},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["file"],
                "properties": {"file": {"type": "string", "format": "binary"}},
            }
        },
    },
}


@router.post(
    "/api/messages/{message_id}/files", status_code=201, openapi_extra={"requestBody": _EITHER}
)
async def post_file(
    engine: EngineOf, caller: CallerOf, message_id: str, request: Request
) -> file_wire.FileObject:
    """Attach a file to a message: as a form with a field `file`, or as base64 in JSON."""
    message = refs.message(message_id)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        new = file_wire.to_new_file(await request.body())
        return file_wire.from_file(await attach_file(engine, caller, message, new))
    # One file; whatever other fields a form has are not ours.
    async with request.form(max_files=1, max_fields=20) as form:
        sent = file_wire.to_sent_file(form.get("file"))
        return file_wire.from_file(await attach_file(engine, caller, message, sent))


@router.get("/api/messages/{message_id}/files/{file_id}", response_model=None)
async def download_file(
    engine: EngineOf, caller: CallerOf, message_id: str, file_id: str
) -> StreamingResponse:
    """A file's bytes. Never shown by a browser in place: they are somebody's, not ours."""
    file = await get_file(engine, caller, refs.message(message_id), refs.file(file_id))
    sent = Sent(file.filename, file.media_type, file.size, file.digest)
    found = download(sent, None, lambda _, __: read_file(engine, caller, file))
    assert found  # nobody asked for a part
    return found


@router.delete("/api/messages/{message_id}/files/{file_id}", status_code=204)
async def remove_file(engine: EngineOf, caller: CallerOf, message_id: str, file_id: str) -> None:
    """Delete a file."""
    await delete_file(engine, caller, refs.message(message_id), refs.file(file_id))


# Memories.


@router.get("/api/chats/{chat_id}/memories")
async def get_memories(
    engine: EngineOf,
    caller: CallerOf,
    chat_id: str,
    parameters: Annotated[memory_wire.MemoryParameters, Query()],
) -> wire.Hal:
    """The memories of a chat, oldest first, with their message counts."""
    code, found, total = await list_made(
        engine,
        caller,
        refs.chat(chat_id),
        start=parameters.start,
        limit=parameters.limit,
    )
    path = f"/api/chats/{wire.chat_id(code)}/memories"
    items = [memory_wire.from_counted(each) for each in found]
    return wire.hal(path, "inf:memory", items, start=parameters.start, total=total)


@router.post("/api/chats/{chat_id}/memories", status_code=201)
async def create_memory(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: memory_wire.NewMemory
) -> memory_wire.NewMemoryObject:
    """Make a memory of some messages; a summary is written unless one is given."""
    made = await make_memory(engine, caller, refs.chat(chat_id), memory_wire.to_make(body))
    return memory_wire.from_new(made)


@router.post("/api/chats/{chat_id}/memories/search")
async def search_memories(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: memory_wire.Search
) -> memory_wire.SearchResult:
    """The memories of a chat that are closest to a question."""
    hits = await search_made(engine, caller, refs.chat(chat_id), body.query, body.limit)
    return memory_wire.from_hits(hits, body)


@router.get("/api/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str
) -> memory_wire.MemoryObject:
    """One memory with its messages and files."""
    return memory_wire.from_made(await get_made(engine, caller, refs.memory(memory_id)))


@router.put("/api/memories/{memory_id}")
async def regenerate_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, body: memory_wire.Regenerate
) -> memory_wire.MemoryObject:
    """Write a memory's summary anew and embed it with the current model."""
    assert body.action == "regenerate"
    return memory_wire.from_made(await regenerate(engine, caller, refs.memory(memory_id)))


@router.delete("/api/memories/{memory_id}", status_code=204)
async def delete_memory(engine: EngineOf, caller: CallerOf, memory_id: str) -> None:
    """Delete a memory and its embedding for good; its messages stay."""
    await remove_made(engine, caller, refs.memory(memory_id))
