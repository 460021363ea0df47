"""Separate the client's part of one model answer from the calls of built-in tools. Pure.

A model may call the client's tools and ours in the same round. Our calls are held back and run
here. The client's calls are passed on, numbered from 0 as if ours did not exist.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from recollect.models.chat_model import TokenUsage, usage_of

Object = dict[str, Any]

# Only this much of a message is stored, so that a model in a loop cannot fill the database.
MAX_STORED_CHARACTERS = 100_000
# Longer arguments are cut. The tool then tells the model that they are not a JSON object.
_MAX_ARGUMENT_CHARACTERS = 200_000


@dataclass(slots=True)
class ToolCall:
    """A tool call; during a stream, as much of it as has arrived."""

    id: str
    name: str
    arguments: str = ""

    @property
    def message(self) -> Object:
        """The call as part of an assistant message."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments or "{}"},
        }


@dataclass(slots=True)
class ToolRound:
    """Collects the chunks of one streamed answer. Only the first choice counts."""

    our_tools: frozenset[str]
    # Whether this is the first round: later ones do not send the role to the client again.
    is_first: bool = True
    # Whether the client has text of an earlier round, so that a blank line must follow it.
    needs_gap: bool = False
    text: str = ""
    finish: str | None = None
    usage: TokenUsage | None = None
    usage_chunk: Object | None = None
    _calls: dict[int, ToolCall] = field(default_factory=dict[int, ToolCall])
    # For each call that the client sees, the number that the client sees.
    _numbers: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def our_calls(self) -> list[ToolCall]:
        """Calls of built-in tools, in order."""
        return [call for index, call in sorted(self._calls.items()) if index not in self._numbers]

    @property
    def client_calls(self) -> list[ToolCall]:
        """Calls of the client's tools, in order."""
        return [call for index, call in sorted(self._calls.items()) if index in self._numbers]

    def take(self, chunk: Object) -> Object | None:
        """Add a chunk and return the client's part of it; the same object if nothing changes."""
        if chunk.get("usage"):
            self.usage = usage_of(chunk["usage"])
            self.usage_chunk = chunk
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return None
        choice = cast("Object", choices[0])
        delta = cast("Object", choice.get("delta") or {})
        if isinstance(delta.get("content"), str) and len(self.text) < MAX_STORED_CHARACTERS:
            self.text += delta["content"]
        visible = self._visible_delta(delta)
        finish = choice.get("finish_reason")
        if finish:
            self.finish = str(finish)
        if visible is delta and not finish and not chunk.get("usage"):
            return chunk
        if not visible:
            return None
        # The turn sends the finish reason and the usage: only it knows which round is the last.
        rest = {name: value for name, value in chunk.items() if name != "usage"}
        return {**rest, "choices": [{**choice, "delta": visible, "finish_reason": None}]}

    def _visible_delta(self, delta: Object) -> Object:
        changed = delta
        if "tool_calls" in delta:
            visible_calls = self._visible_calls(delta["tool_calls"] or [])
            changed = {name: value for name, value in delta.items() if name != "tool_calls"}
            if visible_calls:
                changed["tool_calls"] = visible_calls
            elif not any(changed.values()):
                changed = {}
        if not self.is_first and "role" in changed:
            changed = {name: value for name, value in changed.items() if name != "role"}
            if not any(changed.values()):
                changed = {}
        if self.needs_gap and changed.get("content"):
            self.needs_gap = False
            changed = {**changed, "content": "\n\n" + changed["content"]}
        return changed

    def _visible_calls(self, deltas: Sequence[Object]) -> list[Object]:
        visible: list[Object] = []
        for delta in deltas:
            index = delta.get("index")
            if not isinstance(index, int):
                index = len(self._calls) if delta.get("id") else max(self._calls, default=0)
            function = cast("Object", delta.get("function") or {})
            arguments = function.get("arguments") or ""
            if index in self._calls:
                if len(self._calls[index].arguments) < _MAX_ARGUMENT_CHARACTERS:
                    self._calls[index].arguments += arguments
                if index in self._numbers:
                    visible.append(
                        {"index": self._numbers[index], "function": {"arguments": arguments}}
                    )
                continue
            name = str(function.get("name") or "")
            self._calls[index] = ToolCall(str(delta.get("id") or f"call_{index}"), name, arguments)
            if name not in self.our_tools:
                self._numbers[index] = len(self._numbers)
                visible.append({**delta, "index": self._numbers[index], "type": "function"})
        return visible


def split_calls(
    answer: Object, our_tools: frozenset[str]
) -> tuple[list[ToolCall], list[ToolCall], Object]:
    """Return our calls, the client's calls and the message of a complete answer.

    The message is unchanged: it still contains all calls.
    """
    choices = cast("list[Object]", answer["choices"])
    message = cast("Object", choices[0]["message"])
    calls = [
        ToolCall(
            str(call.get("id") or ""),
            str(call["function"].get("name") or ""),
            call["function"].get("arguments") or "",
        )
        for call in cast("list[Object]", message.get("tool_calls") or [])
        if isinstance(call.get("function"), dict)
    ]
    our_calls = [call for call in calls if call.name in our_tools]
    return our_calls, [call for call in calls if call.name not in our_tools], message


def assistant_message(text: str | None, calls: Sequence[ToolCall]) -> Object:
    """Build the assistant message with these calls for the next round."""
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [call.message for call in calls],
    }


def tool_result(call: ToolCall, text: str) -> Object:
    """Build the tool message with the result of a call for the next round."""
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def arguments_of(call: ToolCall) -> Object | None:
    """Return the arguments of a call; None if they are not a JSON object."""
    try:
        found = json.loads(call.arguments or "{}")
    except ValueError:
        return None
    return cast("Object", found) if isinstance(found, dict) else None
