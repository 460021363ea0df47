"""Search everything in a workspace at once: memories, documents and artifacts in one list."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from recollect.core.domain import (
    NO_FILTER,
    Caller,
    Chunk,
    ChunkId,
    DocumentKind,
    Filter,
    Memory,
    MemoryId,
    Right,
)
from recollect.core.errors import Invalid
from recollect.db.pool import Db
from recollect.documents.queries import chunks
from recollect.embeddings import generations
from recollect.embeddings.generations import EmbeddedQuery
from recollect.engine import Engine
from recollect.keywords.queries import keyword_neighbours, keyword_search
from recollect.keywords.tokenizer import QueryTerms, query_terms
from recollect.memories.queries import memories

# The minimum number of candidates from each list.
_DEPTH = 50
# A candidate that is less relevant than this is left out, unless it has half of the query's words.
_MIN_RELEVANCE = 0.3
_MIN_COVERAGE = 0.5
# Matching words raise the relevance by up to this share of what is missing to 1.
_WORDS_WEIGHT = 1 / 3


Id = TypeVar("Id", MemoryId, ChunkId)


class ResultKind(StrEnum):
    """The kind of a result."""

    MEMORY = "memory"
    DECISION = "decision"
    MILESTONE = "milestone"
    DOCUMENT = "document"
    ARTIFACT = "artifact"


_MEMORY_KINDS = frozenset({ResultKind.MEMORY, ResultKind.DECISION, ResultKind.MILESTONE})
_FILE_KINDS = frozenset({ResultKind.DOCUMENT, ResultKind.ARTIFACT})


@dataclass(frozen=True, slots=True)
class SearchWorkspace:
    """What to search for, in which kinds, and which page."""

    query: str
    limit: int = 10
    offset: int = 0
    # Empty: everything.
    kinds: Collection[ResultKind] = ()
    # A filter for memories. Documents are not filtered by it.
    wanted: Filter = NO_FILTER


@dataclass(frozen=True, slots=True)
class SearchedItem:
    """A memory or a chunk of a document, and its relevance, 0 to 1."""

    kind: ResultKind
    found: Memory | Chunk
    score: float

    @property
    def created_at(self) -> datetime:
        """When it was said, or when its document was added."""
        return self.found.created_at


async def search_workspace(
    engine: Engine, caller: Caller, ask: SearchWorkspace
) -> list[SearchedItem]:
    """Return what matches, best first: memories, and the best chunks of each document."""
    caller.require(Right.READ)
    if not ask.query.strip():
        raise Invalid("`query` must not be empty.", field="query")
    kinds = frozenset(ask.kinds) or frozenset(ResultKind)
    # Embed before the transaction, so that no connection is held during the model call.
    asked = await generations.embed_query(engine, caller.workspace_id, ask.query)
    query = query_terms(ask.query)
    depth = max(_DEPTH, ask.offset + ask.limit)
    found: list[SearchedItem] = []
    async with engine.reading(caller) as db:
        if kinds & _MEMORY_KINDS:
            found += await _memories(engine, db, caller, ask.wanted, query, asked, depth)
        if kinds & _FILE_KINDS:
            found += await _chunks(db, caller, query, asked, depth)
    found = [each for each in found if each.kind in kinds]
    found.sort(key=lambda each: (-each.score, -each.created_at.timestamp(), str(each.found.id)))
    return found[ask.offset : ask.offset + ask.limit]


async def _memories(
    engine: Engine,
    db: Db,
    caller: Caller,
    wanted: Filter,
    query: QueryTerms,
    asked: EmbeddedQuery | None,
    depth: int,
) -> list[SearchedItem]:
    now = engine.now()
    leads = await keyword_search.find_leads(db, caller, query.words, wanted, limit=depth, now=now)
    point = asked.point if asked else None
    matches, _ = await keyword_neighbours.find_around(
        db, caller, leads, point, wanted, limit=depth, now=now
    )
    cosines = {each.id: each.cosine for each in matches if each.cosine is not None}
    scores = _scores(cosines, {each.id: each.coverage for each in matches}, asked)
    known = await memories.find_all(db, caller, list(scores), now)
    return [SearchedItem(kind_of(memory), memory, scores[each]) for each, memory in known.items()]


async def _chunks(
    db: Db, caller: Caller, query: QueryTerms, asked: EmbeddedQuery | None, depth: int
) -> list[SearchedItem]:
    cosines: dict[ChunkId, float] = {}
    coverage = await chunks.matching(db, caller, query.words, limit=depth)
    if asked:
        cosines = await chunks.near(db, caller, asked.point, limit=depth)
        rest = [each for each in coverage if each not in cosines]
        cosines |= await chunks.cosines(db, caller.workspace_id, asked.point, rest)
    scores = _scores(cosines, coverage, asked)
    known = await chunks.find_all(db, caller, list(scores))
    return [
        SearchedItem(_DOCUMENT_KINDS[chunk.document_kind], chunk, scores[each])
        for each, chunk in known.items()
    ]


_DOCUMENT_KINDS: Mapping[DocumentKind, ResultKind] = {
    DocumentKind.UPLOAD: ResultKind.DOCUMENT,
    DocumentKind.ARTIFACT: ResultKind.ARTIFACT,
}


def kind_of(memory: Memory) -> ResultKind:
    """Return the kind of a memory: a decision or a milestone if its category says so."""
    name = (memory.category or "").strip().lower()
    return ResultKind(name) if name in _MEMORY_KINDS else ResultKind.MEMORY


def _scores(
    cosines: Mapping[Id, float], coverage: Mapping[Id, float], asked: EmbeddedQuery | None
) -> dict[Id, float]:
    """Return the relevance of each candidate.

    Candidates with too little of meaning and words are left out.
    """
    scores: dict[Id, float] = {}
    for each in {**cosines, **coverage}:
        cosine, covered = cosines.get(each), coverage.get(each, 0.0)
        relevance = asked.embedder.relevance(cosine) if asked and cosine is not None else None
        if (relevance or 0.0) >= _MIN_RELEVANCE or covered >= _MIN_COVERAGE:
            scores[each] = relevant(relevance, covered)
    return scores


def relevant(relevance: float | None, coverage: float) -> float:
    """Return one score, 0 to 1, from meaning and words; without a vector, from words alone."""
    if relevance is None:
        return coverage
    return relevance + (1 - relevance) * coverage * _WORDS_WEIGHT


def title_of(found: Memory | Chunk) -> str:
    """Return the title of a result."""
    if isinstance(found, Memory):
        return found.summary or found.category or "memory"
    place = f", page {found.page}" if found.page else ""
    heading = f": {found.heading}" if found.heading else ""
    return f"{found.document_name}{place}{heading}"
