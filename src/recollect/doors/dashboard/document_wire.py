"""Documents, and what a search over everything finds, in this door's JSON."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from recollect.domain import Document, DocumentKind, Memory
from recollect.doors.dashboard.wire import Limit, PageParameters, document_id, memory_id
from recollect.doors.values import Parameters, iso
from recollect.engine.workspace_search import Kind, Result, title_of
from recollect.errors import Invalid

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
    """What was kept."""

    items: list[DocumentObject]


class TextObject(BaseModel):
    """A document's text, or how it begins."""

    text: str
    is_whole: bool


class DocumentParameters(PageParameters):
    """Which documents to list."""

    kind: DocumentKind | None = None


class SearchParameters(Parameters):
    """What to look for, among what, and which part of the list."""

    q: Annotated[str, Field(min_length=1, max_length=10_000)]
    # Kinds, with commas between them; none are all.
    types: Annotated[str, Field(max_length=200)] = ""
    limit: Limit | None = None
    offset: Annotated[int, Field(ge=0, le=10_000)] = 0


class ResultObject(BaseModel):
    """Something found."""

    kind: Literal["memory", "decision", "milestone", "document", "artifact"]
    id: str
    title: str
    snippet: str
    score: float
    created_at: str


class Results(BaseModel):
    """What was found, best first."""

    results: list[ResultObject]


def to_kinds(text: str) -> list[Kind]:
    """Among what to look."""
    try:
        return [Kind(name.strip()) for name in text.split(",") if name.strip()]
    except ValueError:
        names = ", ".join(f"`{kind}`" for kind in Kind)
        raise Invalid(f"`types` are some of {names}.", field="types") from None


def from_document(document: Document) -> DocumentObject:
    """A document as it is shown."""
    return DocumentObject(
        id=document_id(document.code),
        name=document.name,
        kind=document.kind.value,
        type=document.media_type,
        size=document.size,
        sha256=bytes(document.digest).hex(),
        # One that is still being sent is shown to nobody.
        status="waiting" if document.status == "uploading" else document.status.value,
        error=document.error,
        chunks=document.chunk_count,
        embedded=document.embedded_count,
        created_at=iso(document.created_at),
    )


def from_result(result: Result) -> ResultObject:
    """Something found, as it is shown."""
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
