"""Memories as key-value pairs: saving a key again updates it; recall searches every field."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from recollect.core.domain import NO_FILTER, Caller, Memory, MemoryId, Ref, Right, Scope
from recollect.core.errors import Conflict, Invalid, NotFound
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.embeddings.queries import vectors
from recollect.engine import Engine
from recollect.keywords.queries import keyword_search
from recollect.keywords.tokenizer import query_terms
from recollect.memories.edit import EditMemory, edit_within, find_memory
from recollect.memories.forget import forget_within
from recollect.memories.queries import assets, key_value, memories, sources
from recollect.memories.queries.key_value import KeyValueFilter
from recollect.memories.queries.sources import MemorySource
from recollect.memories.save import Save, Saved, check_content, save_within
from recollect.tenancy.workspace_scope import WorkspaceScope

# In a long query, sharing one common word is not a match. An estimate, as in `search.hybrid`.
_MIN_COVERAGE = 0.3
# For matches by meaning alone: "clearly relevant" on the scale the other interfaces use.
_MIN_RELEVANCE = 0.6
_KEYWORD_CANDIDATES = 200


@dataclass(frozen=True, slots=True)
class SaveKeyValue:
    """The memory to save under a key, and the edit to apply if the key already exists."""

    save: Save
    change: EditMemory
    # Save a second memory even if one with the same key exists.
    forces_new: bool = False
    links: Sequence["SourceLink"] = ()


@dataclass(frozen=True, slots=True)
class SourceLink:
    """Where a memory came from: a thread, or a message or turn in one."""

    kind: str
    target: Ref


@dataclass(frozen=True, slots=True)
class ListKeyValue:
    """Which memories to list, where to start and how many."""

    limit: int
    wanted: KeyValueFilter = field(default_factory=KeyValueFilter)
    after: tuple[datetime, UUID] | None = None


async def save_key_value(engine: Engine, reach: WorkspaceScope, ask: SaveKeyValue) -> Saved:
    """Save a memory, or edit the one with the same key, scope and scope owner."""
    caller = reach.home
    caller.require(Right.WRITE)
    check_content(ask.save.content)
    # Embed before the transaction, so that no connection is held during the model call.
    embedded = await generations.embed_passage(engine, caller.workspace_id, ask.save.content)
    async with engine.writing(caller) as db:
        before = None if ask.forces_new else await _lock_by_key(engine, db, caller, ask.save)
        if before:
            after = await edit_within(engine, db, caller, before, ask.change, embedded)
            saved = Saved(after, is_new=False)
        else:
            saved = await save_within(engine, db, caller, ask.save, embedded)
        for link in ask.links:
            await _add_source(engine, db, caller, saved.memory.id, link)
    return saved


async def _lock_by_key(engine: Engine, db: Db, caller: Caller, ask: Save) -> Memory | None:
    """Return the caller's memory with that key, with its row locked; None if there is none."""
    if ask.key is None:
        return None
    await key_value.lock_key(db, caller, ask.key, ask.scope)
    locked: set[MemoryId] = set()
    while found := await key_value.find(db, caller, ask.key, ask.scope, engine.now()):
        if found.id in locked:
            return found
        # While we wait for the lock, the memory may change or be forgotten. Then the key belongs
        # to another memory, or to none.
        await memories.lock(db, caller, Ref(id=found.id))
        locked.add(found.id)
    return None


async def find_key_value(engine: Engine, reach: WorkspaceScope, ref: Ref) -> tuple[Caller, Memory]:
    """Return a memory from any workspace in reach, and the caller in that workspace."""
    for caller in reach.everywhere:
        try:
            return caller, await find_memory(engine, caller, ref)
        except NotFound:
            continue
    raise NotFound("memory")


async def edit_key_value(engine: Engine, caller: Caller, memory: Memory, ask: EditMemory) -> Memory:
    """Edit a memory; raise `Conflict` if another memory with the same scope owner has the key."""
    caller.require(Right.WRITE)
    embedded = None
    if ask.content is not None:
        check_content(ask.content)
        if memory.wants_vector and ask.content != memory.content:
            embedded = await generations.embed_passage(engine, caller.workspace_id, ask.content)
    async with engine.writing(caller) as db:
        if ask.key is not None:
            owner = replace(caller, project_id=memory.project_id, agent_id=memory.agent_id)
            await key_value.lock_key(db, owner, ask.key, memory.scope)
            other = await key_value.find(db, owner, ask.key, memory.scope, engine.now())
            if other and other.id != memory.id:
                raise Conflict("Another memory in this scope already has that key.")
        await memories.lock(db, caller, Ref(id=memory.id))
        before = await memories.find(db, caller, Ref(id=memory.id), engine.now())
        if before is None:
            raise NotFound("memory")
        return await edit_within(engine, db, caller, before, ask, embedded)


async def forget_key_value(engine: Engine, caller: Caller, memory: Memory) -> None:
    """Forget a memory, and delete its assets permanently."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        await forget_within(engine, db, caller, Ref(id=memory.id))
        await assets.remove(db, caller.workspace_id, memory.id)


async def list_key_values(
    engine: Engine, reach: WorkspaceScope, ask: ListKeyValue
) -> tuple[list[Memory], bool]:
    """Return memories, newest first, and whether there are more."""
    found: list[Memory] = []
    for caller in reach.everywhere:
        caller.require(Right.READ)
        async with engine.reading(caller) as db:
            found += await key_value.page(
                db,
                caller,
                ask.wanted,
                after=ask.after,
                limit=ask.limit + 1,  # one row more shows whether a next page exists
                now=engine.now(),
            )
    found.sort(key=lambda memory: (memory.created_at, memory.id), reverse=True)
    return found[: ask.limit], len(found) > ask.limit


async def recall_key_values(
    engine: Engine, reach: WorkspaceScope, query: str, limit: int
) -> list[Memory]:
    """Return matching memories: by words, then by parts of words, then by meaning.

    Better matches by words come first. Ties go to pinned, then important, then recently changed
    memories.
    """
    if not query.strip():
        raise Invalid("`query` must not be empty.", field="query")
    ranked: list[_Ranked] = []
    for caller in reach.everywhere:
        caller.require(Right.READ)
        ranked += await _rank(engine, caller, query, limit)
    ranked.sort(key=_sort_key, reverse=True)
    return [each.memory for each in ranked[:limit]]


async def list_sources(engine: Engine, caller: Caller, memory: Memory) -> list[MemorySource]:
    """Return where a memory came from, with the current text of each source."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await sources.of_memory(db, caller, memory.id, engine.now())


async def add_source(
    engine: Engine, caller: Caller, memory: Memory, link: SourceLink
) -> MemorySource:
    """Link a memory to its source; raise `NotFound` for a source the caller cannot see."""
    caller.require(Right.WRITE)
    caller.require(Right.READ)
    async with engine.writing(caller) as db:
        return await _add_source(engine, db, caller, memory.id, link)


async def remove_source(engine: Engine, caller: Caller, memory: Memory, source_id: UUID) -> None:
    """Delete a source link."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if not await sources.remove(db, caller, memory.id, source_id):
            raise NotFound("source")


async def _add_source(
    engine: Engine, db: Db, caller: Caller, memory_id: MemoryId, link: SourceLink
) -> MemorySource:
    now = engine.now()
    target_id = await sources.find_target(db, caller, link.kind, link.target, now)
    if target_id is None:
        raise NotFound(link.kind)
    await sources.add(db, caller, memory_id, kind=link.kind, target_id=target_id, now=now)
    found = await sources.of_memory(db, caller, memory_id, now)
    return next(each for each in found if (each.kind, each.target_id) == (link.kind, target_id))


@dataclass(frozen=True, slots=True)
class _Ranked:
    """A matching memory: how it was found (a higher tier comes first) and its score there."""

    memory: Memory
    tier: int
    score: float


def _sort_key(each: _Ranked) -> tuple[int, float, bool, float, datetime, str]:
    memory = each.memory
    return (
        each.tier,
        each.score,
        memory.pinned,
        memory.importance,
        memory.updated_at,
        str(memory.id),
    )


async def _rank(engine: Engine, caller: Caller, query: str, limit: int) -> list[_Ranked]:
    now = engine.now()
    query_vector = await generations.embed_query(engine, caller.workspace_id, query)
    async with engine.searching(caller) as db:
        matches = await keyword_search.search(
            db, caller, query_terms(query).words, NO_FILTER, limit=_KEYWORD_CANDIDATES, now=now
        )
        # Rounded, because sums of the same numbers in another order differ in the last digits.
        ranks = {
            each.id: (2, round(each.score, 6)) for each in matches if each.coverage >= _MIN_COVERAGE
        }
        fragments = query.split()
        for memory_id in await key_value.containing(db, caller, fragments, limit=limit, now=now):
            ranks.setdefault(memory_id, (1, 0.0))
        if query_vector:
            near = await vectors.candidates(
                db, caller, query_vector.point, NO_FILTER, limit=limit, now=now
            )
            for each in near:
                relevance = query_vector.embedder.relevance(each.cosine)
                if relevance >= _MIN_RELEVANCE:
                    ranks.setdefault(each.id, (0, round(relevance, 6)))
        found = await memories.find_all(db, caller, list(ranks), now)
    return [_Ranked(memory, *ranks[memory.id]) for memory in found.values()]


def scopes_named(scope: Scope | None) -> Sequence[Scope] | None:
    """Return the scopes that a wire scope covers; `global` also covers workspace and thread."""
    if scope is Scope.GLOBAL:
        return (Scope.GLOBAL, Scope.WORKSPACE, Scope.THREAD)
    return None if scope is None else (scope,)
