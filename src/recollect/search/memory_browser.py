"""Browse a workspace's memories page by page, with their history. Nothing counts as access."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from recollect.conversations.queries import messages, threads
from recollect.core.domain import (
    CURRENT,
    HISTORY,
    NO_FILTER,
    Association,
    Caller,
    Filter,
    Memory,
    MemoryId,
    Message,
    Origin,
    Ref,
    Right,
    View,
)
from recollect.core.errors import NotFound
from recollect.core.turn_kinds import is_outcome
from recollect.db.pool import Db
from recollect.engine import Engine
from recollect.memories.filters import within_thread
from recollect.memories.queries import links, memories, past_texts
from recollect.memories.queries.past_texts import MAX_TEXTS as MAX_PAST_TEXTS
from recollect.memories.queries.past_texts import PastText
from recollect.search.hybrid import Search, SearchHit, search
from recollect.search.queries import memory_browser
from recollect.search.queries.memory_browser import BrowseFilter, Facet, MemoryAction

Position = tuple[datetime, UUID]

_MAX_LINKS = 50
_MAX_ACTIONS = 100


@dataclass(frozen=True, slots=True)
class BrowseMemories:
    """A filter, the position after which the page begins, and its length."""

    limit: int
    category: str | None = None
    source_type: str | None = None
    tag: str | None = None
    thread: Ref | None = None
    after: Position | None = None
    view: View = CURRENT


@dataclass(frozen=True, slots=True)
class BrowsedPage:
    """Memories, newest first, the codes of their source messages, and whether more follow."""

    memories: list[Memory]
    sources: Mapping[MemoryId, str] = field(default_factory=dict[MemoryId, str])
    has_more: bool = False


@dataclass(frozen=True, slots=True)
class MemoryLink:
    """A link of a memory, and the memory at its other end."""

    association: Association
    other: Memory
    is_outward: bool


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """An action on a memory, and the memory's text after it, if known."""

    action: MemoryAction
    content: str | None


@dataclass(frozen=True, slots=True)
class MemoryDetail:
    """A memory with its sources, links, versions and history."""

    memory: Memory
    messages: list[Message]
    replaces: list[Memory]
    replaced_by: list[Memory]
    links: list[MemoryLink]
    history: list[MemoryEvent]


async def browse_memories(engine: Engine, caller: Caller, ask: BrowseMemories) -> BrowsedPage:
    """Return a page of live memories, newest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread_id = await threads.identify(db, caller, ask.thread) if ask.thread else None
        if ask.thread and thread_id is None:
            return BrowsedPage([])
        caller = within_thread(caller, Filter(thread_id=thread_id))
        found = await memory_browser.page(
            db,
            caller,
            BrowseFilter(ask.category, ask.source_type, ask.tag, thread_id),
            after=ask.after,
            limit=ask.limit + 1,  # one extra row shows whether a next page exists
            now=engine.now(),
            view=ask.view,
        )
        shown = await _with_past_texts(db, caller, found[: ask.limit], ask.view)
        sources = await _sources(db, caller, shown)
    return BrowsedPage(shown, sources, len(found) > ask.limit)


async def oldest_memory_at(engine: Engine, caller: Caller) -> datetime | None:
    """Return the time of the oldest visible memory, including superseded ones."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memory_browser.oldest_memory_at(db, caller, engine.now())


async def search_memories(
    engine: Engine, caller: Caller, query: str, ask: BrowseMemories
) -> tuple[list[SearchHit], Mapping[MemoryId, str]]:
    """Return the memories that match a query by meaning and words, best first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread_id = await threads.identify(db, caller, ask.thread) if ask.thread else None
    if ask.thread and thread_id is None:
        return [], {}
    wanted = Filter(
        thread_id=thread_id,
        categories=None if ask.category is None else [ask.category],
        tags=None if ask.tag is None else [ask.tag],
    )
    found = await search(
        engine,
        within_thread(caller, wanted),
        Search(query, limit=ask.limit, wanted=wanted, view=ask.view, counts_as_access=False),
    )
    kept = [
        each
        for each in found.findings
        if ask.source_type is None or source_type(each.memory) == ask.source_type
    ]
    async with engine.reading(caller) as db:
        return kept, await _sources(db, caller, [each.memory for each in kept])


def source_type(memory: Memory) -> str:
    """Return the source of a memory: `user`, `model`, or the kind of automatic turn."""
    if memory.origin is Origin.USER:
        return "user"
    return source_of(memory.origin_label)


def source_of(label: str | None) -> str:
    """Return the kind of automatic turn that a label names, or `model`."""
    return label if label and is_outcome(label) else "model"


async def source_codes(
    engine: Engine, caller: Caller, found: Sequence[Memory]
) -> Mapping[MemoryId, str]:
    """Return the code of the first source message of each memory."""
    async with engine.reading(caller) as db:
        return await _sources(db, caller, found)


async def count(engine: Engine, caller: Caller) -> int:
    """Return the number of live memories that the caller can see."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memories.count(db, caller, NO_FILTER, engine.now())


async def facets(engine: Engine, caller: Caller) -> list[Facet]:
    """Return the categories, sources, tags and threads of the live memories, with counts."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memory_browser.facets(db, caller, engine.now())


async def memory_detail(engine: Engine, caller: Caller, ref: Ref) -> MemoryDetail:
    """Return one memory with everything known about it, even if it is superseded."""
    caller.require(Right.READ)
    now = engine.now()
    async with engine.reading(caller) as db:
        memory = await memories.find(db, caller, ref, now)
        if memory is None:
            raise NotFound("memory")
        source_messages = await messages.of_memory(db, caller, memory.id)
        older = await memory_browser.replaced_by(db, caller, memory.id)
        newer = [memory.superseded_by] if memory.superseded_by else []
        associations = await links.links_of(
            db, caller, [memory.id], limit=_MAX_LINKS, now=now, view=HISTORY
        )
        ends = [_other_end(each, memory.id) for each in associations]
        known = await memories.find_all(db, caller, [*older, *newer, *ends], now, HISTORY)
        actions = await memory_browser.history(db, caller, memory.code, limit=_MAX_ACTIONS)
        past = await past_texts.texts_of(db, caller.workspace_id, memory.id)
    return MemoryDetail(
        memory,
        source_messages,
        [known[each] for each in older if each in known],
        [known[each] for each in newer if each in known],
        [
            MemoryLink(each, known[_other_end(each, memory.id)], each.source_id == memory.id)
            for each in associations
            if _other_end(each, memory.id) in known
        ],
        [MemoryEvent(each, _text_in_version(each.version, memory, past)) for each in actions],
    )


async def require_in_thread(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """Return the memory if it comes from the caller's thread; else raise `NotFound`."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        memory = await memories.find(db, caller, ref, engine.now())
    if memory is None or caller.thread_id is None or memory.thread_id != caller.thread_id:
        raise NotFound("memory")
    return memory


def _text_in_version(version: int | None, memory: Memory, past: Sequence[PastText]) -> str | None:
    """Return the text of a memory in a version, or None if it is no longer known."""
    if version is None:
        return None
    if len(past) >= MAX_PAST_TEXTS and version < past[0].version:
        return None  # older texts are not kept
    older = next((each for each in past if each.version >= version), None)
    return older.content if older else memory.content


def _other_end(association: Association, memory_id: MemoryId) -> MemoryId:
    is_outward = association.source_id == memory_id
    return association.target_id if is_outward else association.source_id


async def _with_past_texts(
    db: Db, caller: Caller, found: Sequence[Memory], view: View
) -> list[Memory]:
    """Return the memories with the texts they had at the time of the view."""
    if view.as_of is None or not found:
        return list(found)
    ids = [each.id for each in found]
    source_messages = await past_texts.text_at(db, caller.workspace_id, ids, view.as_of)
    return [replace(each, content=source_messages.get(each.id, each.content)) for each in found]


async def _sources(db: Db, caller: Caller, found: Sequence[Memory]) -> Mapping[MemoryId, str]:
    ids = [each.id for each in found]
    return await memory_browser.source_messages(db, caller.workspace_id, ids) if ids else {}
