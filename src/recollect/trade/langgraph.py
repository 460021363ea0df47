"""LangGraph: a dump of its store, whose items have a namespace, a key and a value."""

import json
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found, values
from recollect.trade.making import Maker, list_of, moment, object_of, text_of

# Where a value says what it says, as people and LangMem write it.
_TEXTS = ("text", "content", "memory", "data", "fact", "value", "summary")
_LISTS = ("items", "results", "store")


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every item of the store."""
    for name in found.names("*.json", "*.jsonl"):
        number = 0
        try:
            with found.open(name) as file:
                for item in _items(file):
                    number += 1
                    yield _memory(f"{name}, item {number}", object_of(item), make)
        except Unreadable as error:
            yield Refusal(f"{name}, after item {number}", "memory", error.message)


def _items(file: Any) -> Iterator[Any]:
    for value in values(file):
        some = object_of(value)
        lists = [some[name] for name in _LISTS if isinstance(some.get(name), list)]
        if lists and "key" not in some:
            for each in lists:
                yield from each
        else:
            yield value


def _memory(where: str, item: Mapping[str, Any], make: Maker) -> Line | Refusal:
    key = text_of(item.get("key"))
    if key is None or item.get("value") is None:
        return Refusal(where, "memory", "it has no `key` or no `value`")
    namespace = _namespace(item)
    value = _value(item["value"])
    expires_at = moment(item.get("expires_at"))
    return make.memory(
        where,
        _told(value) or json.dumps(value, ensure_ascii=False),
        *namespace,
        key,
        at=moment(item.get("created_at")),
        updated_at=moment(item.get("updated_at")),
        category=text_of(object_of(value).get("kind")),
        # A key that a person chose can be asked for again; one made by a machine says nothing.
        key=None if _is_made(key) else key,
        tags=namespace,
        metadata={"namespace": namespace, "key": key, "value": value},
        expires_at=expires_at and expires_at.isoformat(),
    )


def _namespace(item: Mapping[str, Any]) -> list[str]:
    """A list, or as its table in PostgreSQL has it: joined by dots."""
    given = item.get("namespace", item.get("prefix"))
    if isinstance(given, str):
        return [part for part in given.split(".") if part]
    return [str(part) for part in list_of(given)]


def _value(given: Any) -> Any:
    """The value; a dump of the table may hold it as text."""
    if isinstance(given, str):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            return given
    return given


def _told(value: Any) -> str | None:
    if text := text_of(value):
        return text
    some = object_of(value)
    for name in _TEXTS:
        inner = some.get(name)
        if text := text_of(inner) or (_told(inner) if isinstance(inner, dict) else None):
            return text
    return None


def _is_made(key: str) -> bool:
    try:
        UUID(key)
    except ValueError:
        return len(key) > 255
    return True
