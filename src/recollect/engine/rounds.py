"""One round of a turn: what of a model's answer the client sees, and what stays in the house. Pure.

The model may call the client's tools and ours in one breath. Ours are held back and run; the
client's are passed on, numbered from 0 as if ours had never been there.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from recollect.models.chat import Usage, usage_of

Object = dict[str, Any]

# What is kept of an answer for the record; a model that loops fills nobody's database.
MOST_KEPT = 100_000
# Beyond this no arguments are kept: cut off they are no JSON, and the model is told so.
_MOST_ARGUMENTS = 200_000


@dataclass(slots=True)
class Call:
    """A tool call, as far as it has arrived."""

    id: str
    name: str
    arguments: str = ""

    @property
    def message(self) -> Object:
        """As it stands in an assistant's message."""
        return {
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": self.arguments or "{}"},
        }


@dataclass(slots=True)
class Round:
    """Takes the chunks of one streamed answer; the first choice is the conversation."""

    ours: frozenset[str]
    # Whether the client has had a role and some text from an earlier round already.
    is_first: bool = True
    needs_gap: bool = False
    text: str = ""
    finish: str | None = None
    usage: Usage | None = None
    usage_chunk: Object | None = None
    _calls: dict[int, Call] = field(default_factory=dict[int, Call])
    _shown: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def our_calls(self) -> list[Call]:
        """Calls of built-in tools, in order."""
        return [call for index, call in sorted(self._calls.items()) if index not in self._shown]

    @property
    def client_calls(self) -> list[Call]:
        """Calls the client must answer, in order."""
        return [call for index, call in sorted(self._calls.items()) if index in self._shown]

    def take(self, chunk: Object) -> Object | None:
        """What the client gets of a chunk; the very same object where nothing had to change."""
        if chunk.get("usage"):
            self.usage = usage_of(chunk["usage"])
            self.usage_chunk = chunk
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return None
        choice = cast("Object", choices[0])
        delta = cast("Object", choice.get("delta") or {})
        if isinstance(delta.get("content"), str) and len(self.text) < MOST_KEPT:
            self.text += delta["content"]
        shown = self._delta(delta)
        finish = choice.get("finish_reason")
        if finish:
            self.finish = str(finish)
        if shown is delta and not finish and not chunk.get("usage"):
            return chunk
        if not shown:
            return None
        # The end is told by whoever knows that it is one.
        kept = {name: value for name, value in chunk.items() if name != "usage"}
        return {**kept, "choices": [{**choice, "delta": shown, "finish_reason": None}]}

    def _delta(self, delta: Object) -> Object:
        changed = delta
        if "tool_calls" in delta:
            visible = self._tool_calls(delta["tool_calls"] or [])
            changed = {name: value for name, value in delta.items() if name != "tool_calls"}
            if visible:
                changed["tool_calls"] = visible
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

    def _tool_calls(self, deltas: Sequence[Object]) -> list[Object]:
        visible: list[Object] = []
        for delta in deltas:
            index = delta.get("index")
            if not isinstance(index, int):
                index = len(self._calls) if delta.get("id") else max(self._calls, default=0)
            function = cast("Object", delta.get("function") or {})
            arguments = function.get("arguments") or ""
            if index in self._calls:
                if len(self._calls[index].arguments) < _MOST_ARGUMENTS:
                    self._calls[index].arguments += arguments
                if index in self._shown:
                    visible.append(
                        {"index": self._shown[index], "function": {"arguments": arguments}}
                    )
                continue
            name = str(function.get("name") or "")
            self._calls[index] = Call(str(delta.get("id") or f"call_{index}"), name, arguments)
            if name not in self.ours:
                self._shown[index] = len(self._shown)
                visible.append({**delta, "index": self._shown[index], "type": "function"})
        return visible


def whole(answer: Object, ours: frozenset[str]) -> tuple[list[Call], list[Call], Object]:
    """Of a complete answer: our calls, the client's, and the message; ours stand in the message."""
    choices = cast("list[Object]", answer["choices"])
    message = cast("Object", choices[0]["message"])
    calls = [
        Call(
            str(call.get("id") or ""),
            str(call["function"].get("name") or ""),
            call["function"].get("arguments") or "",
        )
        for call in cast("list[Object]", message.get("tool_calls") or [])
        if isinstance(call.get("function"), dict)
    ]
    mine = [call for call in calls if call.name in ours]
    return mine, [call for call in calls if call.name not in ours], message


def assistant(text: str | None, calls: Sequence[Call]) -> Object:
    """An assistant's message with calls, as the next round is told it."""
    return {
        "role": "assistant",
        "content": text or None,
        "tool_calls": [call.message for call in calls],
    }


def tool_result(call: Call, text: str) -> Object:
    """The answer to a call, as the next round is told it."""
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def arguments_of(call: Call) -> Object | None:
    """The arguments of a call; None when they are no JSON object."""
    try:
        found = json.loads(call.arguments or "{}")
    except ValueError:
        return None
    return cast("Object", found) if isinstance(found, dict) else None
