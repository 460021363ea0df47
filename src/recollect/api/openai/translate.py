"""Translate Responses API requests into chat completions, which every upstream serves. Pure."""

import json
from collections.abc import Sequence
from typing import Any, cast

from recollect.api.openai.body import Object, object_in, objects_in
from recollect.core.errors import Invalid

# Fields that are translated below, or that chat completions do not have.
_TRANSLATED = {
    "input", "instructions", "previous_response_id", "conversation", "store", "include",
    "truncation", "text", "reasoning", "max_output_tokens", "max_tool_calls", "tools",
    "tool_choice", "background", "prompt", "stream_options",
}  # fmt: skip
_TEXT_PARTS = {"input_text", "output_text", "text"}


def items_of(body: Object) -> list[Object]:
    """Return the input as a list of items; raise `Invalid` if it is neither text nor a list."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    if not isinstance(given, list):
        raise Invalid("`input` must be a string or a list of items.", field="input")
    for item in cast("list[Any]", given):
        if not isinstance(item, dict):
            raise Invalid("`input` must contain only objects.", field="input")
    return cast("list[Object]", given)


def messages_of(items: Sequence[Object]) -> list[Object]:
    """Translate items into chat messages."""
    messages: list[Object] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                role = item.get("role", "user")
                if not isinstance(role, str):
                    raise Invalid("The `role` of an item must be a string.", field="input")
                messages.append({"role": role, "content": _content(item)})
            case "function_call":
                _add_call(messages, item, str(item.get("call_id")))
            case "function_call_output":
                messages.append(_tool_message(str(item.get("call_id")), item.get("output")))
            case "mcp_call":
                # A built-in tool that ran in an earlier turn: one item for the call and its result.
                _add_call(messages, item, str(item.get("id")))
                messages.append(_tool_message(str(item.get("id")), item.get("output")))
            case "reasoning" | "mcp_list_tools":
                continue
            case other:
                raise Invalid(f"Items of type `{other}` are not supported.", field="input")
    return messages


def chat_body(body: Object, messages: Sequence[Object]) -> Object:
    """Build the request for chat completions; fields of the same name pass through unchanged."""
    for name in ("background", "prompt"):
        if body.get(name):
            raise Invalid(f"`{name}` is not supported.", field=name)
    chat = {name: value for name, value in body.items() if name not in _TRANSLATED}
    instructions = body.get("instructions")
    first = [{"role": "system", "content": instructions}] if instructions else []
    chat["messages"] = [*first, *messages]
    if not chat["messages"]:
        raise Invalid("`input` must not be empty.", field="input")
    if body.get("max_output_tokens") is not None:
        chat["max_completion_tokens"] = body["max_output_tokens"]
    effort = _object_or_empty(body, "reasoning").get("effort")
    if effort:
        chat["reasoning_effort"] = effort
    text_format = object_in(_object_or_empty(body, "text"), "format")
    if text_format.get("type") == "json_schema":
        schema = {name: value for name, value in text_format.items() if name != "type"}
        chat["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif text_format.get("type", "text") != "text":
        chat["response_format"] = text_format
    tools = [_tool(tool) for tool in objects_in(body, "tools")]
    if tools:
        chat["tools"] = tools
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        chat["tool_choice"] = {
            "type": "function",
            "function": {"name": cast("Object", choice).get("name")},
        }
    elif choice is not None:
        chat["tool_choice"] = choice
    return chat


def _object_or_empty(body: Object, name: str) -> Object:
    found = body.get(name)
    return cast("Object", found) if isinstance(found, dict) else {}


def _tool(tool: Object) -> Object:
    if tool.get("type") != "function":
        raise Invalid("`tools` may contain only functions.", field="tools")
    function = {
        name: tool[name]
        for name in ("name", "description", "parameters", "strict")
        if tool.get(name) is not None
    }
    return {"type": "function", "function": function}


def _content(item: Object) -> Any:
    content = item.get("content")
    if not isinstance(content, list):
        return content
    parts = objects_in(item, "content")
    if all(str(part.get("type")) in _TEXT_PARTS for part in parts) and item.get("role") != "user":
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
            raise Invalid(f"Parts of type `{other}` are not supported.", field="input")


def _add_call(messages: list[Object], item: Object, call_id: str) -> None:
    """Add a call to the last message if that is an assistant's, else to a new one."""
    call = {
        "id": call_id,
        "type": "function",
        "function": {"name": item.get("name"), "arguments": item.get("arguments") or "{}"},
    }
    last = messages[-1] if messages else {}
    if last.get("role") == "assistant":
        messages[-1] = {**last, "tool_calls": [*last.get("tool_calls", []), call]}
    else:
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})


def _tool_message(call_id: str, output: Any) -> Object:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def response_usage(usage: Object | None) -> Object | None:
    """Translate a chat completion's usage into that of a response."""
    if not usage:
        return None
    prompt_details = _object_or_empty(usage, "prompt_tokens_details")
    completion_details = _object_or_empty(usage, "completion_tokens_details")
    prompt = int(usage.get("prompt_tokens") or 0)
    completion = int(usage.get("completion_tokens") or 0)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": prompt_details.get("cached_tokens") or 0,
            "cache_write_tokens": prompt_details.get("cache_write_tokens") or 0,
        },
        "output_tokens": completion,
        "output_tokens_details": {
            "reasoning_tokens": completion_details.get("reasoning_tokens") or 0
        },
        "total_tokens": prompt + completion,
    }
