"""Searching by meaning, word and link at once, and browsing; every result can say why."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from recollect.conversations.queries import threads
from recollect.core.domain import (
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
from recollect.core.errors import Invalid, Unavailable
from recollect.core.tasks import run_both
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.embeddings.generations import EmbeddedQuery
from recollect.embeddings.queries import vectors
from recollect.engine import Engine
from recollect.keywords.queries import keyword_neighbours, keyword_search, substrings
from recollect.keywords.queries.keyword_match import KeywordMatch
from recollect.keywords.queries.keyword_search import KeywordLeads
from recollect.keywords.tokenizer import QueryTerms, query_terms, spelling_variants
from recollect.memories.dedupe.same_statement import DUPLICATE_FLOOR, is_same_statement
from recollect.memories.queries import links, memories
from recollect.memories.queries.memories import DateRanges, SaidMemory
from recollect.search.evidence import (
    LEAST_COSINE,
    Evidence,
    Traits,
    in_order,
    is_addressed,
    is_named,
    newer_first,
    weigh_evidence,
)
from recollect.search.query_dates.dates import QueryDates, dates_in
from recollect.search.ranking import (
    LinkedNode,
    ListEntry,
    RankedList,
    follow_links,
    fuse,
    sort_hits,
)
from recollect.search.semantic import has_vectors

# How far down each list candidates are taken. On two public sets 100 and 200 found no more.
_DEPTH = 60
# Links are followed from the heads of the other two lists: further down, what is found by accident
# would bring its friends.
_SEEDS = 10
_MOST_LINKS = 200
# Beyond so many newer ones, how many there are makes no difference any more.
_NEWEST = 256
# What tells of the time that is asked about has all of its words, but for how sums are rounded.
_WHOLLY = 0.999
# Nobody looks for a longer part of a word; each is compared with every text.
_LONGEST_PART = 100
# So many words of a question are looked at for slips.
_MOST_RESPELT = 3
# How many of the first are compared with one another.
_CURATED = 20

# A candidate is dropped when neither its own words reach this nor its meaning `LEAST_COSINE`.
LEAST_COVERAGE = 0.3
# With so many of the question's words in one memory, something was found whatever the vectors say.
ENOUGH_COVERAGE = 0.5
# From this likeness on two statements are about the same matter.
SAME_MATTER = 0.5


class SearchMode(StrEnum):
    """What to look for."""

    HYBRID = "hybrid"
    RECENT = "recent"
    IMPORTANT = "important"
    TYPED = "typed"


class SortOrder(StrEnum):
    """How to sort where nothing was asked for."""

    RECENT = "recent"
    IMPORTANCE = "importance"
    MOST_ACCESSED = "most_accessed"


@dataclass(frozen=True, slots=True)
class Search:
    """What to find. The thread is where the question comes from: it breaks ties, hides nothing."""

    query: str = ""
    mode: SearchMode = SearchMode.HYBRID
    # Of the modes without a query; None is the mode's own.
    order: SortOrder | None = None
    limit: int = 10
    wanted: Filter = field(default_factory=Filter)
    thread: Ref | None = None
    view: View = CURRENT
    # When and where it is asked, for what it tells from there ("yesterday").
    asked_at: datetime | None = None
    counts_as_access: bool = True


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory, how relevant it is, and its places in the lists that found it."""

    memory: Memory
    score: float
    places: tuple[ListEntry, ...]
    # It rests on a statement that was replaced or forgotten since.
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Findings, best first, and how many there were before the cut."""

    findings: list[SearchHit]
    total: int
    is_degraded: bool = False
    # How sure it is, 0 to 1, that any of it answers; None when nothing was asked.
    confidence: float | None = None


async def search(engine: Engine, caller: Caller, ask: Search) -> SearchResults:
    """The caller's memories that fit, best first."""
    caller.require(Right.READ)
    found = await (_hybrid if ask.mode is SearchMode.HYBRID else _browse)(engine, caller, ask)
    if ask.counts_as_access and found.findings:
        await _count_access(engine, caller, [finding.memory.id for finding in found.findings])
    return found


async def _count_access(engine: Engine, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Note that these were recalled; where that cannot be kept, they were recalled all the same."""
    with suppress(Unavailable):
        await memories.touch(engine.pool, caller.workspace_id, ids, engine.now())


async def _browse(engine: Engine, caller: Caller, ask: Search) -> SearchResults:
    usual = SortOrder.IMPORTANCE if ask.mode is SearchMode.IMPORTANT else SortOrder.RECENT
    if ask.mode is SearchMode.TYPED and ask.wanted.kinds is None:
        raise Invalid("`memory_type` is required in typed mode.", field="memory_type")
    async with engine.reading(caller) as db:
        page = await memories.browse(
            db,
            caller,
            ask.wanted,
            order=ask.order or usual,
            limit=ask.limit,
            now=engine.now(),
            view=ask.view,
        )
        total = await memories.count(db, caller, ask.wanted, engine.now(), ask.view)
        doubted = await links.contradicted(db, caller, [memory.id for memory in page], engine.now())
    # Nothing was asked, so everything found fits fully.
    return SearchResults([SearchHit(each, 1.0, (), each.id in doubted) for each in page], total)


async def _hybrid(engine: Engine, caller: Caller, ask: Search) -> SearchResults:
    if not ask.query.strip():
        raise Invalid("`query` is required in hybrid mode.", field="query")
    asked_at = _asked_at(engine, ask)
    meant = dates_in(ask.query, asked_at)
    if meant.is_all and (found := await _told_then(engine, caller, ask, meant, asked_at)).total:
        return found
    query = query_terms(ask.query, meant.words)
    spans = meant.spans(asked_at)
    # No connection is held while a model thinks, but one reads the words meanwhile.
    asked, leads = await run_both(
        generations.embed_query(engine, caller.workspace_id, ask.query),
        _first_leads(engine, caller, ask, query),
    )
    async with engine.searching(caller, is_filtered=not ask.wanted.is_open) as db:
        quest = _Quest(engine, db, caller, ask, query, meant, spans, asked, leads)
        lists = await quest.lists()
        if not lists.traits and (meaning := await _respelt(db, caller, query, leads)):
            leads = await _leads(engine, db, caller, ask, meaning)
            quest = _Quest(engine, db, caller, ask, meaning, meant, spans, asked, leads)
            lists = await quest.lists()
        is_degraded = asked is None and await has_vectors(db, caller.workspace_id)
        return await _found(engine, db, caller, ask, lists, is_degraded=is_degraded)


async def recall_by_date(engine: Engine, caller: Caller, ask: Search) -> list[Memory]:
    """What was said at the time that is asked for; none where more is asked for than a time."""
    caller.require(Right.READ)
    asked_at = _asked_at(engine, ask)
    meant = dates_in(ask.query, asked_at)
    if not meant.is_all:
        return []
    found = await _told_then(engine, caller, ask, meant, asked_at)
    return [finding.memory for finding in found.findings]


def _asked_at(engine: Engine, ask: Search) -> datetime:
    return ask.asked_at or ask.view.as_of or engine.now()


async def _told_then(
    engine: Engine, caller: Caller, ask: Search, meant: QueryDates, asked_at: datetime
) -> SearchResults:
    """What was said when the question asks about, newest first, and what tells of that time.

    For "What did we talk about yesterday?", which means nothing that a vector could be near to.
    """
    now = engine.now()
    async with engine.searching(caller, is_filtered=not ask.wanted.is_open) as db:
        home = await _home(db, caller, ask.thread)
        said = await memories.said_between(
            db, caller, meant.spans(asked_at), ask.wanted, now=now, view=ask.view
        )
        telling = await _telling(db, caller, ask, meant, now)
        lists = _Lists(
            {
                RankedList.TIME: [LinkedNode(each.id, 1.0) for each in said],
                RankedList.WORDS: [LinkedNode(each.id, each.score) for each in telling],
            },
            {each.id: _traits(each, home) for each in (*said, *telling)},
            confidence=1.0,
        )
        return await _found(engine, db, caller, ask, lists)


async def _telling(
    db: Db, caller: Caller, ask: Search, meant: QueryDates, now: datetime
) -> list[KeywordMatch]:
    """What has all words of a time that is named, best first."""
    found: dict[MemoryId, KeywordMatch] = {}
    for name in meant.named:
        matches = await keyword_search.search(
            db,
            caller,
            query_terms(name).words,
            ask.wanted,
            limit=_DEPTH,
            now=now,
            view=ask.view,
        )
        found |= {each.id: each for each in matches if each.coverage >= _WHOLLY}
    return sorted(found.values(), key=lambda each: each.order)


async def _found(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Search,
    lists: "_Lists",
    *,
    is_degraded: bool = False,
) -> SearchResults:
    """The first of the lists as one, with the memories themselves."""
    best = sort_hits(fuse(lists.by_source), lists.traits)
    page = best[: ask.limit]
    ids = [each.memory_id for each in page]
    known = await links.find_all(db, caller, ids, engine.now(), ask.view)
    findings = [
        SearchHit(found.memory, each.score, each.places, found.is_doubted)
        for each in page
        if (found := known.get(each.memory_id))
    ]
    return SearchResults(findings, len(best), is_degraded=is_degraded, confidence=lists.confidence)


async def _first_leads(
    engine: Engine, caller: Caller, ask: Search, query: QueryTerms
) -> KeywordLeads:
    async with engine.searching(caller, is_filtered=not ask.wanted.is_open) as db:
        return await _leads(engine, db, caller, ask, query)


async def _leads(
    engine: Engine, db: Db, caller: Caller, ask: Search, query: QueryTerms
) -> KeywordLeads:
    return await keyword_search.find_leads(
        db,
        caller,
        query.words,
        ask.wanted,
        phrases=query.phrases,
        limit=_DEPTH,
        now=engine.now(),
        view=ask.view,
    )


async def _respelt(
    db: Db, caller: Caller, query: QueryTerms, leads: KeywordLeads
) -> QueryTerms | None:
    """The query with what its unknown words may be a slip of the finger for; None where nothing is.

    Asked only where nothing was found: a word that is right and unknown may look like another.
    """
    meant = {word: spelling_variants(word) for word in leads.scores.unknown[:_MOST_RESPELT]}
    known = await keyword_search.in_use(
        db, caller, [each for all_of in meant.values() for each in all_of]
    )
    if not known:
        return None
    respelt = [
        word._replace(parts=tuple(each for each in meant.get(word, ()) if each in known))
        if word in meant
        else word
        for word in query.words
    ]
    return replace(query, words=tuple(respelt))


@dataclass(slots=True)
class _Lists:
    """The three lists, what breaks ties in them, and how sure it is that any of it is meant."""

    by_source: dict[RankedList, Sequence[LinkedNode]] = field(
        default_factory=dict[RankedList, Sequence[LinkedNode]]
    )
    traits: dict[MemoryId, Traits] = field(default_factory=dict[MemoryId, Traits])
    confidence: float = 0.0

    def seeds(self) -> list[MemoryId]:
        """The heads of the lists so far."""
        heads = [each.memory_id for found in self.by_source.values() for each in found[:_SEEDS]]
        return list(dict.fromkeys(heads))


# How nearly two memories say the same, 0 to 1.
_Likeness = Callable[[MemoryId, MemoryId], float]


class _Quest:
    """One hybrid search within its transaction."""

    def __init__(
        self,
        engine: Engine,
        db: Db,
        caller: Caller,
        ask: Search,
        query: QueryTerms,
        meant: QueryDates,
        spans: DateRanges,
        asked: EmbeddedQuery | None,
        leads: KeywordLeads,
    ) -> None:
        self._engine = engine
        self._db = db
        self._caller = caller
        self._workspace_id = caller.workspace_id
        self._ask = ask
        self._query = query
        self._meant = meant
        self._spans = spans
        self._asked = asked
        self._leads = leads
        self._home: ThreadId | None = None
        self._typical = 0.0
        self._now = engine.now()

    async def lists(self) -> _Lists:
        """Candidates by meaning and words, both in the order of the evidence, and by links."""
        self._home = await _home(self._db, self._caller, self._ask.thread)
        clues = await self._clues(await self._matches())
        confidence = self._confidence(clues)
        if not self._is_promising(clues):
            return _Lists(confidence=confidence)
        kept = [clue for clue in clues if _is_plausible(clue)]
        order = await self._curated(kept)
        lists = _Lists(
            {
                RankedList.VECTOR: [
                    LinkedNode(clue.memory_id, clue.cosine)
                    for clue in order
                    if clue.cosine is not None and _is_near_or_worded(clue)
                ],
                RankedList.WORDS: [
                    LinkedNode(clue.memory_id, clue.words) for clue in order if clue.coverage > 0
                ],
            },
            {clue.memory_id: clue.traits for clue in order},
            confidence,
        )
        await self._follow(lists)
        return lists

    async def _matches(self) -> list[KeywordMatch]:
        """The best by words, and those near in meaning with what their words are worth."""
        point = self._asked.point if self._asked else None
        found, self._typical = await keyword_neighbours.find_around(
            self._db,
            self._caller,
            self._leads,
            point,
            self._ask.wanted,
            phrases=self._query.phrases,
            spans=self._spans,
            limit=_DEPTH,
            now=self._now,
            view=self._ask.view,
        )
        if any(each.coverage > 0 for each in found):
            return found
        fragments = [word for word in self._ask.query.split() if 2 < len(word) <= _LONGEST_PART]
        parts = await substrings.containing(
            self._db,
            self._caller,
            fragments,
            self._ask.wanted,
            point,
            limit=_DEPTH,
            now=self._now,
            view=self._ask.view,
        )
        held = {each.id for each in parts}
        return [*parts, *(each for each in found if each.id not in held)]

    async def _clues(self, matches: Sequence[KeywordMatch]) -> list[Evidence]:
        newer = await self._newer(matches)
        return [
            # In their order, which is twice as fast as by name.
            Evidence(
                each.id,
                _traits(each, self._home),
                each.thread_id,
                each.speaker,
                each.cosine,
                each.score,
                each.coverage,
                each.has_phrases,
                newer.get(each.id) if newer else None,
                each.importance_base,
            )
            for each in matches
        ]

    async def _newer(self, matches: Sequence[KeywordMatch]) -> dict[MemoryId, int]:
        """How many memories are newer than each of the newest; asked only where it counts."""
        if all(each.thread_id is None and each.speaker is None for each in matches):
            return {}
        newest = await memories.newest(
            self._db, self._caller, limit=_NEWEST, now=self._now, view=self._ask.view
        )
        return {memory_id: place for place, memory_id in enumerate(newest)}

    def _is_promising(self, clues: Sequence[Evidence]) -> bool:
        """Whether anything found is more than what is always nearest."""
        if self._asked is None or any(clue.coverage >= ENOUGH_COVERAGE for clue in clues):
            return True
        may_answer = self._asked.embedder.may_answer
        return any(clue.cosine is not None and may_answer(clue.cosine) for clue in clues)

    def _confidence(self, clues: Sequence[Evidence]) -> float:
        """How sure, 0 to 1: the best candidate by meaning and, half as much, by own words."""
        named = is_addressed(self._ask.query)
        said = [clue for clue in clues if is_named(clue.speaker, named)] or clues

        def sure(clue: Evidence) -> float:
            if self._asked is None or clue.cosine is None:
                return clue.coverage
            return (2 * self._asked.embedder.relevance(clue.cosine) + clue.coverage) / 3

        return max(map(sure, said), default=0.0)

    async def _curated(self, clues: Sequence[Evidence]) -> list[Evidence]:
        """Best first; a later word before the earlier one, a repetition behind everything."""
        weights = weigh_evidence(clues, self._typical, self._ask.query, self._meant)
        order = in_order(clues, weights)
        head, tail = order[:_CURATED], order[_CURATED:]
        if self._asked is None or len(head) < 2:
            return order
        likeness = await self._likeness([clue.memory_id for clue in head], self._asked)

        def are_alike(one: MemoryId, other: MemoryId) -> bool:
            return likeness(one, other) >= SAME_MATTER

        head = newer_first(head, weights, are_alike, self._meant)
        repeated = await self._repeated(head, likeness)
        return [
            *(clue for clue in head if clue.memory_id not in repeated),
            *tail,
            *(clue for clue in head if clue.memory_id in repeated),
        ]

    async def _likeness(self, ids: Sequence[MemoryId], asked: EmbeddedQuery) -> _Likeness:
        pairs = await vectors.similar_memories(
            self._db, self._workspace_id, asked.point.generation, ids, min_cosine=0.0
        )
        cosines = {frozenset((one, other)): cosine for one, other, cosine in pairs}

        def likeness(one: MemoryId, other: MemoryId) -> float:
            cosine = cosines.get(frozenset((one, other)))
            return 0.0 if cosine is None else asked.embedder.likeness(cosine)

        return likeness

    async def _repeated(self, head: Sequence[Evidence], likeness: _Likeness) -> set[MemoryId]:
        """Those that say again, in the same conversation or in none, what one before them says."""
        pairs = [
            (first.memory_id, again.memory_id)
            for place, again in enumerate(head)
            for first in head[:place]
            if first.thread_id == again.thread_id
            and likeness(first.memory_id, again.memory_id) >= DUPLICATE_FLOOR
        ]
        if not pairs:
            return set()
        ids = list({memory_id for pair in pairs for memory_id in pair})
        known = await memories.find_all(self._db, self._caller, ids, self._now, self._ask.view)
        return {
            again
            for first, again in pairs
            if first in known
            and again in known
            and is_same_statement(
                known[first].content, known[again].content, likeness(first, again)
            )
        }

    async def _follow(self, lists: _Lists) -> None:
        seeds = lists.seeds()
        steps = await links.follow(
            self._db,
            self._caller,
            seeds,
            self._ask.wanted,
            limit=_MOST_LINKS,
            now=self._now,
            view=self._ask.view,
        )
        linked = follow_links(steps, seeds)
        if not linked:
            return
        known = await memories.find_all(
            self._db,
            self._caller,
            [each.memory_id for each in linked],
            self._now,
            self._ask.view,
        )
        lists.by_source[RankedList.LINKS] = [each for each in linked if each.memory_id in known]
        for memory in known.values():
            lists.traits.setdefault(memory.id, _traits(memory, self._home))


def _traits(each: KeywordMatch | Memory | SaidMemory, home: ThreadId | None) -> Traits:
    is_home = home is not None and each.thread_id == home
    return Traits(each.importance, is_home, each.created_at)


def _is_near_or_worded(clue: Evidence) -> bool:
    """Whether it is in the vector list: what has the words asked for ties with nobody else there.

    A code or a name means nothing to a model, and what it is said of is near by accident.
    """
    return clue.coverage >= ENOUGH_COVERAGE or (
        clue.cosine is not None and clue.cosine >= LEAST_COSINE
    )


def _is_plausible(clue: Evidence) -> bool:
    return clue.coverage >= LEAST_COVERAGE or (
        clue.cosine is not None and clue.cosine >= LEAST_COSINE
    )


async def _home(db: Db, caller: Caller, thread: Ref | None) -> ThreadId | None:
    if thread is None:
        return None
    return await threads.identify(db, caller, thread)
