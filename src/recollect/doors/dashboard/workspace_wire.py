"""What is shown of a workspace as a whole: its graph, what waits in it, what was used."""

from typing import Any, Literal, cast

from pydantic import BaseModel

from recollect.domain import Document, DocumentKind, Memory
from recollect.doors.dashboard.wire import Title, document_id, memory_id
from recollect.doors.values import Body, iso
from recollect.engine.learn import Row as Candidate
from recollect.engine.overview import Picture, Usage
from recollect.engine.shelf import source_of
from recollect.engine.workspace_search import kind_of


class NodeObject(BaseModel):
    """Something in the graph."""

    id: str
    kind: Literal["memory", "document", "decision", "milestone", "artifact"]
    label: str
    importance: float
    created_at: str


class EdgeObject(BaseModel):
    """What ties two things."""

    source: str
    target: str
    kind: Literal["explicit", "similarity", "provenance", "contradicts"]
    relation: str
    weight: float


class GraphObject(BaseModel):
    """Things and what ties them."""

    nodes: list[NodeObject]
    edges: list[EdgeObject]


class CandidateObject(BaseModel):
    """Something learnt that waits for somebody's decision, and why it waits."""

    id: str
    content: str
    summary: str | None
    category: str | None
    quote: str
    reason: str | None
    source_type: str
    created_at: str


class CallsObject(BaseModel):
    """What a model was used for on a day; what it cost, where its price is known."""

    day: str
    purpose: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    failed: int


class RecallsObject(BaseModel):
    """How many turns of a day recalled, and how many milliseconds that took."""

    day: str
    count: int
    p50: float
    p95: float


class UsageObject(BaseModel):
    """What was used, by day."""

    calls: list[CallsObject]
    recall: list[RecallsObject]


class WorkspaceName(Body):
    """`POST` and `PATCH` of a workspace."""

    name: Title


def from_picture(picture: Picture, kind: str | None) -> GraphObject:
    """A graph, of one kind of thing or of all."""
    nodes = [*map(_memory_node, picture.memories), *map(_document_node, picture.documents)]
    nodes = [each for each in nodes if kind is None or each.kind == kind]
    known = {each.id for each in nodes}
    edges = [
        EdgeObject(
            source=_id_of(each.source),
            target=_id_of(each.target),
            kind=cast("Any", each.kind),
            relation=each.relation,
            weight=each.weight,
        )
        for each in picture.ties
    ]
    edges = [each for each in edges if each.source in known and each.target in known]
    return GraphObject(nodes=nodes, edges=edges)


def _id_of(thing: Memory | Document) -> str:
    return memory_id(thing) if isinstance(thing, Memory) else document_id(thing.code)


def _memory_node(memory: Memory) -> NodeObject:
    return NodeObject(
        id=memory_id(memory),
        kind=cast("Any", kind_of(memory).value),
        label=_cut(memory.summary or memory.content),
        importance=round(memory.importance, 4),
        created_at=iso(memory.created_at),
    )


def _document_node(document: Document) -> NodeObject:
    return NodeObject(
        id=document_id(document.code),
        kind="artifact" if document.kind is DocumentKind.ARTIFACT else "document",
        label=_cut(document.name),
        importance=0.5,
        created_at=iso(document.created_at),
    )


def _cut(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def from_candidate(candidate: Candidate) -> CandidateObject:
    """What waits."""
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


def from_usage(usage: Usage) -> UsageObject:
    """What was used, one line for each day, purpose and model."""
    sums: dict[tuple[str, str, str], CallsObject] = {}
    for line in usage.lines:
        key = (f"{line.day:%Y-%m-%d}", line.purpose, line.model)
        known = sums.setdefault(
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
        known.calls += line.calls
        known.input_tokens += line.input_tokens
        known.output_tokens += line.output_tokens
        known.failed += line.calls if line.state == "failed" else 0
        if line.cost is not None:
            known.cost = (known.cost or 0.0) + line.cost
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
