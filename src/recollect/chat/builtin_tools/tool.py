"""The definition of a built-in tool, and what a call of one is given."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.core.domain import Caller, Filter, MessageId, Right, ThreadId
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput
from recollect.tenancy.thread_lookup import ThreadName

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The turn in which a call is made: its user, its thread, and the user's message."""

    subject: str | None = None
    thread_name: ThreadName | None = None
    thread_id: ThreadId | None = None
    user_text: str = ""
    # Whether the turn may be learnt from.
    learns: bool = False
    # Whether the model may store files in the workspace.
    makes_artifacts: bool = False
    # Unique per turn. Call ids are not: models choose them freely.
    turn: str = ""
    # The stored messages that are part of the prompt.
    prompt_message_ids: frozenset[MessageId] = frozenset()

    @property
    def visible(self) -> Filter:
        """The memories this turn may see: all, or those about its subject and about no subject."""
        return Filter(subject=self.subject, is_shared=self.subject is not None)


@dataclass(frozen=True, slots=True)
class TurnPolicy:
    """What the model may do in a turn."""

    may_save: bool
    may_recall: bool
    may_create_artifacts: bool = False


@dataclass(frozen=True, slots=True)
class BuiltinCall:
    """A call with its parsed arguments, and the turn in which it is made."""

    id: str
    arguments: Object
    context: ToolContext


@dataclass(frozen=True, slots=True)
class BuiltinTool:
    """A tool that is offered to the model besides the client's tools."""

    name: str
    description: str
    # The JSON Schemas of the arguments.
    properties: Object
    required: Sequence[str]
    right: Right
    is_allowed: Callable[[TurnPolicy], bool]
    # Returns the result as text for the model.
    action: Callable[[Engine, Caller, BuiltinCall], Awaitable[str]]
    # Names from earlier releases of the original product.
    aliases: Sequence[str] = ()
    # Whether the action queues learning itself, in its own transaction.
    queues_learning: bool = False

    @property
    def definition(self) -> Object:
        """The tool as a function of the chat protocol."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": self.properties,
                    "required": list(self.required),
                    "additionalProperties": False,
                },
            },
        }


def learning_input(engine: Engine, call: BuiltinCall) -> LearningInput:
    """Learn from the user's message, not from the result, which contains only known facts."""
    context = call.context
    return LearningInput(
        context.user_text,
        "tool",
        engine.now(),
        subject=context.subject,
        thread_id=context.thread_id,
        key=f"call {context.turn} {call.id}",
    )
