"""Cursors of lists: a position in a sorted list, valid for one query of one caller."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from recollect.core.domain import Caller
from recollect.core.errors import Invalid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ListPosition = tuple[datetime, UUID]


def make_cursor(position: ListPosition, caller: Caller, query: Mapping[str, Any]) -> str:
    """A cursor after this position, valid only for the same query of the same user."""
    micros = (position[0] - _EPOCH) // timedelta(microseconds=1)
    content = [micros, position[1].hex, _binding(caller, query)]
    return urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def read_cursor(
    cursor: str | None, caller: Caller, query: Mapping[str, Any]
) -> ListPosition | None:
    """The position after which a page starts. Raises `Invalid` for the cursor of another query."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        micros, row_id, binding = json.loads(urlsafe_b64decode(padded))
        position = (_EPOCH + timedelta(microseconds=int(micros)), UUID(hex=row_id))
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise Invalid("`cursor` is invalid.", field="cursor") from None
    if binding != _binding(caller, query):
        raise Invalid("`cursor` belongs to another list.", field="cursor")
    return position


def _binding(caller: Caller, query: Mapping[str, Any]) -> str:
    """A digest of the caller and the query, so that a cursor works for no other."""
    content = [str(caller.org_id), str(caller.user_id), sorted(query.items())]
    return sha256(json.dumps(content, default=str).encode()).hexdigest()[:16]
