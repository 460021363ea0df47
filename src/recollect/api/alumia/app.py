"""The routes of key/value memories. Each parses, calls one verb, and responds."""

import asyncio
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Annotated

from fastapi import Depends, File, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse

from recollect.api import ids
from recollect.api.alumia import parts_wire, wire
from recollect.api.alumia.envelope import AlumiaErrorObject, AlumiaPage, Envelope, Gone, Items
from recollect.api.alumia.errors import answer
from recollect.api.apps import BEARER, EngineOf, new_app, new_router, set_up
from recollect.api.cursors import make_cursor, read_cursor
from recollect.api.files import StoredFile, download, media_type_of, parts_of
from recollect.api.gateway import Interface, bearer
from recollect.conversations.threads import OpenThread, get_thread, open_thread
from recollect.core.domain import Caller, Memory
from recollect.core.errors import Failure, Invalid, NotFound
from recollect.engine import Engine
from recollect.learning.insights import (
    delete_insights,
    is_learning_on,
    list_insights,
    save_insight,
    save_insight_if_on,
    switch_learning,
)
from recollect.memories.assets import (
    MAX_BYTES,
    NewAsset,
    attach,
    detach,
    get_asset,
    list_assets,
    read_asset,
)
from recollect.memories.key_value import (
    add_source,
    edit_key_value,
    find_key_value,
    forget_key_value,
    list_key_values,
    list_sources,
    recall_key_values,
    remove_source,
    save_key_value,
)
from recollect.portability.archive import spool
from recollect.portability.exporting import own_scope
from recollect.portability.importing import ImportReport, one_at_a_time, open_import, own_target
from recollect.portability.sources import OURS, open_source
from recollect.tenancy.request_scope import RequestScope
from recollect.tenancy.workspace_scope import WorkspaceScope, activate_workspace, workspace_scope

PREFIXES = ("/api/v1",)
_UPLOAD = re.compile(r"/api/v1/memories/[^/]+/assets")
_IMPORT = re.compile(r"/api/v1/import")
# An upload is stored on disk while it is imported. Use `recollect import` for larger files.
_IMPORT_BYTES = 256 * 1024 * 1024
_UNPACKED_BYTES = 4 * _IMPORT_BYTES
_NDJSON = "application/x-ndjson"
_NOT_IN_NAMES = re.compile(r"[^\w. -]", re.ASCII)
# The file, plus its multipart form.
_UPLOAD_BYTES = MAX_BYTES + 64 * 1024
_CHUNK_BYTES = 256 * 1024

router = new_router(AlumiaErrorObject, 422)


def new_interface(engine: Engine) -> Interface:
    """Return the interface, ready to be mounted."""
    app = new_app(
        "Recollect: key/value memories",
        "Memories by key, with scopes, assets and sources, and insights about the user.",
        router.routes,
    )
    set_up(app, engine, answer, BEARER)
    return Interface(
        "alumia",
        PREFIXES,
        app,
        answer,
        bearer,
        uploads=_UPLOAD,
        max_upload_bytes=_UPLOAD_BYTES,
        imports=_IMPORT,
        max_import_bytes=_IMPORT_BYTES,
    )


async def _active_caller(request: Request, engine: EngineOf) -> Caller:
    """Return the caller, in the workspace that a header activates. A header never widens access.

    Every route gets its caller from here. Only its owner sees a row that this interface shows as
    `global`.
    """
    caller: Caller = replace(request.state.caller, sees_only_own=True)
    org = request.headers.get("x-alumia-org")
    if org is not None and org != str(caller.org_id):
        raise NotFound("org")
    wanted = request.headers.get("x-alumia-workspace")
    if wanted is None:
        return caller
    return await activate_workspace(engine, caller, ids.workspace(wanted))


CallerOf = Annotated[Caller, Depends(_active_caller)]
Names = Annotated[wire.Names, Query()]


# Memories.


@router.post(
    "/api/v1/memories",
    status_code=201,
    responses={200: {"model": Envelope[wire.AlumiaMemoryObject]}},
)
async def save_memory(
    engine: EngineOf, caller: CallerOf, body: wire.AlumiaNewMemory, response: Response
) -> Envelope[wire.AlumiaMemoryObject]:
    """Save a memory. A memory with the same key, scope and context is updated (200)."""
    if body.expiresAt and body.expiresAt <= engine.now():
        raise Invalid("`expiresAt` is in the past.", field="expiresAt")
    ask = wire.to_save(body)
    scope = await workspace_scope(engine, caller, wire.context_of(body))
    saved = await save_key_value(engine, scope, ask)
    response.status_code = 201 if saved.is_new else 200
    return Envelope(data=wire.from_memory(saved.memory))


@router.get("/api/v1/memories")
async def list_memories(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[wire.AlumiaListParameters, Query()]
) -> Envelope[AlumiaPage[wire.AlumiaMemoryObject]]:
    """List memories, newest first."""
    asked = parameters.model_dump(exclude={"cursor", "limit"})
    after = read_cursor(parameters.cursor, caller, asked)
    scope = await workspace_scope(engine, caller, wire.context_of(parameters))
    found, has_more = await list_key_values(engine, scope, wire.to_list(parameters, after))
    cursor = None
    if has_more:
        cursor = make_cursor((found[-1].created_at, found[-1].id), caller, asked)
    items = [wire.from_memory(each) for each in found]
    return Envelope(data=AlumiaPage(items=items, nextCursor=cursor, hasMore=has_more))


@router.post("/api/v1/memories/recall")
async def recall_memories(
    engine: EngineOf, caller: CallerOf, body: wire.AlumiaRecall
) -> Envelope[Items[wire.AlumiaMemoryObject]]:
    """Return the memories that match a query, best first."""
    scope = await workspace_scope(engine, caller, wire.context_of(body))
    limit = wire.clamp(body.limit, default=5, maximum=50)
    found = await recall_key_values(engine, scope, body.query, limit)
    return Envelope(data=Items(items=[wire.from_memory(each) for each in found]))


@router.get("/api/v1/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[wire.AlumiaMemoryObject]:
    """Return one memory."""
    _, memory = await _find_memory(engine, caller, memory_id, names)
    return Envelope(data=wire.from_memory(memory))


@router.patch("/api/v1/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names, body: wire.AlumiaMemoryChange
) -> Envelope[wire.AlumiaMemoryObject]:
    """Change the given fields of a memory."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    ask = wire.to_change(body, memory)
    if ask.expires_at and ask.expires_at <= engine.now():
        raise Invalid("`expiresAt` is in the past.", field="expiresAt")
    return Envelope(data=wire.from_memory(await edit_key_value(engine, inside, memory, ask)))


@router.delete("/api/v1/memories/{memory_id}")
async def delete_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Gone]:
    """Forget a memory; its assets are deleted permanently."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    await forget_key_value(engine, inside, memory)
    return Envelope(data=Gone(id=str(memory.id)))


# Assets.


@router.post("/api/v1/memories/{memory_id}/assets", status_code=201)
async def add_asset(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    names: Names,
    file: Annotated[UploadFile, File()],
) -> Envelope[parts_wire.AssetObject]:
    """Attach a file, sent as multipart form data; at most 20 MiB."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    new = NewAsset(
        # It is stored, shown and returned as a label, never used as a path.
        filename=_printable(file.filename or "file"),
        media_type=media_type_of(file.content_type),
    )
    asset = await attach(engine, inside, memory, new, parts_of(file))
    return Envelope(data=parts_wire.from_asset(asset))


@router.get("/api/v1/memories/{memory_id}/assets")
async def get_assets(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Items[parts_wire.AssetObject]]:
    """List the assets of a memory."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    found = await list_assets(engine, inside, memory)
    return Envelope(data=Items(items=[parts_wire.from_asset(each) for each in found]))


@router.get(
    "/api/v1/memories/{memory_id}/assets/{asset_id}",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        206: {"content": {"application/octet-stream": {}}},
        416: {"model": AlumiaErrorObject},
    },
)
async def download_asset(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    asset_id: str,
    names: Names,
    request: Request,
) -> Response:
    """Return the bytes of an asset, or the part that a `Range` header asks for."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    asset = await get_asset(engine, inside, memory, ids.uuid_of(asset_id, "asset"))
    file = StoredFile(asset.filename, asset.media_type, asset.size, asset.digest)

    def read(first: int, last: int) -> AsyncIterator[bytes]:
        return read_asset(engine, inside, asset, first, last)

    found = download(file, request.headers.get("range"), read)
    if found is None:
        error = {"code": "RANGE_NOT_SATISFIABLE", "message": "`Range` is outside the file."}
        return JSONResponse(
            {"success": False, "error": error},
            416,
            {"content-range": f"bytes */{asset.size}"},
        )
    return found


@router.delete("/api/v1/memories/{memory_id}/assets/{asset_id}")
async def delete_asset(
    engine: EngineOf, caller: CallerOf, memory_id: str, asset_id: str, names: Names
) -> Envelope[Gone]:
    """Delete an asset."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    wanted = ids.uuid_of(asset_id, "asset")
    await detach(engine, inside, memory, wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Sources.


@router.get("/api/v1/memories/{memory_id}/sources")
async def get_sources(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Items[parts_wire.SourceObject]]:
    """List the sources of a memory."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    found = await list_sources(engine, inside, memory)
    return Envelope(data=Items(items=[parts_wire.from_source(each) for each in found]))


@router.post("/api/v1/memories/{memory_id}/sources", status_code=201)
async def link_source(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names, body: wire.SourceBody
) -> Envelope[parts_wire.SourceObject]:
    """Link a memory to the session or message it came from."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    source = await add_source(engine, inside, memory, wire.source_link(body))
    return Envelope(data=parts_wire.from_source(source))


@router.delete("/api/v1/memories/{memory_id}/sources/{source_id}")
async def unlink_source(
    engine: EngineOf, caller: CallerOf, memory_id: str, source_id: str, names: Names
) -> Envelope[Gone]:
    """Remove a source from a memory."""
    inside, memory = await _find_memory(engine, caller, memory_id, names)
    wanted = ids.uuid_of(source_id, "source")
    await remove_source(engine, inside, memory, wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Sessions.


@router.post("/api/v1/sessions", status_code=201)
async def create_session(
    engine: EngineOf, caller: CallerOf, body: parts_wire.AlumiaNewSession
) -> Envelope[parts_wire.AlumiaSessionObject]:
    """Create a session, in a project or for an agent if one is given."""
    names = wire.Names(projectId=body.projectId, agentId=body.agentId)
    scope = await workspace_scope(engine, caller, wire.context_of(names))
    thread = await open_thread(engine, scope.home, OpenThread(agent=body.agentId or ""))
    return Envelope(data=parts_wire.from_thread(thread))


@router.get("/api/v1/sessions/{session_id}")
async def get_session(
    engine: EngineOf, caller: CallerOf, session_id: str
) -> Envelope[parts_wire.AlumiaSessionObject]:
    """Return one session."""
    ref = ids.session(session_id)
    scope = await workspace_scope(engine, caller, RequestScope(thread=ref))
    return Envelope(data=parts_wire.from_thread(await get_thread(engine, scope.home, ref)))


# Learning: insights about the user, which are separate from memories.


@router.get("/api/v1/learning")
async def get_learning(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[parts_wire.LearningParameters, Query()],
) -> Envelope[parts_wire.CountedPage | parts_wire.AlumiaInsightPage]:
    """List insights about the user, newest first; the first page has the counts."""
    asked = parameters.model_dump(exclude={"cursor", "pageSize"})
    after = read_cursor(parameters.cursor, caller, asked)
    ask = parts_wire.to_list(parameters, after)
    found = await list_insights(engine, await _home(engine, caller), ask)
    cursor = None
    if found.has_more:
        last = found.insights[-1]
        cursor = make_cursor((last.created_at, last.id), caller, asked)
    return Envelope(data=parts_wire.from_learnt(found, cursor))


@router.post("/api/v1/learning", status_code=201)
async def add_insight(
    engine: EngineOf, caller: CallerOf, body: parts_wire.NewInsight
) -> Envelope[parts_wire.InsightObject]:
    """Save an insight about the user."""
    ask = parts_wire.to_learn(body)
    insight = await save_insight(engine, await _home(engine, caller), ask)
    return Envelope(data=parts_wire.from_insight(insight))


@router.post("/api/v1/tools/save_learning_insight")
async def save_learning_insight(
    engine: EngineOf, caller: CallerOf, body: parts_wire.NewInsight
) -> Envelope[parts_wire.Noticed]:
    """Save an insight that a model noticed; saves nothing while learning is off."""
    ask = parts_wire.to_learn(body)
    insight = await save_insight_if_on(engine, await _home(engine, caller), ask)
    return Envelope(data=parts_wire.from_noticed(insight))


@router.delete("/api/v1/learning")
async def wipe_learning(engine: EngineOf, caller: CallerOf) -> Envelope[parts_wire.Wiped]:
    """Delete every insight about the user."""
    removed = await delete_insights(engine, await _home(engine, caller), None)
    return Envelope(data=parts_wire.Wiped(deleted=removed))


@router.get("/api/v1/learning/settings")
async def get_learning_settings(
    engine: EngineOf, caller: CallerOf
) -> Envelope[parts_wire.LearningState]:
    """Return whether automatic learning is on."""
    return Envelope(data=parts_wire.LearningState(enabled=await is_learning_on(engine, caller)))


@router.patch("/api/v1/learning/settings")
async def set_learning_settings(
    engine: EngineOf, caller: CallerOf, body: parts_wire.LearningSwitch
) -> Envelope[parts_wire.LearningState]:
    """Switch automatic learning on or off."""
    home = await _home(engine, caller)
    await switch_learning(engine, home, is_on=body.enabled)
    return Envelope(data=parts_wire.LearningState(enabled=body.enabled))


@router.delete("/api/v1/learning/{insight_id}")
async def delete_insight(engine: EngineOf, caller: CallerOf, insight_id: str) -> Envelope[Gone]:
    """Delete one insight."""
    wanted = ids.uuid_of(insight_id, "insight")
    await delete_insights(engine, await _home(engine, caller), wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Export and import.


@router.get(
    "/api/v1/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}}},
)
async def export_own(engine: EngineOf, caller: CallerOf) -> StreamingResponse:
    """Export all data of the user as a zip: memories, sessions, messages, files, insights."""
    file = await spool(engine, await own_scope(engine, caller))
    headers = {"content-disposition": 'attachment; filename="recollect-export.zip"'}
    return StreamingResponse(_read_chunks(file), headers=headers, media_type="application/zip")


@router.post(
    "/api/v1/import",
    response_model=Envelope[parts_wire.AlumiaImportReport],
    responses={200: {"content": {_NDJSON: {}}}},
)
async def import_own(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[parts_wire.ImportParameters, Query()],
    file: Annotated[UploadFile, File()],
    request: Request,
) -> Response:
    """Import an export, or a file of another system, as the user's own data.

    With `Accept: application/x-ndjson`, the response has a progress line after each batch.
    """
    reports = _reports(engine, caller, parameters, file)
    # An unreadable file raises here, before the response starts.
    last = await anext(reports)
    if _NDJSON in request.headers.get("accept", ""):
        lines = _progress_lines(last, reports, is_dry_run=parameters.dryRun)
        return StreamingResponse(lines, media_type=_NDJSON)
    async for each in reports:
        last = each
    return JSONResponse(_final(last, is_dry_run=parameters.dryRun))


async def _reports(
    engine: Engine, caller: Caller, asked: parts_wire.ImportParameters, file: UploadFile
) -> AsyncGenerator[ImportReport]:
    target = own_target(caller, is_foreign=asked.source != OURS, is_to_learn=asked.learn)
    shown = _printable(file.filename or "")
    async with one_at_a_time(engine, caller), _on_disk(file, shown) as path:
        with open_source(
            path, asked.source, asked.scope, name=shown, max_bytes=_UNPACKED_BYTES
        ) as source:
            read = source(engine, target)
            async for report in open_import(
                engine,
                target,
                read.lines,
                attachments=read.attachments,
                is_dry_run=asked.dryRun,
            ):
                yield replace(report, left_out=report.left_out + Counter(read.left_out))


async def _progress_lines(
    first: ImportReport, more: AsyncGenerator[ImportReport], *, is_dry_run: bool
) -> AsyncIterator[bytes]:
    """Yield each report as a line, and the last report or an error in the envelope."""
    last = first
    async with aclosing(more):
        try:
            yield _line({"progress": parts_wire.counts_of(first)})
            async for each in more:
                last = each
                yield _line({"progress": parts_wire.counts_of(each)})
            yield _line(_final(last, is_dry_run=is_dry_run))
        except Failure as failure:
            yield _line(dict(answer(failure).body))


def _final(report: ImportReport, *, is_dry_run: bool) -> dict[str, object]:
    data = parts_wire.from_report(report, is_dry_run=is_dry_run)
    return Envelope(data=data).model_dump(mode="json")


def _line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


@asynccontextmanager
async def _on_disk(file: UploadFile, shown: str) -> AsyncGenerator[Path]:
    """Store an upload in a temporary file while the block lasts, because it is read repeatedly."""
    with tempfile.TemporaryDirectory(prefix="recollect-import-") as directory:
        # Importers use the name: it shows the format and becomes part of the records. Unsafe
        # characters are replaced, so it cannot leave the directory.
        path = Path(directory) / (_NOT_IN_NAMES.sub("_", shown)[-100:].strip(". ") or "import")
        with path.open("xb") as copy:
            await asyncio.to_thread(shutil.copyfileobj, file.file, copy)
        yield path


async def _read_chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


async def _home(engine: Engine, caller: Caller) -> Caller:
    return (await workspace_scope(engine, caller, RequestScope())).home


async def _find_memory(
    engine: Engine, caller: Caller, memory_id: str, names: wire.Names
) -> tuple[Caller, Memory]:
    """Return the memory, and the caller inside its workspace."""
    ref = ids.memory(memory_id)
    scope: WorkspaceScope = await workspace_scope(engine, caller, wire.context_of(names))
    return await find_key_value(engine, scope, ref)


def _printable(name: str) -> str:
    printable = "".join(letter for letter in name if letter.isprintable())
    return printable.encode("utf-8", "ignore").decode()[:255] or "file"
