"""Embedding generations: embed in the serving one, and move a workspace to a new model.

A generation is one vector space, and vectors of two generations are never compared. A new
generation is filled in the background while the old one serves; the switch is one row.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import numpy as np

from recollect.core.domain import (
    Generation,
    GenerationState,
    MemoryId,
    ThreadId,
    VectorIndexInfo,
    WorkspaceId,
)
from recollect.core.errors import Unavailable
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db
from recollect.documents.queries import chunks
from recollect.embeddings.missing_vectors import ALL_OWNERS, MissingVector, VectorOwners
from recollect.embeddings.queries import generations, vector_indexes, vectors
from recollect.embeddings.queries.vectors import QueryVector
from recollect.engine import Engine
from recollect.models.embedder import Embedder, EmbedderIdentity, Purpose, TextRefused, Vector

EMBED_JOB = NewJob("fill_vectors")
DROP_JOB = "drop_vectors"

# A fixed text, embedded once per generation. If the same model name later gives another vector for
# it, the model was replaced. Quantised models differ between machines by less than this.
FINGERPRINT_TEXT = "The quick brown fox jumps over the lazy dog."
SAME_MODEL = 0.98

# Longer than the deadline of a save: without its vector, a search matches only words.
QUERY_DEADLINE = timedelta(seconds=3)

# Much longer than any process caches which generation serves.
_KEEP_RETIRED = timedelta(seconds=60)

_BATCH = 64
# How often a text that fails on its own is tried before it is marked as refused.
_TRIES = 3
_DROP_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vector of a passage and its model; for a first generation also the fingerprint."""

    identity: EmbedderIdentity
    vector: Vector
    fingerprint: Vector | None = None
    # The indexes that existed when it was embedded; without one the search is exact.
    indexed: Mapping[ThreadId | None, VectorIndexInfo] = field(
        default_factory=dict[ThreadId | None, VectorIndexInfo]
    )

    def belongs_to(self, generation: Generation) -> bool:
        """Whether this vector is in that generation's vector space."""
        return self.identity == identity_of(generation) and len(self.vector) == generation.dimension

    def point(self, generation: Generation) -> QueryVector:
        """Return the vector as a query in that generation."""
        return QueryVector(generation.number, self.vector, indexed=self.indexed)


@dataclass(frozen=True, slots=True)
class EmbeddedQuery:
    """A query's vector in the serving generation, and the embedder that interprets its cosines."""

    point: QueryVector
    embedder: Embedder


async def embed_passage(
    engine: Engine, workspace_id: WorkspaceId, text: str
) -> EmbeddedText | None:
    """Return the text's vector in the serving generation, or None if it is not ready in time."""
    state = await current_generations(engine, workspace_id)
    try:
        if state.serving:
            embedder = engine.embedders.of(identity_of(state.serving))
            texts = [text]
        else:
            embedder = engine.embedders.configured(state.embedder)
            texts = [text, FINGERPRINT_TEXT]
        found = await embedder.embed(texts, Purpose.PASSAGE, deadline=engine.embedding_deadline)
    except Unavailable:
        return None
    fingerprint = found[1] if len(found) > 1 else None
    return EmbeddedText(embedder.identity, found[0], fingerprint, indexed=state.indexed)


async def embed_query(engine: Engine, workspace_id: WorkspaceId, text: str) -> EmbeddedQuery | None:
    """Return the query's vector in the serving generation, or None if it cannot be embedded now."""
    state = await current_generations(engine, workspace_id)
    if state.serving is None:
        return None
    try:
        embedder = engine.embedders.of(identity_of(state.serving))
        [vector] = await embedder.embed([text], Purpose.QUERY, deadline=QUERY_DEADLINE)
    except Unavailable:
        return None
    if len(vector) != state.serving.dimension:
        return None
    return EmbeddedQuery(QueryVector(state.serving.number, vector, indexed=state.indexed), embedder)


async def current_generations(engine: Engine, workspace_id: WorkspaceId) -> GenerationState:
    """Return the workspace's generations in use, from a cache that may be a moment old."""
    now = engine.now()
    cached = engine.generation_cache.get(workspace_id, now)
    if cached:
        return cached
    async with engine.pool.reading(workspace_id) as db:
        state = await generations.find_generations(db, workspace_id)
    engine.generation_cache.put(workspace_id, state, now)
    return state


async def store_vector(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    memory_id: MemoryId,
    embedded: EmbeddedText | None,
) -> bool:
    """Store the vector in the serving generation, creating the first one; False if not stored."""
    serving = await generations.lock_serving(db, workspace_id)
    if serving is None and embedded and embedded.fingerprint is not None:
        await _create(engine, db, workspace_id, embedded.identity, embedded.fingerprint, "serving")
        serving = await generations.lock_serving(db, workspace_id)
    if serving is None or embedded is None or not embedded.belongs_to(serving):
        return False
    await vectors.insert(db, workspace_id, memory_id, serving.number, embedded.vector)
    return True


@dataclass(frozen=True, slots=True)
class ReplacedText:
    """A passage's vector by the configured model, whose generation may not serve yet."""

    vector: Vector
    generation: Generation


async def embed_changed_text(
    engine: Engine, workspace_id: WorkspaceId, text: str
) -> ReplacedText | None:
    """Return the text's vector by the configured model, or None if it is not ready in time.

    If that is not the serving model, this creates its generation.
    """
    state = await current_generations(engine, workspace_id)
    try:
        embedder = engine.embedders.configured(state.embedder)
        vector, fingerprint = await embedder.embed(
            [text, FINGERPRINT_TEXT], Purpose.PASSAGE, deadline=engine.embedding_deadline
        )
    except Unavailable:
        return None
    return ReplacedText(
        vector, await _find_target(engine, workspace_id, embedder.identity, fingerprint)
    )


async def store_changed_vector(
    engine: Engine, db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, replaced: ReplacedText
) -> None:
    """Store a vector in its generation; if that does not serve yet, queue the job to fill it."""
    await vectors.insert(db, workspace_id, memory_id, replaced.generation.number, replaced.vector)
    if replaced.generation.state != "serving":
        await job_queue.enqueue(db, workspace_id, [EMBED_JOB], engine.now())


Heartbeat = Callable[[], Awaitable[None]]


async def no_heartbeat() -> None:
    """Do nothing. For work without a lease to extend."""


async def embed_missing(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Embed all missing vectors with the configured model, then let its generation serve.

    Raises `Unavailable` while the embedder is down, or when some texts failed for a reason other
    than the text. Running it again continues where it stopped.
    """
    async with engine.pool.reading(workspace_id) as db:
        state = await generations.find_generations(db, workspace_id)
    embedder = engine.embedders.configured(state.embedder)
    [fingerprint] = await embedder.embed([FINGERPRINT_TEXT], Purpose.PASSAGE)
    target = await _find_target(engine, workspace_id, embedder.identity, fingerprint)
    while True:
        failures = [
            await _fill(engine, workspace_id, target, embedder, owners, beat)
            for owners in ALL_OWNERS
        ]
        _raise_first_failure(failures)
        if await _finish(engine, workspace_id, target):
            return


async def _find_target(
    engine: Engine, workspace_id: WorkspaceId, identity: EmbedderIdentity, fingerprint: Vector
) -> Generation:
    """Return the generation to fill: the serving one if the model is unchanged, else a new one."""
    async with engine.pool.writing(workspace_id) as db:
        await generations.lock_for_switch(db, workspace_id)
        state = await generations.find_generations(db, workspace_id)
        for generation in (state.serving, state.filling):
            if generation and _is_same_model(generation, identity, fingerprint):
                if generation is state.serving and state.filling:
                    await generations.abandon_filling(db, workspace_id)
                return generation
        await generations.abandon_filling(db, workspace_id)
        new_state = "filling" if state.serving else "serving"
        await _create(engine, db, workspace_id, identity, fingerprint, new_state)
        state = await generations.find_generations(db, workspace_id)
    found = state.filling or state.serving
    assert found
    return found


async def fill_serving(
    engine: Engine, workspace_id: WorkspaceId, owners: VectorOwners, beat: Heartbeat
) -> None:
    """Embed the missing vectors of `owners` in the serving generation, if there is one.

    Raises `Unavailable` while the embedder is down, as `embed_missing` does.
    """
    async with engine.pool.reading(workspace_id) as db:
        state = await generations.find_generations(db, workspace_id)
    if state.serving:
        embedder = engine.embedders.of(identity_of(state.serving))
        failure = await _fill(engine, workspace_id, state.serving, embedder, owners, beat)
        _raise_first_failure([failure])


async def complete_vectors(
    engine: Engine, db: Db, workspace_id: WorkspaceId, owners: VectorOwners
) -> None:
    """Queue the embedding job if vectors are missing in the serving generation."""
    serving = await generations.lock_serving(db, workspace_id)
    if serving is None or await owners.missing(
        db, workspace_id, serving.number, after=UUID(int=0), limit=1
    ):
        await job_queue.enqueue(db, workspace_id, [EMBED_JOB], engine.now())


async def _fill(
    engine: Engine,
    workspace_id: WorkspaceId,
    target: Generation,
    embedder: Embedder,
    owners: VectorOwners,
    beat: Heartbeat,
) -> Unavailable | None:
    """Embed all missing vectors; return a failure if some must be retried later."""
    after = UUID(int=0)
    failures: list[Unavailable | None] = []
    while True:
        async with engine.pool.reading(workspace_id) as db:
            batch = await owners.missing(db, workspace_id, target.number, after=after, limit=_BATCH)
        if not batch:
            return _first_failure(failures)
        failures.append(await _embed_batch(engine, workspace_id, target, embedder, owners, batch))
        await beat()
        after = batch[-1].id


async def _embed_batch(
    engine: Engine,
    workspace_id: WorkspaceId,
    target: Generation,
    embedder: Embedder,
    owners: VectorOwners,
    batch: Sequence[MissingVector],
) -> Unavailable | None:
    """Embed one batch; return a failure if some of it must be retried later."""
    try:
        found = await embedder.embed([each.text for each in batch], Purpose.PASSAGE)
    except Unavailable as failure:
        if failure.retry_after:  # the endpoint asks us to wait
            raise
        # Is it down, or does it reject one text? If a plain text succeeds, it is not down.
        await embedder.embed([FINGERPRINT_TEXT], Purpose.PASSAGE)
        if len(batch) > 1:
            return _first_failure(
                [
                    await _embed_batch(engine, workspace_id, target, embedder, owners, [each])
                    for each in batch
                ]
            )
        # A failure that the text did not cause may be temporary. The text does not delay others,
        # and is found by words meanwhile.
        if not isinstance(failure, TextRefused) and not await _fails_always(
            embedder, batch[0].text
        ):
            return failure
        async with engine.pool.writing(workspace_id) as db:
            await owners.refuse(db, workspace_id, batch[0])
        return None
    if any(len(vector) != target.dimension for vector in found):
        raise Unavailable("embedder")  # the model was just replaced; the next run handles it
    async with engine.pool.writing(workspace_id) as db:
        embedded = list(zip(batch, found, strict=True))
        await owners.store(db, workspace_id, target.number, embedded)
    return None


async def _fails_always(embedder: Embedder, text: str) -> bool:
    """Whether the text fails repeatedly while a plain text succeeds.

    Then the text is the cause, whatever the endpoint reports: some respond 500 to a text they
    cannot read, and one such text would keep a new model from ever serving.
    """
    for _ in range(_TRIES):
        try:
            await embedder.embed([text], Purpose.PASSAGE)
        except Unavailable as failure:
            if failure.retry_after:
                raise
        else:
            return False
        await embedder.embed([FINGERPRINT_TEXT], Purpose.PASSAGE)
    return True


def _first_failure(failures: Sequence[Unavailable | None]) -> Unavailable | None:
    return next(filter(None, failures), None)


def _raise_first_failure(failures: Sequence[Unavailable | None]) -> None:
    failure = _first_failure(failures)
    if failure:
        raise failure


async def _finish(engine: Engine, workspace_id: WorkspaceId, target: Generation) -> bool:
    """Let the filled generation serve; False if a memory without vector arrived meanwhile."""
    # Check first without the lock that saves wait for: it takes 70 to 150 ms at 50,000 memories.
    # If the target already serves, that is all: a save that comes meanwhile queues its own job.
    async with engine.pool.reading(workspace_id) as db:
        if await _has_missing(db, workspace_id, target):
            return False
    if target.state == "filling" and not await _switch(engine, workspace_id, target):
        return False
    engine.generation_cache.drop(workspace_id)
    return True


async def _switch(engine: Engine, workspace_id: WorkspaceId, target: Generation) -> bool:
    """Let the generation replace the serving one, unless a memory was saved without its vector."""
    now = engine.now()
    async with engine.pool.writing(workspace_id) as db:
        await generations.lock_for_switch(db, workspace_id)
        if await _has_missing(db, workspace_id, target):
            return False
        if await generations.switch(db, workspace_id, target.number, now):
            drop = NewJob(DROP_JOB, run_after=now + _KEEP_RETIRED)
            await job_queue.enqueue(db, workspace_id, [drop], now)
    return True


async def _has_missing(db: Db, workspace_id: WorkspaceId, target: Generation) -> bool:
    for owners in ALL_OWNERS:
        if await owners.missing(db, workspace_id, target.number, after=UUID(int=0), limit=1):
            return True
    return False


async def drop_retired_vectors(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Delete the vectors of retired generations in batches, and drop their indexes."""
    async with engine.pool.writing(workspace_id) as db:
        names = await vector_indexes.forget_retired(db, workspace_id)
    for name in names:
        await vector_indexes.drop(engine.pool, name)
    while True:
        async with engine.pool.writing(workspace_id) as db:
            dropped = await generations.drop_retired(db, workspace_id, _DROP_BATCH)
            dropped += await chunks.drop_retired(db, workspace_id, _DROP_BATCH - dropped)
        if dropped < _DROP_BATCH:
            return
        await beat()


async def _create(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    identity: EmbedderIdentity,
    fingerprint: Vector,
    state: str,
) -> None:
    await generations.insert(
        db,
        workspace_id,
        kind=identity.kind,
        endpoint=identity.endpoint,
        model=identity.model,
        fingerprint=[float(value) for value in fingerprint],
        state=state,
        now=engine.now(),
    )
    engine.generation_cache.drop(workspace_id)


def identity_of(generation: Generation) -> EmbedderIdentity:
    """Return the model that made a generation's vectors."""
    return EmbedderIdentity(generation.kind, generation.endpoint, generation.model)


def _is_same_model(generation: Generation, identity: EmbedderIdentity, fingerprint: Vector) -> bool:
    if identity_of(generation) != identity or generation.dimension != len(fingerprint):
        return False
    stored = np.asarray(generation.fingerprint, dtype=np.float32)
    return float(stored @ fingerprint) >= SAME_MODEL
