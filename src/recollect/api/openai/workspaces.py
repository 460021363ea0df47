"""Routes of `/v1/workspaces`: workspaces, their memories, search, and candidates for review."""

from typing import Annotated

from fastapi import Depends, Query, Response

from recollect.api import ids
from recollect.api.apps import CallerOf, EngineOf, new_router
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.fields import clamp
from recollect.api.openai import workspace_wire as wire
from recollect.api.openai.errors import OpenAIErrorObject
from recollect.core.domain import Caller, Filter
from recollect.documents.workspace_search import SearchWorkspace, search_workspace
from recollect.learning.distil_job import accept, list_waiting, reject
from recollect.memories.edit import EditMemory, ListMemories, edit, find_memory, list_memories
from recollect.memories.forget import forget
from recollect.memories.save import Save, save
from recollect.tenancy.workspaces import (
    archive_own_workspace,
    create_own_workspace,
    enter_workspace,
    find_own_workspace,
    list_own_workspaces,
    rename_own_workspace,
)

router = new_router(OpenAIErrorObject)


async def _enter(engine: EngineOf, caller: CallerOf, workspace_id: str) -> Caller:
    return await enter_workspace(engine, caller, ids.workspace(workspace_id))


# The caller in the workspace that the path names.
CallerInside = Annotated[Caller, Depends(_enter)]


@router.post("/v1/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, caller: CallerOf, body: wire.OpenAINewWorkspace
) -> wire.OpenAIWorkspaceObject:
    """Create a workspace; requires a key of the org with the `admin` right."""
    return wire.from_workspace(await create_own_workspace(engine, caller, body.name), caller)


@router.get("/v1/workspaces")
async def list_workspaces(
    engine: EngineOf, caller: CallerOf
) -> wire.OpenAIPage[wire.OpenAIWorkspaceObject]:
    """List the workspaces that the key may enter, the default one first."""
    found = await list_own_workspaces(engine, caller)
    return wire.OpenAIPage(items=[wire.from_workspace(each, caller) for each in found])


@router.get("/v1/workspaces/{workspace_id}")
async def get_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str
) -> wire.OpenAIWorkspaceObject:
    """Get one workspace."""
    found = await find_own_workspace(engine, caller, ids.workspace(workspace_id))
    return wire.from_workspace(found, caller)


@router.patch("/v1/workspaces/{workspace_id}")
async def change_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str, body: wire.WorkspaceChange
) -> wire.OpenAIWorkspaceObject:
    """Rename a workspace."""
    wanted = ids.workspace(workspace_id)
    if body.name is None:
        return wire.from_workspace(await find_own_workspace(engine, caller, wanted), caller)
    return wire.from_workspace(
        await rename_own_workspace(engine, caller, wanted, body.name), caller
    )


@router.delete("/v1/workspaces/{workspace_id}", status_code=204)
async def delete_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> None:
    """Archive a workspace and its keys; the operator can restore it."""
    await archive_own_workspace(engine, caller, ids.workspace(workspace_id))


@router.post(
    "/v1/workspaces/{workspace_id}/memories",
    status_code=201,
    responses={200: {"model": wire.OpenAIMemoryObject}},
)
async def create_memory(
    engine: EngineOf, caller: CallerInside, body: wire.OpenAINewMemory, response: Response
) -> wire.OpenAIMemoryObject:
    """Save a memory; if it is a duplicate, the existing one is returned (200)."""
    ask = Save(content=body.content, category=body.category, returns_duplicate=True)
    saved = await save(engine, caller, ask)
    response.status_code = 201 if saved.is_new else 200
    return wire.from_memory(saved.memory)


@router.get("/v1/workspaces/{workspace_id}/memories")
async def list_all(
    engine: EngineOf,
    caller: CallerInside,
    parameters: Annotated[wire.OpenAIPageParameters, Query()],
) -> wire.OpenAIPage[wire.OpenAIMemoryObject]:
    """List memories, newest first."""
    query = {"memories of": caller.workspace_id}
    ask = ListMemories(
        limit=clamp(parameters.limit, default=wire.DEFAULT_PAGE, maximum=wire.MAX_PAGE),
        wanted=Filter(),
        beyond=read_cursor(parameters.cursor, caller, query),
    )
    page = await list_memories(engine, caller, ask)
    cursor = None
    if page.has_more:
        last = page.memories[-1]
        cursor = make_cursor((last.created_at, last.id), caller, query)
    return wire.OpenAIPage(
        items=[wire.from_memory(each) for each in page.memories],
        next_cursor=cursor,
        has_more=page.has_more,
    )


@router.get("/v1/workspaces/{workspace_id}/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerInside, memory_id: str
) -> wire.OpenAIMemoryObject:
    """Get one memory."""
    return wire.from_memory(await find_memory(engine, caller, ids.memory(memory_id)))


@router.patch("/v1/workspaces/{workspace_id}/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: CallerInside, memory_id: str, body: wire.OpenAIMemoryChange
) -> wire.OpenAIMemoryObject:
    """Change the content of a memory, and nothing else."""
    ask = EditMemory(content=body.content)
    return wire.from_memory(await edit(engine, caller, ids.memory(memory_id), ask))


@router.delete("/v1/workspaces/{workspace_id}/memories/{memory_id}", status_code=204)
async def delete_memory(engine: EngineOf, caller: CallerInside, memory_id: str) -> None:
    """Hide a memory from every list, search and prompt."""
    await forget(engine, caller, ids.memory(memory_id))


@router.post("/v1/workspaces/{workspace_id}/search")
async def search(
    engine: EngineOf, caller: CallerInside, body: wire.OpenAISearch
) -> wire.OpenAIPage[wire.FoundObject]:
    """Search memories, documents and artifacts by meaning and by words, best first."""
    limit = clamp(body.limit, default=wire.DEFAULT_RESULTS, maximum=wire.MAX_RESULTS)
    ask = SearchWorkspace(
        body.query,
        limit=limit + 1,  # one more shows whether a next page exists
        offset=body.offset,
        kinds=body.types or (),
    )
    found = await search_workspace(engine, caller, ask)
    return wire.OpenAIPage(
        items=[wire.from_result(each) for each in found[:limit]], has_more=len(found) > limit
    )


@router.get("/v1/workspaces/{workspace_id}/pending")
async def list_pending(
    engine: EngineOf,
    caller: CallerInside,
    parameters: Annotated[wire.OpenAIPageParameters, Query()],
) -> wire.OpenAIPage[wire.PendingObject]:
    """List the candidate memories that wait for review, oldest first."""
    query = {"waiting in": caller.workspace_id}
    limit = clamp(parameters.limit, default=wire.DEFAULT_PAGE, maximum=wire.MAX_PAGE)
    found = await list_waiting(
        engine,
        caller,
        limit=limit + 1,  # one more shows whether a next page exists
        beyond=read_cursor(parameters.cursor, caller, query),
    )
    shown, cursor = found[:limit], None
    if len(found) > limit:
        cursor = make_cursor((shown[-1].created_at, shown[-1].id), caller, query)
    return wire.OpenAIPage(
        items=[wire.from_candidate(each) for each in shown],
        next_cursor=cursor,
        has_more=len(found) > limit,
    )


@router.post("/v1/workspaces/{workspace_id}/pending/{pending_id}/accept")
async def accept_pending(
    engine: EngineOf, caller: CallerInside, pending_id: str
) -> wire.OpenAIMemoryObject:
    """Accept a candidate and save it as a memory."""
    return wire.from_memory(await accept(engine, caller, ids.candidate(pending_id)))


@router.post("/v1/workspaces/{workspace_id}/pending/{pending_id}/reject", status_code=204)
async def reject_pending(engine: EngineOf, caller: CallerInside, pending_id: str) -> None:
    """Reject a candidate; the same text is not proposed again."""
    await reject(engine, caller, ids.candidate(pending_id))
