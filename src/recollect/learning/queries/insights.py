"""Queries on insights about users. Insights are never recalled, and only their user sees them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from recollect.core.domain import Caller, Json
from recollect.db.pool import Db
from recollect.keywords.queries.like_patterns import containing_pattern


@dataclass(frozen=True, slots=True)
class Insight:
    """One thing learnt about a user."""

    id: UUID
    category: str
    insight: str
    source: str
    confidence: float
    metadata: Json
    created_at: datetime


_COLUMNS = "id, category, insight, source, confidence, metadata, created_at"
_ADD = """
    INSERT INTO insight (
        workspace_id, id, user_id, category, insight, source, confidence, metadata, created_at
    ) VALUES (
        %(workspace_id)s, %(id)s, %(user_id)s, %(category)s, %(insight)s, %(source)s,
        %(confidence)s, %(metadata)s, %(created_at)s
    )
"""


async def add(db: Db, caller: Caller, insight: Insight) -> None:
    """Insert an insight about the caller's user."""
    values = _own(caller) | {
        "id": insight.id,
        "category": insight.category,
        "insight": insight.insight,
        "source": insight.source,
        "confidence": insight.confidence,
        "metadata": Jsonb(dict(insight.metadata)),
        "created_at": insight.created_at,
    }
    await db.execute(_ADD, values)


_MATCHES = """
    workspace_id = %(workspace_id)s AND user_id = %(user_id)s
    AND (%(words)s::text[] IS NULL OR insight ILIKE ALL(%(words)s))
"""
_PAGE = f"""
    SELECT {_COLUMNS} FROM insight
    WHERE {_MATCHES}
        AND (%(category)s::text IS NULL OR category = %(category)s)
        AND (%(after_at)s::timestamptz IS NULL
             OR (created_at, id) < (%(after_at)s, %(after_id)s::uuid))
    ORDER BY created_at DESC, id DESC
    LIMIT %(limit)s
"""
_COUNTS = f"SELECT category, count(*) FROM insight WHERE {_MATCHES} GROUP BY category"


async def page(
    db: Db,
    caller: Caller,
    *,
    category: str | None,
    words: list[str] | None,
    after: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Insight]:
    """Return the user's insights that contain every word, newest first, after a position."""
    after_at, after_id = after or (None, None)
    values = _own(caller) | {
        "category": category,
        "words": _patterns(words),
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    async with db.cursor(row_factory=class_row(Insight)) as cursor:
        await cursor.execute(_PAGE, values)
        return await cursor.fetchall()


async def counts(db: Db, caller: Caller, words: list[str] | None) -> Mapping[str, int]:
    """Count the insights of each category that contain every word."""
    values = _own(caller) | {"words": _patterns(words)}
    return dict(await (await db.execute(_COUNTS, values)).fetchall())


_REMOVE = """
    DELETE FROM insight
    WHERE workspace_id = %(workspace_id)s AND user_id = %(user_id)s
        AND (%(id)s::uuid IS NULL OR id = %(id)s)
"""


async def remove(db: Db, caller: Caller, insight_id: UUID | None) -> int:
    """Delete one of the user's insights, or all if `insight_id` is None; return how many."""
    return (await db.execute(_REMOVE, _own(caller) | {"id": insight_id})).rowcount


_IS_ON = "SELECT learning_on FROM app_user WHERE id = %(user_id)s"
_SWITCH = "UPDATE app_user SET learning_on = %(is_on)s WHERE id = %(user_id)s"


async def is_on(db: Db, caller: Caller) -> bool:
    """Whether insights about this user may be learnt automatically."""
    row = await (await db.execute(_IS_ON, {"user_id": caller.user_id})).fetchone()
    return bool(row and row[0])


async def switch(db: Db, caller: Caller, *, is_on: bool) -> None:
    """Switch automatic learning about this user on or off."""
    await db.execute(_SWITCH, {"user_id": caller.user_id, "is_on": is_on})


def _own(caller: Caller) -> dict[str, Any]:
    return {"workspace_id": caller.workspace_id, "user_id": caller.user_id}


def _patterns(words: list[str] | None) -> list[str] | None:
    return None if words is None else [containing_pattern(word) for word in words]
