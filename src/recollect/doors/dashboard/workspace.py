"""The routes of a workspace as a whole: its graph, what waits in it, what was used."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import memory_wire, wire, workspace_wire
from recollect.doors.dashboard.common import RESPONSES, Inside
from recollect.doors.furnish import CallerOf, EngineOf
from recollect.doors.values import Parameters, clamped
from recollect.engine.learn import accept, list_waiting, reject
from recollect.engine.overview import draw, usage
from recollect.engine.shelf import shown
from recollect.engine.workspaces import (
    add_place,
    close_place,
    find_place,
    list_places,
    rename_place,
)

_USUAL, _MOST = 20, 100
_USUAL_NODES, _MOST_NODES = 200, 500

router = APIRouter(responses=RESPONSES)

_WORKSPACE = "/chat/api/workspaces/{workspace_id}"


@router.get("/chat/api/workspaces")
async def get_workspaces(engine: EngineOf, caller: CallerOf) -> wire.Page[wire.PlaceObject]:
    """The workspaces one may be in, the default one first."""
    found = await list_places(engine, caller)
    return wire.Page(items=[wire.from_place(each) for each in found])


@router.post("/chat/api/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, caller: CallerOf, body: workspace_wire.WorkspaceName
) -> wire.PlaceObject:
    """Make a workspace; takes an admin."""
    return wire.from_place(await add_place(engine, caller, body.name))


@router.get(_WORKSPACE)
async def get_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> wire.PlaceObject:
    """One workspace."""
    wanted = refs.workspace(workspace_id)
    return wire.from_place(await find_place(engine, caller, wanted))


@router.patch(_WORKSPACE)
async def rename_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str, body: workspace_wire.WorkspaceName
) -> wire.PlaceObject:
    """Give a workspace another name; takes an admin."""
    wanted = refs.workspace(workspace_id)
    return wire.from_place(await rename_place(engine, caller, wanted, body.name))


@router.delete(_WORKSPACE, status_code=204)
async def delete_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> None:
    """Put a workspace away with its keys; the operator can bring it back. Takes an admin."""
    await close_place(engine, caller, refs.workspace(workspace_id))


class GraphParameters(Parameters):
    """How many memories, and which kind of thing."""

    limit: wire.Limit | None = None
    kind: Literal["memory", "document", "decision", "milestone", "artifact"] | None = None


@router.get(f"{_WORKSPACE}/graph")
async def get_graph(
    engine: EngineOf, caller: Inside, parameters: Annotated[GraphParameters, Query()]
) -> workspace_wire.GraphObject:
    """The newest memories and documents, and what ties them."""
    limit = clamped(parameters.limit, default=_USUAL_NODES, most=_MOST_NODES)
    return workspace_wire.from_picture(await draw(engine, caller, limit=limit), parameters.kind)


@router.get(f"{_WORKSPACE}/pending")
async def get_pending(
    engine: EngineOf, caller: Inside, parameters: Annotated[wire.PageParameters, Query()]
) -> wire.Page[workspace_wire.CandidateObject]:
    """What was learnt and waits for somebody to accept or reject it, oldest first."""
    limit = clamped(parameters.limit, default=_USUAL, most=_MOST)
    asked = {"pending": True, "in": caller.workspace_id}
    beyond = place_of(parameters.cursor, caller, asked)
    found = await list_waiting(engine, caller, limit=limit + 1, beyond=beyond)
    last = found[limit - 1] if len(found) > limit else None
    return wire.Page(
        items=[workspace_wire.from_candidate(each) for each in found[:limit]],
        next_cursor=cursor_at((last.created_at, last.id), caller, asked) if last else None,
        has_more=last is not None,
    )


@router.post(f"{_WORKSPACE}/pending/{{pending_id}}/accept")
async def accept_pending(
    engine: EngineOf, caller: Inside, pending_id: str
) -> memory_wire.MemoryObject:
    """Keep what waits."""
    wanted = refs.candidate(pending_id)
    memory = await accept(engine, caller, wanted)
    return memory_wire.from_memory(memory, await shown(engine, caller, [memory]))


@router.post(f"{_WORKSPACE}/pending/{{pending_id}}/reject", status_code=204)
async def reject_pending(engine: EngineOf, caller: Inside, pending_id: str) -> None:
    """Let it go; the same words bring it back no more."""
    await reject(engine, caller, refs.candidate(pending_id))


class UsageParameters(Parameters):
    """How far back."""

    days: Annotated[int, Field(ge=1, le=366)] = 30


@router.get(f"{_WORKSPACE}/usage")
async def get_usage(
    engine: EngineOf, caller: Inside, parameters: Annotated[UsageParameters, Query()]
) -> workspace_wire.UsageObject:
    """What models were asked and how long recalls took, by day, oldest first."""
    return workspace_wire.from_usage(await usage(engine, caller, days=parameters.days))
