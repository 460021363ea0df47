"""Recall: find the memories closest in meaning, or by words if there is no query vector."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from recollect.conversations.queries import segments
from recollect.core.domain import (
    Caller,
    Filter,
    Memory,
    MessageId,
    Origin,
    Ref,
    Right,
    Scope,
    WorkspaceId,
)
from recollect.core.errors import Invalid
from recollect.db import job_queue
from recollect.db.pool import Db
from recollect.embeddings import generations as embedding
from recollect.embeddings.generations import EmbeddedQuery
from recollect.embeddings.queries import generations, vectors
from recollect.engine import Engine
from recollect.keywords.queries import keyword_search
from recollect.keywords.tokenizer import query_terms
from recollect.memories.filters import with_thread, within_thread
from recollect.memories.queries import memories

# A memory found by words alone must contain at least half of the query's weight in words: one
# common word is not a match.
MIN_COVERAGE = 0.5


class FoundBy(StrEnum):
    """How a memory was found."""

    MEANING = "meaning"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Recall:
    """A query, where to search, and how many results to return."""

    query: str
    limit: int
    threshold: float = 0.0
    thread: Ref | None = None
    wanted: Filter = field(default_factory=Filter)


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory found, and its relevance, 0 to 1. `found_by` is None if no query was compared."""

    memory: Memory
    score: float
    found_by: FoundBy | None


@dataclass(frozen=True, slots=True)
class Recalled:
    """Hits, best first; `is_degraded` if the vectors could not be searched."""

    hits: list[Hit]
    is_degraded: bool


async def recall(engine: Engine, caller: Caller, ask: Recall) -> Recalled:
    """Return the most relevant live memories of the caller's workspace, best first."""
    caller.require(Right.READ)
    check_query(ask.query)
    # Before the transaction: no connection is held while the embedder works.
    embedded = await embedding.embed_query(engine, caller.workspace_id, ask.query)
    is_filtered = ask.thread is not None or not ask.wanted.is_open
    async with engine.searching(caller, is_filtered=is_filtered) as db:
        return await recall_within(engine, db, caller, ask, embedded)


def check_query(query: str) -> None:
    """Raise `Invalid` if the query is empty."""
    if not query.strip():
        raise Invalid("`query` must not be empty.", field="query")


async def recall_within(
    engine: Engine, db: Db, caller: Caller, ask: Recall, embedded: EmbeddedQuery | None
) -> Recalled:
    """Recall within the given transaction, with a query that is already embedded."""
    wanted = await with_thread(db, caller, ask.wanted, ask.thread)
    if wanted is None:
        return Recalled([], is_degraded=False)
    caller = within_thread(caller, wanted)
    if embedded is None:
        hits = await _by_words(engine, db, caller, ask, wanted, None)
        return Recalled(hits, is_degraded=await has_vectors(db, caller.workspace_id))
    hits, some_lack_vectors = await _by_meaning(engine, db, caller, ask, wanted, embedded)
    # Memories that have no vector yet, or that the embedder refused, are found by words only.
    if some_lack_vectors:
        hits += await _by_words(engine, db, caller, ask, wanted, embedded.point.generation)
        hits.sort(key=lambda hit: -hit.score)
    return Recalled(hits[: ask.limit], is_degraded=False)


async def not_in_messages(
    db: Db, caller: Caller, hits: Sequence[Hit], prompt_message_ids: frozenset[MessageId]
) -> list[Hit]:
    """Return the hits without memories derived only from messages that are in the prompt.

    Memories that a user saved explicitly are kept.
    """
    derived = [
        hit.memory.id
        for hit in hits
        if hit.memory.scope is Scope.THREAD or hit.memory.origin is not Origin.USER
    ]
    if not derived or not prompt_message_ids:
        return list(hits)
    made_of = await segments.made_of(db, caller.workspace_id, derived)
    repeated = {memory_id for memory_id, ids in made_of.items() if ids <= prompt_message_ids}
    return [hit for hit in hits if hit.memory.id not in repeated]


async def has_vectors(db: Db, workspace_id: WorkspaceId) -> bool:
    """Whether any memory has a vector or waits for one; otherwise nothing is missed without."""
    state = await generations.find_generations(db, workspace_id)
    return state.serving is not None or await job_queue.has_unfinished(
        db, workspace_id, embedding.EMBED_JOB.kind
    )


async def _by_meaning(
    engine: Engine, db: Db, caller: Caller, ask: Recall, wanted: Filter, embedded: EmbeddedQuery
) -> tuple[list[Hit], bool]:
    """Return the hits, and whether the search must continue by words for missing vectors."""
    near, some_lack_vectors = await vectors.nearest_and_gaps(
        db,
        caller,
        embedded.point,
        wanted,
        embedding.EMBED_JOB.kind,
        limit=ask.limit,
        now=engine.now(),
    )
    hits = [
        Hit(each.memory, relevance, FoundBy.MEANING)
        for each in near
        if (relevance := embedded.embedder.relevance(each.cosine)) >= ask.threshold
    ]
    return hits, some_lack_vectors


async def _by_words(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Recall,
    wanted: Filter,
    lacking_generation: int | None,
) -> list[Hit]:
    """Return hits by words. The threshold does not apply to them: it limits vector relevance."""
    matches = await keyword_search.search(
        db,
        caller,
        query_terms(ask.query).words,
        wanted,
        lacking_generation=lacking_generation,
        wants_vector_only=True,
        limit=ask.limit,
        now=engine.now(),
    )
    covering = {match.id: match for match in matches if match.coverage >= MIN_COVERAGE}
    found = await memories.find_all(db, caller, list(covering), engine.now())
    return [
        Hit(found[memory_id], match.coverage, FoundBy.WORDS)
        for memory_id, match in covering.items()
        if memory_id in found
    ]
