"""The routes of documents, and of the search over everything in a workspace."""

import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, File, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse

from recollect.domain import DocumentId
from recollect.doors import refs
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.dashboard import document_wire, wire
from recollect.doors.dashboard.common import RESPONSES, Inside
from recollect.doors.files import Sent, download, parts_of
from recollect.doors.furnish import EngineOf
from recollect.doors.values import clamped
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
from recollect.engine.workspace_search import SearchWorkspace, search_workspace
from recollect.errors import Invalid

UPLOADS = re.compile(r"/chat/api/workspaces/[^/]+/documents")
# The files' form around them.
UPLOAD_BYTES = MOST_BYTES + 64 * 1024
_MOST_FILES = 20
_USUAL, _MOST = 50, 100
# As much as somebody scrolls through; who wants more downloads it.
_SHOWN_CHARACTERS = 500_000

router = APIRouter(responses=RESPONSES)

_DOCUMENTS = "/chat/api/workspaces/{workspace_id}/documents"
_DOCUMENT = _DOCUMENTS + "/{document_id}"


@router.post(_DOCUMENTS, status_code=201)
async def add(
    engine: EngineOf, caller: Inside, file: Annotated[list[UploadFile], File()]
) -> document_wire.Added:
    """Keep files, sent as multipart form data: at most 20 MiB together."""
    if len(file) > _MOST_FILES:
        raise Invalid(f"At most {_MOST_FILES} files are taken at once.", field="file")
    kept = [
        await add_document(engine, caller, NewDocument(each.filename or ""), parts_of(each))
        for each in file
    ]
    return document_wire.Added(items=[document_wire.from_document(each) for each in kept])


@router.get(_DOCUMENTS)
async def get_documents(
    engine: EngineOf,
    caller: Inside,
    parameters: Annotated[document_wire.DocumentParameters, Query()],
) -> wire.Page[document_wire.DocumentObject]:
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
    items = [document_wire.from_document(each) for each in found]
    return wire.Page(items=items, next_cursor=cursor, has_more=has_more)


@router.get(_DOCUMENT)
async def get_one(
    engine: EngineOf, caller: Inside, document_id: str
) -> document_wire.DocumentObject:
    """One document."""
    return document_wire.from_document(
        await get_document(engine, caller, refs.document(document_id))
    )


@router.get(f"{_DOCUMENT}/text")
async def get_text(engine: EngineOf, caller: Inside, document_id: str) -> document_wire.TextObject:
    """What was read in a document; of a long one, the beginning."""
    document = await get_document(engine, caller, refs.document(document_id))
    parts: list[str] = []
    room = _SHOWN_CHARACTERS
    async for part in text_of(engine, caller, document):
        if len(part) > room:
            return document_wire.TextObject(text="".join([*parts, part[:room]]), is_whole=False)
        parts.append(part)
        room -= len(part)
    return document_wire.TextObject(text="".join(parts), is_whole=True)


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
    engine: EngineOf, caller: Inside, parameters: Annotated[document_wire.SearchParameters, Query()]
) -> document_wire.Results:
    """Memories, chunks of documents and artifacts in one list, best first."""
    found = await search_workspace(
        engine,
        caller,
        SearchWorkspace(
            parameters.q,
            clamped(parameters.limit, default=10, most=_MOST),
            parameters.offset,
            document_wire.to_kinds(parameters.types),
        ),
    )
    return document_wire.Results(results=[document_wire.from_result(each) for each in found])
