"""Recalling: the memories closest in meaning, by words where meaning cannot be asked."""

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
from recollect.embeddings import generations as spaces
from recollect.embeddings.generations import EmbeddedQuery
from recollect.embeddings.queries import generations, vectors
from recollect.engine import Engine
from recollect.keywords.queries import keyword_search
from recollect.keywords.tokenizer import query_terms
from recollect.memories.filters import with_thread, within_thread
from recollect.memories.queries import memories

# A memory found by words alone must carry at least half of what the query says: one shared
# everyday word is no match.
LEAST_COVERAGE = 0.5


class FoundBy(StrEnum):
    """By what a memory was found."""

    MEANING = "meaning"
    WORDS = "words"


@dataclass(frozen=True, slots=True)
class Recall:
    """What to look for, where, and how much of it."""

    query: str
    limit: int
    threshold: float = 0.0
    thread: Ref | None = None
    wanted: Filter = field(default_factory=Filter)


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory found: how relevant it is, 0 to 1, and by what; None when nothing was asked."""

    memory: Memory
    score: float
    found_by: FoundBy | None


@dataclass(frozen=True, slots=True)
class Recalled:
    """Hits, best first; `is_degraded` when meaning could not be searched."""

    hits: list[Hit]
    is_degraded: bool


async def recall(engine: Engine, caller: Caller, ask: Recall) -> Recalled:
    """The most relevant live memories of the caller's workspace, best first."""
    caller.require(Right.READ)
    check_query(ask.query)
    # Before the transaction: no connection is held while a model thinks.
    asked = await spaces.embed_query(engine, caller.workspace_id, ask.query)
    is_filtered = ask.thread is not None or not ask.wanted.is_open
    async with engine.searching(caller, is_filtered=is_filtered) as db:
        return await recall_within(engine, db, caller, ask, asked)


def check_query(query: str) -> None:
    """Raise `Invalid` when nothing is asked."""
    if not query.strip():
        raise Invalid("`query` must not be empty.", field="query")


async def recall_within(
    engine: Engine, db: Db, caller: Caller, ask: Recall, asked: EmbeddedQuery | None
) -> Recalled:
    """The same in a transaction of the caller's, who has had the query embedded."""
    wanted = await with_thread(db, caller, ask.wanted, ask.thread)
    if wanted is None:
        return Recalled([], is_degraded=False)
    caller = within_thread(caller, wanted)
    if asked is None:
        hits = await _by_words(engine, db, caller, ask, wanted, None)
        return Recalled(hits, is_degraded=await has_vectors(db, caller.workspace_id))
    hits, some_lack = await _by_meaning(engine, db, caller, ask, wanted, asked)
    # Those still waiting for their vector can be found by their words until it is there, and those
    # that the embedder refused for good.
    if some_lack:
        hits += await _by_words(engine, db, caller, ask, wanted, asked.point.generation)
        hits.sort(key=lambda hit: -hit.score)
    return Recalled(hits[: ask.limit], is_degraded=False)


async def not_in_messages(
    db: Db, caller: Caller, hits: Sequence[Hit], in_front: frozenset[MessageId]
) -> list[Hit]:
    """The hits without what the house made of nothing but messages that the model has before it.

    What somebody wanted remembered is no such thing, wherever it was said.
    """
    made = [
        hit.memory.id
        for hit in hits
        if hit.memory.scope is Scope.THREAD or hit.memory.origin is not Origin.USER
    ]
    if not made or not in_front:
        return list(hits)
    made_of = await segments.made_of(db, caller.workspace_id, made)
    said = {memory_id for memory_id, ids in made_of.items() if ids <= in_front}
    return [hit for hit in hits if hit.memory.id not in said]


async def has_vectors(db: Db, workspace_id: WorkspaceId) -> bool:
    """Whether anything here has a vector or waits for one: else there is nothing to miss."""
    space = await generations.find_generations(db, workspace_id)
    return space.serving is not None or await job_queue.has_unfinished(
        db, workspace_id, spaces.EMBED_JOB.kind
    )


async def _by_meaning(
    engine: Engine, db: Db, caller: Caller, ask: Recall, wanted: Filter, asked: EmbeddedQuery
) -> tuple[list[Hit], bool]:
    """Hits, and whether other memories may lack a vector."""
    near, some_lack = await vectors.nearest_and_gaps(
        db, caller, asked.point, wanted, spaces.EMBED_JOB.kind, limit=ask.limit, now=engine.now()
    )
    hits = [
        Hit(each.memory, relevance, FoundBy.MEANING)
        for each in near
        if (relevance := asked.embedder.relevance(each.cosine)) >= ask.threshold
    ]
    return hits, some_lack


async def _by_words(
    engine: Engine,
    db: Db,
    caller: Caller,
    ask: Recall,
    wanted: Filter,
    lacking_generation: int | None,
) -> list[Hit]:
    """By words the threshold does not apply: it bounds a similarity that nobody could compute."""
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
    covering = {match.id: match for match in matches if match.coverage >= LEAST_COVERAGE}
    found = await memories.find_all(db, caller, list(covering), engine.now())
    return [
        Hit(found[memory_id], match.coverage, FoundBy.WORDS)
        for memory_id, match in covering.items()
        if memory_id in found
    ]
