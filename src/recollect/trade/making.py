"""What other systems hold, told in lines of our own: ids made of theirs, and times read kindly."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from uuid import uuid5

from recollect.domain import (
    DEFAULT_IMPORTANCE,
    IMPORTANCE_BY_KIND,
    Lifecycle,
    Origin,
    Scope,
    UserId,
    WorkspaceId,
)
from recollect.engine.imports import Line, code_of
from recollect.engine.save import kind_of

# Far enough for anybody, and what the database can hold.
_YEARS = range(1970, 3000)


@dataclass(slots=True)
class Maker:
    """Makes lines for what one file of another system holds."""

    # Which system, in one word: part of every id.
    source: str
    workspace_id: WorkspaceId
    owner: UserId
    now: datetime
    scope: Scope = Scope.GLOBAL
    # What is left out on purpose, and how often.
    left_out: Counter[str] = field(default_factory=Counter[str])

    def id_of(self, kind: str, *theirs: object) -> str:
        """Our id for something of theirs: the same each time, another in each workspace."""
        told = "\x1f".join([self.source, kind, *(str(each) for each in theirs)])
        return str(uuid5(self.workspace_id, sha256(told.encode("utf-8", "replace")).hexdigest()))

    def memory(
        self,
        where: str,
        content: str,
        *theirs: object,
        at: datetime | None = None,
        updated_at: datetime | None = None,
        category: str | None = None,
        importance: float | None = None,
        **more: Any,
    ) -> Line:
        """A memory; `theirs` is what tells it from others over there."""
        memory_id = self.id_of("memory", *theirs)
        said_at = at or self.now
        if importance is None:
            kind = kind_of(category) or ""
            importance = IMPORTANCE_BY_KIND.get(kind, DEFAULT_IMPORTANCE)
        raw = {
            "id": memory_id,
            "code": code_of(memory_id),
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
        return Line(where, "memory", raw, len(content))

    def conversation(
        self,
        where: str,
        theirs: str,
        *,
        name: str | None,
        at: datetime | None,
        updated_at: datetime | None,
        messages: Sequence["Said"],
        metadata: Mapping[str, Any],
    ) -> Iterable[Line]:
        """A thread and what was said in it, in order."""
        thread_id = self.id_of("thread", theirs)
        first = at or next((each.at for each in messages if each.at), None) or self.now
        timed = _in_order(messages, first)
        last = max((each_at for _, each_at in timed), default=first)
        yield Line(
            where,
            "thread",
            {
                "id": thread_id,
                "code": code_of(thread_id),
                "name": name or None,
                "agent": self.source,
                # Read again when its stretches are remembered: for whom.
                "metadata": {**metadata, "imported_from": self.source, "scope": self.scope},
                "user_id": str(self.owner),
                "created_at": first.isoformat(),
                "updated_at": (updated_at or last).isoformat(),
                "heard_at": last.isoformat() if messages else None,
            },
        )
        for position, (each, said_at) in enumerate(timed, 1):
            message_id = self.id_of("message", theirs, each.id)
            yield Line(
                f"{where}, message {position}",
                "message",
                {
                    "id": message_id,
                    "code": code_of(message_id),
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
class Said:
    """A message over there."""

    id: str
    role: str
    text: str
    at: datetime | None = None
    author: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _in_order(messages: Sequence[Said], first: datetime) -> list[tuple[Said, datetime]]:
    """Each with its time; one that has none, or an earlier one than before it, takes that one's."""
    timed: list[tuple[Said, datetime]] = []
    latest = first
    for each in messages:
        latest = max(latest, each.at) if each.at and timed else (each.at or latest)
        timed.append((each, latest))
    return timed


def moment(value: Any) -> datetime | None:
    """A time as systems write it: seconds since 1970, or ISO 8601; None if it is none."""
    try:
        match value:
            case bool():
                return None
            case int() | float() if math.isfinite(value):
                # Some count in milliseconds; in seconds that would be far beyond anybody's time.
                found = datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC)
            case str() if value.strip():
                found = datetime.fromisoformat(value.strip())
            case _:
                return None
    except (ValueError, OverflowError, OSError):
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found if found.year in _YEARS else None


def text_of(value: Any) -> str | None:
    """A text that says something; None for anything else."""
    return value.strip() if isinstance(value, str) and value.strip() else None


def list_of(value: Any) -> list[Any]:
    """The list, or none."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def object_of(value: Any) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]
