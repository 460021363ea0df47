"""Routes of the plain REST API: memories, sessions and traces."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Body, Query, Response

from recollect.api import ids
from recollect.api.apps import KEY_OR_BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.gateway import Interface, key_or_bearer
from recollect.api.statebase import session_wire, trace_wire, wire
from recollect.api.statebase.errors import StatebaseErrorObject, answer
from recollect.conversations.threads import (
    add_turn,
    close_thread,
    fork,
    get_thread,
    list_threads,
    list_turns,
    merge_state,
    open_thread,
    replace_state,
    roll_back,
    state_history,
    thread_context,
)
from recollect.conversations.traces import ListEvents, get_event, list_events
from recollect.core.domain import MEMORY_PREFIXES, Caller
from recollect.core.errors import Failure, NotFound
from recollect.engine import Engine
from recollect.memories.edit import ListMemories, edit, find_memory, list_memories
from recollect.memories.forget import remove
from recollect.memories.save import save
from recollect.search.semantic import Recall, recall

PREFIXES = ("/v1/memory", "/v1/memories", "/v1/sessions", "/v1/traces")


router = new_router(StatebaseErrorObject)


def new_interface(engine: Engine) -> Interface:
    """Return the plain REST interface."""
    app = new_app(
        "Recollect: memories and sessions",
        "Store and recall long-term knowledge. Send the API key in `X-API-Key`.",
        router.routes,
    )
    set_up(app, engine, answer, KEY_OR_BEARER)
    return Interface("statebase", PREFIXES, app, answer, key_or_bearer)


# Memories. The specification has `/v1/memory`; its official clients call `/v1/memories`.


@router.post("/v1/memory", status_code=201)
async def create_memory(
    engine: EngineOf, caller: CallerOf, body: wire.StatebaseNewMemory
) -> wire.StatebaseMemoryObject:
    """Store a memory in a session."""
    saved = await save(engine, caller, wire.to_save(body, needs_session=True))
    return wire.from_memory(saved.memory)


@router.post("/v1/memories", status_code=201)
async def create_any_memory(
    engine: EngineOf, caller: CallerOf, body: wire.StatebaseNewMemory
) -> wire.StatebaseMemoryObject:
    """Store a memory, with or without a session."""
    saved = await save(engine, caller, wire.to_save(body, needs_session=False))
    return wire.from_memory(saved.memory)


@router.get("/v1/memory")
async def list_all(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[wire.StatebaseListParameters, Query()]
) -> wire.StatebaseMemoryList:
    """List memories, newest first."""
    return await _list_memories(engine, caller, parameters)


@router.get("/v1/memories")
async def list_or_search(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[wire.SearchOrListParameters, Query()],
) -> wire.StatebaseMemoryList | wire.StatebaseSearchResult:
    """Search memories if `query` is given; otherwise list them."""
    if parameters.query is None:
        return await _list_memories(engine, caller, parameters)
    return await _search(engine, caller, wire.to_recall_from_query(parameters.query, parameters))


@router.post("/v1/memory/search")
@router.post("/v1/memories/search")
async def search(
    engine: EngineOf, caller: CallerOf, body: wire.StatebaseSearch
) -> wire.StatebaseSearchResult:
    """Search memories by meaning."""
    return await _search(engine, caller, wire.to_recall(body))


@router.get("/v1/memories/search")
async def search_by_query_string(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[wire.StatebaseSearchParameters, Query()],
) -> wire.StatebaseSearchResult:
    """Search memories by meaning, in the form that older clients use."""
    return await _search(engine, caller, wire.to_recall_from_query(parameters.query, parameters))


@router.get("/v1/memory/{memory_id}")
@router.get("/v1/memories/{memory_id}")
async def get_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str
) -> wire.StatebaseMemoryObject:
    """Return one memory."""
    return wire.from_memory(await find_memory(engine, caller, ids.memory(memory_id)))


@router.patch("/v1/memory/{memory_id}")
@router.patch("/v1/memories/{memory_id}")
@router.put("/v1/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, body: wire.StatebaseMemoryChange
) -> wire.StatebaseMemoryObject:
    """Change the given fields of a memory. New content is embedded again."""
    ref = ids.memory(memory_id)
    return wire.from_memory(await edit(engine, caller, ref, wire.to_change(body)))


@router.delete("/v1/memory/{memory_id}", status_code=204)
@router.delete("/v1/memories/{memory_id}", status_code=204)
async def delete_memory(engine: EngineOf, caller: CallerOf, memory_id: str) -> None:
    """Delete a memory and its embedding permanently."""
    await remove(engine, caller, ids.memory(memory_id))


# Sessions.


@router.post("/v1/sessions", status_code=201)
async def create_session(
    engine: EngineOf, caller: CallerOf, body: session_wire.StatebaseNewSession
) -> session_wire.StatebaseSessionObject:
    """Open a session."""
    return session_wire.from_thread(await open_thread(engine, caller, session_wire.to_open(body)))


@router.get("/v1/sessions")
async def list_sessions(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[session_wire.SessionParameters, Query()],
) -> session_wire.SessionList:
    """List sessions, newest first."""
    found, has_more = await list_threads(engine, caller, session_wire.to_list(parameters))
    return session_wire.SessionList(**_page(found, session_wire.from_thread, has_more=has_more))


@router.get("/v1/sessions/{session_id}")
async def get_session(
    engine: EngineOf, caller: CallerOf, session_id: str
) -> session_wire.StatebaseSessionObject:
    """Return one session with its state."""
    return session_wire.from_thread(await get_thread(engine, caller, ids.session(session_id)))


@router.delete("/v1/sessions/{session_id}", status_code=204)
async def delete_session(engine: EngineOf, caller: CallerOf, session_id: str) -> None:
    """Delete a session and the memories that came from it."""
    await close_thread(engine, caller, ids.session(session_id))


@router.post("/v1/sessions/{session_id}/context")
async def get_context(
    engine: EngineOf,
    caller: CallerOf,
    session_id: str,
    response: Response,
    body: Annotated[session_wire.ContextRequest | None, Body()] = None,
) -> session_wire.ContextObject:
    """Return the state, relevant memories and recent turns of a session."""
    started = perf_counter()
    ask = body or session_wire.ContextRequest()
    found = await thread_context(
        engine,
        caller,
        ids.session(session_id),
        query=ask.query,
        memory_limit=wire.clamp(ask.memory_limit, default=5, maximum=20),
        turn_limit=wire.clamp(ask.turn_limit, default=10, maximum=50),
    )
    response.headers["X-StateBase-Latency"] = f"{(perf_counter() - started) * 1000:.1f}ms"
    return session_wire.from_context(found)


@router.get("/v1/sessions/{session_id}/state")
async def get_state(
    engine: EngineOf, caller: CallerOf, session_id: str
) -> session_wire.StateObject:
    """Return the current state."""
    return session_wire.from_state(await get_thread(engine, caller, ids.session(session_id)))


@router.patch("/v1/sessions/{session_id}/state")
async def update_state(
    engine: EngineOf, caller: CallerOf, session_id: str, body: session_wire.NewState
) -> session_wire.StateObject:
    """Change the given keys of the state, as a new version."""
    ref = ids.session(session_id)
    return session_wire.from_state(
        await merge_state(engine, caller, ref, body.state, body.reasoning)
    )


@router.post("/v1/sessions/{session_id}/state")
@router.put("/v1/sessions/{session_id}/state")
async def put_state(
    engine: EngineOf, caller: CallerOf, session_id: str, body: session_wire.NewState
) -> session_wire.StateObject:
    """Replace the state, as a new version."""
    ref = ids.session(session_id)
    return session_wire.from_state(
        await replace_state(engine, caller, ref, body.state, body.reasoning)
    )


@router.get("/v1/sessions/{session_id}/state/history")
@router.get("/v1/sessions/{session_id}/history")
async def get_history(
    engine: EngineOf,
    caller: CallerOf,
    session_id: str,
    parameters: Annotated[session_wire.HistoryParameters, Query()],
) -> session_wire.StateList:
    """List the versions of the state, newest first."""
    thread, found, has_more = await state_history(
        engine,
        caller,
        ids.session(session_id),
        before=parameters.starting_after,
        limit=wire.clamp(parameters.limit, default=20, maximum=100),
    )
    versions = [session_wire.from_version(thread, each) for each in found]
    return session_wire.StateList(
        data=versions,
        has_more=has_more,
        first_id=versions[0].version if versions else None,
        last_id=versions[-1].version if versions else None,
    )


@router.post("/v1/sessions/{session_id}/state/rollback")
@router.post("/v1/sessions/{session_id}/rollback")
async def rollback(
    engine: EngineOf, caller: CallerOf, session_id: str, body: session_wire.RollBack
) -> session_wire.RolledBack:
    """Restore an earlier state, as a new version."""
    ref = ids.session(session_id)
    thread, event = await roll_back(engine, caller, ref, body.version)
    return session_wire.from_rollback(thread, body.version, f"trace_{event.hex}")


@router.post("/v1/sessions/{session_id}/fork", status_code=201)
async def fork_session(
    engine: EngineOf,
    caller: CallerOf,
    session_id: str,
    body: Annotated[session_wire.ForkSession | None, Body()] = None,
) -> session_wire.StatebaseSessionObject:
    """Create a session that starts with a state of this one."""
    ref = ids.session(session_id)
    version = body.version if body else None
    return session_wire.from_thread(await fork(engine, caller, ref, version, wire.session_id))


@router.post("/v1/sessions/{session_id}/turns", status_code=201)
async def create_turn(
    engine: EngineOf, caller: CallerOf, session_id: str, body: session_wire.StatebaseNewTurn
) -> session_wire.TurnObject:
    """Append a turn."""
    ref = ids.session(session_id)
    return session_wire.from_turn(*await add_turn(engine, caller, ref, session_wire.to_turn(body)))


@router.get("/v1/sessions/{session_id}/turns")
async def get_turns(
    engine: EngineOf,
    caller: CallerOf,
    session_id: str,
    parameters: Annotated[session_wire.StatebasePageParameters, Query()],
) -> session_wire.TurnList:
    """List turns, newest first."""
    thread, found, has_more = await list_turns(
        engine,
        caller,
        ids.session(session_id),
        after=wire.cursor(parameters.starting_after, "turn_"),
        limit=wire.clamp(parameters.limit, default=20, maximum=100),
    )
    return session_wire.TurnList(
        **_page(found, lambda turn: session_wire.from_turn(thread, turn), has_more=has_more)
    )


# Traces.


@router.get("/v1/traces")
async def list_traces(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[trace_wire.TraceParameters, Query()]
) -> trace_wire.TraceList:
    """List audit events, newest first."""
    after = parameters.starting_after
    ask = ListEvents(
        limit=wire.clamp(parameters.limit, default=20, maximum=100),
        thread=wire.thread_filter(parameters.session_id),
        subject=parameters.user_id,
        action=parameters.action,
        created_after=parameters.created_after,
        created_before=parameters.created_before,
        after=None if after is None else _trace_id(after, wire.invalid_cursor()),
    )
    found, has_more = await list_events(engine, caller, ask)
    return trace_wire.TraceList(**_page(found, trace_wire.from_event, has_more=has_more))


@router.get("/v1/traces/{trace_id}")
async def get_trace(engine: EngineOf, caller: CallerOf, trace_id: str) -> trace_wire.TraceObject:
    """Return one audit event."""
    event_id = _trace_id(trace_id, NotFound("trace"))
    return trace_wire.from_event(await get_event(engine, caller, event_id))


def _trace_id(text: str, error: Failure) -> UUID:
    """Parse a trace id; raise `error` if it is not one."""
    try:
        return UUID(text.removeprefix("trace_"))
    except ValueError:
        raise error from None


async def _list_memories(
    engine: Engine,
    caller: Caller,
    parameters: wire.StatebaseListParameters | wire.SearchOrListParameters,
) -> wire.StatebaseMemoryList:
    page = await list_memories(
        engine,
        caller,
        ListMemories(
            limit=wire.clamp(parameters.limit, default=20, maximum=100),
            wanted=wire.to_filter(parameters),
            thread=wire.thread_filter(parameters.session_id),
            after=wire.cursor(parameters.starting_after, *MEMORY_PREFIXES),
        ),
    )
    return wire.StatebaseMemoryList(
        **_page(page.memories, wire.from_memory, has_more=page.has_more)
    )


async def _search(engine: Engine, caller: Caller, ask: Recall) -> wire.StatebaseSearchResult:
    recalled = await recall(engine, caller, ask)
    return wire.StatebaseSearchResult(
        data=[wire.from_hit(hit) for hit in recalled.hits],
        query=ask.query,
        degraded=recalled.is_degraded,
    )


Row = TypeVar("Row")


def _page(rows: Sequence[Row], write: Callable[[Row], Any], *, has_more: bool) -> dict[str, Any]:
    data = [write(row) for row in rows]
    return {
        "data": data,
        "has_more": has_more,
        "first_id": data[0].id if data else None,
        "last_id": data[-1].id if data else None,
    }
