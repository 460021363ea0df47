"""The export format, version 1: the fields of each kind of record, and their validation.

docs/export.md describes the format for people.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from recollect.core.domain import DocumentKind, Lifecycle, Origin, Relation, Scope
from recollect.memories.assets import MAX_BYTES as MAX_ASSET_BYTES
from recollect.memories.save import MAX_BYTES as MAX_MEMORY_BYTES
from recollect.tenancy.orgs import MAX_NAME_LENGTH

FORMAT = 1

_MAX_INTEGER = 2**31 - 1
_MAX_BIG_INTEGER = 2**63 - 1
# Lines of an export have their own limit; this one is for records made from other systems' files.
_MAX_TEXT_BYTES = 16 * 1024 * 1024


class BrokenRecord(Exception):
    """A record is invalid; the message names the field and the reason, never the value."""


@dataclass(frozen=True, slots=True)
class Field:
    """The validation of one field, and its value when it is missing."""

    check: Callable[[Any], Any]
    is_required: bool = True
    default: Any = None


def check_record(kind: str, raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the validated fields of a record; raise `BrokenRecord` for the first invalid one."""
    found: dict[str, Any] = {}
    for name, field in KINDS[kind].items():
        value = raw.get(name)
        if value is None:
            if field.is_required:
                raise BrokenRecord(f"`{name}` is {'null' if name in raw else 'missing'}")
            found[name] = field.default
            continue
        try:
            found[name] = field.check(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise BrokenRecord(f"`{name}` is {error}") from error
    return found


def _text(max_bytes: int = _MAX_TEXT_BYTES, *, may_be_empty: bool = True) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError("not a string")
        if "\0" in value:
            raise ValueError("a string with a zero byte, which PostgreSQL cannot store")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise ValueError("not valid Unicode") from None
        if size > max_bytes:
            raise ValueError(f"longer than {max_bytes:,} bytes")
        if not may_be_empty and not value.strip():
            raise ValueError("empty")
        return value

    return check


def _id(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not an id")
    try:
        return str(UUID(value))
    except ValueError:
        raise ValueError("not a UUID") from None


def _code(value: Any) -> str:
    if not isinstance(value, str) or not (
        12 <= len(value) <= 64 and value.isascii() and value.isalnum()
    ):
        raise ValueError("not a code of letters and digits")
    return value


def _time(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a time")
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("not an ISO 8601 time") from None
    if parsed.tzinfo is None:
        raise ValueError("a time without a time zone")
    return parsed.isoformat()


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


def _integer(min_value: int = 0, max_value: int = _MAX_INTEGER) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if (
            not isinstance(value, int)
            or isinstance(value, bool)
            or not min_value <= value <= max_value
        ):
            raise ValueError(f"not an integer from {min_value} to {max_value}")
        return value

    return check


def _fraction(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise ValueError("not a number from 0 to 1")
    return float(value)


def _one_of(
    names: type[DocumentKind | Lifecycle | Origin | Relation | Scope],
) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if value not in list(names):
            raise ValueError(f"not one of {', '.join(names)}")
        return str(value)

    return check


def _source_kind(value: Any) -> str:
    if value not in {"session", "message"}:
        raise ValueError("neither session nor message")
    return value


def _json(value: Any) -> Any:
    """Check that `jsonb` can store the value: no zero bytes, lone surrogates or infinities."""
    match value:
        case str():
            return _text()(value)
        case float() if not math.isfinite(value):
            raise ValueError("JSON with a number that is not finite")
        case list():
            return [_json(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {_text()(name): _json(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not a JSON object")
    return _json(value)


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a JSON array")
    return _json(value)


def _tags(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError("not a list of strings")
    return [_text()(each) for each in value]  # pyright: ignore[reportUnknownVariableType]


def _digest(value: Any) -> str:
    try:
        if isinstance(value, str) and len(bytes.fromhex(value)) == 32:
            return value.lower()
    except ValueError:
        pass
    raise ValueError("not a SHA-256 digest in hexadecimal")


def _required(check: Callable[[Any], Any]) -> Field:
    return Field(check)


def _optional(check: Callable[[Any], Any], default: Any = None) -> Field:
    return Field(check, is_required=False, default=default)


_NAME = _text(4 * MAX_NAME_LENGTH, may_be_empty=False)
_SIZE = _integer(0, MAX_ASSET_BYTES)
_BIG = _integer(0, _MAX_BIG_INTEGER)

KINDS: Mapping[str, Mapping[str, Field]] = {
    "user": {
        "id": _required(_id),
        "login": _required(_NAME),
        "learning_on": _optional(_boolean, default=True),
    },
    "workspace_member": {"user_id": _required(_id), "created_at": _required(_time)},
    "project": {
        "id": _required(_id),
        "name": _required(_NAME),
        "created_at": _required(_time),
        "archived_at": _optional(_time),
    },
    "project_member": {
        "project_id": _required(_id),
        "user_id": _required(_id),
        "created_at": _required(_time),
    },
    "agent": {
        "id": _required(_id),
        "project_id": _optional(_id),
        "name": _required(_NAME),
        "created_at": _required(_time),
        "archived_at": _optional(_time),
    },
    "thread": {
        "id": _required(_id),
        "code": _required(_code),
        "label": _optional(_text()),
        "name": _optional(_text()),
        "pinned": _optional(_boolean, default=False),
        "agent": _optional(_text()),
        "subject": _optional(_text()),
        "metadata": _optional(_object, default={}),
        "state": _optional(_object, default={}),
        "state_version": _optional(_integer(-1), default=0),
        "turn_count": _optional(_integer(), default=0),
        "message_count": _optional(_integer(), default=0),
        "last_position": _optional(_BIG, default=0),
        "segmented_at": _optional(_time),
        "segmented_position": _optional(_BIG),
        "heard_at": _optional(_time),
        "segment_due_at": _optional(_time),
        "user_id": _optional(_id),
        "project_id": _optional(_id),
        "agent_id": _optional(_id),
        "created_at": _required(_time),
        "updated_at": _required(_time),
        "expires_at": _optional(_time),
    },
    "state": {
        "thread_id": _required(_id),
        "version": _required(_integer()),
        "state": _required(_object),
        "reasoning": _optional(_text()),
        "created_at": _required(_time),
    },
    "turn": {
        "id": _required(_id),
        "code": _required(_code),
        "thread_id": _required(_id),
        "number": _required(_integer(1)),
        "input": _required(_object),
        "output": _required(_object),
        "reasoning": _optional(_text()),
        "metadata": _optional(_object, default={}),
        "created_at": _required(_time),
        "user_id": _optional(_id),
    },
    "message": {
        "id": _required(_id),
        "code": _required(_code),
        "thread_id": _required(_id),
        "position": _required(_BIG),
        "client_id": _optional(_text()),
        "role": _required(_text(may_be_empty=False)),
        "author": _optional(_text()),
        "content": _required(_text()),
        "parts": _optional(_array),
        "metadata": _optional(_object, default={}),
        "created_at": _required(_time),
        "edited_at": _optional(_time),
        "user_id": _optional(_id),
    },
    "file": {
        "id": _required(_id),
        "code": _required(_code),
        "message_id": _required(_id),
        "filename": _required(_text()),
        "media_type": _required(_text()),
        "size": _required(_SIZE),
        "digest": _required(_digest),
        "created_at": _required(_time),
    },
    "memory": {
        "id": _required(_id),
        "code": _required(_code),
        "user_id": _required(_id),
        "project_id": _optional(_id),
        "agent_id": _optional(_id),
        "thread_id": _optional(_id),
        "subject": _optional(_text()),
        "content": _required(_text(MAX_MEMORY_BYTES, may_be_empty=False)),
        "summary": _optional(_text()),
        "key": _optional(_text()),
        "category": _optional(_text()),
        "kind": _optional(_text()),
        "tags": _optional(_tags, default=[]),
        "metadata": _optional(_object, default={}),
        "importance": _required(_fraction),
        "importance_base": _required(_fraction),
        "pinned": _optional(_boolean, default=False),
        "expires_at": _optional(_time),
        "valid_from": _optional(_time),
        "valid_until": _optional(_time),
        "superseded_by": _optional(_id),
        "lifecycle": _required(_one_of(Lifecycle)),
        "scope": _required(_one_of(Scope)),
        "origin": _required(_one_of(Origin)),
        "origin_label": _optional(_text()),
        "source_note": _optional(_text()),
        "reason": _optional(_text()),
        "quote": _optional(_text()),
        "wants_vector": _optional(_boolean, default=True),
        "created_at": _required(_time),
        "updated_at": _required(_time),
        "last_accessed_at": _optional(_time),
        "access_count": _optional(_integer(), default=0),
        "deleted_at": _optional(_time),
        "delete_reason": _optional(_text()),
        "version": _optional(_integer(1), default=1),
        "content_version": _optional(_integer(1), default=1),
    },
    "past": {
        "memory_id": _required(_id),
        "version": _required(_integer(1)),
        "content": _required(_text(MAX_MEMORY_BYTES, may_be_empty=False)),
        "replaced_at": _required(_time),
    },
    "link": {
        "id": _required(_id),
        "source_id": _required(_id),
        "target_id": _required(_id),
        "relation": _required(_one_of(Relation)),
        "weight": _required(_fraction),
        "is_authored": _required(_boolean),
        "created_at": _required(_time),
    },
    "source": {
        "id": _required(_id),
        "memory_id": _required(_id),
        "kind": _required(_source_kind),
        "target_id": _required(_id),
        "created_at": _required(_time),
    },
    "made_of": {"memory_id": _required(_id), "message_id": _required(_id)},
    "segment": {
        "memory_id": _required(_id),
        "thread_id": _required(_id),
        "is_cut": _required(_boolean),
        "is_stale": _optional(_boolean, default=False),
        "summarised_by": _required(_text()),
        "fallback_reason": _optional(_text()),
    },
    "asset": {
        "id": _required(_id),
        "memory_id": _required(_id),
        "filename": _required(_text()),
        "media_type": _required(_text()),
        "size": _required(_SIZE),
        "digest": _required(_digest),
        "created_at": _required(_time),
    },
    "document": {
        "id": _required(_id),
        "code": _required(_code),
        "user_id": _required(_id),
        "project_id": _optional(_id),
        "thread_id": _optional(_id),
        "kind": _required(_one_of(DocumentKind)),
        "name": _required(_NAME),
        "media_type": _optional(_text(), default="application/octet-stream"),
        "size": _required(_SIZE),
        "digest": _required(_digest),
        "created_at": _required(_time),
        "updated_at": _required(_time),
    },
    "insight": {
        "id": _required(_id),
        "user_id": _required(_id),
        "category": _required(_text()),
        "insight": _required(_text()),
        "source": _required(_text()),
        "confidence": _required(_fraction),
        "metadata": _optional(_object, default={}),
        "created_at": _required(_time),
    },
}
# Fields that hold the id of a record in the file.
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
