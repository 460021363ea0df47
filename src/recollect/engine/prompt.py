"""Where memories stand in a request, without disturbing anything else in it. Pure.

The stable block goes into the system message and changes only when it must; what was recalled for
a user message stands behind that message's text, then and in every later request, so that a
request still begins with the bytes of the one before.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from recollect.engine.fence import neutralised

Message = dict[str, Any]
_SYSTEM = {"system", "developer"}


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        texts = [cast("Message", part).get("text") for part in parts if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return ""


def user_places(messages: Sequence[Message], seed: str) -> dict[int, bytes]:
    """For the index of each user message, what identifies the conversation up to it.

    Only what users said counts: clients send their system prompt with a clock in it, and answers
    shortened. `seed` keeps conversations of different people and threads apart.
    """
    digest = hashlib.sha256(seed.encode())
    places: dict[int, bytes] = {}
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            said = json.dumps(message.get("content"), sort_keys=True, ensure_ascii=False)
            digest.update(b"\0" + said.encode())
            places[index] = digest.digest()
    return places


def composed(
    messages: Sequence[Message], *, stable: str | None, blocks: Mapping[int, str]
) -> list[Message]:
    """The messages with the stable block and, behind the user messages named, their blocks."""
    made = [_neutral(message) for message in messages]
    for index, block in blocks.items():
        made[index] = {**made[index], "content": _followed(made[index].get("content"), block)}
    return with_system(made, stable) if stable else made


def with_system(messages: list[Message], text: str) -> list[Message]:
    """The text at the end of the system message, or as one where there is none.

    Never as a second one: strict chat templates refuse that.
    """
    if messages and messages[0].get("role") in _SYSTEM:
        first = {**messages[0], "content": _followed(messages[0].get("content"), text)}
        return [first, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _followed(content: Any, text: str) -> Any:
    """The content with a text behind its own."""
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        at = max((i for i, part in enumerate(parts) if _is_text(part)), default=None)
        if at is None:
            return [*parts, {"type": "text", "text": text}]
        grown = {**parts[at], "text": f"{parts[at]['text']}\n\n{text}"}
        return [*parts[:at], grown, *parts[at + 1 :]]
    return f"{content}\n\n{text}" if content else text


def _is_text(part: Any) -> bool:
    if not isinstance(part, dict):
        return False
    found = cast("Message", part)
    return found.get("type") == "text" and isinstance(found.get("text"), str)


def _neutral(message: Message) -> Message:
    """The message with imitations of our fence made harmless; itself, where there are none."""
    content = message.get("content")
    if isinstance(content, str):
        clean = neutralised(content)
        return message if clean == content else {**message, "content": clean}
    if isinstance(content, list):
        parts = cast("list[Any]", content)
        cleaned = [
            {**part, "text": neutralised(part["text"])} if _is_text(part) else part
            for part in parts
        ]
        return message if cleaned == parts else {**message, "content": cleaned}
    return message
