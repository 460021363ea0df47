"""The output of Mem0's `get_all` and its exports: one object, a list, or one per line."""

from collections.abc import Iterator
from typing import Any

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import SourceFiles, read_values
from recollect.portability.importers.record_maker import (
    RecordMaker,
    as_list,
    as_object,
    as_text,
    parse_time,
)
from recollect.portability.importing import ImportLine, Refusal

# Fields of the text: `memory` today, others in older releases and in exports by schema.
_TEXTS = ("memory", "text", "data", "content")
_LISTS = ("results", "memories", "data")
# Fields that are kept as metadata.
_CONTEXT = ("agent_id", "run_id", "app_id", "actor_id", "role")


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every memory in the file."""
    for name in found.names("*.json", "*.jsonl"):
        number = 0
        try:
            with found.open(name) as file:
                for item in _items(file, make):
                    number += 1
                    yield _memory(f"{name}, item {number}", item, make)
        except UnreadableFile as error:
            yield Refusal(f"{name}, after item {number}", "memory", error.message)


def _items(file: Any, make: RecordMaker) -> Iterator[Any]:
    for value in read_values(file):
        item = as_object(value)
        lists = [item[name] for name in _LISTS if isinstance(item.get(name), list)]
        make.left_out["relations of a graph"] += len(as_list(item.get("relations")))
        if lists and not any(as_text(item.get(name)) for name in _TEXTS):
            for each in lists:
                yield from each
        else:
            yield value


def _memory(where: str, raw: Any, make: RecordMaker) -> ImportLine | Refusal:
    item = as_object(raw)
    content = next((text for name in _TEXTS if (text := as_text(item.get(name)))), None)
    if content is None:
        return Refusal(where, "memory", "it has no text in `memory`")
    tags = [each for each in as_list(item.get("categories")) if as_text(each)]
    context = {name: item[name] for name in _CONTEXT if item.get(name) is not None}
    at = parse_time(item.get("created_at"))
    expires_at = parse_time(item.get("expiration_date"))
    subject = as_text(item.get("user_id"))
    return make.memory(
        where,
        content,
        # Without an id, the subject and the text identify a memory.
        item.get("id") or f"{subject}\x1f{content}",
        at=at,
        updated_at=parse_time(item.get("updated_at")),
        category=tags[0] if tags else None,
        tags=tags,
        subject=subject,
        metadata={**as_object(item.get("metadata")), **context},
        expires_at=expires_at and expires_at.isoformat(),
    )
