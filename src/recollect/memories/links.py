"""Link memories, by request or by similarity, and update which memories are superseded."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from recollect.core.domain import (
    HISTORY,
    Association,
    Caller,
    Filter,
    Memory,
    MemoryId,
    Ref,
    Relation,
    Right,
)
from recollect.core.errors import Invalid, NotFound
from recollect.db.pool import Db
from recollect.embeddings.generations import EmbeddedText
from recollect.embeddings.queries import generations, vectors
from recollect.engine import Engine
from recollect.memories.queries import links, memories, supersession

DEFAULT_WEIGHT = 0.5

# Above the first value, a new statement is probably a newer version of the old one. Between the
# two values, they are about the same thing. Rounded to three decimals before the comparison,
# because vectors are stored in half precision.
UPDATES_SIMILARITY = 0.9
RELATED_SIMILARITY = 0.85
_MAX_SIMILAR = 5


@dataclass(frozen=True, slots=True)
class Link:
    """A link to create from a new memory to an existing one."""

    target: Ref
    relation: Relation = Relation.RELATED_TO
    weight: float = DEFAULT_WEIGHT


async def link_new(
    engine: Engine, db: Db, caller: Caller, memory: Memory, requests: Sequence[Link]
) -> list[Association]:
    """Create the links requested with a new memory; skip unknown targets."""
    made: list[Association] = []
    for request in requests:
        target = await memories.find(db, caller, request.target, engine.now())
        if target is None or target.id == memory.id:
            continue
        association = await _put(
            engine, db, caller, memory.id, target.id, request, is_authored=True
        )
        if association:
            made.append(association)
    return made


async def link_later(
    engine: Engine, db: Db, caller: Caller, memory: Memory, later: MemoryId
) -> None:
    """Let an existing memory replace a new one that was said before it.

    The caller calls `supersession.lock_supersession` before the new memory is saved.
    """
    wish = Link(Ref(id=memory.id), Relation.UPDATES)
    await _put(engine, db, caller, later, memory.id, wish, is_authored=True)


async def link_similar(
    engine: Engine, db: Db, caller: Caller, memory: Memory, embedded: EmbeddedText | None
) -> None:
    """Link a new memory to the most similar ones. Both stay current and recallable."""
    serving = await generations.lock_serving(db, caller.workspace_id)
    if serving is None or embedded is None or not embedded.belongs_to(serving):
        return
    embedder = engine.embedders.of(embedded.identity)
    near = await vectors.candidates(
        db,
        caller,
        embedded.point(serving),
        Filter(),
        limit=_MAX_SIMILAR + 1,  # the new memory itself is the nearest
        now=engine.now(),
    )
    for each in [each for each in near if each.id != memory.id][:_MAX_SIMILAR]:
        similarity = round(embedder.likeness(each.cosine), 3)
        if similarity >= RELATED_SIMILARITY:
            relation = Relation.UPDATES if similarity > UPDATES_SIMILARITY else Relation.RELATED_TO
            similar = Link(Ref(id=each.id), relation, similarity)
            await _put(engine, db, caller, memory.id, each.id, similar, is_authored=False)


async def link(engine: Engine, caller: Caller, source: Ref, request: Link) -> Association:
    """Link two existing memories."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if request.relation is Relation.UPDATES:
            await supersession.lock_supersession(db, caller.workspace_id)
        start = await _find_or_raise(engine, db, caller, source)
        end = await _find_or_raise(engine, db, caller, request.target)
        if start.id == end.id:
            raise Invalid("A memory cannot be linked to itself.", field="target_id")
        if request.relation is Relation.UPDATES:
            await supersession.lock_memories(db, caller.workspace_id, [start.id, end.id])
            await supersession.reverse_links(db, caller.workspace_id, start.id, [end.id])
        if not await _put(engine, db, caller, start.id, end.id, request, is_authored=True):
            raise NotFound("memory")  # deleted after it was looked up
        await _record_event(engine, db, caller, "memory.linked", start, end, request.relation)
        # Read it back: if the link already existed, it keeps its id.
        among = await links.links_among(db, caller.workspace_id, [start.id, end.id])
        return next(
            each
            for each in among
            if (each.source_id, each.relation) == (start.id, request.relation)
        )


async def unlink(
    engine: Engine, caller: Caller, source: Ref, target: Ref, relation: Relation
) -> None:
    """Delete a link; memories that nothing else supersedes become current again."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if relation is Relation.UPDATES:
            await supersession.lock_supersession(db, caller.workspace_id)
        start = await _find_or_raise(engine, db, caller, source)
        end = await _find_or_raise(engine, db, caller, target)
        if not await links.remove(db, caller.workspace_id, start.id, end.id, relation):
            raise NotFound("association")
        if relation is Relation.UPDATES:
            superseded = await supersession.find_superseded(db, caller.workspace_id, [end.id])
            await supersession.update_validity(
                db, caller.workspace_id, [end.id, *superseded], engine.now()
            )
        await _record_event(engine, db, caller, "memory.unlinked", start, end, relation)


async def reopen(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Undo a supersession: the older statement is current again and the newer one stays."""
    caller.require(Right.READ)  # the response contains the memory
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await supersession.lock_supersession(db, caller.workspace_id)
        await memories.lock(db, caller, ref)
        memory = await _find_or_raise(engine, db, caller, ref)
        if memory.superseded_by is None:
            raise Invalid("This memory is not superseded.")
        await supersession.reopen_superseded(db, caller.workspace_id, memory.id)
        await update_validity(engine, db, caller, [memory.id])
        return await _find_or_raise(engine, db, caller, Ref(id=memory.id))


async def update_validity(engine: Engine, db: Db, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Mark these memories as superseded or current, after their `updates` links changed."""
    if not ids:
        return
    reopened = await supersession.update_validity(db, caller.workspace_id, ids, engine.now())
    # An audit event about a memory that the caller cannot see would reveal it.
    seen = await memories.find_all(db, caller, reopened, engine.now(), HISTORY) if reopened else {}
    for memory in seen.values():
        await engine.record_event(
            db,
            caller,
            "memory.reopened",
            {"memory": memory.code},
            is_private=memory.is_restricted,
        )


async def _put(
    engine: Engine,
    db: Db,
    caller: Caller,
    source_id: MemoryId,
    target_id: MemoryId,
    request: Link,
    *,
    is_authored: bool,
) -> Association | None:
    association = Association(
        id=uuid4(),
        source_id=source_id,
        target_id=target_id,
        relation=request.relation,
        weight=request.weight,
        is_authored=is_authored,
        created_at=engine.now(),
    )
    if not await links.put(db, caller.workspace_id, association):
        return None
    # A link by similarity never supersedes a fact; a requested one does.
    if is_authored and request.relation is Relation.UPDATES:
        await update_validity(engine, db, caller, [source_id, target_id])
    return association


async def _find_or_raise(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Memory:
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    return memory


async def _record_event(
    engine: Engine,
    db: Db,
    caller: Caller,
    action: str,
    start: Memory,
    end: Memory,
    relation: Relation,
) -> None:
    details = {"memory": start.code, "target": end.code, "relation": relation}
    is_private = start.is_restricted or end.is_restricted
    await engine.record_event(db, caller, action, details, is_private=is_private)
