"""Turns records of other systems into import lines: derives ids, and parses times leniently."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid5

from recollect.core.domain import (
    DEFAULT_IMPORTANCE,
    IMPORTANCE_BY_KIND,
    Lifecycle,
    Origin,
    Scope,
    UserId,
    WorkspaceId,
)
from recollect.memories.save import kind_of
from recollect.portability.importing import ImportLine, make_code

# A plausible range that the database can store.
_YEARS = range(1970, 3000)


@dataclass(slots=True)
class RecordMaker:
    """Makes import lines from the records of another system's file."""

    # The name of the system, in one word; part of every id.
    source: str
    workspace_id: WorkspaceId
    owner: UserId
    now: datetime
    scope: Scope = Scope.GLOBAL
    # Counts of what is left out on purpose.
    left_out: Counter[str] = field(default_factory=Counter[str])

    def make_id(self, kind: str, *foreign_ids: object) -> str:
        """Derive our id from their ids: always the same, but different in each workspace."""
        key = "\x1f".join([self.source, kind, *(str(each) for each in foreign_ids)])
        return str(uuid5(self.workspace_id, sha256(key.encode("utf-8", "replace")).hexdigest()))

    def memory(
        self,
        where: str,
        content: str,
        *foreign_ids: object,
        at: datetime | None = None,
        updated_at: datetime | None = None,
        category: str | None = None,
        importance: float | None = None,
        **more: Any,
    ) -> ImportLine:
        """Make a memory; `foreign_ids` identify it in the other system."""
        memory_id = self.make_id("memory", *foreign_ids)
        said_at = at or self.now
        if importance is None:
            kind = kind_of(category) or ""
            importance = IMPORTANCE_BY_KIND.get(kind, DEFAULT_IMPORTANCE)
        raw = {
            "id": memory_id,
            "code": make_code(memory_id),
            "user_id": str(self.owner),
            "content": content,
            "category": category,
            "importance": importance,
            "importance_base": importance,
            "lifecycle": Lifecycle.PERMANENT,
            "scope": self.scope,
            "origin": Origin.USER,
            "origin_label": self.source,
            "valid_from": said_at.isoformat(),
            "created_at": said_at.isoformat(),
            "updated_at": (updated_at or said_at).isoformat(),
            **more,
        }
        return ImportLine(where, "memory", raw, len(content))

    def conversation(
        self,
        where: str,
        foreign_id: str,
        *,
        name: str | None,
        at: datetime | None,
        updated_at: datetime | None,
        messages: Sequence["ForeignMessage"],
        metadata: Mapping[str, Any],
    ) -> Iterable[ImportLine]:
        """Make a thread and its messages, in order."""
        thread_id = self.make_id("thread", foreign_id)
        first = at or next((each.at for each in messages if each.at), None) or self.now
        timed = _in_order(messages, first)
        last = max((each_at for _, each_at in timed), default=first)
        yield ImportLine(
            where,
            "thread",
            {
                "id": thread_id,
                "code": make_code(thread_id),
                "name": name or None,
                "agent": self.source,
                # The scope is read again when the segmenter makes memories of the thread.
                "metadata": {**metadata, "imported_from": self.source, "scope": self.scope},
                "user_id": str(self.owner),
                "created_at": first.isoformat(),
                "updated_at": (updated_at or last).isoformat(),
                "heard_at": last.isoformat() if messages else None,
            },
        )
        for position, (each, said_at) in enumerate(timed, 1):
            message_id = self.make_id("message", foreign_id, each.id)
            yield ImportLine(
                f"{where}, message {position}",
                "message",
                {
                    "id": message_id,
                    "code": make_code(message_id),
                    "thread_id": thread_id,
                    "position": position,
                    "client_id": each.id,
                    "role": each.role,
                    "author": each.author,
                    "content": each.text,
                    "metadata": dict(each.metadata),
                    "created_at": said_at.isoformat(),
                },
                len(each.text),
            )


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """A message of another system."""

    id: str
    role: str
    text: str
    at: datetime | None = None
    author: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _in_order(
    messages: Sequence[ForeignMessage], first: datetime
) -> list[tuple[ForeignMessage, datetime]]:
    """Return each message with its time, which is never before the previous message's time."""
    timed: list[tuple[ForeignMessage, datetime]] = []
    latest = first
    for each in messages:
        latest = max(latest, each.at) if each.at and timed else (each.at or latest)
        timed.append((each, latest))
    return timed


def parse_time(value: Any) -> datetime | None:
    """Parse seconds or milliseconds since 1970, or ISO 8601; None for anything else."""
    try:
        match value:
            case bool():
                return None
            case int() | float() if math.isfinite(value):
                # Some systems count in milliseconds, which would be far in the future as seconds.
                found = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
            case str() if value.strip():
                found = datetime.fromisoformat(value.strip())
            case _:
                return None
    except (ValueError, OverflowError, OSError):
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found if found.year in _YEARS else None


def as_text(value: Any) -> str | None:
    """Return a non-empty string, stripped; None for anything else."""
    return value.strip() if isinstance(value, str) and value.strip() else None


def as_list(value: Any) -> list[Any]:
    """Return the list; an empty one for anything else."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def as_object(value: Any) -> dict[str, Any]:
    """Return the object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
