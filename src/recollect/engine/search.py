"""Searching by meaning, word and link at once, and browsing; every result can say why."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from recollect.domain import (
    CURRENT,
    Caller,
    Filter,
    Memory,
    MemoryId,
    Ref,
    Right,
    ThreadId,
    View,
)
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.rank import (
    Evidence,
    Listed,
    Scored,
    Source,
    Traits,
    by_evidence,
    fuse,
    is_named,
    ordered,
    spread,
)
from recollect.engine.spaces import Asked
from recollect.engine.words import query_terms
from recollect.errors import Invalid
from recollect.store import links, memories, threads, vectors, words
from recollect.store.pool import Db
from recollect.store.vectors import Candidate
from recollect.store.words import Match

# How far down each list candidates are taken: a guess with room to spare, not measured yet.
_DEPTH = 200
# Links are followed from the heads of the other two lists: further down, what is found by accident
# would bring its friends.
_SEEDS = 10
_MOST_LINKS = 200

# What is found by one list alone must clear its floor, or an unrelated question would find
# whatever happens to be nearest. Both floors are first guesses, not fitted to anything.
LEAST_RELEVANCE = 0.5
LEAST_COVERAGE = 0.3


class Mode(StrEnum):
    """What to look for."""

    HYBRID = "hybrid"
    RECENT = "recent"
    IMPORTANT = "important"
    TYPED = "typed"


class Order(StrEnum):
    """How to sort where nothing was asked for."""

    RECENT = "recent"
    IMPORTANCE = "importance"
    MOST_ACCESSED = "most_accessed"


@dataclass(frozen=True, slots=True)
class Search:
    """What to find. The thread is where the question comes from: it breaks ties, hides nothing."""

    query: str = ""
    mode: Mode = Mode.HYBRID
    order: Order = Order.RECENT
    limit: int = 10
    wanted: Filter = field(default_factory=Filter)
    thread: Ref | None = None
    view: View = CURRENT
    counts_as_access: bool = True


@dataclass(frozen=True, slots=True)
class Finding:
    """A memory, how relevant it is, and its places in the lists that found it."""

    memory: Memory
    score: float
    places: tuple[Listed, ...]
    # It rests on a statement that was replaced or forgotten since.
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Findings, best first, and how many there were before the cut."""

    findings: list[Finding]
    total: int
    is_degraded: bool = False


async def search(engine: Engine, caller: Caller, ask: Search) -> Found:
    """The caller's memories that fit, best first."""
    caller.require(Right.READ)
    found = await (_hybrid if ask.mode is Mode.HYBRID else _browse)(engine, caller, ask)
    if ask.counts_as_access and found.findings:
        ids = [finding.memory.id for finding in found.findings]
        async with engine.pool.writing(caller.workspace_id) as db:
            await memories.touch(db, caller.workspace_id, ids, engine.now())
    return found


async def _browse(engine: Engine, caller: Caller, ask: Search) -> Found:
    order = Order.IMPORTANCE if ask.mode is Mode.IMPORTANT else ask.order
    if ask.mode is Mode.RECENT:
        order = Order.RECENT
    if ask.mode is Mode.TYPED and ask.wanted.kinds is None:
        raise Invalid("`memory_type` is required in typed mode.", field="memory_type")
    async with engine.reading(caller) as db:
        page = await memories.browse(
            db,
            caller,
            ask.wanted,
            order=order,
            limit=ask.limit,
            now=engine.now(),
            view=ask.view,
        )
        total = await memories.count(db, caller, ask.wanted, engine.now(), ask.view)
        doubted = await _doubted(engine, db, caller, [memory.id for memory in page])
    # Nothing was asked, so everything found fits fully.
    return Found([Finding(each, 1.0, (), each.id in doubted) for each in page], total)


async def _hybrid(engine: Engine, caller: Caller, ask: Search) -> Found:
    if not ask.query.strip():
        raise Invalid("`query` is required in hybrid mode.", field="query")
    # Before the transaction: no connection is held while a model thinks.
    asked = await spaces.embed_query(engine, caller.workspace_id, ask.query)
    async with engine.reading(caller) as db:
        lists = _Lists(ask.query, await _home(db, caller, ask.thread))
        if asked:
            lists.take_near(await _near(engine, db, caller, ask, asked), asked)
        lists.take_matches(await _matches(engine, db, caller, ask))
        await _follow(engine, db, caller, ask, lists)
        best = ordered(fuse(lists.by_source), lists.traits)
        page = best[: ask.limit]
        ids = [each.memory_id for each in page]
        known = await memories.find_all(db, caller, ids, engine.now(), ask.view)
        doubted = await _doubted(engine, db, caller, ids)
    findings = [
        Finding(known[each.memory_id], each.score, each.places, each.memory_id in doubted)
        for each in page
        if each.memory_id in known
    ]
    return Found(findings, len(best), is_degraded=asked is None)


class _Lists:
    """The three lists as they grow, and what is known of each candidate."""

    def __init__(self, query: str, home: ThreadId | None) -> None:
        self._query = query
        self._home = home
        self.traits: dict[MemoryId, Traits] = {}
        self.by_source: dict[Source, Sequence[Scored]] = {}

    def take_near(self, near: Sequence[Candidate], asked: Asked) -> None:
        """The list by meaning, down to what is relevant at all."""
        kept = [each for each in near if asked.embedder.relevance(each.cosine) >= LEAST_RELEVANCE]
        self._take(Source.VECTOR, kept, [each.cosine for each in kept])

    def take_matches(self, matches: Sequence[Match]) -> None:
        """The list by words, down to what shares enough of them; only with the phrases, if any."""
        kept = [each for each in matches if each.coverage >= LEAST_COVERAGE]
        if any(each.has_phrases for each in kept):
            kept = [each for each in kept if each.has_phrases]
        self._take(Source.WORDS, kept, [each.score for each in kept])

    def take_linked(self, linked: Sequence[Scored], known: dict[MemoryId, Memory]) -> None:
        """The list by links."""
        self.by_source[Source.LINKS] = linked
        for memory in known.values():
            self.traits.setdefault(memory.id, self._traits(memory))

    def seeds(self) -> list[MemoryId]:
        """The heads of the lists so far."""
        heads = [each.memory_id for found in self.by_source.values() for each in found[:_SEEDS]]
        return list(dict.fromkeys(heads))

    def _traits(self, each: Candidate | Match | Memory) -> Traits:
        is_home = self._home is not None and each.thread_id == self._home
        return Traits(each.importance, is_home, each.created_at)

    def _take(
        self, source: Source, kept: Sequence[Candidate | Match], scores: Sequence[float]
    ) -> None:
        self.traits |= {each.id: self._traits(each) for each in kept}
        self.by_source[source] = by_evidence(
            [
                Evidence(
                    each.id,
                    score,
                    self.traits[each.id],
                    each.thread_id,
                    is_named(each.speaker, self._query),
                )
                for each, score in zip(kept, scores, strict=True)
            ]
        )


async def _near(
    engine: Engine, db: Db, caller: Caller, ask: Search, asked: Asked
) -> list[Candidate]:
    return await vectors.candidates(
        db,
        caller,
        asked.point,
        ask.wanted,
        limit=_DEPTH,
        now=engine.now(),
        view=ask.view,
    )


async def _matches(engine: Engine, db: Db, caller: Caller, ask: Search) -> list[Match]:
    query = query_terms(ask.query)
    found = await words.search_conversations(
        db,
        caller,
        query.words,
        ask.wanted,
        phrases=query.phrases,
        limit=_DEPTH,
        now=engine.now(),
        view=ask.view,
    )
    if found:
        return found
    fragments = [word for word in ask.query.split() if len(word) > 2]
    return await words.containing(
        db,
        caller,
        fragments,
        ask.wanted,
        limit=_DEPTH,
        now=engine.now(),
        view=ask.view,
    )


async def _follow(engine: Engine, db: Db, caller: Caller, ask: Search, lists: _Lists) -> None:
    seeds = lists.seeds()
    steps = await links.follow(
        db,
        caller,
        seeds,
        ask.wanted,
        most=_MOST_LINKS,
        now=engine.now(),
        view=ask.view,
    )
    linked = spread(steps, seeds)
    known = await memories.find_all(
        db,
        caller,
        [each.memory_id for each in linked],
        engine.now(),
        ask.view,
    )
    lists.take_linked([each for each in linked if each.memory_id in known], known)


async def _home(db: Db, caller: Caller, thread: Ref | None) -> ThreadId | None:
    if thread is None:
        return None
    return await threads.identify(db, caller, thread)


async def _doubted(
    engine: Engine, db: Db, caller: Caller, ids: Sequence[MemoryId]
) -> set[MemoryId]:
    return await links.doubted(db, caller, ids, engine.now()) if ids else set()
