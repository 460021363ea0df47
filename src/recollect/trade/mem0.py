"""Mem0: what its `get_all` and its exports hold, as one object, a list, or line by line."""

from collections.abc import Iterator
from typing import Any

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found, values
from recollect.trade.making import Maker, list_of, moment, object_of, text_of

# Where the text stands: in `memory` today, elsewhere in older releases and in exports by schema.
_TEXTS = ("memory", "text", "data", "content")
_LISTS = ("results", "memories", "data")
# What is known to hold nothing that is said elsewhere, or to be an address of theirs.
_CONTEXT = ("agent_id", "run_id", "app_id", "actor_id", "role")


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every memory in the file."""
    for name in found.names("*.json", "*.jsonl"):
        number = 0
        try:
            with found.open(name) as file:
                for item in _items(file, make):
                    number += 1
                    yield _memory(f"{name}, item {number}", item, make)
        except Unreadable as error:
            yield Refusal(f"{name}, after item {number}", "memory", error.message)


def _items(file: Any, make: Maker) -> Iterator[Any]:
    for value in values(file):
        some = object_of(value)
        lists = [some[name] for name in _LISTS if isinstance(some.get(name), list)]
        make.left_out["relations of a graph"] += len(list_of(some.get("relations")))
        if lists and not any(text_of(some.get(name)) for name in _TEXTS):
            for each in lists:
                yield from each
        else:
            yield value


def _memory(where: str, raw: Any, make: Maker) -> Line | Refusal:
    item = object_of(raw)
    content = next((text for name in _TEXTS if (text := text_of(item.get(name)))), None)
    if content is None:
        return Refusal(where, "memory", "it has no text in `memory`")
    tags = [each for each in list_of(item.get("categories")) if text_of(each)]
    context = {name: item[name] for name in _CONTEXT if item.get(name) is not None}
    at = moment(item.get("created_at"))
    expires_at = moment(item.get("expiration_date"))
    subject = text_of(item.get("user_id"))
    return make.memory(
        where,
        content,
        # Without an id the text itself, and whom it is about, tell one from another.
        item.get("id") or f"{subject}\x1f{content}",
        at=at,
        updated_at=moment(item.get("updated_at")),
        category=tags[0] if tags else None,
        tags=tags,
        subject=subject,
        metadata={**object_of(item.get("metadata")), **context},
        expires_at=expires_at and expires_at.isoformat(),
    )
