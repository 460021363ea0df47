"""Find, list and edit memories."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from uuid import UUID

from recollect.core.domain import Caller, Filter, Json, Memory, Ref, Right
from recollect.core.errors import Invalid, NotFound
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.embeddings.generations import EmbeddedText
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.memories.filters import with_thread, within_thread
from recollect.memories.queries import memories, past_texts
from recollect.memories.save import (
    audit_details,
    check_content,
    content_digest,
    indexed_text,
    kind_of,
    store_vector,
)


@dataclass(frozen=True, slots=True)
class EditMemory:
    """The fields of a memory to change; None leaves a field unchanged."""

    content: str | None = None
    summary: str | None = None
    key: str | None = None
    category: str | None = None
    tags: Sequence[str] | None = None
    # Merged into the existing metadata, key by key.
    metadata: Json | None = None
    importance: float | None = None
    pinned: bool | None = None
    expires_at: datetime | None = None


# Every one of these is a field of `Memory` too.
_EDITS = [each.name for each in fields(EditMemory)]


@dataclass(frozen=True, slots=True)
class ListMemories:
    """Which memories to list, where to start and how many."""

    limit: int
    wanted: Filter
    thread: Ref | None = None
    after: Ref | None = None
    # Alternative to `after`: a position (`created_at`, id) that the caller already knows.
    beyond: tuple[datetime, UUID] | None = None


@dataclass(frozen=True, slots=True)
class MemoriesPage:
    """Memories in order, and whether there are more."""

    memories: list[Memory]
    has_more: bool


async def find_memory(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Return one live memory, or raise `NotFound`."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await _find_or_raise(engine, db, caller, ref)


async def list_memories(engine: Engine, caller: Caller, ask: ListMemories) -> MemoriesPage:
    """Return live memories, newest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        after = ask.beyond
        if ask.after:
            after = await memories.position_of(db, caller, ask.after)
            if after is None:
                raise Invalid(
                    "`starting_after` is not the id of an existing memory.", field="starting_after"
                )
        wanted = await with_thread(db, caller, ask.wanted, ask.thread)
        if wanted is None:
            return MemoriesPage([], has_more=False)
        caller = within_thread(caller, wanted)
        found = await memories.page(
            db,
            caller,
            wanted,
            after=after,
            limit=ask.limit + 1,  # one row more shows whether a next page exists
            now=engine.now(),
        )
    return MemoriesPage(found[: ask.limit], has_more=len(found) > ask.limit)


async def edit(engine: Engine, caller: Caller, ref: Ref, ask: EditMemory) -> Memory:
    """Change a memory. If the request changes nothing, the version stays the same."""
    caller.require(Right.WRITE)
    if ask.content is not None:
        check_content(ask.content)
    embedded = None
    before = await find_memory(engine, caller, ref)
    if before.wants_vector and ask.content not in {None, before.content}:
        embedded = await generations.embed_passage(engine, caller.workspace_id, ask.content or "")
    async with engine.writing(caller) as db:
        await memories.lock(db, caller, ref)
        before = await _find_or_raise(engine, db, caller, ref)
        return await edit_within(engine, db, caller, before, ask, embedded)


async def edit_within(
    engine: Engine,
    db: Db,
    caller: Caller,
    before: Memory,
    ask: EditMemory,
    embedded: EmbeddedText | None,
) -> Memory:
    """Like `edit`, inside an open transaction that has locked the memory."""
    after = _changed(before, ask)
    if after == before:
        return before
    after = replace(after, version=before.version + 1, updated_at=engine.now())
    await memories.update(db, after, content_digest(after.content))
    if indexed_text(after) != indexed_text(before):
        await postings.remove(db, caller.workspace_id, [after.id])
        await postings.insert(db, caller.workspace_id, after.id, terms(indexed_text(after)))
    if after.content != before.content:
        await past_texts.insert(db, before, engine.now())
        after = await store_vector(engine, db, after, embedded)
    await engine.record_event(
        db,
        caller,
        "memory.updated",
        audit_details(after),
        thread_code=after.thread_code,
        subject=after.subject,
        is_private=after.is_restricted,
    )
    return after


def _changed(memory: Memory, ask: EditMemory) -> Memory:
    given = {name: value for name in _EDITS if (value := getattr(ask, name)) is not None}
    if "category" in given:
        given["kind"] = kind_of(ask.category)
    if "tags" in given:
        given["tags"] = tuple(given["tags"])
    if "metadata" in given:
        given["metadata"] = {**memory.metadata, **given["metadata"]}
    # Writing back the decayed importance that was read does not reset its base.
    if ask.importance not in {None, memory.importance}:
        given["importance_base"] = ask.importance
    return replace(memory, **given)


async def _find_or_raise(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Memory:
    memory = await memories.find(db, caller, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    return memory
