"""Insights about a user: a store apart from memories, which nobody but that user sees."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from recollect.domain import Caller, Json, Right
from recollect.engine.core import Engine
from recollect.errors import NotFound
from recollect.store import insights
from recollect.store.insights import Insight


@dataclass(frozen=True, slots=True)
class Learn:
    """What was learnt."""

    category: str
    insight: str
    source: str
    confidence: float
    metadata: Json = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ListInsights:
    """Which insights, from which place on, how many."""

    limit: int
    category: str | None = None
    query: str | None = None
    after: tuple[datetime, UUID] | None = None


@dataclass(frozen=True, slots=True)
class Learnt:
    """A page of insights; the first one counts them all, by category."""

    insights: list[Insight]
    has_more: bool
    counts: Mapping[str, int] | None


async def learn(engine: Engine, caller: Caller, ask: Learn) -> Insight:
    """Keep an insight that the user, or somebody on their behalf, hands in."""
    caller.require(Right.WRITE)
    insight = Insight(
        uuid4(), ask.category, ask.insight, ask.source, ask.confidence, ask.metadata, engine.now()
    )
    async with engine.writing(caller) as db:
        await insights.add(db, caller, insight)
        await engine.note(
            db, caller, "insight.created", {"insight": str(insight.id)}, is_private=True
        )
    return insight


async def learn_in_passing(engine: Engine, caller: Caller, ask: Learn) -> Insight | None:
    """Keep what a model noticed, unless the user has switched learning off."""
    caller.require(Right.WRITE)
    async with engine.reading(caller) as db:
        if not await insights.is_on(db, caller):
            return None
    return await learn(engine, caller, ask)


async def list_insights(engine: Engine, caller: Caller, ask: ListInsights) -> Learnt:
    """The user's insights, newest first."""
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
    return Learnt(found[: ask.limit], len(found) > ask.limit, counts)


async def unlearn(engine: Engine, caller: Caller, insight_id: UUID | None) -> int:
    """Delete one insight, or with None all of them; how many went."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        removed = await insights.remove(db, caller, insight_id)
        if insight_id and not removed:
            raise NotFound("insight")
        await engine.note(db, caller, "insight.deleted", {"count": removed}, is_private=True)
    return removed


async def is_learning(engine: Engine, caller: Caller) -> bool:
    """Whether anything may be learnt about the user in passing."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await insights.is_on(db, caller)


async def switch_learning(engine: Engine, caller: Caller, *, is_on: bool) -> None:
    """Allow or end learning in passing."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await insights.switch(db, caller, is_on=is_on)
        await engine.note(db, caller, "learning.switched", {"on": is_on}, is_private=True)
