"""Search by meaning, words and links at once, or browse. Each result can explain its rank."""

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
    MIN_COSINE,
    Evidence,
    Traits,
    in_order,
    is_named,
    newer_first,
    weigh_evidence,
    words_naming_speakers,
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

# Candidates taken from each list. On two public datasets 100 and 200 found no more.
_DEPTH = 60
# Links are followed only from the top of the other lists: a chance match further down would add
# its linked memories too.
_SEEDS = 10
_MAX_LINKS = 200
# Newer memories are counted up to this number; with more, recency adds no weight.
_MAX_NEWER = 256
# The coverage of a text with all words of a date: 1, less rounding errors.
_FULL_COVERAGE = 0.999
# Longer parts of words are not searched: each part is compared with every text.
_MAX_FRAGMENT_CHARACTERS = 100
# How many words of a question are checked for typing errors.
_MAX_RESPELLED = 3
# How many of the best candidates are compared with each other.
_COMPARED = 20

# A candidate is dropped if its coverage is below this and its cosine below `MIN_COSINE`.
MIN_COVERAGE = 0.3
# A memory with this share of the question's words is a result, whatever its cosine.
SUFFICIENT_COVERAGE = 0.5
# Statements with at least this likeness are about the same subject.
SAME_SUBJECT = 0.5


class SearchMode(StrEnum):
    """The kinds of search."""

    HYBRID = "hybrid"
    RECENT = "recent"
    IMPORTANT = "important"
    TYPED = "typed"


class SortOrder(StrEnum):
    """The order of results when there is no query."""

    RECENT = "recent"
    IMPORTANCE = "importance"
    MOST_ACCESSED = "most_accessed"


@dataclass(frozen=True, slots=True)
class Search:
    """A search. `thread` is where the question is asked: its memories rank higher."""

    query: str = ""
    mode: SearchMode = SearchMode.HYBRID
    # For modes without a query; None means the default of the mode.
    order: SortOrder | None = None
    limit: int = 10
    wanted: Filter = field(default_factory=Filter)
    thread: Ref | None = None
    view: View = CURRENT
    # The time and zone of the question, to resolve words such as "yesterday".
    asked_at: datetime | None = None
    counts_as_access: bool = True


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory, its score, and its rank in each list that found it."""

    memory: Memory
    score: float
    places: tuple[ListEntry, ...]
    # A statement that it depends on has been superseded or forgotten.
    is_doubted: bool = False


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Results, best first; `total` counts them before the limit was applied."""

    findings: list[SearchHit]
    total: int
    is_degraded: bool = False
    # How likely it is, 0 to 1, that a result answers the question; None without a question.
    confidence: float | None = None


async def search(engine: Engine, caller: Caller, ask: Search) -> SearchResults:
    """Return the memories that match, best first."""
    caller.require(Right.READ)
    found = await (_hybrid if ask.mode is SearchMode.HYBRID else _browse)(engine, caller, ask)
    if ask.counts_as_access and found.findings:
        await _count_access(engine, caller, [finding.memory.id for finding in found.findings])
    return found


async def _count_access(engine: Engine, caller: Caller, ids: Sequence[MemoryId]) -> None:
    """Count one access for each memory. The search succeeds even if this fails."""
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
    # Without a query every memory matches fully.
    return SearchResults([SearchHit(each, 1.0, (), each.id in doubted) for each in page], total)


async def _hybrid(engine: Engine, caller: Caller, ask: Search) -> SearchResults:
    if not ask.query.strip():
        raise Invalid("`query` is required in hybrid mode.", field="query")
    asked_at = _asked_at(engine, ask)
    dates = dates_in(ask.query, asked_at)
    if (
        dates.is_all
        and (found := await _search_by_date(engine, caller, ask, dates, asked_at)).total
    ):
        return found
    query = query_terms(ask.query, dates.words)
    spans = dates.spans(asked_at)
    # The words are read while the query is embedded; embedding itself holds no connection.
    embedded, leads = await run_both(
        generations.embed_query(engine, caller.workspace_id, ask.query),
        _leads_in_transaction(engine, caller, ask, query),
    )
    async with engine.searching(caller, is_filtered=not ask.wanted.is_open) as db:
        hybrid = _HybridSearch(engine, db, caller, ask, query, dates, spans, embedded, leads)
        lists = await hybrid.lists()
        if not lists.traits and (corrected := await _correct_spelling(db, caller, query, leads)):
            leads = await _leads(engine, db, caller, ask, corrected)
            hybrid = _HybridSearch(
                engine, db, caller, ask, corrected, dates, spans, embedded, leads
            )
            lists = await hybrid.lists()
        is_degraded = embedded is None and await has_vectors(db, caller.workspace_id)
        return await _results(engine, db, caller, ask, lists, is_degraded=is_degraded)


async def recall_by_date(engine: Engine, caller: Caller, ask: Search) -> list[Memory]:
    """Return the memories of the time a question names; none if it asks for more than a time."""
    caller.require(Right.READ)
    asked_at = _asked_at(engine, ask)
    dates = dates_in(ask.query, asked_at)
    if not dates.is_all:
        return []
    found = await _search_by_date(engine, caller, ask, dates, asked_at)
    return [finding.memory for finding in found.findings]


def _asked_at(engine: Engine, ask: Search) -> datetime:
    return ask.asked_at or ask.view.as_of or engine.now()


async def _search_by_date(
    engine: Engine, caller: Caller, ask: Search, dates: QueryDates, asked_at: datetime
) -> SearchResults:
    """Return the memories created at the time in question, newest first, and those mentioning it.

    For questions such as "What did we talk about yesterday?": their vectors are not close to
    those of any answer.
    """
    now = engine.now()
    async with engine.searching(caller, is_filtered=not ask.wanted.is_open) as db:
        own_thread = await _thread_id_of(db, caller, ask.thread)
        dated = await memories.said_between(
            db, caller, dates.spans(asked_at), ask.wanted, now=now, view=ask.view
        )
        mentioning = await _mentioning(db, caller, ask, dates, now)
        lists = _Lists(
            {
                RankedList.TIME: [LinkedNode(each.id, 1.0) for each in dated],
                RankedList.WORDS: [LinkedNode(each.id, each.score) for each in mentioning],
            },
            {each.id: _traits(each, own_thread) for each in (*dated, *mentioning)},
            confidence=1.0,
        )
        return await _results(engine, db, caller, ask, lists)


async def _mentioning(
    db: Db, caller: Caller, ask: Search, dates: QueryDates, now: datetime
) -> list[KeywordMatch]:
    """Return the memories whose text contains all words of a named date, best first."""
    found: dict[MemoryId, KeywordMatch] = {}
    for name in dates.named:
        matches = await keyword_search.search(
            db,
            caller,
            query_terms(name).words,
            ask.wanted,
            limit=_DEPTH,
            now=now,
            view=ask.view,
        )
        found |= {each.id: each for each in matches if each.coverage >= _FULL_COVERAGE}
    return sorted(found.values(), key=lambda each: each.order)


async def _results(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Search,
    lists: "_Lists",
    *,
    is_degraded: bool = False,
) -> SearchResults:
    """Fuse the lists and return the first results with their memories."""
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


async def _leads_in_transaction(
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


async def _correct_spelling(
    db: Db, caller: Caller, query: QueryTerms, leads: KeywordLeads
) -> QueryTerms | None:
    """Replace unknown words of the query by similar known ones; return None if there are none.

    Used only if nothing was found: an unknown word may be correct and resemble another by chance.
    """
    variants = {word: spelling_variants(word) for word in leads.scores.unknown[:_MAX_RESPELLED]}
    known = await keyword_search.in_use(
        db, caller, [each for all_of in variants.values() for each in all_of]
    )
    if not known:
        return None
    corrected = [
        word._replace(parts=tuple(each for each in variants.get(word, ()) if each in known))
        if word in variants
        else word
        for word in query.words
    ]
    return replace(query, words=tuple(corrected))


@dataclass(slots=True)
class _Lists:
    """The ranked lists, the traits of their memories, and the confidence in an answer."""

    by_source: dict[RankedList, Sequence[LinkedNode]] = field(
        default_factory=dict[RankedList, Sequence[LinkedNode]]
    )
    traits: dict[MemoryId, Traits] = field(default_factory=dict[MemoryId, Traits])
    confidence: float = 0.0

    def seeds(self) -> list[MemoryId]:
        """Return the memories at the top of the lists so far."""
        heads = [each.memory_id for found in self.by_source.values() for each in found[:_SEEDS]]
        return list(dict.fromkeys(heads))


# How similar two memories are, 0 to 1.
_Likeness = Callable[[MemoryId, MemoryId], float]


class _HybridSearch:
    """One hybrid search within its transaction."""

    def __init__(
        self,
        engine: Engine,
        db: Db,
        caller: Caller,
        ask: Search,
        query: QueryTerms,
        dates: QueryDates,
        spans: DateRanges,
        embedded: EmbeddedQuery | None,
        leads: KeywordLeads,
    ) -> None:
        self._engine = engine
        self._db = db
        self._caller = caller
        self._workspace_id = caller.workspace_id
        self._ask = ask
        self._query = query
        self._dates = dates
        self._spans = spans
        self._embedded = embedded
        self._leads = leads
        self._own_thread: ThreadId | None = None
        self._typical = 0.0
        self._now = engine.now()

    async def lists(self) -> _Lists:
        """Return candidates by meaning and by words, sorted by the evidence, and by links."""
        self._own_thread = await _thread_id_of(self._db, self._caller, self._ask.thread)
        candidates = await self._evidence(await self._matches())
        confidence = self._confidence(candidates)
        if not self._is_promising(candidates):
            return _Lists(confidence=confidence)
        kept = [candidate for candidate in candidates if _is_plausible(candidate)]
        order = await self._reorder(kept)
        lists = _Lists(
            {
                RankedList.VECTOR: [
                    LinkedNode(candidate.memory_id, candidate.cosine)
                    for candidate in order
                    if candidate.cosine is not None and _is_in_vector_list(candidate)
                ],
                RankedList.WORDS: [
                    LinkedNode(candidate.memory_id, candidate.words)
                    for candidate in order
                    if candidate.coverage > 0
                ],
            },
            {candidate.memory_id: candidate.traits for candidate in order},
            confidence,
        )
        await self._add_linked(lists)
        return lists

    async def _matches(self) -> list[KeywordMatch]:
        """Return the best matches by words and by meaning, each with its word score."""
        point = self._embedded.point if self._embedded else None
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
        fragments = [
            word for word in self._ask.query.split() if 2 < len(word) <= _MAX_FRAGMENT_CHARACTERS
        ]
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

    async def _evidence(self, matches: Sequence[KeywordMatch]) -> list[Evidence]:
        newer = await self._count_newer(matches)
        return [
            # Positional arguments: twice as fast as keywords.
            Evidence(
                each.id,
                _traits(each, self._own_thread),
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

    async def _count_newer(self, matches: Sequence[KeywordMatch]) -> dict[MemoryId, int]:
        """Return the number of newer memories for each of the newest; nothing if all are notes."""
        if all(each.thread_id is None and each.speaker is None for each in matches):
            return {}
        newest = await memories.newest(
            self._db, self._caller, limit=_MAX_NEWER, now=self._now, view=self._ask.view
        )
        return {memory_id: place for place, memory_id in enumerate(newest)}

    def _is_promising(self, candidates: Sequence[Evidence]) -> bool:
        """Whether any candidate is relevant; a vector search always finds some nearest ones."""
        if self._embedded is None or any(
            candidate.coverage >= SUFFICIENT_COVERAGE for candidate in candidates
        ):
            return True
        may_answer = self._embedded.embedder.may_answer
        return any(
            candidate.cosine is not None and may_answer(candidate.cosine)
            for candidate in candidates
        )

    def _confidence(self, candidates: Sequence[Evidence]) -> float:
        """Return the best candidate's confidence, 0 to 1: two parts meaning, one part words."""
        named = words_naming_speakers(self._ask.query)
        of_speaker = [
            candidate for candidate in candidates if is_named(candidate.speaker, named)
        ] or candidates

        def confidence(candidate: Evidence) -> float:
            if self._embedded is None or candidate.cosine is None:
                return candidate.coverage
            return (
                2 * self._embedded.embedder.relevance(candidate.cosine) + candidate.coverage
            ) / 3

        return max(map(confidence, of_speaker), default=0.0)

    async def _reorder(self, candidates: Sequence[Evidence]) -> list[Evidence]:
        """Sort best first, put newer statements before older ones, and repetitions last."""
        weights = weigh_evidence(candidates, self._typical, self._ask.query, self._dates)
        order = in_order(candidates, weights)
        head, tail = order[:_COMPARED], order[_COMPARED:]
        if self._embedded is None or len(head) < 2:
            return order
        likeness = await self._likeness([candidate.memory_id for candidate in head], self._embedded)

        def are_alike(one: MemoryId, other: MemoryId) -> bool:
            return likeness(one, other) >= SAME_SUBJECT

        head = newer_first(head, weights, are_alike, self._dates)
        repeated = await self._repetitions(head, likeness)
        return [
            *(candidate for candidate in head if candidate.memory_id not in repeated),
            *tail,
            *(candidate for candidate in head if candidate.memory_id in repeated),
        ]

    async def _likeness(self, ids: Sequence[MemoryId], embedded: EmbeddedQuery) -> _Likeness:
        pairs = await vectors.similar_memories(
            self._db, self._workspace_id, embedded.point.generation, ids, min_cosine=0.0
        )
        cosines = {frozenset((one, other)): cosine for one, other, cosine in pairs}

        def likeness(one: MemoryId, other: MemoryId) -> float:
            cosine = cosines.get(frozenset((one, other)))
            return 0.0 if cosine is None else embedded.embedder.likeness(cosine)

        return likeness

    async def _repetitions(self, head: Sequence[Evidence], likeness: _Likeness) -> set[MemoryId]:
        """Return the memories that repeat a better one of the same thread, or of no thread."""
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

    async def _add_linked(self, lists: _Lists) -> None:
        seeds = lists.seeds()
        steps = await links.follow(
            self._db,
            self._caller,
            seeds,
            self._ask.wanted,
            limit=_MAX_LINKS,
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
            lists.traits.setdefault(memory.id, _traits(memory, self._own_thread))


def _traits(each: KeywordMatch | Memory | SaidMemory, own_thread: ThreadId | None) -> Traits:
    is_same_thread = own_thread is not None and each.thread_id == own_thread
    return Traits(each.importance, is_same_thread, each.created_at)


def _is_in_vector_list(candidate: Evidence) -> bool:
    """Whether a candidate belongs in the vector list: by its cosine, or because its words match.

    The model knows neither codes nor names, so the cosine of such a match says little.
    """
    return candidate.coverage >= SUFFICIENT_COVERAGE or (
        candidate.cosine is not None and candidate.cosine >= MIN_COSINE
    )


def _is_plausible(candidate: Evidence) -> bool:
    return candidate.coverage >= MIN_COVERAGE or (
        candidate.cosine is not None and candidate.cosine >= MIN_COSINE
    )


async def _thread_id_of(db: Db, caller: Caller, thread: Ref | None) -> ThreadId | None:
    if thread is None:
        return None
    return await threads.identify(db, caller, thread)
