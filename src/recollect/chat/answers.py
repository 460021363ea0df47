"""Read model answers, and merge the answers of several rounds into one for the client. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from recollect.chat.prompt import text_of
from recollect.chat.queries.injections import BuiltinCalls
from recollect.chat.tool_rounds import ToolCall

Object = dict[str, Any]


def parse_object(data: bytes | None) -> Object | None:
    """Parse a JSON object; return None for anything else."""
    try:
        found = json.loads(data) if data else None
    except ValueError:
        return None
    return cast("Object", found) if isinstance(found, dict) else None


def answer_text(answer: Object) -> str:
    """Return the text of a complete answer, or an empty string if it has none."""
    try:
        return text_of(answer["choices"][0]["message"].get("content"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""


def chunk_of(answer: Object) -> Object | None:
    """Return a complete answer as one chunk of a stream; None if it is no answer."""
    try:
        choice = answer["choices"][0]
        message = {"content": None, **choice["message"]}
    except (KeyError, IndexError, TypeError):
        return None
    finish = choice.get("finish_reason") or "stop"
    return {**answer, "choices": [{"index": 0, "delta": message, "finish_reason": finish}]}


def tool_name(tool: Any) -> str:
    """Return the name of a tool definition, or an empty string if it has none."""
    if not isinstance(tool, dict):
        return ""
    function = cast("Object", tool).get("function")
    return str(cast("Object", function).get("name")) if isinstance(function, dict) else ""


def tool_names(body: Object) -> set[str]:
    """Return the names of the tools that a request defines."""
    tools = body.get("tools")
    return (
        {tool_name(tool) for tool in cast("list[Any]", tools)} if isinstance(tools, list) else set()
    )


def with_identity_of(first: Object, chunk: Object) -> Object:
    """Give a later chunk the id, time and model of the first: the client sees one answer."""
    same = {name: first[name] for name in ("id", "created", "model") if name in first}
    return {**chunk, **same}


def finish_reason(reason: str | None, client_calls: Sequence[ToolCall]) -> str:
    """Return the finish reason for the client, which must not see calls of built-in tools."""
    if client_calls:
        return "tool_calls"
    return "stop" if reason in {None, "tool_calls", "function_call"} else str(reason)


def merge_rounds(
    first: Object,
    last: Object,
    text: str,
    client_calls: Sequence[ToolCall],
    usage: Object | None,
) -> Object:
    """Turn the last round's answer into the answer to the client's one request.

    `text` is the text of all rounds and `usage` their sum.
    """
    choice = cast("Object", cast("list[Any]", last["choices"])[0])
    message = {name: value for name, value in choice["message"].items() if name != "tool_calls"}
    message["content"] = text or None
    if client_calls:
        message["tool_calls"] = [call.message for call in client_calls]
    reason = finish_reason(choice.get("finish_reason"), client_calls)
    merged = {**last, "choices": [{**choice, "message": message, "finish_reason": reason}]}
    if usage:
        merged["usage"] = usage
    return with_identity_of(first, merged)


def sum_usages(usages: Sequence[Object]) -> Object:
    """Add numbers by name, at every depth. For values that are not numbers, the last one wins."""
    total: Object = {}
    for usage in usages:
        for name, value in usage.items():
            before = total.get(name)
            if isinstance(value, dict):
                inner = cast("Object", before) if isinstance(before, dict) else {}
                total[name] = sum_usages([inner, cast("Object", value)])
            elif isinstance(value, (int, float)) and isinstance(before, (int, float)):
                total[name] = before + value
            else:
                total[name] = value
    return total


def restore_builtin_calls(
    messages: Sequence[Object], builtin_calls: Mapping[str, BuiltinCalls]
) -> list[Object]:
    """Put the calls that the client never saw, and their results, back where they were."""
    if not builtin_calls:
        return list(messages)
    restored: list[Object] = []
    for message in messages:
        calls = cast("list[Object]", message.get("tool_calls") or [])
        missing = next(
            (builtin_calls[call["id"]] for call in calls if call.get("id") in builtin_calls), None
        )
        if missing is None:
            restored.append(message)
            continue
        restored.append({**message, "tool_calls": [*missing.calls, *calls]})
        restored += missing.results
    return restored
