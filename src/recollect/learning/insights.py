"""Insights about a user: stored apart from memories and visible only to that user."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from recollect.core.domain import Caller, Json, Right
from recollect.core.errors import NotFound
from recollect.engine import Engine
from recollect.learning.queries import insights
from recollect.learning.queries.insights import Insight


@dataclass(frozen=True, slots=True)
class SaveInsight:
    """An insight to save."""

    category: str
    insight: str
    source: str
    confidence: float
    metadata: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ListInsights:
    """Which insights to list, after which position, and how many."""

    limit: int
    category: str | None = None
    query: str | None = None
    after: tuple[datetime, UUID] | None = None


@dataclass(frozen=True, slots=True)
class InsightPage:
    """A page of insights. The first page also counts all of them by category."""

    insights: list[Insight]
    has_more: bool
    counts: Mapping[str, int] | None


async def save_insight(engine: Engine, caller: Caller, ask: SaveInsight) -> Insight:
    """Save an insight that the user, or a client on their behalf, submits."""
    caller.require(Right.WRITE)
    insight = Insight(
        uuid4(), ask.category, ask.insight, ask.source, ask.confidence, ask.metadata, engine.now()
    )
    async with engine.writing(caller) as db:
        await insights.add(db, caller, insight)
        await engine.record_event(
            db, caller, "insight.created", {"insight": str(insight.id)}, is_private=True
        )
    return insight


async def save_insight_if_on(engine: Engine, caller: Caller, ask: SaveInsight) -> Insight | None:
    """Save an insight that a model noticed, unless the user has switched learning off."""
    caller.require(Right.WRITE)
    async with engine.reading(caller) as db:
        if not await insights.is_on(db, caller):
            return None
    return await save_insight(engine, caller, ask)


async def list_insights(engine: Engine, caller: Caller, ask: ListInsights) -> InsightPage:
    """Return the user's insights, newest first."""
    caller.require(Right.READ)
    words = ask.query.split() if ask.query else None
    async with engine.reading(caller) as db:
        found = await insights.page(
            db,
            caller,
            category=ask.category,
            words=words,
            after=ask.after,
            limit=ask.limit + 1,
        )
        counts = None if ask.after else await insights.counts(db, caller, words)
    return InsightPage(found[: ask.limit], len(found) > ask.limit, counts)


async def delete_insights(engine: Engine, caller: Caller, insight_id: UUID | None) -> int:
    """Delete one insight, or all of them if `insight_id` is None; return how many."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        removed = await insights.remove(db, caller, insight_id)
        if insight_id and not removed:
            raise NotFound("insight")
        await engine.record_event(
            db, caller, "insight.deleted", {"count": removed}, is_private=True
        )
    return removed


async def is_learning_on(engine: Engine, caller: Caller) -> bool:
    """Whether insights about the user may be learnt automatically."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await insights.is_on(db, caller)


async def switch_learning(engine: Engine, caller: Caller, *, is_on: bool) -> None:
    """Switch automatic learning about the user on or off."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await insights.switch(db, caller, is_on=is_on)
        await engine.record_event(db, caller, "learning.switched", {"on": is_on}, is_private=True)
