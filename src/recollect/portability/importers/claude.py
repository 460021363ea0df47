"""Claude's data export: its conversations, and its memories if there are any."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import SourceFiles, read_values
from recollect.portability.importers.markdown import statements
from recollect.portability.importers.record_maker import (
    ForeignMessage,
    RecordMaker,
    as_list,
    as_object,
    as_text,
    parse_time,
)
from recollect.portability.importing import ImportLine, Refusal

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every conversation, and Claude's memories."""
    conversations = found.names("conversations*.json")
    memories = [] if found.is_one_file else found.names("memories*.json")
    if not conversations and not memories:
        yield Refusal("the export", "thread", "it has no `conversations.json`")
    for name in conversations:
        number = 0
        try:
            with found.open(name) as file:
                for value in read_values(file):
                    number += 1
                    yield from _item(f"{name}, conversation {number}", value, make)
        except UnreadableFile as error:
            yield Refusal(f"{name}, after conversation {number}", "thread", error.message)
    for name in memories:
        try:
            with found.open(name) as file:
                for value in read_values(file):
                    yield from _memories(name, as_object(value), make)
        except UnreadableFile as error:
            yield Refusal(name, "memory", error.message)
    if not found.is_one_file:
        for name in found.names("projects*.json"):
            with found.open(name) as file, suppress(UnreadableFile):
                make.left_out["projects with their documents"] += sum(1 for _ in read_values(file))


def _item(where: str, raw: Any, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    item = as_object(raw)
    if "conversations_memory" in item or "project_memories" in item:
        yield from _memories(where, item, make)
    else:
        yield from _conversation(where, item, make)


def _conversation(
    where: str, conversation: Mapping[str, Any], make: RecordMaker
) -> Iterator[ImportLine | Refusal]:
    foreign_id = as_text(conversation.get("uuid")) or as_text(conversation.get("id"))
    raw_messages = conversation.get("chat_messages")
    if foreign_id is None or not isinstance(raw_messages, list):
        yield Refusal(where, "thread", "it has no `uuid` or no `chat_messages`")
        return
    messages: list[ForeignMessage] = []
    for number, each in enumerate(as_list(raw_messages), 1):
        message = as_object(each)
        role = _ROLES.get(str(message.get("sender") or message.get("role")))
        text = _text(message)
        if role is None or not text:
            make.left_out["messages without text"] += 1
            continue
        messages.append(
            ForeignMessage(
                id=as_text(message.get("uuid")) or f"{number}",
                role=role,
                text=text,
                at=parse_time(message.get("created_at")),
            )
        )
    summary = as_text(conversation.get("summary"))
    yield from make.conversation(
        where,
        foreign_id,
        name=as_text(conversation.get("name")),
        at=parse_time(conversation.get("created_at")),
        updated_at=parse_time(conversation.get("updated_at")),
        messages=messages,
        metadata={"conversation_id": foreign_id, **({"summary": summary} if summary else {})},
    )


def _text(message: Mapping[str, Any]) -> str:
    """Return the text of a message, with the text of its attachments."""
    blocks = [
        text
        for block in as_list(message.get("content"))
        if as_object(block).get("type") == "text"
        and (text := as_text(as_object(block).get("text")))
    ]
    written = "\n\n".join(blocks) or as_text(message.get("text")) or ""
    attached = [
        f"[{as_text(as_object(each).get('file_name')) or 'attachment'}]\n{text}"
        for each in as_list(message.get("attachments"))
        if (text := as_text(as_object(each).get("extracted_content")))
    ]
    files = [
        f"[{name}]"
        for each in as_list(message.get("files"))
        if (name := as_text(as_object(each).get("file_name")))
    ]
    return "\n\n".join(part for part in [written, *attached, *files] if part)


def _memories(where: str, item: Mapping[str, Any], make: RecordMaker) -> Iterator[ImportLine]:
    """Yield Claude's memories of its user, one per statement."""
    texts = {"": item.get("conversations_memory")}
    texts |= as_object(item.get("project_memories"))
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
