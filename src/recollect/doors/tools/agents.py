"""`/agents/memories`: the memories of an agent to look at, change and link. Reads count nothing."""

from typing import Annotated

from fastapi import Query

from recollect.domain import Caller, Ref, Relation, Right
from recollect.doors import refs
from recollect.doors.front import Door, key_or_bearer
from recollect.doors.furnish import KEY_OR_BEARER, CallerOf, EngineOf, furnish, new_app, new_router
from recollect.doors.tools import agent_wire, tools, wire
from recollect.doors.tools.errors import ErrorObject, answer_agents
from recollect.doors.values import clamped
from recollect.engine.browse import (
    EVERYBODY,
    browse,
    graph,
    neighbours,
    reach_of,
    require_within,
)
from recollect.engine.change import change, get
from recollect.engine.core import Engine
from recollect.engine.link import link, reopen, unlink
from recollect.engine.search import search
from recollect.errors import NotFound

router = new_router(ErrorObject)

Agent = Annotated[agent_wire.AgentParameters, Query()]


def door(engine: Engine) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: memories of agents",
        "Memories and their graph, by agent. `agent_id` is a name that sessions carry, or "
        "`default` for the whole workspace.",
        router.routes,
    )
    furnish(app, engine, answer_agents, KEY_OR_BEARER)
    return Door("agents", ("/agents/memories",), app, answer_agents, key_or_bearer)


@router.get("/agents/memories")
async def list_memories(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[agent_wire.ListParameters, Query()]
) -> agent_wire.MemoryList:
    """List memories."""
    reach = await reach_of(engine, caller, parameters.agent_id, Right.READ)
    found, total = await browse(
        engine, caller, agent_wire.to_browse(parameters, reach, default=50, most=200)
    )
    return agent_wire.MemoryList(
        memories=[agent_wire.from_memory(each) for each in found], total=total
    )


@router.get("/agents/memories/search")
async def search_memories(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[agent_wire.SearchParameters, Query()]
) -> agent_wire.SearchAnswer:
    """Search memories by meaning, words and links."""
    reach = await reach_of(engine, caller, parameters.agent_id, Right.READ)
    return agent_wire.from_found(
        await search(engine, caller, agent_wire.to_agent_search(parameters, reach))
    )


@router.get("/agents/memories/graph")
async def get_graph(
    engine: EngineOf, caller: CallerOf, parameters: Annotated[agent_wire.GraphParameters, Query()]
) -> agent_wire.GraphObject:
    """Memories and the links among them."""
    reach = await reach_of(engine, caller, parameters.agent_id, Right.READ)
    ask = agent_wire.to_browse(parameters, reach, default=200, most=500)
    return agent_wire.from_graph(await graph(engine, caller, ask))


@router.get("/agents/memories/graph/neighbors")
async def get_neighbours(
    engine: EngineOf,
    caller: CallerOf,
    parameters: Annotated[agent_wire.NeighbourParameters, Query()],
) -> agent_wire.NeighbourObject:
    """The memories around one."""
    reach = await reach_of(engine, caller, parameters.agent_id, Right.READ)
    ref = refs.memory(parameters.memory_id)
    await require_within(engine, caller, ref, reach)
    depth = clamped(parameters.depth, default=1, most=3)
    found = await neighbours(engine, caller, ref, depth=depth, wanted=reach)
    return agent_wire.from_neighbours(found, parameters.exclude)


@router.post("/agents/memories", status_code=201)
async def create_memory(
    engine: EngineOf, caller: CallerOf, agent: Agent, body: wire.SaveArguments
) -> agent_wire.Changed:
    """Save a memory for an agent, who is known from then on."""
    name = None if agent.agent_id == EVERYBODY else agent.agent_id
    memory = await tools.keep(engine, caller, body, agent=name)
    return agent_wire.Changed(success=True, memory=agent_wire.from_memory(memory))


@router.put("/agents/memories/{memory_id}")
async def change_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, agent: Agent, body: agent_wire.MemoryChange
) -> agent_wire.Changed:
    """Change what is sent of a memory."""
    ref = await _within(engine, caller, agent, memory_id, Right.WRITE)
    shown = await get(engine, caller, ref)
    changed = await change(engine, caller, ref, agent_wire.to_change(body, shown))
    return agent_wire.Changed(success=True, memory=agent_wire.from_memory(changed))


@router.delete("/agents/memories/{memory_id}")
async def delete_memory(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    parameters: Annotated[agent_wire.DeleteParameters, Query()],
) -> agent_wire.Deleted:
    """Forget a memory."""
    await _within(engine, caller, parameters, memory_id, Right.DELETE)
    given = wire.DeleteArguments(memory_id=memory_id, reason=parameters.reason)
    result = await tools.memory_delete(engine, caller, given)
    if not result.forgotten:
        raise NotFound("memory")
    return agent_wire.Deleted(success=True, forgotten=True, message=result.message)


@router.post("/agents/memories/{memory_id}/associations")
async def link_memories(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    agent: Agent,
    body: wire.AssociationArguments,
) -> agent_wire.Linked:
    """Link a memory to another; the same link again has its weight overwritten."""
    ref = await _within(engine, caller, agent, memory_id, Right.WRITE)
    association = await link(engine, caller, ref, agent_wire.to_link(body))
    return agent_wire.Linked(success=True, association=agent_wire.from_association(association))


@router.delete("/agents/memories/{memory_id}/associations/{target_id}")
async def unlink_memories(
    engine: EngineOf,
    caller: CallerOf,
    memory_id: str,
    target_id: str,
    parameters: Annotated[agent_wire.UnlinkParameters, Query()],
) -> agent_wire.Unlinked:
    """Remove a link; what an `updates` had replaced is current again."""
    ref = await _within(engine, caller, parameters, memory_id, Right.WRITE)
    relation = Relation(parameters.relation_type)
    await unlink(engine, caller, ref, refs.memory(target_id), relation)
    return agent_wire.Unlinked(success=True)


@router.post("/agents/memories/{memory_id}/reopen")
async def reopen_memory(
    engine: EngineOf, caller: CallerOf, memory_id: str, agent: Agent
) -> agent_wire.Changed:
    """Make a replaced memory current again; what replaced it stays."""
    ref = await _within(engine, caller, agent, memory_id, Right.WRITE)
    return agent_wire.Changed(
        success=True, memory=agent_wire.from_memory(await reopen(engine, caller, ref))
    )


async def _within(
    engine: Engine, caller: Caller, agent: agent_wire.AgentParameters, memory_id: str, right: Right
) -> Ref:
    """The memory's id, if it is the agent's."""
    reach = await reach_of(engine, caller, agent.agent_id, right)
    ref = refs.memory(memory_id)
    await require_within(engine, caller, ref, reach)
    return ref
