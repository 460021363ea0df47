"""The routes of documents, and of the search over everything in a workspace."""

import re
from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, File, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from recollect.domain import Document, DocumentId, DocumentKind, Memory
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import wire
from recollect.doors.dashboard.common import RESPONSES, Inside
from recollect.doors.files import Sent, download, parts_of
from recollect.doors.furnish import EngineOf
from recollect.doors.values import clamped, iso
from recollect.engine.documents import (
    MOST_BYTES,
    ListDocuments,
    NewDocument,
    add_document,
    bytes_of,
    delete_document,
    get_document,
    list_documents,
    text_of,
)
from recollect.engine.workspace_search import (
    Kind,
    Result,
    SearchWorkspace,
    search_workspace,
    title_of,
)
from recollect.errors import Invalid

UPLOADS = re.compile(r"/chat/api/workspaces/[^/]+/documents")
# The files' form around them.
UPLOAD_BYTES = MOST_BYTES + 64 * 1024
_MOST_FILES = 20
_USUAL, _MOST = 50, 100
# As much as somebody scrolls through; who wants more downloads it.
_SHOWN_CHARACTERS = 500_000
_SNIPPET_CHARACTERS = 1_200

router = APIRouter(responses=RESPONSES)

_DOCUMENTS = "/chat/api/workspaces/{workspace_id}/documents"
_DOCUMENT = _DOCUMENTS + "/{document_id}"


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


class DocumentParameters(wire.PageParameters):
    """Which documents to list."""

    kind: DocumentKind | None = None


class SearchParameters(wire.Parameters):
    """What to look for, among what, and which part of the list."""

    q: Annotated[str, Field(min_length=1, max_length=10_000)]
    # Kinds, with commas between them; none are all.
    types: Annotated[str, Field(max_length=200)] = ""
    limit: wire.Limit | None = None
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


@router.post(_DOCUMENTS, status_code=201)
async def add(engine: EngineOf, caller: Inside, file: Annotated[list[UploadFile], File()]) -> Added:
    """Keep files, sent as multipart form data: at most 20 MiB together."""
    if len(file) > _MOST_FILES:
        raise Invalid(f"At most {_MOST_FILES} files are taken at once.", field="file")
    kept = [
        await add_document(engine, caller, NewDocument(each.filename or ""), parts_of(each))
        for each in file
    ]
    return Added(items=[_written(each) for each in kept])


@router.get(_DOCUMENTS)
async def get_documents(
    engine: EngineOf, caller: Inside, parameters: Annotated[DocumentParameters, Query()]
) -> wire.Page[DocumentObject]:
    """Documents, newest first."""
    asked = {"kind": parameters.kind, "in": caller.workspace_id}
    place = place_of(parameters.cursor, caller, asked)
    found, has_more = await list_documents(
        engine,
        caller,
        ListDocuments(
            clamped(parameters.limit, default=_USUAL, most=_MOST),
            parameters.kind,
            (place[0], DocumentId(place[1])) if place else None,
        ),
    )
    cursor = cursor_at((found[-1].created_at, found[-1].id), caller, asked) if has_more else None
    items = [_written(each) for each in found]
    return wire.Page(items=items, next_cursor=cursor, has_more=has_more)


@router.get(_DOCUMENT)
async def get_one(engine: EngineOf, caller: Inside, document_id: str) -> DocumentObject:
    """One document."""
    return _written(await get_document(engine, caller, refs.document(document_id)))


@router.get(f"{_DOCUMENT}/text")
async def get_text(engine: EngineOf, caller: Inside, document_id: str) -> TextObject:
    """What was read in a document; of a long one, the beginning."""
    document = await get_document(engine, caller, refs.document(document_id))
    parts: list[str] = []
    room = _SHOWN_CHARACTERS
    async for part in text_of(engine, caller, document):
        if len(part) > room:
            return TextObject(text="".join([*parts, part[:room]]), is_whole=False)
        parts.append(part)
        room -= len(part)
    return TextObject(text="".join(parts), is_whole=True)


@router.get(
    f"{_DOCUMENT}/content",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"*/*": {}}},
        206: {"content": {"*/*": {}}},
        416: {"model": wire.ErrorObject},
    },
)
async def get_content(
    engine: EngineOf, caller: Inside, document_id: str, request: Request
) -> Response:
    """The bytes that were brought, or with a `Range` header some of them."""
    document = await get_document(engine, caller, refs.document(document_id))
    file = Sent(document.name, document.media_type, document.size, document.digest)

    def give(first: int, last: int) -> AsyncIterator[bytes]:
        return bytes_of(engine, caller, document, first, last)

    found = download(file, request.headers.get("range"), give)
    if found is None:
        error = {"code": "range_not_satisfiable", "message": "There are no such bytes."}
        unmet = {"content-range": f"bytes */{document.size}"}
        return JSONResponse({"error": error}, 416, unmet)
    return found


@router.delete(_DOCUMENT, status_code=204)
async def delete(engine: EngineOf, caller: Inside, document_id: str) -> None:
    """Delete a document and all that was made of it, for good."""
    await delete_document(engine, caller, refs.document(document_id))


@router.get("/chat/api/workspaces/{workspace_id}/search")
async def search(
    engine: EngineOf, caller: Inside, parameters: Annotated[SearchParameters, Query()]
) -> Results:
    """Memories, chunks of documents and artifacts in one list, best first."""
    found = await search_workspace(
        engine,
        caller,
        SearchWorkspace(
            parameters.q,
            clamped(parameters.limit, default=10, most=_MOST),
            parameters.offset,
            _kinds(parameters.types),
        ),
    )
    return Results(results=[_result(each) for each in found])


def _kinds(text: str) -> list[Kind]:
    try:
        return [Kind(name.strip()) for name in text.split(",") if name.strip()]
    except ValueError:
        names = ", ".join(f"`{kind}`" for kind in Kind)
        raise Invalid(f"`types` are some of {names}.", field="types") from None


def _written(document: Document) -> DocumentObject:
    return DocumentObject(
        id=f"cart_{document.code}",
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


def _result(result: Result) -> ResultObject:
    found = result.found
    is_memory = isinstance(found, Memory)
    return ResultObject(
        kind=result.kind.value,
        id=f"mem_{found.code}" if isinstance(found, Memory) else f"cart_{found.document_code}",
        title="" if is_memory else title_of(found),
        snippet=found.content.strip()[:_SNIPPET_CHARACTERS],
        score=round(result.score, 4),
        created_at=iso(result.created_at),
    )
