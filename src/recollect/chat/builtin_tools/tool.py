"""The definition of a built-in tool, and the arguments of a call."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.chat.turn_context import TurnContext
from recollect.core.domain import Caller, Right
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput

Object = dict[str, Any]


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
    context: TurnContext


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
        context.conversation.user_text,
        "tool",
        engine.now(),
        subject=context.subject,
        thread_id=context.thread_id,
        key=f"call {context.turn} {call.id}",
    )
