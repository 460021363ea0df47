"""Looking around: pages of memories in an order of choice, and the graph they form.

Nothing here counts as access. An agent named in a request narrows it to what came from its threads.
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

# Stands for the whole workspace; no thread need name it.
EVERYBODY = "default"

# The strongest links of a hop; more would be a picture nobody can read.
_MOST_LINKS = 500


@dataclass(frozen=True, slots=True)
class Browse:
    """Which memories, in which order, which part of them."""

    wanted: Filter = NO_FILTER
    order: SortOrder = SortOrder.RECENT
    limit: int = 50
    offset: int = 0


@dataclass(frozen=True, slots=True)
class MemoryGraph:
    """Memories and the links among them, and how many memories there are in all."""

    memories: list[Memory]
    associations: list[Association]
    total: int


async def agent_scope(engine: Engine, caller: Caller, agent: str, right: Right) -> Filter:
    """Which memories are an agent's, for a purpose; raise `NotFound` for one nobody has named."""
    caller.require(right)
    if agent == EVERYBODY:
        return NO_FILTER
    async with engine.reading(caller) as db:
        if not await threads.names_agent(db, caller, agent):
            raise NotFound("agent")
    return Filter(agent=agent)


async def require_within(engine: Engine, caller: Caller, ref: Ref, wanted: Filter) -> None:
    """Raise `NotFound` unless the memory is there and wanted."""
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
    """Live memories in order, and how many there are."""
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
    """A page of memories and the links among them."""
    found, total = await browse(engine, caller, ask)
    async with engine.reading(caller) as db:
        ids = [memory.id for memory in found]
        associations = await links.links_among(db, caller.workspace_id, ids)
    return MemoryGraph(found, associations, total)


async def neighbours(
    engine: Engine, caller: Caller, ref: Ref, *, depth: int, wanted: Filter = NO_FILTER
) -> MemoryGraph:
    """The live memories within so many links of one, nearest first; that one is not among them."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        start = await memories.find(db, caller, ref, engine.now())
        if start is None:
            raise NotFound("memory")
        met: dict[MemoryId, Memory] = {}
        edge = [start.id]
        for _ in range(depth):
            found = await links.links_of(db, caller, edge, limit=_MOST_LINKS, now=engine.now())
            ends = _new_ends(found, {start.id, *met})
            reached = await memories.find_all(db, caller, ends, engine.now(), wanted=wanted)
            edge = [each for each in ends if each in reached]
            met |= {each: reached[each] for each in edge}
        associations = await links.links_among(db, caller.workspace_id, [start.id, *met])
    return MemoryGraph(list(met.values()), associations, len(met))


def _new_ends(found: list[Association], known: Collection[MemoryId]) -> list[MemoryId]:
    ends = [end for each in found for end in (each.source_id, each.target_id)]
    return [end for end in dict.fromkeys(ends) if end not in known]
