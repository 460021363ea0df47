"""The tool `x_create_artifact`: store the model's text as a file."""

from recollect.chat.builtin_tools.arguments import text_argument
from recollect.chat.builtin_tools.tool import BuiltinCall, BuiltinTool
from recollect.core.domain import Caller, Ref, Right
from recollect.core.errors import Invalid
from recollect.documents.documents import save_artifact
from recollect.engine import Engine
from recollect.learning.secrets import redact


async def _run(engine: Engine, caller: Caller, call: BuiltinCall) -> str:
    """Store the text as a file; it is read and searched like any document."""
    if not call.context.makes_artifacts:
        raise Invalid("This turn cannot store files.")
    name = text_argument(call.arguments, "name")
    content = text_argument(call.arguments, "content")
    thread = Ref(id=call.context.thread_id) if call.context.thread_id else None
    stored = await save_artifact(engine, caller, name, redact(content), thread=thread)
    return f"Stored as cart_{stored.code}."


CREATE_ARTIFACT = BuiltinTool(
    name="x_create_artifact",
    description="Store a finished text, such as a report, a plan or a program, as a file in the "
    "workspace that people can open and search later. Not for text that belongs only in the "
    "answer.",
    properties={
        "name": {"type": "string", "description": "File name with extension: plan.md, load.py."},
        "content": {"type": "string", "description": "The whole text of the file."},
    },
    required=["name", "content"],
    right=Right.WRITE,
    is_allowed=lambda policy: policy.may_create_artifacts,
    action=_run,
)
