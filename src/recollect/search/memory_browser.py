"""A workspace's memories as people look through them; nothing here counts as access."""

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
from recollect.memories.queries.past_texts import MAX_TEXTS as MOST_TEXTS
from recollect.memories.queries.past_texts import PastText
from recollect.search.hybrid import Search, SearchHit, search
from recollect.search.queries import memory_browser
from recollect.search.queries.memory_browser import BrowseFilter, Facet, MemoryAction

Place = tuple[datetime, UUID]

_MOST_LINKS = 50
_MOST_DEEDS = 100


@dataclass(frozen=True, slots=True)
class BrowseMemories:
    """Which memories to show, from where, how many."""

    limit: int
    category: str | None = None
    source_type: str | None = None
    tag: str | None = None
    chat: Ref | None = None
    after: Place | None = None
    view: View = CURRENT


@dataclass(frozen=True, slots=True)
class BrowsedPage:
    """Memories, newest first, the messages they came from, and whether more follow."""

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
    """Something that was done to a memory, and what it said then, where that is known."""

    deed: MemoryAction
    content: str | None


@dataclass(frozen=True, slots=True)
class MemoryDetail:
    """All there is to know of one memory."""

    memory: Memory
    messages: list[Message]
    replaces: list[Memory]
    replaced_by: list[Memory]
    ties: list[MemoryLink]
    history: list[MemoryEvent]


async def browse_memories(engine: Engine, caller: Caller, ask: BrowseMemories) -> BrowsedPage:
    """A page of live memories, newest first."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread_id = await threads.identify(db, caller, ask.chat) if ask.chat else None
        if ask.chat and thread_id is None:
            return BrowsedPage([])
        caller = within_thread(caller, Filter(thread_id=thread_id))
        found = await memory_browser.page(
            db,
            caller,
            BrowseFilter(ask.category, ask.source_type, ask.tag, thread_id),
            after=ask.after,
            limit=ask.limit + 1,  # one row more shows whether a next page exists
            now=engine.now(),
            view=ask.view,
        )
        shown = await _as_of(db, caller, found[: ask.limit], ask.view)
        sources = await _sources(db, caller, shown)
    return BrowsedPage(shown, sources, len(found) > ask.limit)


async def first_at(engine: Engine, caller: Caller) -> datetime | None:
    """When the oldest memory was learnt that the caller sees, a replaced one included."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memory_browser.oldest_moment(db, caller, engine.now())


async def search_memories(
    engine: Engine, caller: Caller, query: str, ask: BrowseMemories
) -> tuple[list[SearchHit], Mapping[MemoryId, str]]:
    """The memories that fit a question, best first, by meaning and words."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        thread_id = await threads.identify(db, caller, ask.chat) if ask.chat else None
    if ask.chat and thread_id is None:
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
    """Who put a memory there: a person, a model, or a kind of turn."""
    if memory.origin is Origin.USER:
        return "user"
    return source_of(memory.origin_label)


def source_of(label: str | None) -> str:
    """What kept something by itself: a kind of turn, or else a model."""
    return label if label and is_outcome(label) else "model"


async def shown(engine: Engine, caller: Caller, found: Sequence[Memory]) -> Mapping[MemoryId, str]:
    """The codes of the messages that these memories came from."""
    async with engine.reading(caller) as db:
        return await _sources(db, caller, found)


async def count(engine: Engine, caller: Caller) -> int:
    """How many live memories the caller sees."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memories.count(db, caller, NO_FILTER, engine.now())


async def facets(engine: Engine, caller: Caller) -> list[Facet]:
    """By what the live memories can be told apart."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        return await memory_browser.facets(db, caller, engine.now())


async def memory_detail(engine: Engine, caller: Caller, ref: Ref) -> MemoryDetail:
    """All there is to know of one memory, a replaced one included."""
    caller.require(Right.READ)
    now = engine.now()
    async with engine.reading(caller) as db:
        memory = await memories.find(db, caller, ref, now)
        if memory is None:
            raise NotFound("memory")
        said = await messages.of_memory(db, caller, memory.id)
        older = await memory_browser.replaced_by(db, caller, memory.id)
        newer = [memory.superseded_by] if memory.superseded_by else []
        tied = await links.links_of(
            db, caller, [memory.id], limit=_MOST_LINKS, now=now, view=HISTORY
        )
        ends = [_other(each, memory.id) for each in tied]
        known = await memories.find_all(db, caller, [*older, *newer, *ends], now, HISTORY)
        deeds = await memory_browser.history(db, caller, memory.code, limit=_MOST_DEEDS)
        said_before = await past_texts.texts_of(db, caller.workspace_id, memory.id)
    return MemoryDetail(
        memory,
        said,
        [known[each] for each in older if each in known],
        [known[each] for each in newer if each in known],
        [
            MemoryLink(each, known[_other(each, memory.id)], each.source_id == memory.id)
            for each in tied
            if _other(each, memory.id) in known
        ],
        [MemoryEvent(each, _said_in(each.version, memory, said_before)) for each in deeds],
    )


async def require_of_chat(engine: Engine, caller: Caller, ref: Ref) -> Memory:
    """The memory, if it came from the chat that the caller is in; else raise `NotFound`."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        memory = await memories.find(db, caller, ref, engine.now())
    if memory is None or caller.thread_id is None or memory.thread_id != caller.thread_id:
        raise NotFound("memory")
    return memory


def _said_in(version: int | None, memory: Memory, before: Sequence[PastText]) -> str | None:
    """What a memory said in a version; None where that is not known any more."""
    if version is None:
        return None
    if len(before) >= MOST_TEXTS and version < before[0].version:
        return None  # of what it said before those, nothing is kept
    older = next((each for each in before if each.version >= version), None)
    return older.content if older else memory.content


def _other(association: Association, memory_id: MemoryId) -> MemoryId:
    is_outward = association.source_id == memory_id
    return association.target_id if is_outward else association.source_id


async def _as_of(db: Db, caller: Caller, found: Sequence[Memory], view: View) -> list[Memory]:
    """The memories in the words they had at the time asked about."""
    if view.as_of is None or not found:
        return list(found)
    ids = [each.id for each in found]
    said = await past_texts.text_at(db, caller.workspace_id, ids, view.as_of)
    return [replace(each, content=said.get(each.id, each.content)) for each in found]


async def _sources(db: Db, caller: Caller, found: Sequence[Memory]) -> Mapping[MemoryId, str]:
    ids = [each.id for each in found]
    return await memory_browser.source_messages(db, caller.workspace_id, ids) if ids else {}
