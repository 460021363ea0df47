"""The MCP server: the tools, prompts, and memories as resources. Transports are separate."""

from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as protocol
import structlog
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError

from recollect import __version__
from recollect.api import ids
from recollect.api.errors import INTERNAL_MESSAGE
from recollect.api.tools import agent_wire, prompts
from recollect.api.tools.mcp_messages import tool_error
from recollect.api.tools.tool import Tool, to_json
from recollect.api.tools.tools import TOOLS
from recollect.core.domain import Caller
from recollect.core.errors import Failure, NotFound
from recollect.core.logging import frames
from recollect.engine import Engine
from recollect.memories.edit import find_memory

# Returns the caller. Called for each request, because a key may have been revoked meanwhile.
GetCaller = Callable[[], Awaitable[Caller]]
Context = ServerRequestContext[Any]

INSTRUCTIONS = (
    "Recollect is a long-term memory shared by all conversations. Call memory_recall before "
    "answering anything that earlier conversations may be relevant to. Call memory_save when the "
    "user states a lasting fact, preference, decision or goal. Call memory_delete only when the "
    "user asks to forget something or a memory is clearly wrong."
)

_SCHEME = "memory://"
_TEMPLATE = protocol.ResourceTemplate(
    name="memory",
    title="A memory",
    uri_template=_SCHEME + "{id}",
    description="One memory, by any form of its id.",
    mime_type="application/json",
)

_log = structlog.get_logger(__name__)


def mcp_server(engine: Engine, get_caller: GetCaller) -> Server[Any]:
    """Return an MCP server with these tools. It keeps no state between requests."""

    async def list_tools(_: Context, __: Any) -> protocol.ListToolsResult:
        return protocol.ListToolsResult(tools=[mcp_tool(tool) for tool in TOOLS.values()])

    async def run_tool(
        _: Context, params: protocol.CallToolRequestParams
    ) -> protocol.CallToolResult:
        return await _call(engine, get_caller, params.name, params.arguments or {})

    async def list_resources(_: Context, __: Any) -> protocol.ListResourcesResult:
        # Clients find memories by recall; a list of all of them would not be useful.
        return protocol.ListResourcesResult(resources=[])

    async def list_templates(_: Context, __: Any) -> protocol.ListResourceTemplatesResult:
        return protocol.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def read_resource(
        _: Context, params: protocol.ReadResourceRequestParams
    ) -> protocol.ReadResourceResult:
        return await _read(engine, get_caller, str(params.uri))

    async def list_prompts(_: Context, __: Any) -> protocol.ListPromptsResult:
        return protocol.ListPromptsResult(prompts=list(prompts.PROMPTS))

    async def get_prompt(
        _: Context, params: protocol.GetPromptRequestParams
    ) -> protocol.GetPromptResult:
        return prompts.get_prompt(params.name, params.arguments or {})

    return Server(
        "recollect",
        version=__version__,
        title="Recollect",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=_input_schema,
        on_list_tools=list_tools,
        on_call_tool=run_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def mcp_tool(tool: Tool) -> protocol.Tool:
    """Return a tool in the form of the protocol."""
    return protocol.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=protocol.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.is_read_only,
            destructive_hint=tool.is_destructive,
            idempotent_hint=tool.is_idempotent,
            open_world_hint=False,
        ),
    )


def _input_schema(name: str) -> dict[str, Any] | None:
    return TOOLS[name].input_schema if name in TOOLS else None


async def _call(
    engine: Engine, get_caller: GetCaller, name: str, arguments: dict[str, Any]
) -> protocol.CallToolResult:
    tool = TOOLS.get(name)
    if tool is None:
        raise MCPError(protocol.INVALID_PARAMS, "Unknown tool. Call `tools/list` to see the tools.")
    try:
        result = await tool.call(engine, await get_caller(), arguments)
    except Failure as failure:
        return tool_error(failure.message)
    except Exception as error:  # noqa: BLE001 - last handler: hide the details of a bug
        _log_error(error, name)
        return tool_error(INTERNAL_MESSAGE)
    text = protocol.TextContent(type="text", text=tool.result_text(result))
    return protocol.CallToolResult(content=[text], structured_content=to_json(result))


async def _read(engine: Engine, get_caller: GetCaller, uri: str) -> protocol.ReadResourceResult:
    try:
        memory = await find_memory(
            engine, await get_caller(), ids.memory(uri.removeprefix(_SCHEME))
        )
    except NotFound as failure:
        raise MCPError(protocol.INVALID_PARAMS, failure.message) from None
    except Failure as failure:
        raise MCPError(protocol.INVALID_REQUEST, failure.message) from None
    except Exception as error:  # noqa: BLE001 - as above
        _log_error(error, "read")
        raise MCPError(protocol.INTERNAL_ERROR, INTERNAL_MESSAGE) from None
    contents = protocol.TextResourceContents(
        uri=uri,
        mime_type="application/json",
        text=agent_wire.from_memory(memory).model_dump_json(),
    )
    return protocol.ReadResourceResult(contents=[contents])


def _log_error(error: Exception, tool: str) -> None:
    # The type and the stack frames, never the message: it could quote a memory.
    _log.error("tool.failed", tool=tool, kind=type(error).__name__, at=frames(error))
