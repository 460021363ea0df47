"""The wire format of assets, sources, sessions, insights and imports."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from recollect.api.fields import Body, Parameters, clamp, iso
from recollect.core.domain import Scope, Thread
from recollect.core.errors import Invalid
from recollect.learning.insights import Insight, InsightPage, ListInsights, SaveInsight
from recollect.memories.assets import Asset
from recollect.memories.key_value import MemorySource
from recollect.portability.importing import ImportReport

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
    """A file attached to a memory, without its bytes."""

    id: str
    memoryId: str
    filename: str
    mediaType: str
    size: int
    sha256: str
    createdAt: str


class SourceObject(BaseModel):
    """A source of a memory; `resolved` says whether it still exists."""

    id: str
    kind: Literal["session", "message"]
    targetId: str
    resolved: bool
    sessionId: str | None
    text: str | None
    createdAt: str


class AlumiaNewSession(Body):
    """`POST /api/v1/sessions`."""

    projectId: Annotated[str, Field(min_length=1, max_length=100)] | None = None
    agentId: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class AlumiaSessionObject(BaseModel):
    """A session."""

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
    """An insight about the user."""

    id: str
    category: str
    insight: str
    source: str
    confidence: float
    metadata: dict[str, Any]
    createdAt: str


class AlumiaInsightPage(BaseModel):
    """A page of insights."""

    items: list[InsightObject]
    nextCursor: str | None
    hasMore: bool


class CountedPage(AlumiaInsightPage):
    """The first page of insights, with the counts of all."""

    total: int
    categoryCounts: dict[str, int]


class LearningParameters(Parameters):
    """`GET /api/v1/learning`."""

    category: Annotated[str, Field(max_length=100)] | None = None
    q: Annotated[str, Field(max_length=1_000)] | None = None
    cursor: Annotated[str, Field(max_length=300)] | None = None
    pageSize: int | None = Field(default=None, ge=1, description="Default 50, at most 200.")


class LearningSwitch(Body):
    """`PATCH /api/v1/learning/settings`."""

    enabled: bool


class LearningState(BaseModel):
    """Whether automatic learning is on."""

    enabled: bool


class Wiped(BaseModel):
    """The number of deleted insights."""

    deleted: int


def category(text: str) -> str:
    """Return one of the nine categories, written with spaces, `_` or `-`."""
    name = " ".join(text.lower().replace("_", " ").replace("-", " ").split())
    if name not in CATEGORIES:
        # 400 instead of 422, as documented for clients of this interface.
        raise Invalid(
            f"`category` must be one of: {', '.join(CATEGORIES)}.", field="category", is_syntax=True
        )
    return name


class Noticed(BaseModel):
    """Whether an insight that a model noticed was saved."""

    saved: bool
    insight: InsightObject | None


def from_noticed(insight: Insight | None) -> Noticed:
    """Convert the result of the tool to the wire format."""
    return Noticed(saved=insight is not None, insight=insight and from_insight(insight))


def to_learn(body: NewInsight) -> SaveInsight:
    """Convert to a request."""
    return SaveInsight(
        category=category(body.category),
        insight=body.insight,
        source=body.source or "conversation",
        confidence=1.0 if body.confidence is None else body.confidence,
        metadata=body.metadata or {},
    )


def to_list(parameters: LearningParameters, after: Any) -> ListInsights:
    """Convert to a request."""
    return ListInsights(
        limit=clamp(parameters.pageSize, default=50, maximum=200),
        category=None if parameters.category is None else category(parameters.category),
        query=parameters.q,
        after=after,
    )


def from_insight(insight: Insight) -> InsightObject:
    """Convert an insight to the wire format."""
    return InsightObject(
        id=str(insight.id),
        category=insight.category,
        insight=insight.insight,
        source=insight.source,
        confidence=insight.confidence,
        metadata=dict(insight.metadata),
        createdAt=iso(insight.created_at),
    )


def from_learnt(found: InsightPage, cursor: str | None) -> CountedPage | AlumiaInsightPage:
    """Convert a page of insights to the wire format."""
    items = [from_insight(each) for each in found.insights]
    if found.counts is None:
        return AlumiaInsightPage(items=items, nextCursor=cursor, hasMore=found.has_more)
    return CountedPage(
        items=items,
        nextCursor=cursor,
        hasMore=found.has_more,
        total=sum(found.counts.values()),
        categoryCounts={name: found.counts.get(name, 0) for name in CATEGORIES},
    )


def from_asset(asset: Asset) -> AssetObject:
    """Convert an asset to the wire format."""
    return AssetObject(
        id=str(asset.id),
        memoryId=str(asset.memory_id),
        filename=asset.filename,
        mediaType=asset.media_type,
        size=asset.size,
        sha256=bytes(asset.digest).hex(),
        createdAt=iso(asset.created_at),
    )


def from_source(source: MemorySource) -> SourceObject:
    """Convert a source to the wire format."""
    return SourceObject(
        id=str(source.id),
        kind="session" if source.kind == "session" else "message",
        targetId=str(source.target_id),
        resolved=source.thread_id is not None,
        sessionId=_text(source.thread_id),
        text=source.text,
        createdAt=iso(source.created_at),
    )


def from_thread(thread: Thread) -> AlumiaSessionObject:
    """Convert a thread to the wire format."""
    return AlumiaSessionObject(
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
    """`POST /api/v1/import`: which system wrote the file, and how to import it."""

    source: Literal["recollect", "mem0", "chatgpt", "claude", "langgraph", "markdown", "csv"] = (
        Field(default="recollect", alias="from")
    )
    dryRun: bool = False
    scope: Literal[Scope.GLOBAL, Scope.WORKSPACE] = Field(
        default=Scope.GLOBAL, description="Who sees memories imported from other systems."
    )
    learn: bool = Field(
        default=False, description="Also learn from the conversations of other systems."
    )


class RefusalObject(BaseModel):
    """A record that was not imported, and why."""

    where: str
    type: str
    why: str


class AlumiaImportReport(BaseModel):
    """The result of an import, by kind of record."""

    dryRun: bool
    kept: dict[str, int]
    known: dict[str, int]
    refused: dict[str, int]
    leftOut: dict[str, int]
    refusals: list[RefusalObject] = Field(description="The first thousand refusals.")


def counts_of(report: ImportReport) -> dict[str, int]:
    """Return the progress of an import."""
    kinds = {"kept": report.kept, "known": report.known, "refused": report.refused}
    return {name: each.total() for name, each in kinds.items()}


def from_report(report: ImportReport, *, is_dry_run: bool) -> AlumiaImportReport:
    """Convert a report to the wire format."""
    return AlumiaImportReport(
        dryRun=is_dry_run,
        kept=_non_zero(report.kept),
        known=_non_zero(report.known),
        refused=_non_zero(report.refused),
        leftOut=_non_zero(report.left_out),
        refusals=[
            RefusalObject(where=each.where, type=each.type, why=each.why)
            for each in report.refusals
        ],
    )


def _non_zero(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
