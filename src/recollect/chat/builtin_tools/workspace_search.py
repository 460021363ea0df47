"""The tool `x_workspace_search`: search memories and documents at once."""

from recollect.chat.builtin_tools.arguments import PAGE_PROPERTIES, page_arguments, text_argument
from recollect.chat.builtin_tools.result_lists import (
    category_of,
    list_entry,
    memory_id,
    numbered_list,
)
from recollect.chat.builtin_tools.tool import BuiltinCall, BuiltinTool
from recollect.core.domain import Caller, Memory, Right
from recollect.documents.workspace_search import (
    SearchedItem,
    SearchWorkspace,
    search_workspace,
    title_of,
)
from recollect.engine import Engine

_MAX_FOUND = 50


async def _run(engine: Engine, caller: Caller, call: BuiltinCall) -> str:
    query = text_argument(call.arguments, "query")
    offset, limit = page_arguments(call.arguments, default=10, max_limit=_MAX_FOUND)
    ask = SearchWorkspace(query, limit=limit, offset=offset, wanted=call.context.visible)
    entries = [_entry(each) for each in await search_workspace(engine, caller, ask)]
    return numbered_list("# Workspace search", entries, offset)


def _entry(result: SearchedItem) -> str:
    found = result.found
    if isinstance(found, Memory):
        label = f"{result.kind}, {category_of(found)}"
        return list_entry(memory_id(found), label, result.score, found.content)
    label = f"{result.kind}, {title_of(found)}"
    return list_entry(f"cart_{found.document_code}", label, result.score, found.content.strip())


WORKSPACE_SEARCH = BuiltinTool(
    name="x_workspace_search",
    description="Search everything in the workspace at once; each result says what kind it is.",
    properties={
        "query": {"type": "string", "description": "What to look for, in plain words."},
        **PAGE_PROPERTIES,
    },
    required=["query"],
    right=Right.READ,
    is_allowed=lambda policy: policy.may_recall,
    action=_run,
    aliases=["file_search"],
)
