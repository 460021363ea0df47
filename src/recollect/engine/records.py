"""The lines of an export: which fields each kind has, and whether a line is one of ours.

The names are the format's own, version 1; docs/export.md describes them for people.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recollect.domain import DocumentKind, Lifecycle, Origin, Relation, Scope
from recollect.engine.assets import MOST_BYTES as MOST_ASSET_BYTES
from recollect.engine.save import MOST_BYTES as MOST_MEMORY_BYTES
from recollect.engine.tenants import MOST_CHARACTERS

FORMAT = 1

_MOST_INTEGER = 2**31 - 1
_MOST_BIG = 2**63 - 1
# Whoever reads lines bounds them; this is for what is made of something else.
_MOST_TEXT_BYTES = 16 * 1024 * 1024


class Broken(Exception):
    """A line is not what it should be; the message says which field and why, never its value."""


@dataclass(frozen=True, slots=True)
class Field:
    """How one field is read: its check, and what it is when it is missing."""

    check: Callable[[Any], Any]
    is_required: bool = True
    default: Any = None


def checked(kind: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """The line's fields, each as the store takes it; raise `Broken` for the first that is wrong."""
    found: dict[str, Any] = {}
    for name, field in KINDS[kind].items():
        value = raw.get(name)
        if value is None:
            if field.is_required:
                raise Broken(f"`{name}` is {'null' if name in raw else 'missing'}")
            found[name] = field.default
            continue
        try:
            found[name] = field.check(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise Broken(f"`{name}` is {error}") from error
    return found


def _text(most: int = _MOST_TEXT_BYTES, *, may_be_empty: bool = True) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("no text")
        if "\0" in value:
            raise ValueError("a text with a zero byte, which no database keeps")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("no valid Unicode") from None
        if size > most:
            raise ValueError(f"longer than {most:,} bytes")
        if not may_be_empty and not value.strip():
            raise ValueError("empty")
        return value

    return check


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no id")
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError("no UUID") from None


def _code(value: Any) -> str:
    if not isinstance(value, str) or not (
        12 <= len(value) <= 64 and value.isascii() and value.isalnum()
    ):
        raise ValueError("no code of letters and digits")
    return value


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no time")
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("no ISO 8601 time") from None
    if parsed.tzinfo is None:
        raise ValueError("a time without its zone")
    return parsed.isoformat()


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _whole(least: int = 0, most: int = _MOST_INTEGER) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise ValueError(f"no whole number from {least} to {most}")
        return value

    return check


def _share(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError("no number from 0 to 1")
    return float(value)


def _among(
    names: type[DocumentKind | Lifecycle | Origin | Relation | Scope],
) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in list(names):
            raise ValueError(f"none of {', '.join(names)}")
        return str(value)

    return check


def _source_kind(value: Any) -> str:
    if value not in {"session", "message"}:
        raise ValueError("neither session nor message")
    return value


def _json(value: Any) -> Any:
    """What `jsonb` can hold: no zero bytes, no half characters, no infinities."""
    match value:
        case str():
            return _text()(value)
        case float() if not math.isfinite(value):
            raise ValueError("JSON with a number that is none")
        case list():
            return [_json(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {_text()(name): _json(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("no JSON object")
    return _json(value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no JSON array")
    return _json(value)


def _tags(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError("no list of texts")
    return [_text()(each) for each in value]  # pyright: ignore[reportUnknownVariableType]


def _digest(value: Any) -> str:
    try:
        if isinstance(value, str) and len(bytes.fromhex(value)) == 32:
            return value.lower()
    except ValueError:
        pass
    raise ValueError("no SHA-256 in hexadecimal")


def _need(check: Callable[[Any], Any]) -> Field:
    return Field(check)


def _may(check: Callable[[Any], Any], default: Any = None) -> Field:
    return Field(check, is_required=False, default=default)


_NAME = _text(4 * MOST_CHARACTERS, may_be_empty=False)
_SIZE = _whole(0, MOST_ASSET_BYTES)
_BIG = _whole(0, _MOST_BIG)

KINDS: Mapping[str, Mapping[str, Field]] = {
    "user": {
        "id": _need(_id),
        "login": _need(_NAME),
        "learning_on": _may(_flag, default=True),
    },
    "workspace_member": {"user_id": _need(_id), "created_at": _need(_time)},
    "project": {
        "id": _need(_id),
        "name": _need(_NAME),
        "created_at": _need(_time),
        "archived_at": _may(_time),
    },
    "project_member": {
        "project_id": _need(_id),
        "user_id": _need(_id),
        "created_at": _need(_time),
    },
    "agent": {
        "id": _need(_id),
        "project_id": _may(_id),
        "name": _need(_NAME),
        "created_at": _need(_time),
        "archived_at": _may(_time),
    },
    "thread": {
        "id": _need(_id),
        "code": _need(_code),
        "label": _may(_text()),
        "name": _may(_text()),
        "pinned": _may(_flag, default=False),
        "agent": _may(_text()),
        "subject": _may(_text()),
        "metadata": _may(_object, default={}),
        "state": _may(_object, default={}),
        "state_version": _may(_whole(-1), default=0),
        "turn_count": _may(_whole(), default=0),
        "message_count": _may(_whole(), default=0),
        "last_position": _may(_BIG, default=0),
        "segmented_at": _may(_time),
        "segmented_position": _may(_BIG),
        "heard_at": _may(_time),
        "segment_due_at": _may(_time),
        "user_id": _may(_id),
        "project_id": _may(_id),
        "agent_id": _may(_id),
        "created_at": _need(_time),
        "updated_at": _need(_time),
        "expires_at": _may(_time),
    },
    "state": {
        "thread_id": _need(_id),
        "version": _need(_whole()),
        "state": _need(_object),
        "reasoning": _may(_text()),
        "created_at": _need(_time),
    },
    "turn": {
        "id": _need(_id),
        "code": _need(_code),
        "thread_id": _need(_id),
        "number": _need(_whole(1)),
        "input": _need(_object),
        "output": _need(_object),
        "reasoning": _may(_text()),
        "metadata": _may(_object, default={}),
        "created_at": _need(_time),
        "user_id": _may(_id),
    },
    "message": {
        "id": _need(_id),
        "code": _need(_code),
        "thread_id": _need(_id),
        "position": _need(_BIG),
        "client_id": _may(_text()),
        "role": _need(_text(may_be_empty=False)),
        "author": _may(_text()),
        "content": _need(_text()),
        "parts": _may(_array),
        "metadata": _may(_object, default={}),
        "created_at": _need(_time),
        "edited_at": _may(_time),
        "user_id": _may(_id),
    },
    "file": {
        "id": _need(_id),
        "code": _need(_code),
        "message_id": _need(_id),
        "filename": _need(_text()),
        "media_type": _need(_text()),
        "size": _need(_SIZE),
        "digest": _need(_digest),
        "created_at": _need(_time),
    },
    "memory": {
        "id": _need(_id),
        "code": _need(_code),
        "user_id": _need(_id),
        "project_id": _may(_id),
        "agent_id": _may(_id),
        "thread_id": _may(_id),
        "subject": _may(_text()),
        "content": _need(_text(MOST_MEMORY_BYTES, may_be_empty=False)),
        "summary": _may(_text()),
        "key": _may(_text()),
        "category": _may(_text()),
        "kind": _may(_text()),
        "tags": _may(_tags, default=[]),
        "metadata": _may(_object, default={}),
        "importance": _need(_share),
        "importance_base": _need(_share),
        "pinned": _may(_flag, default=False),
        "expires_at": _may(_time),
        "valid_from": _may(_time),
        "valid_until": _may(_time),
        "superseded_by": _may(_id),
        "lifecycle": _need(_among(Lifecycle)),
        "scope": _need(_among(Scope)),
        "origin": _need(_among(Origin)),
        "origin_label": _may(_text()),
        "source_note": _may(_text()),
        "reason": _may(_text()),
        "quote": _may(_text()),
        "wants_vector": _may(_flag, default=True),
        "created_at": _need(_time),
        "updated_at": _need(_time),
        "last_accessed_at": _may(_time),
        "access_count": _may(_whole(), default=0),
        "deleted_at": _may(_time),
        "delete_reason": _may(_text()),
        "version": _may(_whole(1), default=1),
        "content_version": _may(_whole(1), default=1),
    },
    "past": {
        "memory_id": _need(_id),
        "version": _need(_whole(1)),
        "content": _need(_text(MOST_MEMORY_BYTES, may_be_empty=False)),
        "replaced_at": _need(_time),
    },
    "link": {
        "id": _need(_id),
        "source_id": _need(_id),
        "target_id": _need(_id),
        "relation": _need(_among(Relation)),
        "weight": _need(_share),
        "is_authored": _need(_flag),
        "created_at": _need(_time),
    },
    "source": {
        "id": _need(_id),
        "memory_id": _need(_id),
        "kind": _need(_source_kind),
        "target_id": _need(_id),
        "created_at": _need(_time),
    },
    "made_of": {"memory_id": _need(_id), "message_id": _need(_id)},
    "segment": {
        "memory_id": _need(_id),
        "thread_id": _need(_id),
        "is_cut": _need(_flag),
        "is_stale": _may(_flag, default=False),
        "summarised_by": _need(_text()),
        "fallback_reason": _may(_text()),
    },
    "asset": {
        "id": _need(_id),
        "memory_id": _need(_id),
        "filename": _need(_text()),
        "media_type": _need(_text()),
        "size": _need(_SIZE),
        "digest": _need(_digest),
        "created_at": _need(_time),
    },
    "document": {
        "id": _need(_id),
        "code": _need(_code),
        "user_id": _need(_id),
        "project_id": _may(_id),
        "thread_id": _may(_id),
        "kind": _need(_among(DocumentKind)),
        "name": _need(_NAME),
        "media_type": _may(_text(), default="application/octet-stream"),
        "size": _need(_SIZE),
        "digest": _need(_digest),
        "created_at": _need(_time),
        "updated_at": _need(_time),
    },
    "insight": {
        "id": _need(_id),
        "user_id": _need(_id),
        "category": _need(_text()),
        "insight": _need(_text()),
        "source": _need(_text()),
        "confidence": _need(_share),
        "metadata": _may(_object, default={}),
        "created_at": _need(_time),
    },
}
# Fields that hold the id of something else in the file.
REFERENCES = frozenset(
    {
        "id",
        "thread_id",
        "message_id",
        "memory_id",
        "source_id",
        "target_id",
        "superseded_by",
    }
)
