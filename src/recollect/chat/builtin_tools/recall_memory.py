"""The tool `x_recall_memory`: find memories by meaning or by date."""

from recollect.chat.builtin_tools.arguments import PAGE_PROPERTIES, page_arguments, text_argument
from recollect.chat.builtin_tools.result_lists import (
    category_of,
    list_entry,
    memory_id,
    numbered_list,
)
from recollect.chat.builtin_tools.tool import BuiltinCall, BuiltinTool
from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.search.hybrid import Search, recall_by_date
from recollect.search.semantic import Hit, Recall, not_in_messages, recall

_MAX_RECALLED = 20
# Explicit recall also returns weak matches; injection uses a higher threshold.
_EXPLICIT_THRESHOLD = 0.3


async def _run(engine: Engine, caller: Caller, call: BuiltinCall) -> str:
    query = text_argument(call.arguments, "query")
    offset, limit = page_arguments(call.arguments, default=5, max_limit=_MAX_RECALLED)
    visible, in_prompt = call.context.visible, call.context.prompt_message_ids
    # A few more, to replace those that repeat the prompt.
    count = offset + limit + (_MAX_RECALLED if in_prompt else 0)
    ask = Recall(query, limit=count, threshold=_EXPLICIT_THRESHOLD, wanted=visible)
    # No memory is similar in meaning to "What did we talk about yesterday?".
    dated = await recall_by_date(engine, caller, Search(query, limit=count, wanted=visible))
    hits = [Hit(each, 1.0, None) for each in dated] or (await recall(engine, caller, ask)).hits
    if in_prompt:
        async with engine.reading(caller) as db:
            hits = await not_in_messages(db, caller, hits, in_prompt)
    entries = [
        list_entry(memory_id(hit.memory), category_of(hit.memory), hit.score, hit.memory.content)
        for hit in hits[offset : offset + limit]
    ]
    return numbered_list("# Recalled memories", entries, offset)


RECALL_MEMORY = BuiltinTool(
    name="x_recall_memory",
    description="Search long-term memory by meaning for what is known from earlier conversations.",
    properties={
        "query": {"type": "string", "description": "What to look for, in plain words."},
        **PAGE_PROPERTIES,
    },
    required=["query"],
    right=Right.READ,
    is_allowed=lambda policy: policy.may_recall,
    action=_run,
    aliases=["recall_memory"],
)
