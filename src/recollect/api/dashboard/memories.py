"""Routes of memories: those of a workspace, and those of a chat."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from recollect.api import ids
from recollect.api.apps import EngineOf
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.dashboard.common import RESPONSES, ChatCaller, WorkspaceCaller, current_chat
from recollect.api.dashboard.wire import common, memories
from recollect.api.fields import Time, clamp, iso
from recollect.core.domain import Caller, Memory, Ref, View
from recollect.engine import Engine
from recollect.learning.remember_message import RememberMessage, extract_again, remember_message
from recollect.memories.edit import EditMemory, edit
from recollect.memories.forget import forget, restore
from recollect.search.memory_browser import (
    BrowsedPage,
    BrowseMemories,
    browse_memories,
    count,
    facets,
    memory_detail,
    oldest_memory_at,
    require_in_thread,
    search_memories,
    source_codes,
)

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
# The memories of a chat are returned in one response. No chat has this many.
_ALL = 10_000

router = APIRouter(responses=RESPONSES)

_WORKSPACE = "/chat/api/workspaces/{workspace_id}"


async def _to_wire(
    engine: Engine, caller: Caller, memory: Memory
) -> memories.DashboardMemoryObject:
    return memories.from_memory(memory, await source_codes(engine, caller, [memory]))


# Memories of a workspace.


@router.post(f"{_WORKSPACE}/memories", status_code=201)
async def create(
    engine: EngineOf, caller: WorkspaceCaller, body: memories.DashboardNewMemory, response: Response
) -> memories.DashboardMemoryObject:
    """Save a memory; if it exists already, return the existing one with status 200."""
    saved = await remember_message(
        engine, caller, RememberMessage(content=body.content, category=body.category)
    )
    response.status_code = 201 if saved.is_new else 200
    return await _to_wire(engine, caller, saved.memory)


@router.get(f"{_WORKSPACE}/memories")
async def get_memories(
    engine: EngineOf,
    caller: WorkspaceCaller,
    parameters: Annotated[memories.DashboardMemoryParameters, Query()],
) -> common.DashboardPage[memories.DashboardMemoryObject]:
    """List memories, newest first; with `q`, one page of the best matches."""
    limit = clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    filters = parameters.model_dump(exclude={"cursor", "limit"}) | {"in": caller.workspace_id}
    ask = BrowseMemories(
        limit,
        category=parameters.category,
        source_type=parameters.source_type,
        tag=parameters.tag,
        thread=ids.chat(parameters.chat) if parameters.chat else None,
        after=read_cursor(parameters.cursor, caller, filters),
    )
    if parameters.q:
        findings, sources = await search_memories(engine, caller, parameters.q, ask)
        return common.DashboardPage(
            items=[memories.from_memory(each.memory, sources, each) for each in findings]
        )
    return _page(await browse_memories(engine, caller, ask), caller, filters)


def _page(
    found: BrowsedPage, caller: Caller, filters: Mapping[str, Any]
) -> common.DashboardPage[memories.DashboardMemoryObject]:
    cursor = None
    if found.has_more:
        last = found.memories[-1]
        cursor = make_cursor((last.created_at, last.id), caller, filters)
    return common.DashboardPage(
        items=[memories.from_memory(each, found.sources) for each in found.memories],
        next_cursor=cursor,
        has_more=found.has_more,
    )


@router.get(f"{_WORKSPACE}/memories/count")
async def get_count(engine: EngineOf, caller: WorkspaceCaller) -> memories.Count:
    """Count the memories."""
    return memories.Count(count=await count(engine, caller))


@router.get(f"{_WORKSPACE}/facets")
async def get_facets(engine: EngineOf, caller: WorkspaceCaller) -> memories.Facets:
    """Return the categories, sources, tags and chats to filter by, most frequent first."""
    return memories.from_facets(await facets(engine, caller))


class TimelineParameters(common.DashboardPageParameters):
    """The time of the view. Default: now."""

    as_of: Time | None = None


@router.get(f"{_WORKSPACE}/timeline")
async def get_timeline(
    engine: EngineOf, caller: WorkspaceCaller, parameters: Annotated[TimelineParameters, Query()]
) -> memories.Timeline:
    """List the memories that were valid at a time, most recently learnt first."""
    limit = clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    filters: dict[str, Any] = {"as_of": parameters.as_of, "in": caller.workspace_id}
    after = read_cursor(parameters.cursor, caller, filters)
    view = View(as_of=parameters.as_of)
    found = await browse_memories(engine, caller, BrowseMemories(limit, after=after, view=view))
    page = _page(found, caller, filters)
    first = await oldest_memory_at(engine, caller)
    return memories.Timeline(
        items=[
            memories.from_timeline_memory(*pair)
            for pair in zip(page.items, found.memories, strict=True)
        ],
        next_cursor=page.next_cursor,
        has_more=page.has_more,
        first_at=iso(first) if first else None,
    )


@router.get(f"{_WORKSPACE}/memories/{{memory_id}}")
async def get_memory(
    engine: EngineOf, caller: WorkspaceCaller, memory_id: str
) -> memories.DashboardMemoryDetail:
    """Return one memory with its links, history and source messages."""
    return memories.from_detail(await memory_detail(engine, caller, ids.memory(memory_id)))


@router.patch(f"{_WORKSPACE}/memories/{{memory_id}}")
async def change_memory(
    engine: EngineOf, caller: WorkspaceCaller, memory_id: str, body: memories.DashboardMemoryChange
) -> memories.DashboardMemoryObject:
    """Change a memory's content and embed it again."""
    ref = ids.memory(memory_id)
    return await _to_wire(
        engine, caller, await edit(engine, caller, ref, EditMemory(content=body.content))
    )


@router.delete(f"{_WORKSPACE}/memories/{{memory_id}}", status_code=204)
async def delete_memory(engine: EngineOf, caller: WorkspaceCaller, memory_id: str) -> None:
    """Hide a memory from every list, search and prompt; it can be restored."""
    await forget(engine, caller, ids.memory(memory_id))


@router.post(f"{_WORKSPACE}/memories/{{memory_id}}/pin")
async def pin_memory(
    engine: EngineOf, caller: WorkspaceCaller, memory_id: str, body: memories.Pin
) -> memories.DashboardMemoryObject:
    """Pin or unpin a memory. Pinned memories are in every prompt."""
    ref = ids.memory(memory_id)
    return await _to_wire(
        engine, caller, await edit(engine, caller, ref, EditMemory(pinned=body.pinned))
    )


@router.post(f"{_WORKSPACE}/memories/{{memory_id}}/restore")
async def restore_memory(
    engine: EngineOf, caller: WorkspaceCaller, memory_id: str
) -> memories.DashboardMemoryObject:
    """Restore a forgotten memory."""
    return await _to_wire(engine, caller, await restore(engine, caller, ids.memory(memory_id)))


# Memories of a chat.


@router.post("/chat/api/{chat_id}/memory", status_code=201)
async def create_of_chat(
    engine: EngineOf, caller: ChatCaller, body: memories.NewChatMemory, response: Response
) -> memories.DashboardMemoryObject:
    """Save a message or a text about it; status 200 if that memory exists already."""
    ask = RememberMessage(
        message=body.messageId,
        content=body.content,
        category=body.category,
        synthesises=body.synthesize,
    )
    saved = await remember_message(engine, caller, ask)
    response.status_code = 201 if saved.is_new else 200
    return await _to_wire(engine, caller, saved.memory)


@router.get("/chat/api/{chat_id}/memories")
async def get_of_chat(engine: EngineOf, caller: ChatCaller) -> memories.ChatMemories:
    """List all memories that came from a chat, newest first."""
    found = await browse_memories(engine, caller, BrowseMemories(_ALL, thread=current_chat(caller)))
    return memories.ChatMemories(
        memories=[memories.from_chat_memory(each) for each in found.memories]
    )


@router.patch("/chat/api/{chat_id}/memories/{memory_id}")
async def change_of_chat(
    engine: EngineOf, caller: ChatCaller, memory_id: str, body: memories.DashboardMemoryChange
) -> memories.DashboardMemoryObject:
    """Change the content of a chat's memory and embed it again."""
    memory = await require_in_thread(engine, caller, ids.memory(memory_id))
    changed = await edit(engine, caller, Ref(id=memory.id), EditMemory(content=body.content))
    return await _to_wire(engine, caller, changed)


@router.delete("/chat/api/{chat_id}/memories/{memory_id}", status_code=204)
async def delete_of_chat(engine: EngineOf, caller: ChatCaller, memory_id: str) -> None:
    """Hide a chat's memory from every list, search and prompt."""
    memory = await require_in_thread(engine, caller, ids.memory(memory_id))
    await forget(engine, caller, Ref(id=memory.id))


@router.post("/chat/api/{chat_id}/memories/{memory_id}/rerun-extraction")
async def rerun_extraction(
    engine: EngineOf, caller: ChatCaller, memory_id: str
) -> memories.DashboardMemoryObject:
    """Write a memory's summary again from its message; its content too, if synthesised."""
    memory = await require_in_thread(engine, caller, ids.memory(memory_id))
    return await _to_wire(engine, caller, await extract_again(engine, caller, Ref(id=memory.id)))
