"""The built-in tools. To add one, write its module and add it to `TOOLS`."""

from collections.abc import Mapping
from typing import Any

from recollect.chat.builtin_tools.create_artifact import CREATE_ARTIFACT
from recollect.chat.builtin_tools.recall_memory import RECALL_MEMORY
from recollect.chat.builtin_tools.save_memory import SAVE_MEMORY
from recollect.chat.builtin_tools.tool import (
    BuiltinCall,
    BuiltinTool,
    TurnPolicy,
    learning_input,
)
from recollect.chat.builtin_tools.workspace_search import WORKSPACE_SEARCH
from recollect.chat.tool_rounds import ToolCall, arguments_of
from recollect.chat.turn_context import TurnContext
from recollect.core.domain import Caller
from recollect.core.errors import Failure
from recollect.engine import Engine
from recollect.learning.inbox import inbox_item_of, learn_from

TOOLS = (
    SAVE_MEMORY,
    RECALL_MEMORY,
    WORKSPACE_SEARCH,
    CREATE_ARTIFACT,
)

_BY_NAME: Mapping[str, BuiltinTool] = {
    name: tool for tool in TOOLS for name in (tool.name, *tool.aliases)
}
NAMES = frozenset(_BY_NAME)


def offered_tools(caller: Caller, policy: TurnPolicy) -> list[dict[str, Any]]:
    """Return the definitions of the tools that this caller's turn may use."""
    return [
        tool.definition for tool in TOOLS if tool.right in caller.rights and tool.is_allowed(policy)
    ]


async def run_tool(engine: Engine, caller: Caller, context: TurnContext, call: ToolCall) -> str:
    """Run a call and return its result. Errors become text for the model, which can retry."""
    arguments = arguments_of(call)
    if arguments is None:
        return f"Error: the arguments of {call.name} are not a JSON object."
    tool = _BY_NAME[call.name]
    parsed = BuiltinCall(call.id, arguments, context)
    try:
        result = await tool.action(engine, caller, parsed)
        if context.learns and not tool.queues_learning:
            await _queue_learning(engine, caller, parsed)
    except Failure as failure:
        return f"Error: {failure.message}"
    return result


async def _queue_learning(engine: Engine, caller: Caller, call: BuiltinCall) -> None:
    """Add one inbox item for a completed call."""
    item = inbox_item_of(caller, learning_input(engine, call))
    async with engine.writing(caller) as db:
        await learn_from(engine, db, caller, item)
