"""ChatGPT's data export, in which each conversation is a tree of messages.

We import the branch that was shown last, with the messages of the user and the assistant, and
ChatGPT's memories of the user: messages to its tool `bio`, and the lists of memories inside
conversations. Regenerated answers, hidden messages and tool messages are left out and counted.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import SourceFiles, read_values
from recollect.portability.importers.record_maker import (
    ForeignMessage,
    RecordMaker,
    as_list,
    as_object,
    as_text,
    parse_time,
)
from recollect.portability.importing import ImportLine, Refusal

_ROLES = {"user", "assistant"}
_NUMBERED = re.compile(r"^\s*\d+\.\s*(?:\[(\d{4}-\d{2}-\d{2})\]\.?\s*)?(.*)$")


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every conversation, and the memories in files and conversations."""
    names = found.names("conversations*.json")
    if not names and not found.names("memor*.json"):
        yield Refusal("the export", "thread", "it has no `conversations.json`")
    seen: set[str] = set()
    for name in names:
        number = 0
        try:
            with found.open(name) as file:
                for value in read_values(file):
                    number += 1
                    yield from _conversation(f"{name}, conversation {number}", value, make, seen)
        except UnreadableFile as error:
            yield Refusal(f"{name}, after conversation {number}", "thread", error.message)
    if not found.is_one_file:
        for name in found.names("memor*.json"):
            yield from _memories(found, name, make, seen)


def _memories(
    found: SourceFiles, name: str, make: RecordMaker, seen: set[str]
) -> Iterator[ImportLine | Refusal]:
    try:
        with found.open(name) as file:
            for number, value in enumerate(read_values(file), 1):
                items = as_list(as_object(value).get("memories")) or [value]
                for each in items:
                    item = as_object(each)
                    text = as_text(item.get("content")) or as_text(item.get("memory"))
                    text = text or as_text(each)
                    if text:
                        at = parse_time(item.get("created_at") or item.get("create_time"))
                        yield from _memory(f"{name}, item {number}", text, at, make, seen)
    except UnreadableFile as error:
        yield Refusal(name, "memory", error.message)


def _conversation(
    where: str, raw: Any, make: RecordMaker, seen: set[str]
) -> Iterator[ImportLine | Refusal]:
    conversation = as_object(raw)
    foreign_id = as_text(conversation.get("conversation_id")) or as_text(conversation.get("id"))
    nodes = as_object(conversation.get("mapping"))
    if foreign_id is None or not nodes:
        yield Refusal(where, "thread", "it has no id or no messages (`mapping`)")
        return
    branch = _branch(nodes, conversation.get("current_node"))
    make.left_out["messages of other branches"] += sum(
        1 for name, node in nodes.items() if name not in branch and _is_visible(node)
    )
    messages: list[ForeignMessage] = []
    for name in branch:
        message = as_object(as_object(nodes[name]).get("message"))
        yield from _memories_in(where, message, make, seen)
        if made := _message(name, message, make):
            messages.append(made)
    yield from make.conversation(
        where,
        foreign_id,
        name=as_text(conversation.get("title")),
        at=parse_time(conversation.get("create_time")),
        updated_at=parse_time(conversation.get("update_time")),
        messages=messages,
        metadata={
            "conversation_id": foreign_id,
            **{
                name: conversation[name]
                for name in ("gizmo_id", "is_archived", "default_model_slug")
                if conversation.get(name)
            },
        },
    )


def _branch(nodes: Mapping[str, Any], current: Any) -> list[str]:
    """Return the path from the root to the node shown last, or to the newest if unknown."""
    at = current if isinstance(current, str) and current in nodes else _newest(nodes)
    path: list[str] = []
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:  # stops at a cycle
        seen.add(at)
        path.append(at)
        at = as_object(nodes[at]).get("parent")
    return path[::-1]


def _newest(nodes: Mapping[str, Any]) -> str:
    def time_of(name: str) -> float:
        message = as_object(as_object(nodes[name]).get("message"))
        at = parse_time(message.get("create_time"))
        return at.timestamp() if at else 0.0

    leaves = [name for name in nodes if not as_list(as_object(nodes[name]).get("children"))]
    return max(leaves or list(nodes), key=time_of)


def _is_visible(node: Any) -> bool:
    message = as_object(as_object(node).get("message"))
    role = as_object(message.get("author")).get("role")
    return role in _ROLES and bool(_text(as_object(message.get("content"))))


def _message(name: str, message: Mapping[str, Any], make: RecordMaker) -> ForeignMessage | None:
    author = as_object(message.get("author"))
    role = author.get("role")
    text = _text(as_object(message.get("content")))
    if not text:
        return None
    metadata = as_object(message.get("metadata"))
    is_to_tool = message.get("recipient") not in {None, "all"}
    if role not in _ROLES or is_to_tool:
        make.left_out["messages of tools and system"] += 1
        return None
    if metadata.get("is_visually_hidden_from_conversation"):
        make.left_out["hidden messages"] += 1
        return None
    model = as_text(metadata.get("model_slug"))
    return ForeignMessage(
        id=as_text(message.get("id")) or name,
        role=role,
        text=text,
        at=parse_time(message.get("create_time")),
        author=as_text(author.get("name")),
        metadata={"model": model} if model else {},
    )


def _text(content: Mapping[str, Any]) -> str:
    """Return the text of a message, with a mark for each image or file."""
    kind = content.get("content_type")
    if kind in {"user_editable_context", "model_editable_context", "thoughts", "reasoning_recap"}:
        return ""
    parts = as_list(content.get("parts"))
    texts = [_part(each) for each in parts] or [as_text(content.get("text")) or ""]
    return "\n".join(each for each in texts if each).strip()


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    item = as_object(part)
    if text := as_text(item.get("text")):
        return text
    kind = str(item.get("content_type") or "")
    return f"[{kind.split('_', maxsplit=1)[0]}]" if kind else ""


def _memories_in(
    where: str, message: Mapping[str, Any], make: RecordMaker, seen: set[str]
) -> Iterator[ImportLine]:
    """Yield the memories that ChatGPT saved in a message, or listed in one."""
    content = as_object(message.get("content"))
    at = parse_time(message.get("create_time"))
    if message.get("recipient") == "bio":
        text = _text(content)
        if text:
            yield from _memory(f"{where}, memory", text, at, make, seen)
    if content.get("content_type") == "model_editable_context":
        for line in str(content.get("model_set_context") or "").splitlines():
            match = _NUMBERED.match(line)
            if match and match[2].strip():
                since = parse_time(match[1]) or at
                yield from _memory(f"{where}, memory", match[2].strip(), since, make, seen)


def _memory(
    where: str, text: str, at: Any, make: RecordMaker, seen: set[str]
) -> Iterator[ImportLine]:
    """Yield a memory of ChatGPT, once even if the export contains it several times."""
    if text not in seen:
        seen.add(text)
        yield make.memory(where, text, text, at=at, origin="model", tags=["chatgpt"])
