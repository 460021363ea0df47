"""Wire models of documents and of the search over a workspace."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from recollect.api.dashboard.wire.common import (
    DashboardPageParameters,
    Limit,
    document_id,
    memory_id,
)
from recollect.api.fields import Parameters, iso
from recollect.core.domain import Document, DocumentKind, Memory
from recollect.core.errors import Invalid
from recollect.documents.workspace_search import ResultKind, SearchedItem, title_of

_SNIPPET_CHARACTERS = 1_200


class DocumentObject(BaseModel):
    """A document."""

    id: str
    name: str
    kind: Literal["upload", "artifact"]
    type: str
    size: int
    sha256: str
    status: Literal["waiting", "reading", "ready", "stored", "failed"]
    error: str | None
    chunks: int
    embedded: int
    created_at: str


class Added(BaseModel):
    """The stored documents."""

    items: list[DocumentObject]


class TextObject(BaseModel):
    """The text of a document, or the beginning of a long one."""

    text: str
    is_whole: bool


class DocumentParameters(DashboardPageParameters):
    """Which documents to list."""

    kind: DocumentKind | None = None


class DashboardSearchParameters(Parameters):
    """The query, the kinds to search, and the page."""

    q: Annotated[str, Field(min_length=1, max_length=10_000)]
    # Comma-separated kinds. Empty means all.
    types: Annotated[str, Field(max_length=200)] = ""
    limit: Limit | None = None
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class ResultObject(BaseModel):
    """A search result."""

    kind: Literal["memory", "decision", "milestone", "document", "artifact"]
    id: str
    title: str
    snippet: str
    score: float
    created_at: str


class Results(BaseModel):
    """Search results, best first."""

    results: list[ResultObject]


def to_kinds(text: str) -> list[ResultKind]:
    """Parse the kinds to search."""
    try:
        return [ResultKind(name.strip()) for name in text.split(",") if name.strip()]
    except ValueError:
        names = ", ".join(f"`{kind}`" for kind in ResultKind)
        raise Invalid(
            f"`types` must be a comma-separated list of {names}.", field="types"
        ) from None


def from_document(document: Document) -> DocumentObject:
    """Return the wire form of a document."""
    return DocumentObject(
        id=document_id(document.code),
        name=document.name,
        kind=document.kind.value,
        type=document.media_type,
        size=document.size,
        sha256=bytes(document.digest).hex(),
        # Clients never see a document while it is being uploaded.
        status="waiting" if document.status == "uploading" else document.status.value,
        error=document.error,
        chunks=document.chunk_count,
        embedded=document.embedded_count,
        created_at=iso(document.created_at),
    )


def from_result(result: SearchedItem) -> ResultObject:
    """Return the wire form of a search result."""
    found = result.found
    is_memory = isinstance(found, Memory)
    return ResultObject(
        kind=result.kind.value,
        id=memory_id(found) if isinstance(found, Memory) else document_id(found.document_code),
        title="" if is_memory else title_of(found),
        snippet=found.content.strip()[:_SNIPPET_CHARACTERS],
        score=round(result.score, 4),
        created_at=iso(result.created_at),
    )
