"""The tool `x_save_memory`: save one statement."""

from recollect.chat.builtin_tools.arguments import text_argument
from recollect.chat.builtin_tools.result_lists import memory_id
from recollect.chat.builtin_tools.tool import BuiltinCall, BuiltinTool, learning_input
from recollect.core.domain import Caller, Origin, Right
from recollect.core.errors import Invalid
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.learning.inbox import inbox_item_of, learn_from
from recollect.learning.secrets import redact
from recollect.memories.save import Save, check_content, save_within


async def _run(engine: Engine, caller: Caller, call: BuiltinCall) -> str:
    content = text_argument(call.arguments, "content")
    category = call.arguments.get("category")
    if category is not None and not isinstance(category, str):
        raise Invalid("`category` must be a string.", field="category")
    ask = Save(
        content=redact(content),
        category=category,
        subject=call.context.subject,
        thread_name=call.context.thread_name,
        origin=Origin.MODEL,
        returns_duplicate=True,
        stays_in_project=True,
    )
    caller.require(Right.WRITE)
    check_content(ask.content)
    # Before the transaction: no connection is held while the embedder works.
    embedded = await generations.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        saved = await save_within(engine, db, caller, ask, embedded)
        item = inbox_item_of(caller, learning_input(engine, call))
        await learn_from(engine, db, caller, item)
    return f"{'Saved' if saved.is_new else 'Already known'} as {memory_id(saved.memory)}."


SAVE_MEMORY = BuiltinTool(
    name="x_save_memory",
    description="Save one fact, preference, instruction or decision to long-term memory, for every "
    "later conversation. One self-contained statement; never a secret.",
    properties={
        "content": {"type": "string", "description": "The statement to remember."},
        "category": {
            "type": "string",
            "description": "Short label, such as preference, fact, instruction or decision.",
        },
    },
    required=["content"],
    right=Right.WRITE,
    is_allowed=lambda policy: policy.may_save,
    action=_run,
    aliases=["save_memory"],
    queues_learning=True,
)
