"""The tool `memory_delete`: forget one memory."""

from pydantic import BaseModel, Field

from recollect.api import ids
from recollect.api.tools.summary import preview
from recollect.api.tools.tool import Tool
from recollect.api.tools.wire import Arguments, Text, optional
from recollect.core.domain import Caller, Right
from recollect.core.errors import NotFound
from recollect.engine import Engine
from recollect.memories.forget import forget

NOT_FOUND = "There is no such memory, or it is already forgotten."


class DeleteArguments(Arguments):
    """`memory_delete`."""

    memory_id: str = Field(description="The memory to forget, an id from memory_recall.")
    reason: Text | None = optional("A brief reason; stored only in the audit log.")


class DeleteResult(BaseModel):
    """The result of `memory_delete`."""

    forgotten: bool
    message: str


async def forget_memory(engine: Engine, caller: Caller, arguments: DeleteArguments) -> DeleteResult:
    """Hide a memory from every search and recall. An unknown memory is not an error."""
    ref = arguments.memory_id
    try:
        memory = await forget(engine, caller, ids.memory(ref), reason=arguments.reason)
    except NotFound:
        return DeleteResult(forgotten=False, message=NOT_FOUND)
    # Callers without the read right must not see the content.
    quoted = f": {preview(memory.content)}" if Right.READ in caller.rights else "."
    return DeleteResult(forgotten=True, message=f"Forgotten{quoted}")


MEMORY_DELETE = Tool(
    name="memory_delete",
    title="Forget a memory",
    description="Forget one memory that is wrong, outdated or unwanted. It no longer appears in "
    "any search; a person can restore it on the web page.",
    arguments=DeleteArguments,
    result=DeleteResult,
    right=Right.DELETE,
    action=forget_memory,
    is_destructive=True,
    is_idempotent=True,
)
