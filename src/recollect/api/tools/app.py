"""Routes of `/v1/tools`: the tools over plain HTTP, and their definitions for models."""

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from recollect.api.apps import KEY_OR_BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.fields import Parameters
from recollect.api.gateway import Interface, key_or_bearer
from recollect.api.tools.errors import ToolsErrorObject, answer_tools
from recollect.api.tools.mcp_server import mcp_tool
from recollect.api.tools.tool import Tool
from recollect.api.tools.tools import TOOLS, tools_for
from recollect.api.tools.wire import Arguments
from recollect.engine import Engine

router = new_router(ToolsErrorObject)


def new_interface(engine: Engine) -> Interface:
    """Return the tools interface."""
    app = new_app(
        "Recollect: memory tools",
        "The tools that a model calls, one route each: the body holds the arguments, the response "
        "the result.",
        router.routes,
    )
    set_up(app, engine, answer_tools, KEY_OR_BEARER)
    return Interface("tools", ("/v1/tools",), app, answer_tools, key_or_bearer)


class ToolParameters(Parameters):
    """`GET /v1/tools`."""

    process: Literal["branch", "cortex", "compaction", "channel"] | None = Field(
        default=None, description="Only the tools for this kind of process."
    )


class ToolList(BaseModel):
    """The same tools in the two formats that clients use."""

    openai: list[dict[str, Any]]
    mcp: list[dict[str, Any]]


@router.get("/v1/tools")
async def list_tools(_: CallerOf, parameters: Annotated[ToolParameters, Query()]) -> ToolList:
    """List the tools, as OpenAI functions and as MCP tools."""
    offered = tools_for(parameters.process)
    return ToolList(
        openai=[_as_function(tool) for tool in offered],
        mcp=[
            mcp_tool(tool).model_dump(mode="json", by_alias=True, exclude_none=True)
            for tool in offered
        ],
    )


def _add_route(tool: Tool) -> None:
    async def call(engine: EngineOf, caller: CallerOf, body: Arguments) -> BaseModel:
        return await tool.run(engine, caller, body)

    # The framework reads the model of the body from here.
    call.__annotations__["body"] = tool.arguments
    router.add_api_route(
        f"/v1/tools/{tool.name}",
        call,
        methods=["POST"],
        name=tool.name,
        description=f"{tool.title}.",
        response_model=tool.result,
        response_model_exclude_none=True,
    )


for each in TOOLS.values():
    _add_route(each)


def _as_function(tool: Tool) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        },
    }
