"""Wire models of a workspace: its graph, pending candidates and usage."""

from typing import Any, Literal, cast

from pydantic import BaseModel

from recollect.api.dashboard.wire.common import Title, document_id, memory_id
from recollect.api.fields import Body, iso
from recollect.core.domain import Document, DocumentKind, Memory
from recollect.documents.workspace_graph import WorkspaceGraph
from recollect.documents.workspace_search import kind_of
from recollect.learning.distil_job import Row as StoredCandidate
from recollect.search.memory_browser import source_of
from recollect.usage.report import UsageReport


class NodeObject(BaseModel):
    """A node of the graph."""

    id: str
    kind: Literal["memory", "document", "decision", "milestone", "artifact"]
    label: str
    importance: float
    created_at: str


class DashboardEdgeObject(BaseModel):
    """An edge between two nodes."""

    source: str
    target: str
    kind: Literal["explicit", "similarity", "provenance", "contradicts"]
    relation: str
    weight: float


class DashboardGraphObject(BaseModel):
    """Nodes and the edges between them."""

    nodes: list[NodeObject]
    edges: list[DashboardEdgeObject]


class CandidateObject(BaseModel):
    """A learnt candidate that waits for review, and why it was not saved at once."""

    id: str
    content: str
    summary: str | None
    category: str | None
    quote: str
    reason: str | None
    source_type: str
    created_at: str


class CallsObject(BaseModel):
    """The calls of a model for one purpose on one day. The cost is null if the price is unknown."""

    day: str
    purpose: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    failed: int


class RecallsObject(BaseModel):
    """The number of recalls on one day, and their latency in milliseconds."""

    day: str
    count: int
    p50: float
    p95: float


class UsageObject(BaseModel):
    """Usage by day."""

    calls: list[CallsObject]
    recall: list[RecallsObject]


class WorkspaceName(Body):
    """`POST` and `PATCH` of a workspace."""

    name: Title


def from_graph(graph: WorkspaceGraph, kind: str | None) -> DashboardGraphObject:
    """Return the wire form of a graph, with nodes of one kind or of all."""
    nodes = [*map(_memory_node, graph.memories), *map(_document_node, graph.documents)]
    nodes = [each for each in nodes if kind is None or each.kind == kind]
    row = {each.id for each in nodes}
    edges = [
        DashboardEdgeObject(
            source=_id_of(each.source),
            target=_id_of(each.target),
            kind=cast("Any", each.kind),
            relation=each.relation,
            weight=each.weight,
        )
        for each in graph.edges
    ]
    edges = [each for each in edges if each.source in row and each.target in row]
    return DashboardGraphObject(nodes=nodes, edges=edges)


def _id_of(node: Memory | Document) -> str:
    return memory_id(node) if isinstance(node, Memory) else document_id(node.code)


def _memory_node(memory: Memory) -> NodeObject:
    return NodeObject(
        id=memory_id(memory),
        kind=cast("Any", kind_of(memory).value),
        label=_truncate(memory.summary or memory.content),
        importance=round(memory.importance, 4),
        created_at=iso(memory.created_at),
    )


def _document_node(document: Document) -> NodeObject:
    return NodeObject(
        id=document_id(document.code),
        kind="artifact" if document.kind is DocumentKind.ARTIFACT else "document",
        label=_truncate(document.name),
        importance=0.5,
        created_at=iso(document.created_at),
    )


def _truncate(text: str, max_characters: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= max_characters else line[: max_characters - 1] + "…"


def from_candidate(candidate: StoredCandidate) -> CandidateObject:
    """Return the wire form of a candidate."""
    return CandidateObject(
        id=f"lrn_{candidate.id}",
        content=candidate.content,
        summary=candidate.summary,
        category=candidate.category,
        quote=candidate.quote,
        reason=candidate.why,
        source_type=source_of(candidate.source),
        created_at=iso(candidate.created_at),
    )


def from_usage(usage: UsageReport) -> UsageObject:
    """Return the wire form of usage, one row for each day, purpose and model."""
    sums: dict[tuple[str, str, str], CallsObject] = {}
    for line in usage.lines:
        key = (f"{line.day:%Y-%m-%d}", line.purpose, line.model)
        row = sums.setdefault(
            key,
            CallsObject(
                day=key[0],
                purpose=line.purpose,
                model=line.model,
                calls=0,
                input_tokens=0,
                output_tokens=0,
                cost=None,
                failed=0,
            ),
        )
        row.calls += line.calls
        row.input_tokens += line.input_tokens
        row.output_tokens += line.output_tokens
        row.failed += line.calls if line.state == "failed" else 0
        if line.cost is not None:
            row.cost = (row.cost or 0.0) + line.cost
    return UsageObject(
        calls=list(sums.values()),
        recall=[
            RecallsObject(
                day=f"{each.day:%Y-%m-%d}",
                count=each.count,
                p50=round(each.p50, 1),
                p95=round(each.p95, 1),
            )
            for each in usage.recalls
        ],
    )
