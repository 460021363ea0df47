"""A workspace as a graph of memories, documents and the links between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.core.domain import Association, Caller, Document, Memory, Relation
from recollect.documents.documents import ListDocuments, list_documents
from recollect.engine import Engine
from recollect.search.hybrid import SortOrder
from recollect.search.memory_graph import Browse, graph

# The number of documents shown next to the memories.
_MAX_DOCUMENTS = 100


@dataclass(frozen=True, slots=True)
class GraphEdge:
    """An edge of the graph: its two ends, its kind and its relation."""

    source: Memory | Document
    target: Memory | Document
    kind: str
    relation: str
    weight: float


@dataclass(frozen=True, slots=True)
class WorkspaceGraph:
    """The nodes and edges of a workspace's graph."""

    memories: list[Memory]
    documents: list[Document]
    edges: list[GraphEdge]


async def workspace_graph(engine: Engine, caller: Caller, *, limit: int) -> WorkspaceGraph:
    """Return the newest memories and documents, and the edges between them."""
    found = await graph(engine, caller, Browse(order=SortOrder.RECENT, limit=limit))
    documents, _ = await list_documents(
        engine, caller, ListDocuments(limit=min(limit, _MAX_DOCUMENTS))
    )
    by_id = {each.id: each for each in found.memories}
    links = [
        GraphEdge(
            by_id[each.source_id],
            by_id[each.target_id],
            _kind_of(each),
            each.relation,
            each.weight,
        )
        for each in found.associations
    ]
    return WorkspaceGraph(found.memories, documents, [*links, *_origins(found.memories, documents)])


def _kind_of(association: Association) -> str:
    if association.relation is Relation.CONTRADICTS:
        return "contradicts"
    return "explicit" if association.is_authored else "similarity"


def _origins(memories: Sequence[Memory], documents: Sequence[Document]) -> list[GraphEdge]:
    """Return edges between memories and artifacts from the same conversation."""
    return [
        GraphEdge(memory, document, "provenance", "same_chat", 0.5)
        for document in documents
        if document.thread_id
        for memory in memories
        if memory.thread_id == document.thread_id
    ]
