"""Routes of the Informer interface: chats, messages, files, and memories of conversations."""

import re
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import StreamingResponse

from recollect.api import ids
from recollect.api.apps import BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.cookies import Cookies
from recollect.api.files import StoredFile, download
from recollect.api.gateway import INCOMPLETE_BODY, MIB, Interface, bearer
from recollect.api.informer import file_wire, memory_wire, sign_in, wire
from recollect.api.informer.errors import InformerErrorObject, answer
from recollect.api.informer.turns import start_turn
from recollect.api.running_turns import RunningTurns
from recollect.chat import informer_chats
from recollect.chat.informer_chats import change_chat, list_chats
from recollect.conversations.files import (
    MAX_BYTES,
    attach_file,
    delete_file,
    get_file,
    list_files,
    read_file,
)
from recollect.conversations.messages import (
    append,
    clear_messages,
    delete_message,
    edit_message,
    get_message,
    list_messages,
)
from recollect.conversations.segments import (
    delete_segment,
    get_segment,
    list_segments,
    make_segment,
    regenerate_segment,
    search_segments,
)
from recollect.conversations.threads import close_thread, get_thread
from recollect.engine import Engine
from recollect.tenancy.keys import KeyCache

PREFIXES = ("/api/chats", "/api/messages", "/api/memories", sign_in.PREFIX)
_UPLOADS = re.compile(r"/api/messages/[^/]+/files")
# Enough for a file of 5 MiB in base64.
MAX_BODY_BYTES = 8 * MIB


router = new_router(InformerErrorObject)


def new_interface(
    engine: Engine, key_cache: KeyCache, cookies: Cookies, running_turns: RunningTurns
) -> Interface:
    """Build the interface."""
    app = new_app(
        "Recollect: conversations",
        "Chats, their messages and files, and the memories made from them.",
        [*router.routes, *sign_in.router.routes],
    )
    app.state.cookies = cookies
    app.state.running_turns = running_turns
    cookie = {"cookie": {"type": "apiKey", "in": "cookie", "name": cookies.name}}
    set_up(app, engine, answer, {**BEARER, **cookie})
    return Interface(
        "informer",
        PREFIXES,
        app,
        answer,
        bearer,
        max_bytes=MAX_BODY_BYTES,
        recognise=sign_in.recogniser(cookies, key_cache),
        is_open=sign_in.OPEN.__contains__,
        uploads=_UPLOADS,
        max_upload_bytes=MAX_BYTES + 64 * 1024,
    )


# Chats.


@router.get("/api/chats")
async def get_chats(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[wire.InformerChatParameters, Query()]
) -> wire.ChatPage:
    """List chats, pinned ones first, then by last change."""
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
async def create_chat(
    engine: EngineOf, caller: CallerOf, body: wire.InformerNewChat
) -> wire.InformerChatObject:
    """Create a chat, with its first messages if there are any."""
    first = [wire.to_message(each) for each in body.messages or []]
    return wire.from_chat(
        await informer_chats.create_chat(engine, caller, wire.to_open(body), first)
    )


@router.get("/api/chats/{chat_id}")
async def get_chat(engine: EngineOf, caller: CallerOf, chat_id: str) -> wire.InformerChatObject:
    """Get one chat."""
    return wire.from_chat(await get_thread(engine, caller, ids.chat(chat_id)))


@router.put("/api/chats/{chat_id}")
async def rename_chat(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: wire.InformerChatChange
) -> wire.InformerChatObject:
    """Rename or pin a chat, or change its model or instructions."""
    ref = ids.chat(chat_id)
    return wire.from_chat(await change_chat(engine, caller, ref, wire.to_change_chat(body)))


@router.delete("/api/chats/{chat_id}", status_code=204)
async def delete_chat(engine: EngineOf, caller: CallerOf, chat_id: str) -> None:
    """Delete a chat with its messages, files and memories."""
    await close_thread(engine, caller, ids.chat(chat_id))


@router.post("/api/chats/{chat_id}", response_model=None)
async def post_turn(
    engine: EngineOf,
    caller: CallerOf,
    chat_id: str,
    body: wire.InformerNewMessage,
    request: Request,
) -> StreamingResponse:
    """Add a message and stream the answer of the chat's model, as AI SDK UI messages."""
    running_turns: RunningTurns = request.app.state.running_turns

    def mark_incomplete() -> None:
        request.scope["state"][INCOMPLETE_BODY] = True

    message = wire.to_message(body)
    stream = await start_turn(
        running_turns, engine, caller, ids.chat(chat_id), message, mark_incomplete
    )
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
    """List the messages of a chat, oldest first."""
    page = await list_messages(engine, caller, ids.chat(chat_id), wire.to_list(parameters))
    path = f"/api/chats/{wire.chat_id(page.thread_code)}/messages"
    items = [wire.from_message(each) for each in page.messages]
    return wire.hal(path, "inf:message", items, start=parameters.start, total=page.total)


@router.post("/api/chats/{chat_id}/messages", status_code=201)
async def post_message(
    engine: EngineOf,
    caller: CallerOf,
    chat_id: str,
    body: wire.InformerNewMessages | wire.InformerNewMessage,
) -> wire.InformerMessageObject | wire.MessageList:
    """Store one message, or several at once, without asking the model."""
    ref = ids.chat(chat_id)
    if isinstance(body, wire.InformerNewMessages):
        new = [wire.to_message(each) for each in body.messages]
        stored = await append(engine, caller, ref, new)
        return wire.MessageList(messages=[wire.from_message(each.message) for each in stored])
    [one] = await append(engine, caller, ref, [wire.to_message(body)])
    return wire.from_message(one.message)


@router.delete("/api/chats/{chat_id}/messages", status_code=204)
async def delete_messages(engine: EngineOf, caller: CallerOf, chat_id: str) -> None:
    """Delete all messages of a chat; its memories stay, without their links to the messages."""
    await clear_messages(engine, caller, ids.chat(chat_id))


@router.get("/api/messages/{message_id}")
async def get_one_message(
    engine: EngineOf, caller: CallerOf, message_id: str
) -> wire.InformerMessageObject:
    """Get one message."""
    return wire.from_message(await get_message(engine, caller, ids.message(message_id)))


@router.put("/api/messages/{message_id}")
async def change_message(
    engine: EngineOf, caller: CallerOf, message_id: str, body: wire.MessageChange
) -> wire.InformerMessageObject:
    """Change the given fields of a message."""
    ref = ids.message(message_id)
    return wire.from_message(await edit_message(engine, caller, ref, wire.to_edit(body)))


@router.delete("/api/messages/{message_id}", status_code=204)
async def delete_one_message(engine: EngineOf, caller: CallerOf, message_id: str) -> None:
    """Delete a message and its files."""
    await delete_message(engine, caller, ids.message(message_id))


# Files.


@router.get("/api/messages/{message_id}/files")
async def get_files(engine: EngineOf, caller: CallerOf, message_id: str) -> file_wire.FileList:
    """List the files of a message."""
    found = await list_files(engine, caller, ids.message(message_id))
    return file_wire.FileList(files=[file_wire.from_file(each) for each in found])


_FILE_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": file_wire.InformerNewFile.model_json_schema()},
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
    "/api/messages/{message_id}/files", status_code=201, openapi_extra={"requestBody": _FILE_BODY}
)
async def post_file(
    engine: EngineOf, caller: CallerOf, message_id: str, request: Request
) -> file_wire.FileObject:
    """Attach a file to a message: as a form with the field `file`, or as base64 in JSON."""
    message = ids.message(message_id)
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        new = file_wire.to_new_file(await request.body())
        return file_wire.from_file(await attach_file(engine, caller, message, new))
    # One file; other fields of the form are ignored.
    async with request.form(max_files=1, max_fields=20) as form:
        new = file_wire.to_new_form_file(form.get("file"))
        return file_wire.from_file(await attach_file(engine, caller, message, new))


@router.get("/api/messages/{message_id}/files/{file_id}", response_model=None)
async def download_file(
    engine: EngineOf, caller: CallerOf, message_id: str, file_id: str
) -> StreamingResponse:
    """Download a file. The browser must not display it: its content is untrusted."""
    file = await get_file(engine, caller, ids.message(message_id), ids.file(file_id))
    uploaded = StoredFile(file.filename, file.media_type, file.size, file.digest)
    response = download(uploaded, None, lambda _, __: read_file(engine, caller, file))
    assert response  # None only if a byte range is requested
    return response


@router.delete("/api/messages/{message_id}/files/{file_id}", status_code=204)
async def remove_file(engine: EngineOf, caller: CallerOf, message_id: str, file_id: str) -> None:
    """Delete a file."""
    await delete_file(engine, caller, ids.message(message_id), ids.file(file_id))


# Memories.


@router.get("/api/chats/{chat_id}/memories")
async def get_memories(
    engine: EngineOf,
    caller: CallerOf,
    chat_id: str,
    parameters: Annotated[memory_wire.InformerMemoryParameters, Query()],
) -> wire.Hal:
    """List the memories of a chat, oldest first, with their message counts."""
    code, found, total = await list_segments(
        engine,
        caller,
        ids.chat(chat_id),
        start=parameters.start,
        limit=parameters.limit,
    )
    path = f"/api/chats/{wire.chat_id(code)}/memories"
    items = [memory_wire.from_listed(each) for each in found]
    return wire.hal(path, "inf:memory", items, start=parameters.start, total=total)


@router.post("/api/chats/{chat_id}/memories", status_code=201)
async def create_memory(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: memory_wire.InformerNewMemory
) -> memory_wire.NewMemoryObject:
    """Make a memory of some messages; without a `summary`, one is generated."""
    segment = await make_segment(engine, caller, ids.chat(chat_id), memory_wire.to_make(body))
    return memory_wire.from_new(segment)


@router.post("/api/chats/{chat_id}/memories/search")
async def search_memories(
    engine: EngineOf, caller: CallerOf, chat_id: str, body: memory_wire.InformerSearch
) -> memory_wire.InformerSearchResult:
    """Search the memories of a chat by meaning."""
    hits = await search_segments(engine, caller, ids.chat(chat_id), body.query, body.limit)
    return memory_wire.from_hits(hits, body)


@router.get("/api/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str
) -> memory_wire.InformerMemoryObject:
    """Get one memory with its messages and files."""
    return memory_wire.from_segment(await get_segment(engine, caller, ids.memory(memory_id)))


@router.put("/api/memories/{memory_id}")
async def regenerate_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, body: memory_wire.Regenerate
) -> memory_wire.InformerMemoryObject:
    """Regenerate a memory's summary and embed it with the current model."""
    assert body.action == "regenerate"
    return memory_wire.from_segment(await regenerate_segment(engine, caller, ids.memory(memory_id)))


@router.delete("/api/memories/{memory_id}", status_code=204)
async def delete_memory(engine: EngineOf, caller: CallerOf, memory_id: str) -> None:
    """Delete a memory and its vector permanently; its messages stay."""
    await delete_segment(engine, caller, ids.memory(memory_id))
