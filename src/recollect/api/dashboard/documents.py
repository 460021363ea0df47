"""Routes of documents, and the search over everything in a workspace."""

import re
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, File, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse

from recollect.api import ids
from recollect.api.apps import EngineOf
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.dashboard.common import RESPONSES, WorkspaceCaller
from recollect.api.dashboard.wire import common, documents
from recollect.api.fields import clamp
from recollect.api.files import StoredFile, download, parts_of
from recollect.core.domain import DocumentId
from recollect.core.errors import Invalid
from recollect.documents.documents import (
    MAX_BYTES,
    ListDocuments,
    NewDocument,
    add_document,
    bytes_of,
    delete_document,
    get_document,
    list_documents,
    text_of,
)
from recollect.documents.workspace_search import SearchWorkspace, search_workspace

UPLOADS = re.compile(r"/chat/api/workspaces/[^/]+/documents")
# The files, and the multipart form around them.
UPLOAD_BYTES = MAX_BYTES + 64 * 1024
_MAX_FILES = 20
_DEFAULT_LIMIT, _MAX_LIMIT = 50, 100
# More than a person scrolls through. The whole file can be downloaded.
_SHOWN_CHARACTERS = 500_000

router = APIRouter(responses=RESPONSES)

_DOCUMENTS = "/chat/api/workspaces/{workspace_id}/documents"
_DOCUMENT = _DOCUMENTS + "/{document_id}"


@router.post(_DOCUMENTS, status_code=201)
async def add(
    engine: EngineOf, caller: WorkspaceCaller, file: Annotated[list[UploadFile], File()]
) -> documents.Added:
    """Store files, sent as multipart form data: at most 20 MiB together."""
    if len(file) > _MAX_FILES:
        raise Invalid(f"At most {_MAX_FILES} files can be uploaded at once.", field="file")
    stored = [
        await add_document(engine, caller, NewDocument(each.filename or ""), parts_of(each))
        for each in file
    ]
    return documents.Added(items=[documents.from_document(each) for each in stored])


@router.get(_DOCUMENTS)
async def get_documents(
    engine: EngineOf,
    caller: WorkspaceCaller,
    parameters: Annotated[documents.DocumentParameters, Query()],
) -> common.DashboardPage[documents.DocumentObject]:
    """List documents, newest first."""
    filters = {"kind": parameters.kind, "in": caller.workspace_id}
    position = read_cursor(parameters.cursor, caller, filters)
    found, has_more = await list_documents(
        engine,
        caller,
        ListDocuments(
            clamp(parameters.limit, default=_DEFAULT_LIMIT, maximum=_MAX_LIMIT),
            parameters.kind,
            (position[0], DocumentId(position[1])) if position else None,
        ),
    )
    cursor = (
        make_cursor((found[-1].created_at, found[-1].id), caller, filters) if has_more else None
    )
    items = [documents.from_document(each) for each in found]
    return common.DashboardPage(items=items, next_cursor=cursor, has_more=has_more)


@router.get(_DOCUMENT)
async def get_one(
    engine: EngineOf, caller: WorkspaceCaller, document_id: str
) -> documents.DocumentObject:
    """Return one document."""
    return documents.from_document(await get_document(engine, caller, ids.document(document_id)))


@router.get(f"{_DOCUMENT}/text")
async def get_text(
    engine: EngineOf, caller: WorkspaceCaller, document_id: str
) -> documents.TextObject:
    """Return the extracted text of a document. A long text is truncated."""
    document = await get_document(engine, caller, ids.document(document_id))
    parts: list[str] = []
    characters_left = _SHOWN_CHARACTERS
    async for part in text_of(engine, caller, document):
        if len(part) > characters_left:
            return documents.TextObject(
                text="".join([*parts, part[:characters_left]]), is_whole=False
            )
        parts.append(part)
        characters_left -= len(part)
    return documents.TextObject(text="".join(parts), is_whole=True)


@router.get(
    f"{_DOCUMENT}/content",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"*/*": {}}},
        206: {"content": {"*/*": {}}},
        416: {"model": common.DashboardErrorObject},
    },
)
async def get_content(
    engine: EngineOf, caller: WorkspaceCaller, document_id: str, request: Request
) -> Response:
    """Return the bytes of the file, or the part that a `Range` header names."""
    document = await get_document(engine, caller, ids.document(document_id))
    file = StoredFile(document.name, document.media_type, document.size, document.digest)

    def read_bytes(first: int, last: int) -> AsyncIterator[bytes]:
        return bytes_of(engine, caller, document, first, last)

    found = download(file, request.headers.get("range"), read_bytes)
    if found is None:
        error = {
            "code": "range_not_satisfiable",
            "message": "The requested range is outside the file.",
        }
        headers = {"content-range": f"bytes */{document.size}"}
        return JSONResponse({"error": error}, 416, headers)
    return found


@router.delete(_DOCUMENT, status_code=204)
async def delete(engine: EngineOf, caller: WorkspaceCaller, document_id: str) -> None:
    """Delete a document and everything derived from it, permanently."""
    await delete_document(engine, caller, ids.document(document_id))


@router.get("/chat/api/workspaces/{workspace_id}/search")
async def search(
    engine: EngineOf,
    caller: WorkspaceCaller,
    parameters: Annotated[documents.DashboardSearchParameters, Query()],
) -> documents.Results:
    """Search memories, document chunks and artifacts; return one list, best first."""
    found = await search_workspace(
        engine,
        caller,
        SearchWorkspace(
            parameters.q,
            clamp(parameters.limit, default=10, maximum=_MAX_LIMIT),
            parameters.offset,
            documents.to_kinds(parameters.types),
        ),
    )
    return documents.Results(results=[documents.from_result(each) for each in found])
