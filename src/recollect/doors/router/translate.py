"""The Responses API told as chat completions, which every upstream speaks. Pure."""

import json
from collections.abc import Sequence
from typing import Any, cast

from recollect.doors.router.body import Object, object_in, objects_in
from recollect.errors import Invalid

# Told in other words below, or of no meaning to a chat completion.
_TRANSLATED = {
    "input", "instructions", "previous_response_id", "conversation", "store", "include",
    "truncation", "text", "reasoning", "max_output_tokens", "max_tool_calls", "tools",
    "tool_choice", "background", "prompt", "stream_options",
}  # fmt: skip
_PARTS = {"input_text": "text", "output_text": "text", "text": "text"}


def items_of(body: Object) -> list[Object]:
    """The input as a list of items; raise `Invalid` on what is none."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise Invalid("`input` must be a text or a list of items.", field="input")
    for item in cast("list[Any]", given):
        if not isinstance(item, dict):
            raise Invalid("`input` must hold objects.", field="input")
    return cast("list[Object]", given)


def messages_of(items: Sequence[Object]) -> list[Object]:
    """Chat messages that say the same as the items."""
    made: list[Object] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                role = item.get("role", "user")
                if not isinstance(role, str):
                    raise Invalid("The `role` of an item must be a text.", field="input")
                made.append({"role": role, "content": _content(item)})
            case "function_call":
                _called(made, item, str(item.get("call_id")))
            case "function_call_output":
                made.append(_result(str(item.get("call_id")), item.get("output")))
            case "mcp_call":
                # Run by the server in an earlier turn: a call and its result.
                _called(made, item, str(item.get("id")))
                made.append(_result(str(item.get("id")), item.get("output")))
            case "reasoning" | "mcp_list_tools":
                continue
            case other:
                raise Invalid(f"An item of type `{other}` cannot be passed on.", field="input")
    return made


def chat_body(body: Object, messages: Sequence[Object]) -> Object:
    """The request for chat completions; what has no other name there goes through as it is."""
    for name in ("background", "prompt"):
        if body.get(name):
            raise Invalid(f"`{name}` is not served here.", field=name)
    made = {name: value for name, value in body.items() if name not in _TRANSLATED}
    instructions = body.get("instructions")
    first = [{"role": "system", "content": instructions}] if instructions else []
    made["messages"] = [*first, *messages]
    if not made["messages"]:
        raise Invalid("`input` must not be empty.", field="input")
    if body.get("max_output_tokens") is not None:
        made["max_completion_tokens"] = body["max_output_tokens"]
    effort = _within(body, "reasoning").get("effort")
    if effort:
        made["reasoning_effort"] = effort
    text_format = object_in(_within(body, "text"), "format")
    if text_format.get("type") == "json_schema":
        schema = {name: value for name, value in text_format.items() if name != "type"}
        made["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif text_format.get("type", "text") != "text":
        made["response_format"] = text_format
    tools = [_tool(tool) for tool in objects_in(body, "tools")]
    if tools:
        made["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        made["tool_choice"] = {
            "type": "function",
            "function": {"name": cast("Object", choice).get("name")},
        }
    elif choice is not None:
        made["tool_choice"] = choice
    return made


def _within(body: Object, name: str) -> Object:
    found = body.get(name)
    return cast("Object", found) if isinstance(found, dict) else {}


def _tool(told: Object) -> Object:
    if told.get("type") != "function":
        raise Invalid("`tools` may hold functions only.", field="tools")
    function = {
        name: told[name]
        for name in ("name", "description", "parameters", "strict")
        if told.get(name) is not None
    }
    return {"type": "function", "function": function}


def _content(item: Object) -> Any:
    content = item.get("content")
    if not isinstance(content, list):
        return content
    parts = objects_in(item, "content")
    if all(str(part.get("type")) in _PARTS for part in parts) and item.get("role") != "user":
        return "".join(str(part.get("text") or "") for part in parts)
    return [_part(part) for part in parts]


def _part(part: Object) -> Object:
    match part.get("type"):
        case "input_text" | "output_text" | "text":
            return {"type": "text", "text": part.get("text") or ""}
        case "input_image":
            image: Object = {"url": part.get("image_url")}
            if part.get("detail"):
                image["detail"] = part["detail"]
            return {"type": "image_url", "image_url": image}
        case "input_file":
            file = {name: value for name, value in part.items() if name != "type"}
            return {"type": "file", "file": file}
        case "input_audio":
            return part
        case "refusal":
            return {"type": "refusal", "refusal": part.get("refusal")}
        case other:
            raise Invalid(f"A part of type `{other}` cannot be passed on.", field="input")


def _called(made: list[Object], item: Object, call_id: str) -> None:
    """Add a call to the assistant's message that ends the list, or to a new one."""
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": item.get("name"), "arguments": item.get("arguments") or "{}"},
    }
    if made and made[-1].get("role") == "assistant":
        made[-1] = {**made[-1], "tool_calls": [*made[-1].get("tool_calls", []), call]}
    else:
        made.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _result(call_id: str, output: Any) -> Object:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def usage_shown(usage: Object | None) -> Object | None:
    """A chat completion's usage in the terms of a response."""
    if not usage:
        return None
    before = _within(usage, "prompt_tokens_details")
    after = _within(usage, "completion_tokens_details")
    asked = int(usage.get("prompt_tokens") or 0)
    said = int(usage.get("completion_tokens") or 0)
    return {
        "input_tokens": asked,
        "input_tokens_details": {
            "cached_tokens": before.get("cached_tokens") or 0,
            "cache_write_tokens": before.get("cache_write_tokens") or 0,
        },
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": after.get("reasoning_tokens") or 0},
        "total_tokens": asked + said,
    }
