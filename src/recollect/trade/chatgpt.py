"""ChatGPT: the data export, whose conversations are trees of which one branch was last in sight.

Kept is that branch, what the user and the assistant said in it, and what ChatGPT wrote down about
the user: its own memory is found where it told its tool `bio` to remember, and where the list of
what it knew stands in a conversation. Answers that were made anew, hidden messages and the traffic
with tools are left out and counted.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found, values
from recollect.trade.making import Maker, Said, list_of, moment, object_of, text_of

_TALK = {"user", "assistant"}
_NUMBERED = re.compile(r"^\s*\d+\.\s*(?:\[(\d{4}-\d{2}-\d{2})\]\.?\s*)?(.*)$")


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every conversation, and the memories that stand in files and conversations."""
    names = found.names("conversations*.json")
    if not names and not found.names("memor*.json"):
        yield Refusal("the export", "thread", "it holds no `conversations.json`")
    seen: set[str] = set()
    for name in names:
        number = 0
        try:
            with found.open(name) as file:
                for value in values(file):
                    number += 1
                    yield from _conversation(f"{name}, conversation {number}", value, make, seen)
        except Unreadable as error:
            yield Refusal(f"{name}, after conversation {number}", "thread", error.message)
    if not found.is_one_file:
        for name in found.names("memor*.json"):
            yield from _memories(found, name, make, seen)


def _memories(found: Found, name: str, make: Maker, seen: set[str]) -> Iterator[Line | Refusal]:
    try:
        with found.open(name) as file:
            for number, value in enumerate(values(file), 1):
                some = object_of(value)
                items = list_of(some.get("memories")) or [value]
                for each in items:
                    item = object_of(each)
                    text = text_of(item.get("content")) or text_of(item.get("memory"))
                    text = text or text_of(each)
                    if text:
                        at = moment(item.get("created_at") or item.get("create_time"))
                        yield from _remembered(f"{name}, item {number}", text, at, make, seen)
    except Unreadable as error:
        yield Refusal(name, "memory", error.message)


def _conversation(where: str, raw: Any, make: Maker, seen: set[str]) -> Iterator[Line | Refusal]:
    talk = object_of(raw)
    theirs = text_of(talk.get("conversation_id")) or text_of(talk.get("id"))
    nodes = object_of(talk.get("mapping"))
    if theirs is None or not nodes:
        yield Refusal(where, "thread", "it has no id or no messages (`mapping`)")
        return
    branch = _branch(nodes, talk.get("current_node"))
    make.left_out["messages of other branches"] += sum(
        1 for name, node in nodes.items() if name not in branch and _is_talk(node)
    )
    said: list[Said] = []
    for name in branch:
        message = object_of(object_of(nodes[name]).get("message"))
        yield from _written_down(where, message, make, seen)
        spoken = _said(name, message, make)
        if spoken:
            said.append(spoken)
    yield from make.conversation(
        where,
        theirs,
        name=text_of(talk.get("title")),
        at=moment(talk.get("create_time")),
        updated_at=moment(talk.get("update_time")),
        messages=said,
        metadata={
            "conversation_id": theirs,
            **{
                name: talk[name]
                for name in ("gizmo_id", "is_archived", "default_model_slug")
                if talk.get(name)
            },
        },
    )


def _branch(nodes: Mapping[str, Any], current: Any) -> list[str]:
    """From the root to the node that was in sight last; without that, to the newest one."""
    at = current if isinstance(current, str) and current in nodes else _newest(nodes)
    path: list[str] = []
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:  # a ring would have no end
        seen.add(at)
        path.append(at)
        at = object_of(nodes[at]).get("parent")
    return path[::-1]


def _newest(nodes: Mapping[str, Any]) -> str:
    def time_of(name: str) -> float:
        message = object_of(object_of(nodes[name]).get("message"))
        at = moment(message.get("create_time"))
        return at.timestamp() if at else 0.0

    leaves = [name for name in nodes if not list_of(object_of(nodes[name]).get("children"))]
    return max(leaves or list(nodes), key=time_of)


def _is_talk(node: Any) -> bool:
    message = object_of(object_of(node).get("message"))
    role = object_of(message.get("author")).get("role")
    return role in _TALK and bool(_text(object_of(message.get("content"))))


def _said(name: str, message: Mapping[str, Any], make: Maker) -> Said | None:
    author = object_of(message.get("author"))
    role = author.get("role")
    text = _text(object_of(message.get("content")))
    if not text:
        return None
    about = object_of(message.get("metadata"))
    is_aside = message.get("recipient") not in {None, "all"}
    if role not in _TALK or is_aside:
        make.left_out["messages of tools and system"] += 1
        return None
    if about.get("is_visually_hidden_from_conversation"):
        make.left_out["hidden messages"] += 1
        return None
    model = text_of(about.get("model_slug"))
    return Said(
        id=text_of(message.get("id")) or name,
        role=role,
        text=text,
        at=moment(message.get("create_time")),
        author=text_of(author.get("name")),
        metadata={"model": model} if model else {},
    )


def _text(content: Mapping[str, Any]) -> str:
    """What was written, with a mark where something was shown."""
    kind = content.get("content_type")
    if kind in {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}:
        return ""
    parts = list_of(content.get("parts"))
    told = [_part(each) for each in parts] or [text_of(content.get("text")) or ""]
    return "\n".join(each for each in told if each).strip()


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    some = object_of(part)
    if text := text_of(some.get("text")):
        return text
    pointer = str(some.get("content_type") or "")
    return f"[{pointer.split('_', maxsplit=1)[0]}]" if pointer else ""


def _written_down(
    where: str, message: Mapping[str, Any], make: Maker, seen: set[str]
) -> Iterator[Line]:
    """What ChatGPT told its memory to keep, and what its memory was told to hold."""
    content = object_of(message.get("content"))
    at = moment(message.get("create_time"))
    if message.get("recipient") == "bio":
        text = _text(content)
        if text:
            yield from _remembered(f"{where}, memory", text, at, make, seen)
    if content.get("content_type") == "model_editable_context":
        for line in str(content.get("model_set_context") or "").splitlines():
            fits = _NUMBERED.match(line)
            if fits and fits[2].strip():
                since = moment(fits[1]) or at
                yield from _remembered(f"{where}, memory", fits[2].strip(), since, make, seen)


def _remembered(where: str, text: str, at: Any, make: Maker, seen: set[str]) -> Iterator[Line]:
    """A memory of ChatGPT's, once however often it stands in the export."""
    if text not in seen:
        seen.add(text)
        yield make.memory(where, text, text, at=at, origin="model", tags=["chatgpt"])
