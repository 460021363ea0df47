"""The routes of key/value memories. Each parses, calls one verb, and writes the answer."""

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

from recollect.domain import Caller, Memory
from recollect.doors import refs
from recollect.doors.alumia import parts_wire, wire
from recollect.doors.alumia.envelope import (
    Envelope,
    ErrorObject,
    Gone,
    Items,
    Page,
)
from recollect.doors.alumia.errors import answer
from recollect.doors.cursors import cursor_at, place_of
from recollect.doors.files import Sent, download, media_type_of, parts_of
from recollect.doors.front import Door, bearer
from recollect.doors.furnish import BEARER, EngineOf, furnish, new_app, new_router
from recollect.engine.assets import (
    MOST_BYTES,
    NewAsset,
    attach,
    detach,
    get_asset,
    give_out,
    list_assets,
)
from recollect.engine.contexts import Context
from recollect.engine.core import Engine
from recollect.engine.exports import own_choices
from recollect.engine.imports import Report, one_at_a_time, own_target, taking_in
from recollect.engine.insights import (
    is_learning,
    learn,
    learn_in_passing,
    list_insights,
    switch_learning,
    unlearn,
)
from recollect.engine.keyed import (
    add_source,
    change_keyed,
    find_keyed,
    forget_keyed,
    list_keyed,
    list_sources,
    recall_keyed,
    remove_source,
    save_keyed,
)
from recollect.engine.reach import Reach, activate, reach_of
from recollect.engine.threads import OpenThread, get_thread, open_thread
from recollect.errors import Failure, Invalid, NotFound
from recollect.trade.archive import spooled
from recollect.trade.incoming import OURS, incoming

PREFIXES = ("/api/v1",)
_UPLOAD = re.compile(r"/api/v1/memories/[^/]+/assets")
_IMPORT = re.compile(r"/api/v1/import")
# It waits on the disk while it is read. What is larger comes in by `recollect import`.
_IMPORT_BYTES = 256 * 1024 * 1024
_UNPACKED_BYTES = 4 * _IMPORT_BYTES
_LINES = "application/x-ndjson"
_NOT_IN_NAMES = re.compile(r"[^\w. -]", re.ASCII)
# The file's form around it.
_UPLOAD_BYTES = MOST_BYTES + 64 * 1024
_SENT_BYTES = 256 * 1024

router = new_router(ErrorObject, 422)


def door(engine: Engine) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: key/value memories",
        "Memories by key, with scopes, assets and sources; and what was learnt.",
        router.routes,
    )
    furnish(app, engine, answer, BEARER)
    return Door(
        "alumia",
        PREFIXES,
        app,
        answer,
        bearer,
        uploads=_UPLOAD,
        most_upload_bytes=_UPLOAD_BYTES,
        imports=_IMPORT,
        most_import_bytes=_IMPORT_BYTES,
    )


async def _active(request: Request, engine: EngineOf) -> Caller:
    """The caller, in the workspace that a header makes the active one. A header never widens."""
    caller: Caller = request.state.caller
    org = request.headers.get("x-alumia-org")
    if org is not None and org != str(caller.org_id):
        raise NotFound("org")
    wanted = request.headers.get("x-alumia-workspace")
    if wanted is None:
        return caller
    return await activate(engine, caller, refs.workspace(wanted))


CallerOf = Annotated[Caller, Depends(_active)]
Names = Annotated[wire.Names, Query()]


# Memories.


@router.post(
    "/api/v1/memories", status_code=201, responses={200: {"model": Envelope[wire.MemoryObject]}}
)
async def save_memory(
    engine: EngineOf, caller: CallerOf, body: wire.NewMemory, response: Response
) -> Envelope[wire.MemoryObject]:
    """Save a memory; one of the same key, scope and context is updated (200)."""
    if body.expiresAt and body.expiresAt <= engine.now():
        raise Invalid("`expiresAt` is in the past.", field="expiresAt")
    ask = wire.to_save(body)
    reach = await reach_of(engine, caller, wire.context_of(body))
    saved = await save_keyed(engine, reach, ask)
    response.status_code = 201 if saved.is_new else 200
    return Envelope(data=wire.from_memory(saved.memory))


@router.get("/api/v1/memories")
async def list_memories(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[wire.ListParameters, Query()]
) -> Envelope[Page[wire.MemoryObject]]:
    """List memories, newest first."""
    asked = parameters.model_dump(exclude={"cursor", "limit"})
    after = place_of(parameters.cursor, caller, asked)
    reach = await reach_of(engine, caller, wire.context_of(parameters))
    found, has_more = await list_keyed(engine, reach, wire.to_list(parameters, after))
    cursor = None
    if has_more:
        cursor = cursor_at((found[-1].created_at, found[-1].id), caller, asked)
    items = [wire.from_memory(each) for each in found]
    return Envelope(data=Page(items=items, nextCursor=cursor, hasMore=has_more))


@router.post("/api/v1/memories/recall")
async def recall_memories(
    engine: EngineOf, caller: CallerOf, body: wire.Recall
) -> Envelope[Items[wire.MemoryObject]]:
    """The memories that fit a question, best first."""
    reach = await reach_of(engine, caller, wire.context_of(body))
    limit = wire.clamped(body.limit, default=5, most=50)
    found = await recall_keyed(engine, reach, body.query, limit)
    return Envelope(data=Items(items=[wire.from_memory(each) for each in found]))


@router.get("/api/v1/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[wire.MemoryObject]:
    """One memory."""
    _, memory = await _found(engine, caller, memory_id, names)
    return Envelope(data=wire.from_memory(memory))


@router.patch("/api/v1/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names, body: wire.MemoryChange
) -> Envelope[wire.MemoryObject]:
    """Change what is sent of a memory."""
    there, memory = await _found(engine, caller, memory_id, names)
    ask = wire.to_change(body, memory)
    if ask.expires_at and ask.expires_at <= engine.now():
        raise Invalid("`expiresAt` is in the past.", field="expiresAt")
    return Envelope(data=wire.from_memory(await change_keyed(engine, there, memory, ask)))


@router.delete("/api/v1/memories/{memory_id}")
async def delete_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Gone]:
    """Forget a memory; its assets go for good."""
    there, memory = await _found(engine, caller, memory_id, names)
    await forget_keyed(engine, there, memory)
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
    there, memory = await _found(engine, caller, memory_id, names)
    new = NewAsset(
        # A label, never a path: that is how it is stored, shown and sent back.
        filename=_printable(file.filename or "file"),
        media_type=media_type_of(file.content_type),
    )
    asset = await attach(engine, there, memory, new, parts_of(file))
    return Envelope(data=parts_wire.from_asset(asset))


@router.get("/api/v1/memories/{memory_id}/assets")
async def get_assets(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Items[parts_wire.AssetObject]]:
    """What is attached to a memory."""
    there, memory = await _found(engine, caller, memory_id, names)
    found = await list_assets(engine, there, memory)
    return Envelope(data=Items(items=[parts_wire.from_asset(each) for each in found]))


@router.get(
    "/api/v1/memories/{memory_id}/assets/{asset_id}",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        206: {"content": {"application/octet-stream": {}}},
        416: {"model": ErrorObject},
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
    """The bytes, or with a `Range` header some of them."""
    there, memory = await _found(engine, caller, memory_id, names)
    asset = await get_asset(engine, there, memory, refs.uuid_of(asset_id, "asset"))
    file = Sent(asset.filename, asset.media_type, asset.size, asset.digest)

    def give(first: int, last: int) -> AsyncIterator[bytes]:
        return give_out(engine, there, asset, first, last)

    found = download(file, request.headers.get("range"), give)
    if found is None:
        error = {"code": "RANGE_NOT_SATISFIABLE", "message": "There are no such bytes."}
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
    there, memory = await _found(engine, caller, memory_id, names)
    wanted = refs.uuid_of(asset_id, "asset")
    await detach(engine, there, memory, wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Sources.


@router.get("/api/v1/memories/{memory_id}/sources")
async def get_sources(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names
) -> Envelope[Items[parts_wire.SourceObject]]:
    """Where a memory came from."""
    there, memory = await _found(engine, caller, memory_id, names)
    found = await list_sources(engine, there, memory)
    return Envelope(data=Items(items=[parts_wire.from_source(each) for each in found]))


@router.post("/api/v1/memories/{memory_id}/sources", status_code=201)
async def link_source(
    engine: EngineOf, caller: CallerOf, memory_id: str, names: Names, body: wire.SourceBody
) -> Envelope[parts_wire.SourceObject]:
    """Link a memory to the session or message it came from."""
    there, memory = await _found(engine, caller, memory_id, names)
    source = await add_source(engine, there, memory, wire.source_link(body))
    return Envelope(data=parts_wire.from_source(source))


@router.delete("/api/v1/memories/{memory_id}/sources/{source_id}")
async def unlink_source(
    engine: EngineOf, caller: CallerOf, memory_id: str, source_id: str, names: Names
) -> Envelope[Gone]:
    """Take a link away."""
    there, memory = await _found(engine, caller, memory_id, names)
    wanted = refs.uuid_of(source_id, "source")
    await remove_source(engine, there, memory, wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Sessions, as far as memories need them.


@router.post("/api/v1/sessions", status_code=201)
async def create_session(
    engine: EngineOf, caller: CallerOf, body: parts_wire.NewSession
) -> Envelope[parts_wire.SessionObject]:
    """Open a session, of a project or an agent if one is named."""
    names = wire.Names(projectId=body.projectId, agentId=body.agentId)
    reach = await reach_of(engine, caller, wire.context_of(names))
    thread = await open_thread(engine, reach.home, OpenThread(agent=body.agentId or ""))
    return Envelope(data=parts_wire.from_thread(thread))


@router.get("/api/v1/sessions/{session_id}")
async def get_session(
    engine: EngineOf, caller: CallerOf, session_id: str
) -> Envelope[parts_wire.SessionObject]:
    """One session."""
    ref = refs.session(session_id)
    reach = await reach_of(engine, caller, Context(thread=ref))
    return Envelope(data=parts_wire.from_thread(await get_thread(engine, reach.home, ref)))


# Learning: what was learnt about the user, apart from memories.


@router.get("/api/v1/learning")
async def get_learning(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[parts_wire.LearningParameters, Query()],
) -> Envelope[parts_wire.CountedPage | parts_wire.InsightPage]:
    """Insights about the user, newest first; the first page counts them."""
    asked = parameters.model_dump(exclude={"cursor", "pageSize"})
    after = place_of(parameters.cursor, caller, asked)
    ask = parts_wire.to_list(parameters, after)
    found = await list_insights(engine, await _home(engine, caller), ask)
    cursor = None
    if found.has_more:
        last = found.insights[-1]
        cursor = cursor_at((last.created_at, last.id), caller, asked)
    return Envelope(data=parts_wire.from_learnt(found, cursor))


@router.post("/api/v1/learning", status_code=201)
async def add_insight(
    engine: EngineOf, caller: CallerOf, body: parts_wire.NewInsight
) -> Envelope[parts_wire.InsightObject]:
    """Keep an insight about the user."""
    ask = parts_wire.to_learn(body)
    insight = await learn(engine, await _home(engine, caller), ask)
    return Envelope(data=parts_wire.from_insight(insight))


@router.post("/api/v1/tools/save_learning_insight")
async def save_learning_insight(
    engine: EngineOf, caller: CallerOf, body: parts_wire.NewInsight
) -> Envelope[parts_wire.Noticed]:
    """Keep what a model noticed about the user in passing; nothing while learning is off."""
    ask = parts_wire.to_learn(body)
    insight = await learn_in_passing(engine, await _home(engine, caller), ask)
    return Envelope(data=parts_wire.from_noticed(insight))


@router.delete("/api/v1/learning")
async def wipe_learning(engine: EngineOf, caller: CallerOf) -> Envelope[parts_wire.Wiped]:
    """Delete every insight about the user."""
    removed = await unlearn(engine, await _home(engine, caller), None)
    return Envelope(data=parts_wire.Wiped(deleted=removed))


@router.get("/api/v1/learning/settings")
async def get_learning_settings(
    engine: EngineOf, caller: CallerOf
) -> Envelope[parts_wire.LearningState]:
    """Whether anything is learnt in passing."""
    return Envelope(data=parts_wire.LearningState(enabled=await is_learning(engine, caller)))


@router.patch("/api/v1/learning/settings")
async def set_learning_settings(
    engine: EngineOf, caller: CallerOf, body: parts_wire.LearningSwitch
) -> Envelope[parts_wire.LearningState]:
    """Allow or end learning in passing."""
    home = await _home(engine, caller)
    await switch_learning(engine, home, is_on=body.enabled)
    return Envelope(data=parts_wire.LearningState(enabled=body.enabled))


@router.delete("/api/v1/learning/{insight_id}")
async def delete_insight(engine: EngineOf, caller: CallerOf, insight_id: str) -> Envelope[Gone]:
    """Delete one insight."""
    wanted = refs.uuid_of(insight_id, "insight")
    await unlearn(engine, await _home(engine, caller), wanted)
    return Envelope(data=Gone(id=str(wanted)))


# Everything of one's own, to take along.


@router.get(
    "/api/v1/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}}},
)
async def export_own(engine: EngineOf, caller: CallerOf) -> StreamingResponse:
    """All that is the user's own: memories, sessions, messages, files, insights, as a zip."""
    file = await spooled(engine, await own_choices(engine, caller))
    headers = {"content-disposition": 'attachment; filename="recollect-export.zip"'}
    return StreamingResponse(_sent(file), headers=headers, media_type="application/zip")


@router.post(
    "/api/v1/import",
    response_model=Envelope[parts_wire.ImportReport],
    responses={200: {"content": {_LINES: {}}}},
)
async def import_own(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[parts_wire.ImportParameters, Query()],
    file: Annotated[UploadFile, File()],
    request: Request,
) -> Response:
    """Take in an export, or what another system wrote, as the user's own.

    With `Accept: application/x-ndjson` a line tells after each batch how far it is.
    """
    reports = _reports(engine, caller, parameters, file)
    # What is no export at all is told before the answer begins.
    last = await anext(reports)
    if _LINES in request.headers.get("accept", ""):
        told = _told(last, reports, is_dry_run=parameters.dryRun)
        return StreamingResponse(told, media_type=_LINES)
    async for each in reports:
        last = each
    return JSONResponse(_final(last, is_dry_run=parameters.dryRun))


async def _reports(
    engine: Engine, caller: Caller, asked: parts_wire.ImportParameters, file: UploadFile
) -> AsyncGenerator[Report]:
    target = own_target(caller, is_foreign=asked.source != OURS, is_to_learn=asked.learn)
    shown = _printable(file.filename or "")
    async with one_at_a_time(engine, caller), _on_disk(file, shown) as path:
        with incoming(
            path, asked.source, asked.scope, name=shown, most_bytes=_UNPACKED_BYTES
        ) as source:
            read = source(engine, target)
            async for report in taking_in(
                engine,
                target,
                read.lines,
                attachments=read.attachments,
                is_dry_run=asked.dryRun,
            ):
                yield replace(report, left_out=report.left_out + Counter(read.left_out))


async def _told(
    first: Report, more: AsyncGenerator[Report], *, is_dry_run: bool
) -> AsyncIterator[bytes]:
    """Each report as a line, the last one in the envelope; so too what goes wrong on the way."""
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


def _final(report: Report, *, is_dry_run: bool) -> dict[str, object]:
    told = parts_wire.from_report(report, is_dry_run=is_dry_run)
    return Envelope(data=told).model_dump(mode="json")


def _line(told: object) -> bytes:
    return json.dumps(told).encode() + b"\n"


@asynccontextmanager
async def _on_disk(file: UploadFile, shown: str) -> AsyncGenerator[Path]:
    """An upload where it can be read from front to back and back again, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="recollect-import-") as directory:
        # Its name tells some kinds from others and is part of what is kept; it is never a path.
        path = Path(directory) / (_NOT_IN_NAMES.sub("_", shown)[-100:].strip(". ") or "import")
        with path.open("xb") as copy:
            await asyncio.to_thread(shutil.copyfileobj, file.file, copy)
        yield path


async def _sent(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := file.read(_SENT_BYTES):
            yield chunk


async def _home(engine: Engine, caller: Caller) -> Caller:
    return (await reach_of(engine, caller, Context())).home


async def _found(
    engine: Engine, caller: Caller, memory_id: str, names: wire.Names
) -> tuple[Caller, Memory]:
    """The memory, and the caller where it is."""
    ref = refs.memory(memory_id)
    reach: Reach = await reach_of(engine, caller, wire.context_of(names))
    return await find_keyed(engine, reach, ref)


def _printable(name: str) -> str:
    kept = "".join(letter for letter in name if letter.isprintable())
    return kept.encode("utf-8", "ignore").decode()[:255] or "file"
