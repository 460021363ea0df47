"""`/v1/tools`: the tools over plain HTTP, and what they look like to a model."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from recollect.doors.front import Door, key_or_bearer
from recollect.doors.furnish import KEY_OR_BEARER, CallerOf, EngineOf, furnish, new_app, new_router
from recollect.doors.tools import tools, wire
from recollect.doors.tools.errors import ErrorObject, answer_tools
from recollect.doors.tools.mcp_server import described
from recollect.doors.tools.tools import Tool, tools_for
from recollect.doors.values import Parameters
from recollect.engine.core import Engine

router = new_router(ErrorObject)


def door(engine: Engine) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: memory tools",
        "The tools a model calls, one route each: the body is the arguments, the answer the "
        "result.",
        router.routes,
    )
    furnish(app, engine, answer_tools, KEY_OR_BEARER)
    return Door("tools", ("/v1/tools",), app, answer_tools, key_or_bearer)


class ToolParameters(Parameters):
    """`GET /v1/tools`."""

    process: Literal["branch", "cortex", "compaction", "channel"] | None = Field(
        default=None, description="Only the tools that this kind of process gets."
    )


class ToolList(BaseModel):
    """The same tools in the two forms clients know."""

    openai: list[dict[str, Any]]
    mcp: list[dict[str, Any]]


@router.get("/v1/tools")
async def list_tools(_: CallerOf, parameters: Annotated[ToolParameters, Query()]) -> ToolList:
    """The tools, as OpenAI functions and as MCP tools."""
    offered = tools_for(parameters.process)
    return ToolList(
        openai=[_as_function(tool) for tool in offered],
        mcp=[
            described(tool).model_dump(mode="json", by_alias=True, exclude_none=True)
            for tool in offered
        ],
    )


@router.post("/v1/tools/memory_save")
async def memory_save(
    engine: EngineOf, caller: CallerOf, body: wire.SaveArguments
) -> wire.SaveResult:
    """Save a memory."""
    return await tools.memory_save(engine, caller, body)


@router.post("/v1/tools/memory_recall", response_model_exclude_none=True)
async def memory_recall(
    engine: EngineOf, caller: CallerOf, body: wire.RecallArguments
) -> wire.RecallResult:
    """Recall memories."""
    return await tools.memory_recall(engine, caller, body)


@router.post("/v1/tools/memory_delete")
async def memory_delete(
    engine: EngineOf, caller: CallerOf, body: wire.DeleteArguments
) -> wire.DeleteResult:
    """Forget a memory."""
    return await tools.memory_delete(engine, caller, body)


def _as_function(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    }
