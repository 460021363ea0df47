"""Sorted pages of memories, and the graph of their links.

Nothing here counts as access. A request that names an agent sees only memories of its threads.
"""

from collections.abc import Collection
from dataclasses import dataclass

from recollect.conversations.queries import threads
from recollect.core.domain import (
    HISTORY,
    NO_FILTER,
    Association,
    Caller,
    Filter,
    Memory,
    MemoryId,
    Ref,
    Right,
)
from recollect.core.errors import NotFound
from recollect.engine import Engine
from recollect.memories.queries import links, memories
from recollect.search.hybrid import SortOrder

# The agent name that stands for the whole workspace; it always exists.
ALL_AGENTS = "default"

# Only the strongest links of each hop are followed; a larger graph would be unreadable.
_MAX_LINKS = 500


@dataclass(frozen=True, slots=True)
class Browse:
    """The filter, the sort order and the page of a list of memories."""

    wanted: Filter = NO_FILTER
    order: SortOrder = SortOrder.RECENT
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MemoryGraph:
    """Memories and the links among them; `total` counts the memories on all pages."""

    memories: list[Memory]
    associations: list[Association]
    total: int


async def agent_scope(engine: Engine, caller: Caller, agent: str, right: Right) -> Filter:
    """Return the filter for an agent's memories; raise `NotFound` if no thread has that agent."""
    caller.require(right)
    if agent == ALL_AGENTS:
        return NO_FILTER
    async with engine.reading(caller) as db:
        if not await threads.names_agent(db, caller, agent):
            raise NotFound("agent")
    return Filter(agent=agent)


async def require_within(engine: Engine, caller: Caller, ref: Ref, wanted: Filter) -> None:
    """Raise `NotFound` unless the memory exists and matches the filter."""
    if wanted.is_open:
        return
    async with engine.reading(caller) as db:
        memory = await memories.find(db, caller, ref, engine.now())
        if memory and await memories.find_all(
            db, caller, [memory.id], engine.now(), HISTORY, wanted
        ):
            return
    raise NotFound("memory")


async def browse(engine: Engine, caller: Caller, ask: Browse) -> tuple[list[Memory], int]:
    """Return a page of live memories in the requested order, and their total number."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        found = await memories.browse(
            db,
            caller,
            ask.wanted,
            order=ask.order,
            offset=ask.offset,
            limit=ask.limit,
            now=engine.now(),
        )
        total = await memories.count(db, caller, ask.wanted, engine.now())
    return found, total


async def graph(engine: Engine, caller: Caller, ask: Browse) -> MemoryGraph:
    """Return a page of memories and the links among them."""
    found, total = await browse(engine, caller, ask)
    async with engine.reading(caller) as db:
        ids = [memory.id for memory in found]
        associations = await links.links_among(db, caller.workspace_id, ids)
    return MemoryGraph(found, associations, total)


async def neighbours(
    engine: Engine, caller: Caller, ref: Ref, *, depth: int, wanted: Filter = NO_FILTER
) -> MemoryGraph:
    """Return the live memories within `depth` links of one memory, nearest first, without it."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        start = await memories.find(db, caller, ref, engine.now())
        if start is None:
            raise NotFound("memory")
        visited: dict[MemoryId, Memory] = {}
        frontier = [start.id]
        for _ in range(depth):
            found = await links.links_of(db, caller, frontier, limit=_MAX_LINKS, now=engine.now())
            ends = _new_ends(found, {start.id, *visited})
            reached = await memories.find_all(db, caller, ends, engine.now(), wanted=wanted)
            frontier = [each for each in ends if each in reached]
            visited |= {each: reached[each] for each in frontier}
        associations = await links.links_among(db, caller.workspace_id, [start.id, *visited])
    return MemoryGraph(list(visited.values()), associations, len(visited))


def _new_ends(found: list[Association], known: Collection[MemoryId]) -> list[MemoryId]:
    ends = [end for each in found for end in (each.source_id, each.target_id)]
    return [end for end in dict.fromkeys(ends) if end not in known]
