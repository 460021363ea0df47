"""Linking memories, by somebody's word or by likeness, and what an update does to time."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from recollect.domain import (
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
from recollect.engine.core import Engine
from recollect.engine.spaces import Embedded
from recollect.errors import Invalid, NotFound
from recollect.store import generations, links, memories, vectors
from recollect.store.pool import Db

DEFAULT_WEIGHT = 0.5

# Above the first a new statement probably is a newer version of the old one; between the two they
# speak of the same thing. Compared to three decimals: vectors are kept in half precision.
ALIKE_UPDATES = 0.9
ALIKE_RELATED = 0.85
_MOST_ALIKE = 5


@dataclass(frozen=True, slots=True)
class Link:
    """A link to make from a new memory to one that is there."""

    target: Ref
    relation: Relation = Relation.RELATED_TO
    weight: float = DEFAULT_WEIGHT


async def link_new(
    engine: Engine, db: Db, caller: Caller, memory: Memory, wished: Sequence[Link]
) -> list[Association]:
    """Make the links somebody asked for with a new memory; unknown targets are passed over."""
    made: list[Association] = []
    for wish in wished:
        target = await memories.find(db, caller, wish.target, engine.now())
        if target is None or target.id == memory.id:
            continue
        association = await _put(engine, db, caller, memory.id, target.id, wish, is_authored=True)
        if association:
            made.append(association)
    return made


async def link_alike(
    engine: Engine, db: Db, caller: Caller, memory: Memory, embedded: Embedded | None
) -> None:
    """Link a new memory to the few most like it. Only links: both stay current and recallable."""
    serving = await generations.hold_serving(db, caller.workspace_id)
    if serving is None or embedded is None or not embedded.belongs_to(serving):
        return
    embedder = engine.embedders.of(embedded.identity)
    near = await vectors.candidates(
        db,
        caller,
        embedded.point(serving),
        Filter(),
        limit=_MOST_ALIKE + 1,  # the new memory itself is the nearest
        now=engine.now(),
    )
    for each in [each for each in near if each.id != memory.id][:_MOST_ALIKE]:
        likeness = round(embedder.likeness(each.cosine), 3)
        if likeness >= ALIKE_RELATED:
            relation = Relation.UPDATES if likeness > ALIKE_UPDATES else Relation.RELATED_TO
            alike = Link(Ref(id=each.id), relation, likeness)
            await _put(engine, db, caller, memory.id, each.id, alike, is_authored=False)


async def link(engine: Engine, caller: Caller, source: Ref, wish: Link) -> Association:
    """Link two memories that are there."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if wish.relation is Relation.UPDATES:
            await links.take_turn(db, caller.workspace_id)
        start = await _existing(engine, db, caller, source)
        end = await _existing(engine, db, caller, wish.target)
        if start.id == end.id:
            raise Invalid("A memory cannot be linked to itself.", field="target_id")
        if wish.relation is Relation.UPDATES:
            await links.hold(db, caller.workspace_id, [start.id, end.id])
            await links.turn_round(db, caller.workspace_id, start.id, [end.id])
        if not await _put(engine, db, caller, start.id, end.id, wish, is_authored=True):
            raise NotFound("memory")  # deleted since it was looked up
        await _note(engine, db, caller, "memory.linked", start, end, wish.relation)
        # As it is kept: the same link made before keeps its id.
        among = await links.among(db, caller.workspace_id, [start.id, end.id])
        return next(
            each for each in among if (each.source_id, each.relation) == (start.id, wish.relation)
        )


async def unlink(
    engine: Engine, caller: Caller, source: Ref, target: Ref, relation: Relation
) -> None:
    """Remove a link; what nothing else replaces is current again."""
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        if relation is Relation.UPDATES:
            await links.take_turn(db, caller.workspace_id)
        start = await _existing(engine, db, caller, source)
        end = await _existing(engine, db, caller, target)
        if not await links.remove(db, caller.workspace_id, start.id, end.id, relation):
            raise NotFound("association")
        if relation is Relation.UPDATES:
            below = await links.replaced(db, caller.workspace_id, [end.id])
            await links.settle(db, caller.workspace_id, [end.id, *below], engine.now())
        await _note(engine, db, caller, "memory.unlinked", start, end, relation)


async def reopen(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Undo a replacement: the older statement is current again, the newer one stays."""
    caller.require(Right.READ)  # the answer shows it
    caller.require(Right.WRITE)
    async with engine.writing(caller) as db:
        await links.take_turn(db, caller.workspace_id)
        await memories.lock(db, caller, ref)
        memory = await _existing(engine, db, caller, ref)
        if memory.superseded_by is None:
            raise Invalid("This memory was not replaced by another.")
        await links.take_back(db, caller.workspace_id, memory.id)
        await settle(engine, db, caller, [memory.id])
        return await _existing(engine, db, caller, Ref(id=memory.id))


async def settle(engine: Engine, db: Db, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Close or open these statements, as what replaces them has come or gone."""
    if not ids:
        return
    opened = await links.settle(db, caller.workspace_id, ids, engine.now())
    # Of what the caller does not see, the audit would tell them.
    seen = await memories.find_all(db, caller, opened, engine.now(), HISTORY) if opened else {}
    for memory in seen.values():
        await engine.note(
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
    wish: Link,
    *,
    is_authored: bool,
) -> Association | None:
    association = Association(
        id=uuid4(),
        source_id=source_id,
        target_id=target_id,
        relation=wish.relation,
        weight=wish.weight,
        is_authored=is_authored,
        created_at=engine.now(),
    )
    if not await links.put(db, caller.workspace_id, association):
        return None
    # Likeness never ends a fact; somebody's word does.
    if is_authored and wish.relation is Relation.UPDATES:
        await settle(engine, db, caller, [source_id, target_id])
    return association


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Memory:
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    return memory


async def _note(
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
    await engine.note(db, caller, action, details, is_private=is_private)
