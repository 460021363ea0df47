"""The tools in the Model Context Protocol, whatever carries it: also memories as resources."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as protocol
import structlog
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from recollect import __version__
from recollect.domain import Caller
from recollect.doors import refs
from recollect.doors.tools import agent_wire, prompts, wire
from recollect.doors.tools.errors import MASKED
from recollect.doors.tools.mcp_messages import tool_error
from recollect.doors.tools.tools import TOOLS, Tool, call, shown
from recollect.engine.change import get
from recollect.engine.core import Engine
from recollect.errors import Failure, NotFound
from recollect.logs import frames

# Who asks. Called for each request: a key may have been revoked since the last one.
Recognise = Callable[[], Awaitable[Caller]]
Context = ServerRequestContext[Any]

INSTRUCTIONS = (
    "Recollect is a long-term memory shared by every conversation. Call memory_recall before "
    "answering what earlier conversations may bear on. Call memory_save when the user states a "
    "lasting fact, preference, decision or goal. Call memory_delete only when the user asks to "
    "forget something or a memory is plainly wrong."
)

_SCHEME = "memory://"
_TEMPLATE = protocol.ResourceTemplate(
    name="memory",
    title="A memory",
    uri_template=_SCHEME + "{id}",
    description="One memory by any spelling of its id.",
    mime_type="application/json",
)

_log = structlog.get_logger(__name__)


def mcp_server(engine: Engine, recognise: Recognise) -> Server[Any]:
    """A server of these tools; it keeps nothing between requests."""

    async def list_tools(_: Context, __: Any) -> protocol.ListToolsResult:
        return protocol.ListToolsResult(tools=[described(tool) for tool in TOOLS.values()])

    async def call_tool(
        _: Context, params: protocol.CallToolRequestParams
    ) -> protocol.CallToolResult:
        return await _call(engine, recognise, params.name, params.arguments or {})

    async def list_resources(_: Context, __: Any) -> protocol.ListResourcesResult:
        # What is remembered is found by recall; a list of everything would help nobody.
        return protocol.ListResourcesResult(resources=[])

    async def list_templates(_: Context, __: Any) -> protocol.ListResourceTemplatesResult:
        return protocol.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def read_resource(
        _: Context, params: protocol.ReadResourceRequestParams
    ) -> protocol.ReadResourceResult:
        return await _read(engine, recognise, str(params.uri))

    async def list_prompts(_: Context, __: Any) -> protocol.ListPromptsResult:
        return protocol.ListPromptsResult(prompts=list(prompts.PROMPTS))

    async def get_prompt(
        _: Context, params: protocol.GetPromptRequestParams
    ) -> protocol.GetPromptResult:
        return prompts.spoken(params.name, params.arguments or {})

    return Server(
        "recollect",
        version=__version__,
        title="Recollect",
        instructions=INSTRUCTIONS,
        get_tool_input_schema=_input_schema,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def described(tool: Tool) -> protocol.Tool:
    """A tool as the protocol describes it."""
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
    engine: Engine, recognise: Recognise, name: str, arguments: dict[str, Any]
) -> protocol.CallToolResult:
    if name not in TOOLS:
        raise MCPError(protocol.INVALID_PARAMS, "There is no such tool.")
    try:
        result = await call(engine, await recognise(), name, arguments)
    except Failure as failure:
        return tool_error(failure.message)
    except Exception as error:  # noqa: BLE001 - the protocol's last handler: a bug must be masked
        _note(error, name)
        return tool_error(MASKED)
    text = protocol.TextContent(type="text", text=_told(result))
    return protocol.CallToolResult(content=[text], structured_content=shown(result))


def _told(result: BaseModel) -> str:
    """A recall as text for a model to read; the others as the result itself, in plain letters."""
    if isinstance(result, wire.RecallResult):
        return result.summary
    return json.dumps(shown(result), ensure_ascii=False)


async def _read(engine: Engine, recognise: Recognise, uri: str) -> protocol.ReadResourceResult:
    try:
        memory = await get(engine, await recognise(), refs.memory(uri.removeprefix(_SCHEME)))
    except NotFound as failure:
        raise MCPError(protocol.INVALID_PARAMS, failure.message) from None
    except Failure as failure:
        raise MCPError(protocol.INVALID_REQUEST, failure.message) from None
    except Exception as error:  # noqa: BLE001 - as above
        _note(error, "read")
        raise MCPError(protocol.INTERNAL_ERROR, MASKED) from None
    contents = protocol.TextResourceContents(
        uri=uri,
        mime_type="application/json",
        text=agent_wire.from_memory(memory).model_dump_json(),
    )
    return protocol.ReadResourceResult(contents=[contents])


def _note(error: Exception, tool: str) -> None:
    # The type and the place, never the message: it could quote a memory.
    _log.error("tool.failed", tool=tool, kind=type(error).__name__, at=frames(error))
