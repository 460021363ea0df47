"""Claude: the data export, with conversations, and memories where there are some."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found, values
from recollect.trade.making import Maker, Said, list_of, moment, object_of, text_of
from recollect.trade.markdown import statements

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every conversation, and what Claude remembered."""
    conversations = found.names("conversations*.json")
    memories = [] if found.is_one_file else found.names("memories*.json")
    if not conversations and not memories:
        yield Refusal("the export", "thread", "it holds no `conversations.json`")
    for name in conversations:
        number = 0
        try:
            with found.open(name) as file:
                for value in values(file):
                    number += 1
                    yield from _item(f"{name}, conversation {number}", value, make)
        except Unreadable as error:
            yield Refusal(f"{name}, after conversation {number}", "thread", error.message)
    for name in memories:
        try:
            with found.open(name) as file:
                for value in values(file):
                    yield from _memories(name, object_of(value), make)
        except Unreadable as error:
            yield Refusal(name, "memory", error.message)
    if not found.is_one_file:
        for name in found.names("projects*.json"):
            with found.open(name) as file, suppress(Unreadable):
                make.left_out["projects with their documents"] += sum(1 for _ in values(file))


def _item(where: str, raw: Any, make: Maker) -> Iterator[Line | Refusal]:
    some = object_of(raw)
    if "conversations_memory" in some or "project_memories" in some:
        yield from _memories(where, some, make)
    else:
        yield from _conversation(where, some, make)


def _conversation(where: str, talk: Mapping[str, Any], make: Maker) -> Iterator[Line | Refusal]:
    theirs = text_of(talk.get("uuid")) or text_of(talk.get("id"))
    messages = talk.get("chat_messages")
    if theirs is None or not isinstance(messages, list):
        yield Refusal(where, "thread", "it has no `uuid` or no `chat_messages`")
        return
    said: list[Said] = []
    for number, each in enumerate(list_of(messages), 1):
        message = object_of(each)
        role = _ROLES.get(str(message.get("sender") or message.get("role")))
        text = _text(message)
        if role is None or not text:
            make.left_out["messages without text"] += 1
            continue
        said.append(
            Said(
                id=text_of(message.get("uuid")) or f"{number}",
                role=role,
                text=text,
                at=moment(message.get("created_at")),
            )
        )
    summary = text_of(talk.get("summary"))
    yield from make.conversation(
        where,
        theirs,
        name=text_of(talk.get("name")),
        at=moment(talk.get("created_at")),
        updated_at=moment(talk.get("updated_at")),
        messages=said,
        metadata={"conversation_id": theirs, **({"summary": summary} if summary else {})},
    )


def _text(message: Mapping[str, Any]) -> str:
    """What was written, and what was attached as text."""
    blocks = [
        text
        for block in list_of(message.get("content"))
        if object_of(block).get("type") == "text"
        and (text := text_of(object_of(block).get("text")))
    ]
    written = "\n\n".join(blocks) or text_of(message.get("text")) or ""
    attached = [
        f"[{text_of(object_of(each).get('file_name')) or 'attachment'}]\n{text}"
        for each in list_of(message.get("attachments"))
        if (text := text_of(object_of(each).get("extracted_content")))
    ]
    files = [
        f"[{name}]"
        for each in list_of(message.get("files"))
        if (name := text_of(object_of(each).get("file_name")))
    ]
    return "\n\n".join(part for part in [written, *attached, *files] if part)


def _memories(where: str, some: Mapping[str, Any], make: Maker) -> Iterator[Line]:
    """What Claude wrote down about its user, statement by statement."""
    texts = {"": some.get("conversations_memory")}
    texts |= object_of(some.get("project_memories"))
    for project, text in texts.items():
        if not isinstance(text, str):
            continue
        for each in statements(text):
            yield make.memory(
                f"{where}, {each.where}",
                each.text,
                project,
                each.text,
                origin="model",
                tags=["claude", *each.headings],
                metadata={"project": project} if project else {},
            )
