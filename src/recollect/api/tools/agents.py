"""Routes of `/agents/memories`: read, change and link an agent's memories.

Reads do not count as accesses.
"""

from typing import Annotated

from fastapi import Query

from recollect.api import ids
from recollect.api.apps import KEY_OR_BEARER, CallerOf, EngineOf, new_app, new_router, set_up
from recollect.api.fields import clamp
from recollect.api.gateway import Interface, key_or_bearer
from recollect.api.tools import agent_wire
from recollect.api.tools.errors import ToolsErrorObject, answer_agents
from recollect.api.tools.memory_delete import DeleteArguments, forget_memory
from recollect.api.tools.memory_save import SaveArguments, save_memory
from recollect.api.tools.wire import AssociationArguments
from recollect.core.domain import Caller, Ref, Relation, Right
from recollect.core.errors import NotFound
from recollect.engine import Engine
from recollect.memories.edit import edit, find_memory
from recollect.memories.links import link, reopen, unlink
from recollect.search.hybrid import search
from recollect.search.memory_graph import (
    ALL_AGENTS,
    agent_scope,
    browse,
    graph,
    neighbours,
    require_within,
)

router = new_router(ToolsErrorObject)

Agent = Annotated[agent_wire.AgentParameters, Query()]


def new_interface(engine: Engine) -> Interface:
    """Return the agents interface."""
    app = new_app(
        "Recollect: memories of agents",
        "Memories and their graph, by agent. `agent_id` is the agent name of a session, or "
        "`default` for the whole workspace.",
        router.routes,
    )
    set_up(app, engine, answer_agents, KEY_OR_BEARER)
    return Interface("agents", ("/agents/memories",), app, answer_agents, key_or_bearer)


@router.get("/agents/memories")
async def list_memories(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[agent_wire.AgentListParameters, Query()],
) -> agent_wire.AgentMemoryList:
    """List memories."""
    scope = await agent_scope(engine, caller, parameters.agent_id, Right.READ)
    found, total = await browse(
        engine, caller, agent_wire.to_browse(parameters, scope, default=50, max_limit=200)
    )
    return agent_wire.AgentMemoryList(
        memories=[agent_wire.from_memory(each) for each in found], total=total
    )


@router.get("/agents/memories/search")
async def search_memories(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[agent_wire.AgentSearchParameters, Query()],
) -> agent_wire.AgentSearchResults:
    """Search memories by meaning, words and links."""
    scope = await agent_scope(engine, caller, parameters.agent_id, Right.READ)
    return agent_wire.from_found(
        await search(engine, caller, agent_wire.to_agent_search(parameters, scope))
    )


@router.get("/agents/memories/graph")
async def get_graph(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[agent_wire.AgentGraphParameters, Query()],
) -> agent_wire.AgentGraphObject:
    """Return memories and the links between them."""
    scope = await agent_scope(engine, caller, parameters.agent_id, Right.READ)
    ask = agent_wire.to_browse(parameters, scope, default=200, max_limit=500)
    return agent_wire.from_graph(await graph(engine, caller, ask))


@router.get("/agents/memories/graph/neighbors")
async def get_neighbours(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[agent_wire.NeighbourParameters, Query()],
) -> agent_wire.NeighbourObject:
    """Return the memories around one."""
    scope = await agent_scope(engine, caller, parameters.agent_id, Right.READ)
    ref = ids.memory(parameters.memory_id)
    await require_within(engine, caller, ref, scope)
    depth = clamp(parameters.depth, default=1, maximum=3)
    found = await neighbours(engine, caller, ref, depth=depth, wanted=scope)
    return agent_wire.from_neighbours(found, parameters.exclude)


@router.post("/agents/memories", status_code=201)
async def create_memory(
    engine: EngineOf, caller: CallerOf, agent: Agent, body: SaveArguments
) -> agent_wire.AgentMemorySaved:
    """Save a memory for an agent. An unknown agent is created."""
    name = None if agent.agent_id == ALL_AGENTS else agent.agent_id
    memory = await save_memory(engine, caller, body, agent=name)
    return agent_wire.AgentMemorySaved(success=True, memory=agent_wire.from_memory(memory))


@router.put("/agents/memories/{memory_id}")
async def change_memory(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    agent: Agent,
    body: agent_wire.AgentMemoryChange,
) -> agent_wire.AgentMemorySaved:
    """Change the given fields of a memory."""
    ref = await _require_memory(engine, caller, agent, memory_id, Right.WRITE)
    shown = await find_memory(engine, caller, ref)
    changed = await edit(engine, caller, ref, agent_wire.to_change(body, shown))
    return agent_wire.AgentMemorySaved(success=True, memory=agent_wire.from_memory(changed))


@router.delete("/agents/memories/{memory_id}")
async def delete_memory(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    parameters: Annotated[agent_wire.DeleteParameters, Query()],
) -> agent_wire.AgentDeleted:
    """Forget a memory."""
    await _require_memory(engine, caller, parameters, memory_id, Right.DELETE)
    arguments = DeleteArguments(memory_id=memory_id, reason=parameters.reason)
    result = await forget_memory(engine, caller, arguments)
    if not result.forgotten:
        raise NotFound("memory")
    return agent_wire.AgentDeleted(success=True, forgotten=True, message=result.message)


@router.post("/agents/memories/{memory_id}/associations")
async def link_memories(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    agent: Agent,
    body: AssociationArguments,
) -> agent_wire.AgentLinked:
    """Link a memory to another. Repeating a link overwrites its weight."""
    ref = await _require_memory(engine, caller, agent, memory_id, Right.WRITE)
    association = await link(engine, caller, ref, agent_wire.to_link(body))
    return agent_wire.AgentLinked(
        success=True, association=agent_wire.from_association(association)
    )


@router.delete("/agents/memories/{memory_id}/associations/{target_id}")
async def unlink_memories(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    target_id: str,
    parameters: Annotated[agent_wire.UnlinkParameters, Query()],
) -> agent_wire.Unlinked:
    """Remove a link. Removing an `updates` link makes the superseded memory current again."""
    ref = await _require_memory(engine, caller, parameters, memory_id, Right.WRITE)
    relation = Relation(parameters.relation_type)
    await unlink(engine, caller, ref, ids.memory(target_id), relation)
    return agent_wire.Unlinked(success=True)


@router.post("/agents/memories/{memory_id}/reopen")
async def reopen_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, agent: Agent
) -> agent_wire.AgentMemorySaved:
    """Make a superseded memory current again. The newer memory stays."""
    ref = await _require_memory(engine, caller, agent, memory_id, Right.WRITE)
    return agent_wire.AgentMemorySaved(
        success=True, memory=agent_wire.from_memory(await reopen(engine, caller, ref))
    )


async def _require_memory(
    engine: Engine, caller: Caller, agent: agent_wire.AgentParameters, memory_id: str, right: Right
) -> Ref:
    """Return the memory's id; raise `NotFound` unless it belongs to the agent."""
    scope = await agent_scope(engine, caller, agent.agent_id, right)
    ref = ids.memory(memory_id)
    await require_within(engine, caller, ref, scope)
    return ref
