"""Cursors of lists: a place in an order, good for one question of one caller alone."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from uuid import UUID

from recollect.domain import Caller
from recollect.errors import Invalid

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Place = tuple[datetime, UUID]


def cursor_at(place: Place, caller: Caller, asked: Mapping[str, Any]) -> str:
    """A cursor behind this place, good for the same question of the same user alone."""
    micros = (place[0] - _EPOCH) // timedelta(microseconds=1)
    told = [micros, place[1].hex, _bound(caller, asked)]
    return urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")


def place_of(cursor: str | None, caller: Caller, asked: Mapping[str, Any]) -> Place | None:
    """The place behind which a page begins; raise `Invalid` for a cursor of another question."""
    if cursor is None:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        micros, place_id, bound = json.loads(urlsafe_b64decode(padded))
        place = (_EPOCH + timedelta(microseconds=int(micros)), UUID(hex=place_id))
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise Invalid("`cursor` is none of ours.", field="cursor") from None
    if bound != _bound(caller, asked):
        raise Invalid("`cursor` belongs to another list.", field="cursor")
    return place


def _bound(caller: Caller, asked: Mapping[str, Any]) -> str:
    told = [str(caller.org_id), str(caller.user_id), sorted(asked.items())]
    return sha256(json.dumps(told, default=str).encode()).hexdigest()[:16]
