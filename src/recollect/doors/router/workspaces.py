"""`/v1/workspaces`, and the same below a project: workspaces, their memories, and what waits."""

from typing import Annotated

from fastapi import Depends, Query, Response

from recollect.domain import Caller, Filter
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.furnish import CallerOf, EngineOf, new_router
from recollect.doors.router import workspace_wire as wire
from recollect.doors.router.errors import ErrorObject
from recollect.doors.values import clamped
from recollect.engine.change import Change, ListMemories, change, get, list_memories
from recollect.engine.forget import forget
from recollect.engine.learn import accept, list_waiting, reject
from recollect.engine.save import Save, save
from recollect.engine.workspace_search import SearchWorkspace, search_workspace
from recollect.engine.workspaces import (
    add_place,
    close_place,
    enter_place,
    find_place,
    list_places,
    rename_place,
)

router = new_router(ErrorObject)


async def _inside(engine: EngineOf, caller: CallerOf, workspace_id: str) -> Caller:
    return await enter_place(engine, caller, refs.workspace(workspace_id))


# The caller in the workspace that the address names.
Inside = Annotated[Caller, Depends(_inside)]


@router.post("/v1/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, caller: CallerOf, body: wire.NewWorkspace
) -> wire.WorkspaceObject:
    """Make a workspace; takes a key of the org with the `admin` right."""
    return wire.from_place(await add_place(engine, caller, body.name), caller)


@router.get("/v1/workspaces")
async def list_workspaces(engine: EngineOf, caller: CallerOf) -> wire.Page[wire.WorkspaceObject]:
    """The workspaces the key may enter, the default one first."""
    found = await list_places(engine, caller)
    return wire.Page(items=[wire.from_place(each, caller) for each in found])


@router.get("/v1/workspaces/{workspace_id}")
async def get_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str
) -> wire.WorkspaceObject:
    """One workspace."""
    found = await find_place(engine, caller, refs.workspace(workspace_id))
    return wire.from_place(found, caller)


@router.patch("/v1/workspaces/{workspace_id}")
async def change_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str, body: wire.WorkspaceChange
) -> wire.WorkspaceObject:
    """Rename a workspace."""
    wanted = refs.workspace(workspace_id)
    if body.name is None:
        return wire.from_place(await find_place(engine, caller, wanted), caller)
    return wire.from_place(await rename_place(engine, caller, wanted, body.name), caller)


@router.delete("/v1/workspaces/{workspace_id}", status_code=204)
async def delete_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> None:
    """Put a workspace away with its keys; the operator can bring it back."""
    await close_place(engine, caller, refs.workspace(workspace_id))


@router.post(
    "/v1/workspaces/{workspace_id}/memories",
    status_code=201,
    responses={200: {"model": wire.MemoryObject}},
)
async def create_memory(
    engine: EngineOf, caller: Inside, body: wire.NewMemory, response: Response
) -> wire.MemoryObject:
    """Keep a memory; one that says the same is returned instead (200)."""
    ask = Save(content=body.content, category=body.category, returns_twin=True)
    saved = await save(engine, caller, ask)
    response.status_code = 201 if saved.is_new else 200
    return wire.from_memory(saved.memory)


@router.get("/v1/workspaces/{workspace_id}/memories")
async def list_all(
    engine: EngineOf, caller: Inside, parameters: Annotated[wire.PageParameters, Query()]
) -> wire.Page[wire.MemoryObject]:
    """List memories, newest first."""
    asked = {"memories of": caller.workspace_id}
    ask = ListMemories(
        limit=clamped(parameters.limit, default=wire.USUAL_PAGE, most=wire.LONGEST_PAGE),
        wanted=Filter(),
        beyond=place_of(parameters.cursor, caller, asked),
    )
    page = await list_memories(engine, caller, ask)
    cursor = None
    if page.has_more:
        last = page.memories[-1]
        cursor = cursor_at((last.created_at, last.id), caller, asked)
    return wire.Page(
        items=[wire.from_memory(each) for each in page.memories],
        next_cursor=cursor,
        has_more=page.has_more,
    )


@router.get("/v1/workspaces/{workspace_id}/memories/{memory_id}")
async def get_memory(engine: EngineOf, caller: Inside, memory_id: str) -> wire.MemoryObject:
    """One memory."""
    return wire.from_memory(await get(engine, caller, refs.memory(memory_id)))


@router.patch("/v1/workspaces/{workspace_id}/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: Inside, memory_id: str, body: wire.MemoryChange
) -> wire.MemoryObject:
    """Change what a memory says, and nothing else of it."""
    ask = Change(content=body.content)
    return wire.from_memory(await change(engine, caller, refs.memory(memory_id), ask))


@router.delete("/v1/workspaces/{workspace_id}/memories/{memory_id}", status_code=204)
async def delete_memory(engine: EngineOf, caller: Inside, memory_id: str) -> None:
    """Hide a memory from every list, search and prompt."""
    await forget(engine, caller, refs.memory(memory_id))


@router.post("/v1/workspaces/{workspace_id}/search")
async def search(
    engine: EngineOf, caller: Inside, body: wire.Search
) -> wire.Page[wire.FoundObject]:
    """Search memories, documents and artifacts at once, by meaning and words, best first."""
    limit = clamped(body.limit, default=wire.USUAL_FOUND, most=wire.MOST_FOUND)
    ask = SearchWorkspace(
        body.query,
        limit=limit + 1,  # one more shows whether a next page exists
        offset=body.offset,
        kinds=body.types or (),
    )
    found = await search_workspace(engine, caller, ask)
    return wire.Page(
        items=[wire.from_result(each) for each in found[:limit]], has_more=len(found) > limit
    )


@router.get("/v1/workspaces/{workspace_id}/pending")
async def list_pending(
    engine: EngineOf, caller: Inside, parameters: Annotated[wire.PageParameters, Query()]
) -> wire.Page[wire.PendingObject]:
    """What was learnt and waits for somebody to accept or reject it, oldest first."""
    asked = {"waiting in": caller.workspace_id}
    limit = clamped(parameters.limit, default=wire.USUAL_PAGE, most=wire.LONGEST_PAGE)
    found = await list_waiting(
        engine,
        caller,
        limit=limit + 1,  # one more shows whether a next page exists
        beyond=place_of(parameters.cursor, caller, asked),
    )
    shown, cursor = found[:limit], None
    if len(found) > limit:
        cursor = cursor_at((shown[-1].created_at, shown[-1].id), caller, asked)
    return wire.Page(
        items=[wire.from_candidate(each) for each in shown],
        next_cursor=cursor,
        has_more=len(found) > limit,
    )


@router.post("/v1/workspaces/{workspace_id}/pending/{pending_id}/accept")
async def accept_pending(engine: EngineOf, caller: Inside, pending_id: str) -> wire.MemoryObject:
    """Keep what waits as a memory."""
    return wire.from_memory(await accept(engine, caller, refs.candidate(pending_id)))


@router.post("/v1/workspaces/{workspace_id}/pending/{pending_id}/reject", status_code=204)
async def reject_pending(engine: EngineOf, caller: Inside, pending_id: str) -> None:
    """Let it go; the same words bring it back no more."""
    await reject(engine, caller, refs.candidate(pending_id))
