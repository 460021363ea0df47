"""Memories as key and value: saved again they are updated, and found by every field they have."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from recollect.domain import ANY, Caller, Memory, MemoryId, Ref, Right, Scope
from recollect.engine import spaces
from recollect.engine.change import Change, change_within, get
from recollect.engine.core import Engine
from recollect.engine.forget import forget_within
from recollect.engine.reach import Reach
from recollect.engine.save import Save, Saved, check_content, save_within
from recollect.engine.words import query_terms
from recollect.errors import Conflict, Invalid, NotFound
from recollect.store import assets, keyed, memories, sources, vectors, words
from recollect.store.keyed import Wanted
from recollect.store.pool import Db
from recollect.store.sources import Source

# Of a query of many words, one shared everyday word is no match; a guess, as in `engine.search`.
_LEAST_COVERAGE = 0.3
# By meaning alone only what is clearly relevant, as the other doors understand that number.
_LEAST_RELEVANCE = 0.6
_DEPTH = 200


@dataclass(frozen=True, slots=True)
class SaveKeyed:
    """What to keep under a key, and what to change of it should it be there already."""

    save: Save
    change: Change
    # Keep a second one beside one of the same key.
    forces_new: bool = False
    links: Sequence["SourceLink"] = ()


@dataclass(frozen=True, slots=True)
class SourceLink:
    """Where a memory came from: a thread, or a message or turn of one."""

    kind: str
    target_id: UUID


@dataclass(frozen=True, slots=True)
class ListKeyed:
    """Which memories, from which place on, how many."""

    limit: int
    wanted: Wanted = field(default_factory=Wanted)
    after: tuple[datetime, UUID] | None = None


async def save_keyed(engine: Engine, reach: Reach, ask: SaveKeyed) -> Saved:
    """Keep a memory; one of the same key, scope and place is changed instead."""
    caller = reach.home
    caller.require(Right.WRITE)
    check_content(ask.save.content)
    # Before the transaction: no connection is held while a model thinks.
    embedded = await spaces.embed_passage(engine, caller.workspace_id, ask.save.content)
    async with engine.writing(caller) as db:
        before = None if ask.forces_new else await _held(engine, db, caller, ask.save)
        if before:
            after = await change_within(engine, db, caller, before, ask.change, embedded)
            saved = Saved(after, is_new=False)
        else:
            saved = await save_within(engine, db, caller, ask.save, embedded)
        for link in ask.links:
            await _add_source(engine, db, caller, saved.memory.id, link)
    return saved


async def _held(engine: Engine, db: Db, caller: Caller, ask: Save) -> Memory | None:
    """The memory of that key in the caller's place, as it is once nobody else is changing it."""
    if ask.key is None:
        return None
    await keyed.hold(db, caller, ask.key, ask.scope)
    held: set[MemoryId] = set()
    while found := await keyed.find(db, caller, ask.key, ask.scope, engine.now()):
        if found.id in held:
            return found
        # Whoever had it may have changed or forgotten it: then another, or none, has the key.
        await memories.lock(db, caller, Ref(id=found.id))
        held.add(found.id)
    return None


async def find_keyed(engine: Engine, reach: Reach, ref: Ref) -> tuple[Caller, Memory]:
    """A memory wherever it is, and the caller there."""
    for caller in reach.everywhere:
        try:
            return caller, await get(engine, caller, ref)
        except NotFound:
            continue
    raise NotFound("memory")


async def change_keyed(engine: Engine, caller: Caller, memory: Memory, ask: Change) -> Memory:
    """Change a memory; raise `Conflict` for a key that another of the same place has."""
    caller.require(Right.WRITE)
    embedded = None
    if ask.content is not None:
        check_content(ask.content)
        if memory.wants_vector and ask.content != memory.content:
            embedded = await spaces.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        if ask.key is not None:
            place = replace(caller, project_id=memory.project_id, agent_id=memory.agent_id)
            await keyed.hold(db, place, ask.key, memory.scope)
            other = await keyed.find(db, place, ask.key, memory.scope, engine.now())
            if other and other.id != memory.id:
                raise Conflict("Another memory of this scope and context has that key.")
        await memories.lock(db, caller, Ref(id=memory.id))
        before = await memories.find(db, caller, Ref(id=memory.id), engine.now())
        if before is None:
            raise NotFound("memory")
        return await change_within(engine, db, caller, before, ask, embedded)


async def forget_keyed(engine: Engine, caller: Caller, memory: Memory) -> None:
    """Hide a memory; what is attached to it goes for good."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, Ref(id=memory.id))
        await assets.remove(db, caller.workspace_id, memory.id)


async def list_keyed(engine: Engine, reach: Reach, ask: ListKeyed) -> tuple[list[Memory], bool]:
    """Memories, newest first, and whether more follow."""
    found: list[Memory] = []
    for caller in reach.everywhere:
        caller.require(Right.READ)
        async with engine.reading(caller) as db:
            found += await keyed.page(
                db,
                caller,
                ask.wanted,
                after=ask.after,
                limit=ask.limit + 1,  # one row more shows whether a next page exists
                now=engine.now(),
            )
    found.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)
    return found[: ask.limit], len(found) > ask.limit


async def recall_keyed(engine: Engine, reach: Reach, query: str, limit: int) -> list[Memory]:
    """What fits: by words, then by parts of words, then by meaning.

    By words the better match comes first; at equal match the pinned, the important, the last
    changed.
    """
    if not query.strip():
        raise Invalid("`query` must not be empty.", field="query")
    ranked: list[_Ranked] = []
    for caller in reach.everywhere:
        caller.require(Right.READ)
        ranked += await _ranked(engine, caller, query, limit)
    ranked.sort(key=_order, reverse=True)
    return [each.memory for each in ranked[:limit]]


async def list_sources(engine: Engine, caller: Caller, memory: Memory) -> list[Source]:
    """Where a memory came from, and what that is today."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await sources.of_memory(db, caller, memory.id, engine.now())


async def add_source(engine: Engine, caller: Caller, memory: Memory, link: SourceLink) -> Source:
    """Link a memory to where it came from; raise `NotFound` for what the caller cannot see."""
    caller.require(Right.WRITE)
    caller.require(Right.READ)
    async with engine.writing(caller) as db:
        return await _add_source(engine, db, caller, memory.id, link)


async def remove_source(engine: Engine, caller: Caller, memory: Memory, source_id: UUID) -> None:
    """Take a link away."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if not await sources.remove(db, caller, memory.id, source_id):
            raise NotFound("source")


async def _add_source(
    engine: Engine, db: Db, caller: Caller, memory_id: MemoryId, link: SourceLink
) -> Source:
    now = engine.now()
    await sources.add(db, caller, memory_id, kind=link.kind, target_id=link.target_id, now=now)
    for each in await sources.of_memory(db, caller, memory_id, now):
        if (each.kind, each.target_id) == (link.kind, link.target_id) and each.thread_id:
            return each
    # It leads nowhere that the caller can see: the transaction takes it back.
    raise NotFound(link.kind)


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A memory found: by what (higher comes first) and how well."""

    memory: Memory
    tier: int
    score: float


def _order(each: _Ranked) -> tuple[int, float, bool, float, datetime, str]:
    memory = each.memory
    return (
        each.tier,
        each.score,
        memory.pinned,
        memory.importance,
        memory.updated_at,
        str(memory.id),
    )


async def _ranked(engine: Engine, caller: Caller, query: str, limit: int) -> list[_Ranked]:
    now = engine.now()
    asked = await spaces.embed_query(engine, caller.workspace_id, query)
    async with engine.searching(caller) as db:
        matches = await words.search(
            db, caller, query_terms(query).words, ANY, limit=_DEPTH, now=now
        )
        # Sums of the same numbers in another order differ in their last digits.
        places = {
            each.id: (2, round(each.score, 6))
            for each in matches
            if each.coverage >= _LEAST_COVERAGE
        }
        fragments = query.split()
        for memory_id in await keyed.containing(db, caller, fragments, limit=limit, now=now):
            places.setdefault(memory_id, (1, 0.0))
        if asked:
            near = await vectors.candidates(db, caller, asked.point, ANY, limit=limit, now=now)
            for each in near:
                relevance = asked.embedder.relevance(each.cosine)
                if relevance >= _LEAST_RELEVANCE:
                    places.setdefault(each.id, (0, round(relevance, 6)))
        found = await memories.find_all(db, caller, list(places), now)
    return [_Ranked(memory, *places[memory.id]) for memory in found.values()]


def scopes_named(scope: Scope | None) -> Sequence[Scope] | None:
    """The scopes behind one of the three names; what is the workspace's or a thread's is global."""
    if scope is Scope.GLOBAL:
        return (Scope.GLOBAL, Scope.WORKSPACE, Scope.THREAD)
    return None if scope is None else (scope,)
