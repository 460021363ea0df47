"""Reading single memories and lists of them, and changing them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from recollect.domain import Caller, Filter, Json, Memory, Ref, Right
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.recall import narrowed, within_thread
from recollect.engine.save import (
    attach_vector,
    audited,
    check_content,
    content_digest,
    indexed_text,
    kind_of,
)
from recollect.engine.spaces import Embedded
from recollect.engine.words import terms
from recollect.errors import Invalid, NotFound
from recollect.store import memories, texts, words
from recollect.store.pool import Db


@dataclass(frozen=True, slots=True)
class Change:
    """What to change of a memory; None leaves it as it is."""

    content: str | None = None
    summary: str | None = None
    key: str | None = None
    category: str | None = None
    tags: Sequence[str] | None = None
    # Merged into what is there, key by key.
    metadata: Json | None = None
    importance: float | None = None
    pinned: bool | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ListMemories:
    """Which memories to list, from where, how many."""

    limit: int
    wanted: Filter
    thread: Ref | None = None
    after: Ref | None = None
    # Or a place that the caller knows already.
    beyond: tuple[datetime, UUID] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Memories in order, and whether more follow."""

    memories: list[Memory]
    has_more: bool


async def get(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """One live memory."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _existing(engine, db, caller, ref)


async def list_memories(engine: Engine, caller: Caller, ask: ListMemories) -> Page:
    """Live memories, newest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        after = ask.beyond
        if ask.after:
            after = await memories.place(db, caller, ask.after)
            if after is None:
                raise Invalid("`starting_after` names no memory.", field="starting_after")
        wanted = await narrowed(db, caller, ask.wanted, ask.thread)
        if wanted is None:
            return Page([], has_more=False)
        caller = within_thread(caller, wanted)
        found = await memories.page(
            db,
            caller,
            wanted,
            after=after,
            limit=ask.limit + 1,  # one row more shows whether a next page exists
            now=engine.now(),
        )
    return Page(found[: ask.limit], has_more=len(found) > ask.limit)


async def change(engine: Engine, caller: Caller, ref: Ref, ask: Change) -> Memory:
    """Change a memory; what equals what is there changes nothing, not even its version."""
    caller.require(Right.WRITE)
    if ask.content is not None:
        check_content(ask.content)
    embedded = None
    before = await get(engine, caller, ref)
    if before.wants_vector and ask.content not in {None, before.content}:
        embedded = await spaces.embed_passage(engine, caller.workspace_id, ask.content or "")
    async with engine.writing(caller) as db:
        await memories.lock(db, caller, ref)
        before = await _existing(engine, db, caller, ref)
        return await change_within(engine, db, caller, before, ask, embedded)


async def change_within(
    engine: Engine,
    db: Db,
    caller: Caller,
    before: Memory,
    ask: Change,
    embedded: Embedded | None,
) -> Memory:
    """As `change`, for a memory that the transaction under way holds."""
    after = _changed(before, ask)
    if after == before:
        return before
    after = replace(after, version=before.version + 1, updated_at=engine.now())
    await memories.update(db, after, content_digest(after.content))
    if indexed_text(after) != indexed_text(before):
        await words.remove(db, caller.workspace_id, [after.id])
        await words.insert(db, caller.workspace_id, after.id, terms(indexed_text(after)))
    if after.content != before.content:
        await texts.put(db, before, engine.now())
        after = await attach_vector(engine, db, after, embedded)
    await engine.note(
        db,
        caller,
        "memory.updated",
        audited(after),
        thread_code=after.thread_code,
        subject=after.subject,
        is_private=after.is_restricted,
    )
    return after


def _changed(memory: Memory, ask: Change) -> Memory:
    changed = memory
    if ask.content is not None:
        changed = replace(changed, content=ask.content)
    if ask.summary is not None:
        changed = replace(changed, summary=ask.summary)
    if ask.key is not None:
        changed = replace(changed, key=ask.key)
    if ask.category is not None:
        changed = replace(changed, category=ask.category, kind=kind_of(ask.category))
    if ask.tags is not None:
        changed = replace(changed, tags=tuple(ask.tags))
    if ask.metadata is not None:
        changed = replace(changed, metadata={**changed.metadata, **ask.metadata})
    # Who writes back what had faded by then does not mean it to fade from there.
    if ask.importance not in {None, memory.importance}:
        changed = replace(changed, importance=ask.importance, importance_base=ask.importance)
    if ask.pinned is not None:
        changed = replace(changed, pinned=ask.pinned)
    if ask.expires_at is not None:
        changed = replace(changed, expires_at=ask.expires_at)
    return changed


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Memory:
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    return memory
