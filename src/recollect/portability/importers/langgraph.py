"""A dump of LangGraph's store, whose items have a namespace, a key and a value."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

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

# Fields in which people and LangMem put the text of a value.
_TEXTS = ("text", "content", "memory", "data", "fact", "value", "summary")
_LISTS = ("items", "results", "store")


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every item of the store."""
    for name in found.names("*.json", "*.jsonl"):
        number = 0
        try:
            with found.open(name) as file:
                for item in _items(file):
                    number += 1
                    yield _memory(f"{name}, item {number}", as_object(item), make)
        except UnreadableFile as error:
            yield Refusal(f"{name}, after item {number}", "memory", error.message)


def _items(file: Any) -> Iterator[Any]:
    for value in read_values(file):
        item = as_object(value)
        lists = [item[name] for name in _LISTS if isinstance(item.get(name), list)]
        if lists and "key" not in item:
            for each in lists:
                yield from each
        else:
            yield value


def _memory(where: str, item: Mapping[str, Any], make: RecordMaker) -> ImportLine | Refusal:
    key = as_text(item.get("key"))
    if key is None or item.get("value") is None:
        return Refusal(where, "memory", "it has no `key` or no `value`")
    namespace = _namespace(item)
    value = _value(item["value"])
    expires_at = parse_time(item.get("expires_at"))
    return make.memory(
        where,
        _text_in(value) or json.dumps(value, ensure_ascii=False),
        *namespace,
        key,
        at=parse_time(item.get("created_at")),
        updated_at=parse_time(item.get("updated_at")),
        category=as_text(as_object(value).get("kind")),
        # A key that a person chose is useful for lookups; a generated one is not.
        key=None if _is_generated(key) else key,
        tags=namespace,
        metadata={"namespace": namespace, "key": key, "value": value},
        expires_at=expires_at and expires_at.isoformat(),
    )


def _namespace(item: Mapping[str, Any]) -> list[str]:
    """Return the namespace: a list, or text joined by dots as in its PostgreSQL table."""
    given = item.get("namespace", item.get("prefix"))
    if isinstance(given, str):
        return [part for part in given.split(".") if part]
    return [str(part) for part in as_list(given)]


def _value(given: Any) -> Any:
    """Return the value; a dump of the table may contain it as JSON text."""
    if isinstance(given, str):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _text_in(value: Any) -> str | None:
    if text := as_text(value):
        return text
    fields = as_object(value)
    for name in _TEXTS:
        inner = fields.get(name)
        if text := as_text(inner) or (_text_in(inner) if isinstance(inner, dict) else None):
            return text
    return None


def _is_generated(key: str) -> bool:
    try:
        UUID(key)
    except ValueError:
        return len(key) > 255
    return True
