"""Put memories into a request without changing anything else in it. Pure.

The stable block goes into the system message and changes only when its memories change. Memories
recalled for a user message follow that message's text, in this request and in every later one. So
each request still begins with the bytes of the previous one.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from recollect.core.prompt_fence import disarm_fences

Message = dict[str, Any]
_SYSTEM_ROLES = {"system", "developer"}


def text_of(content: Any) -> str:
    """Return the text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = [cast("Message", part).get("text") for part in parts if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def user_message_digests(messages: Sequence[Message], seed: str) -> dict[int, bytes]:
    """Return, by the index of each user message, a digest of the conversation up to it.

    Only user messages count: some clients put a clock into the system prompt or shorten earlier
    answers. `seed` separates the conversations of different people and threads.
    """
    digest = hashlib.sha256(seed.encode())
    digests: dict[int, bytes] = {}
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            content = json.dumps(message.get("content"), sort_keys=True, ensure_ascii=False)
            digest.update(b"\0" + content.encode())
            digests[index] = digest.digest()
    return digests


def compose_messages(
    messages: Sequence[Message], *, stable: str | None, blocks: Mapping[int, str]
) -> list[Message]:
    """Add the stable block to the system message, and each other block to its user message."""
    composed = [_disarm(message) for message in messages]
    for index, block in blocks.items():
        message = composed[index]
        composed[index] = {**message, "content": _append_text(message.get("content"), block)}
    return with_system(composed, stable) if stable else composed


def with_system(messages: list[Message], text: str) -> list[Message]:
    """Append the text to the system message; add one if there is none.

    There is never a second system message: strict chat templates reject that.
    """
    if messages and messages[0].get("role") in _SYSTEM_ROLES:
        first = {**messages[0], "content": _append_text(messages[0].get("content"), text)}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _append_text(content: Any, text: str) -> Any:
    """Append a text to a content: a string, or the last text part of a list."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        last = max((i for i, part in enumerate(parts) if _is_text(part)), default=None)
        if last is None:
            return [*parts, {"type": "text", "text": text}]
        longer = {**parts[last], "text": f"{parts[last]['text']}\n\n{text}"}
        return [*parts[:last], longer, *parts[last + 1 :]]
    return f"{content}\n\n{text}" if content else text


def _is_text(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    found = cast("Message", part)
    return found.get("type") == "text" and isinstance(found.get("text"), str)


def _disarm(message: Message) -> Message:
    """Disarm imitations of our fence in a message; return the same object if there are none."""
    content = message.get("content")
    if isinstance(content, str):
        clean = disarm_fences(content)
        return message if clean == content else {**message, "content": clean}
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        cleaned = [
            {**part, "text": disarm_fences(part["text"])} if _is_text(part) else part
            for part in parts
        ]
        return message if cleaned == parts else {**message, "content": cleaned}
    return message
