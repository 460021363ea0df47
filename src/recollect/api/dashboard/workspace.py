"""Routes of workspaces: create, rename, archive; graph, pending candidates and usage."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from recollect.api import ids
from recollect.api.apps import CallerOf, EngineOf
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.dashboard.common import RESPONSES, WorkspaceCaller
from recollect.api.dashboard.wire import common, memories, workspace
from recollect.api.fields import Parameters, clamp
from recollect.documents.workspace_graph import workspace_graph
from recollect.learning.distil_job import accept, list_waiting, reject
from recollect.search.memory_browser import source_codes
from recollect.tenancy.workspaces import (
    archive_own_workspace,
    create_own_workspace,
    find_own_workspace,
    list_own_workspaces,
    rename_own_workspace,
)
from recollect.usage.report import usage_report

_DEFAULT_LIMIT, _MAX_LIMIT = 20, 100
_DEFAULT_NODES, _MAX_NODES = 200, 500

router = APIRouter(responses=RESPONSES)

_WORKSPACE = "/chat/api/workspaces/{workspace_id}"


@router.get("/chat/api/workspaces")
async def get_workspaces(
    engine: EngineOf, caller: CallerOf
) -> common.DashboardPage[common.DashboardWorkspaceObject]:
    """List the workspaces that the caller may enter, the default one first."""
    found = await list_own_workspaces(engine, caller)
    return common.DashboardPage(items=[common.from_workspace(each) for each in found])


@router.post("/chat/api/workspaces", status_code=201)
async def create_workspace(
    engine: EngineOf, caller: CallerOf, body: workspace.WorkspaceName
) -> common.DashboardWorkspaceObject:
    """Create a workspace; needs an admin."""
    return common.from_workspace(await create_own_workspace(engine, caller, body.name))


@router.get(_WORKSPACE)
async def get_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str
) -> common.DashboardWorkspaceObject:
    """Return one workspace."""
    found = await find_own_workspace(engine, caller, ids.workspace(workspace_id))
    return common.from_workspace(found)


@router.patch(_WORKSPACE)
async def rename_workspace(
    engine: EngineOf, caller: CallerOf, workspace_id: str, body: workspace.WorkspaceName
) -> common.DashboardWorkspaceObject:
    """Rename a workspace; needs an admin."""
    ref = ids.workspace(workspace_id)
    return common.from_workspace(await rename_own_workspace(engine, caller, ref, body.name))


@router.delete(_WORKSPACE, status_code=204)
async def delete_workspace(engine: EngineOf, caller: CallerOf, workspace_id: str) -> None:
    """Archive a workspace and its keys; needs an admin. The operator can restore it."""
    await archive_own_workspace(engine, caller, ids.workspace(workspace_id))


class DashboardGraphParameters(Parameters):
    """How many memories, and which kind of node."""

    limit: common.Limit | None = None
    kind: Literal["memory", "document", "decision", "milestone", "artifact"] | None = None


@router.get(f"{_WORKSPACE}/graph")
async def get_graph(
    engine: EngineOf,
    caller: WorkspaceCaller,
    parameters: Annotated[DashboardGraphParameters, Query()],
) -> workspace.DashboardGraphObject:
    """Return the newest memories and documents, and the edges between them."""
    limit = clamp(parameters.limit, default=_DEFAULT_NODES, maximum=_MAX_NODES)
    return workspace.from_graph(await workspace_graph(engine, caller, limit=limit), parameters.kind)


@router.get(f"{_WORKSPACE}/pending")
async def get_pending(
    engine: EngineOf,
    caller: WorkspaceCaller,
    parameters: Annotated[common.DashboardPageParameters, Query()],
) -> common.DashboardPage[workspace.CandidateObject]:
    """List the candidates that wait for review, oldest first."""
    limit = clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT)
    filters = {"pending": True, "in": caller.workspace_id}
    after = read_cursor(parameters.cursor, caller, filters)
    found = await list_waiting(engine, caller, limit=limit + 1, beyond=after)
    last = found[limit - 1] if len(found) > limit else None
    return common.DashboardPage(
        items=[workspace.from_candidate(each) for each in found[:limit]],
        next_cursor=make_cursor((last.created_at, last.id), caller, filters) if last else None,
        has_more=last is not None,
    )


@router.post(f"{_WORKSPACE}/pending/{{pending_id}}/accept")
async def accept_pending(
    engine: EngineOf, caller: WorkspaceCaller, pending_id: str
) -> memories.DashboardMemoryObject:
    """Accept a candidate and save it as a memory."""
    memory = await accept(engine, caller, ids.candidate(pending_id))
    return memories.from_memory(memory, await source_codes(engine, caller, [memory]))


@router.post(f"{_WORKSPACE}/pending/{{pending_id}}/reject", status_code=204)
async def reject_pending(engine: EngineOf, caller: WorkspaceCaller, pending_id: str) -> None:
    """Reject a candidate. The same text is not proposed again."""
    await reject(engine, caller, ids.candidate(pending_id))


class UsageParameters(Parameters):
    """How many days back."""

    days: Annotated[int, Field(ge=1, le=366)] = 30


@router.get(f"{_WORKSPACE}/usage")
async def get_usage(
    engine: EngineOf, caller: WorkspaceCaller, parameters: Annotated[UsageParameters, Query()]
) -> workspace.UsageObject:
    """Return model usage and recall times by day, oldest first."""
    return workspace.from_usage(await usage_report(engine, caller, days=parameters.days))
