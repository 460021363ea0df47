"""What hangs on memories, and what stands beside them, on this door's wire."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.domain import Scope, Thread
from recollect.doors.values import Body, Parameters, clamped, iso
from recollect.engine.assets import Asset
from recollect.engine.imports import Report
from recollect.engine.insights import Insight, Learn, Learnt, ListInsights
from recollect.engine.keyed import Source
from recollect.errors import Invalid

CATEGORIES = (
    "role",
    "preferences",
    "workflow",
    "tools",
    "goals",
    "communication style",
    "domain knowledge",
    "pain points",
    "other",
)


class AssetObject(BaseModel):
    """Something attached to a memory; its bytes are elsewhere."""

    id: str
    memoryId: str
    filename: str
    mediaType: str
    size: int
    sha256: str
    createdAt: str


class SourceObject(BaseModel):
    """Where a memory came from; `resolved` says whether that is still there."""

    id: str
    kind: Literal["session", "message"]
    targetId: str
    resolved: bool
    sessionId: str | None
    text: str | None
    createdAt: str


class NewSession(Body):
    """`POST /api/v1/sessions`."""

    projectId: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    agentId: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class SessionObject(BaseModel):
    """A conversation."""

    id: str
    projectId: str | None
    agentId: str | None
    userId: str | None
    createdAt: str
    updatedAt: str


class NewInsight(Body):
    """`POST /api/v1/learning`."""

    category: Annotated[str, Field(min_length=1, max_length=100)]
    insight: Annotated[str, Field(min_length=1, max_length=10_000)]
    source: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    metadata: dict[str, Any] | None = None


class InsightObject(BaseModel):
    """Something learnt about the user."""

    id: str
    category: str
    insight: str
    source: str
    confidence: float
    metadata: dict[str, Any]
    createdAt: str


class InsightPage(BaseModel):
    """Insights."""

    items: list[InsightObject]
    nextCursor: str | None
    hasMore: bool


class CountedPage(InsightPage):
    """The first page, which counts them all."""

    total: int
    categoryCounts: dict[str, int]


class LearningParameters(Parameters):
    """`GET /api/v1/learning`."""

    category: Annotated[str, Field(max_length=100)] | None = None
    q: Annotated[str, Field(max_length=1_000)] | None = None
    cursor: Annotated[str, Field(max_length=300)] | None = None
    pageSize: int | None = Field(default=None, ge=1, description="Default 50, at most 200.")


class LearningSwitch(Body):
    """Whether anything may be learnt in passing."""

    enabled: bool


class LearningState(BaseModel):
    """Whether anything may be learnt in passing."""

    enabled: bool


class Wiped(BaseModel):
    """How many insights went."""

    deleted: int


def category(text: str) -> str:
    """One of the nine, spelt with spaces, `_` or `-`; any other cannot be understood."""
    name = " ".join(text.lower().replace("_", " ").replace("-", " ").split())
    if name not in CATEGORIES:
        # A 400 here and not a 422: that is what clients of this store were told.
        raise Invalid(
            f"`category` is one of: {', '.join(CATEGORIES)}.", field="category", is_syntax=True
        )
    return name


class Noticed(BaseModel):
    """Whether what a model noticed was kept."""

    saved: bool
    insight: InsightObject | None


def from_noticed(insight: Insight | None) -> Noticed:
    """What became of it."""
    return Noticed(saved=insight is not None, insight=insight and from_insight(insight))


def to_learn(body: NewInsight) -> Learn:
    """The verb's value."""
    return Learn(
        category=category(body.category),
        insight=body.insight,
        source=body.source or "conversation",
        confidence=1.0 if body.confidence is None else body.confidence,
        metadata=body.metadata or {},
    )


def to_list(parameters: LearningParameters, after: Any) -> ListInsights:
    """The verb's value."""
    return ListInsights(
        limit=clamped(parameters.pageSize, default=50, most=200),
        category=None if parameters.category is None else category(parameters.category),
        query=parameters.q,
        after=after,
    )


def from_insight(insight: Insight) -> InsightObject:
    """An insight."""
    return InsightObject(
        id=str(insight.id),
        category=insight.category,
        insight=insight.insight,
        source=insight.source,
        confidence=insight.confidence,
        metadata=dict(insight.metadata),
        createdAt=iso(insight.created_at),
    )


def from_learnt(found: Learnt, cursor: str | None) -> CountedPage | InsightPage:
    """A page of insights."""
    items = [from_insight(each) for each in found.insights]
    if found.counts is None:
        return InsightPage(items=items, nextCursor=cursor, hasMore=found.has_more)
    return CountedPage(
        items=items,
        nextCursor=cursor,
        hasMore=found.has_more,
        total=sum(found.counts.values()),
        categoryCounts={name: found.counts.get(name, 0) for name in CATEGORIES},
    )


def from_asset(asset: Asset) -> AssetObject:
    """What is known of an asset."""
    return AssetObject(
        id=str(asset.id),
        memoryId=str(asset.memory_id),
        filename=asset.filename,
        mediaType=asset.media_type,
        size=asset.size,
        sha256=bytes(asset.digest).hex(),
        createdAt=iso(asset.created_at),
    )


def from_source(source: Source) -> SourceObject:
    """A link and what it leads to."""
    return SourceObject(
        id=str(source.id),
        kind="session" if source.kind == "session" else "message",
        targetId=str(source.target_id),
        resolved=source.thread_id is not None,
        sessionId=_text(source.thread_id),
        text=source.text,
        createdAt=iso(source.created_at),
    )


def from_thread(thread: Thread) -> SessionObject:
    """A conversation."""
    return SessionObject(
        id=str(thread.id),
        projectId=_text(thread.project_id),
        agentId=_text(thread.agent_id),
        userId=_text(thread.user_id),
        createdAt=iso(thread.created_at),
        updatedAt=iso(thread.updated_at),
    )


def _text(value: UUID | None) -> str | None:
    return None if value is None else str(value)


class ImportParameters(Parameters):
    """`POST /api/v1/import`: who wrote the file, and what is to become of it."""

    source: Literal["recollect", "mem0", "chatgpt", "claude", "langgraph", "markdown", "csv"] = (
        Field(default="recollect", alias="from")
    )
    dryRun: bool = False
    scope: Literal[Scope.GLOBAL, Scope.WORKSPACE] = Field(
        default=Scope.GLOBAL, description="Who sees memories of other systems."
    )
    learn: bool = Field(
        default=False, description="Also learn from what was said in other systems' conversations."
    )


class RefusalObject(BaseModel):
    """Something that was not kept, and why."""

    where: str
    type: str
    why: str


class ImportReport(BaseModel):
    """What became of an import, by kind of line."""

    dryRun: bool
    kept: dict[str, int]
    known: dict[str, int]
    refused: dict[str, int]
    leftOut: dict[str, int]
    refusals: list[RefusalObject] = Field(description="Up to a thousand of them.")


def counts_of(report: Report) -> dict[str, int]:
    """How far an import is."""
    kinds = {"kept": report.kept, "known": report.known, "refused": report.refused}
    return {name: each.total() for name, each in kinds.items()}


def from_report(report: Report, *, is_dry_run: bool) -> ImportReport:
    """A report in this door's spelling."""
    return ImportReport(
        dryRun=is_dry_run,
        kept=_counted(report.kept),
        known=_counted(report.known),
        refused=_counted(report.refused),
        leftOut=_counted(report.left_out),
        refusals=[
            RefusalObject(where=each.where, type=each.type, why=each.why)
            for each in report.refusals
        ],
    )


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
