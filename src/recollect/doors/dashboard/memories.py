"""The routes of memories: those of a chat, and those of a workspace."""

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from recollect.domain import Caller, Memory, Ref, View
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import memory_wire, wire
from recollect.doors.dashboard.common import RESPONSES, Chatting, Inside, here
from recollect.doors.furnish import EngineOf
from recollect.doors.values import Time, clamped, iso
from recollect.engine.change import Change, change
from recollect.engine.core import Engine
from recollect.engine.forget import forget, restore
from recollect.engine.remembering import Remember, extract_anew, remember
from recollect.engine.shelf import (
    Look,
    Shelf,
    count,
    examine,
    facets,
    first_at,
    look,
    look_for,
    require_of_chat,
    shown,
)

_USUAL, _MOST = 20, 100
# Every memory of a chat is one answer; no chat has as many.
_ALL = 10_000

router = APIRouter(responses=RESPONSES)

_WORKSPACE = "/chat/api/workspaces/{workspace_id}"


async def _shown(engine: Engine, caller: Caller, memory: Memory) -> memory_wire.MemoryObject:
    return memory_wire.from_memory(memory, await shown(engine, caller, [memory]))


# Those of a workspace.


@router.post(f"{_WORKSPACE}/memories", status_code=201)
async def create(
    engine: EngineOf, caller: Inside, body: memory_wire.NewMemory, response: Response
) -> memory_wire.MemoryObject:
    """Remember something; 200 and the memory that says it already, where one does."""
    saved = await remember(engine, caller, Remember(content=body.content, category=body.category))
    response.status_code = 201 if saved.is_new else 200
    return await _shown(engine, caller, saved.memory)


@router.get(f"{_WORKSPACE}/memories")
async def get_memories(
    engine: EngineOf, caller: Inside, parameters: Annotated[memory_wire.MemoryParameters, Query()]
) -> wire.Page[memory_wire.MemoryObject]:
    """Memories, newest first; with `q` the best that fit it, in one page."""
    limit = clamped(parameters.limit, default=_USUAL, most=_MOST)
    asked = parameters.model_dump(exclude={"cursor", "limit"}) | {"in": caller.workspace_id}
    ask = Look(
        limit,
        category=parameters.category,
        source_type=parameters.source_type,
        tag=parameters.tag,
        chat=refs.chat(parameters.chat) if parameters.chat else None,
        after=place_of(parameters.cursor, caller, asked),
    )
    if parameters.q:
        findings, sources = await look_for(engine, caller, parameters.q, ask)
        return wire.Page(
            items=[memory_wire.from_memory(each.memory, sources, each) for each in findings]
        )
    return _page(await look(engine, caller, ask), caller, asked)


def _page(
    found: Shelf, caller: Caller, asked: Mapping[str, Any]
) -> wire.Page[memory_wire.MemoryObject]:
    cursor = None
    if found.has_more:
        last = found.memories[-1]
        cursor = cursor_at((last.created_at, last.id), caller, asked)
    return wire.Page(
        items=[memory_wire.from_memory(each, found.sources) for each in found.memories],
        next_cursor=cursor,
        has_more=found.has_more,
    )


@router.get(f"{_WORKSPACE}/memories/count")
async def get_count(engine: EngineOf, caller: Inside) -> memory_wire.Count:
    """How many memories there are."""
    return memory_wire.Count(count=await count(engine, caller))


@router.get(f"{_WORKSPACE}/facets")
async def get_facets(engine: EngineOf, caller: Inside) -> memory_wire.Facets:
    """By what the memories can be told apart, commonest first."""
    return memory_wire.from_facets(await facets(engine, caller))


class TimelineParameters(wire.PageParameters):
    """What was true at a time; now, where none is named."""

    as_of: Time | None = None


@router.get(f"{_WORKSPACE}/timeline")
async def get_timeline(
    engine: EngineOf, caller: Inside, parameters: Annotated[TimelineParameters, Query()]
) -> memory_wire.Timeline:
    """What was held true at a time, by when it was learnt, latest first."""
    limit = clamped(parameters.limit, default=_USUAL, most=_MOST)
    asked: dict[str, Any] = {"as_of": parameters.as_of, "in": caller.workspace_id}
    after = place_of(parameters.cursor, caller, asked)
    view = View(as_of=parameters.as_of)
    found = await look(engine, caller, Look(limit, after=after, view=view))
    page = _page(found, caller, asked)
    first = await first_at(engine, caller)
    return memory_wire.Timeline(
        items=[
            memory_wire.from_learnt(*pair) for pair in zip(page.items, found.memories, strict=True)
        ],
        next_cursor=page.next_cursor,
        has_more=page.has_more,
        first_at=iso(first) if first else None,
    )


@router.get(f"{_WORKSPACE}/memories/{{memory_id}}")
async def get_memory(engine: EngineOf, caller: Inside, memory_id: str) -> memory_wire.MemoryDetail:
    """All there is to know of one memory."""
    return memory_wire.from_detail(await examine(engine, caller, refs.memory(memory_id)))


@router.patch(f"{_WORKSPACE}/memories/{{memory_id}}")
async def change_memory(
    engine: EngineOf, caller: Inside, memory_id: str, body: memory_wire.MemoryChange
) -> memory_wire.MemoryObject:
    """Change a memory's content; it is embedded anew."""
    ref = refs.memory(memory_id)
    return await _shown(
        engine, caller, await change(engine, caller, ref, Change(content=body.content))
    )


@router.delete(f"{_WORKSPACE}/memories/{{memory_id}}", status_code=204)
async def delete_memory(engine: EngineOf, caller: Inside, memory_id: str) -> None:
    """Hide a memory from every list, search and prompt; it can be restored."""
    await forget(engine, caller, refs.memory(memory_id))


@router.post(f"{_WORKSPACE}/memories/{{memory_id}}/pin")
async def pin_memory(
    engine: EngineOf, caller: Inside, memory_id: str, body: memory_wire.Pin
) -> memory_wire.MemoryObject:
    """Pin a memory, or let it go: pinned ones are told to a model in every turn."""
    ref = refs.memory(memory_id)
    return await _shown(
        engine, caller, await change(engine, caller, ref, Change(pinned=body.pinned))
    )


@router.post(f"{_WORKSPACE}/memories/{{memory_id}}/restore")
async def restore_memory(
    engine: EngineOf, caller: Inside, memory_id: str
) -> memory_wire.MemoryObject:
    """Bring back a memory that was deleted."""
    return await _shown(engine, caller, await restore(engine, caller, refs.memory(memory_id)))


# Those of a chat.


@router.post("/chat/api/{chat_id}/memory", status_code=201)
async def create_of_chat(
    engine: EngineOf, caller: Chatting, body: memory_wire.NewChatMemory, response: Response
) -> memory_wire.MemoryObject:
    """Remember a message, or a text about it; 200 where a memory says it already."""
    ask = Remember(
        message=body.messageId,
        content=body.content,
        category=body.category,
        synthesises=body.synthesize,
    )
    saved = await remember(engine, caller, ask)
    response.status_code = 201 if saved.is_new else 200
    return await _shown(engine, caller, saved.memory)


@router.get("/chat/api/{chat_id}/memories")
async def get_of_chat(engine: EngineOf, caller: Chatting) -> memory_wire.ChatMemories:
    """All memories that came from a chat, newest first."""
    found = await look(engine, caller, Look(_ALL, chat=here(caller)))
    return memory_wire.ChatMemories(
        memories=[memory_wire.from_chat_memory(each) for each in found.memories]
    )


@router.patch("/chat/api/{chat_id}/memories/{memory_id}")
async def change_of_chat(
    engine: EngineOf, caller: Chatting, memory_id: str, body: memory_wire.MemoryChange
) -> memory_wire.MemoryObject:
    """Change the content of a chat's memory; it is embedded anew."""
    memory = await require_of_chat(engine, caller, refs.memory(memory_id))
    after = await change(engine, caller, Ref(id=memory.id), Change(content=body.content))
    return await _shown(engine, caller, after)


@router.delete("/chat/api/{chat_id}/memories/{memory_id}", status_code=204)
async def delete_of_chat(engine: EngineOf, caller: Chatting, memory_id: str) -> None:
    """Hide a chat's memory from every list, search and prompt."""
    memory = await require_of_chat(engine, caller, refs.memory(memory_id))
    await forget(engine, caller, Ref(id=memory.id))


@router.post("/chat/api/{chat_id}/memories/{memory_id}/rerun-extraction")
async def rerun_extraction(
    engine: EngineOf, caller: Chatting, memory_id: str
) -> memory_wire.MemoryObject:
    """Write a memory's summary anew from its message; its content too, if it was synthesised."""
    memory = await require_of_chat(engine, caller, refs.memory(memory_id))
    return await _shown(engine, caller, await extract_anew(engine, caller, Ref(id=memory.id)))
