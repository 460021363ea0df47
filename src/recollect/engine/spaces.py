"""Vector spaces: embedding in the generation that serves, and moving a workspace to a new one.

A generation is one space. Vectors of two are never compared; a new one fills in the background
while the old one answers, and the switch is one row.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import numpy as np

from recollect.domain import MemoryId, ThreadId, WorkspaceId
from recollect.engine.core import Engine
from recollect.engine.owed import EVERYTHING, Owed, Owing
from recollect.errors import Unavailable
from recollect.models.embed import Embedder, Identity, Purpose, Refused, Vector
from recollect.store import chunks, generations, jobs, vector_indexes, vectors
from recollect.store.generations import Generation, Indexed, Space
from recollect.store.jobs import NewJob
from recollect.store.pool import Db
from recollect.store.vectors import Point

TEND = NewJob("tend_vectors")
DROP = "drop_vectors"

# A fixed text, embedded once per generation: when the same name gives another vector for it, the
# model behind that name was swapped. Quantised models differ from machine to machine by less.
PROBE = "The quick brown fox jumps over the lazy dog."
SAME_MODEL = 0.98

# A search can wait longer than a save: without its vector it answers by words alone.
QUERY_PATIENCE = timedelta(seconds=3)

# Much longer than any process believes that an old generation still serves.
_RETIRED_KEPT = timedelta(seconds=60)

_BATCH = 64
# How often a text that fails by itself is tried before it counts as refused.
_TRIES = 3
_DROP_BATCH = 5_000


@dataclass(frozen=True, slots=True)
class Embedded:
    """A passage's vector and what made it; a first generation needs the fingerprint as well."""

    identity: Identity
    vector: Vector
    fingerprint: Vector | None = None
    # The indexes there were when it was embedded; without one the search is exact.
    indexed: Mapping[ThreadId | None, Indexed] = field(
        default_factory=dict[ThreadId | None, Indexed]
    )

    def belongs_to(self, generation: Generation) -> bool:
        """Whether this vector lives in that generation's space."""
        return self.identity == identity_of(generation) and len(self.vector) == generation.dimension

    def point(self, generation: Generation) -> Point:
        """Where this vector lies in that generation's space."""
        return Point(generation.number, self.vector, indexed=self.indexed)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query's place in the serving space, and how to read the cosines."""

    point: Point
    embedder: Embedder


async def embed_passage(engine: Engine, workspace_id: WorkspaceId, text: str) -> Embedded | None:
    """The text's vector in the serving space, or None when there is none in time."""
    space = await current_space(engine, workspace_id)
    try:
        if space.serving:
            embedder = engine.embedders.of(identity_of(space.serving))
            texts = [text]
        else:
            embedder = engine.embedders.configured(space.embedder)
            texts = [text, PROBE]
        found = await embedder.embed(texts, Purpose.PASSAGE, deadline=engine.embedding_deadline)
    except Unavailable:
        return None
    fingerprint = found[1] if len(found) > 1 else None
    return Embedded(embedder.identity, found[0], fingerprint, indexed=space.indexed)


async def embed_query(engine: Engine, workspace_id: WorkspaceId, text: str) -> Asked | None:
    """The query's vector in the serving space, or None when meaning cannot be searched now."""
    space = await current_space(engine, workspace_id)
    if space.serving is None:
        return None
    try:
        embedder = engine.embedders.of(identity_of(space.serving))
        [vector] = await embedder.embed([text], Purpose.QUERY, deadline=QUERY_PATIENCE)
    except Unavailable:
        return None
    if len(vector) != space.serving.dimension:
        return None
    return Asked(Point(space.serving.number, vector, indexed=space.indexed), embedder)


async def current_space(engine: Engine, workspace_id: WorkspaceId) -> Space:
    """The workspace's generations in use, possibly a moment old."""
    now = engine.now()
    known = engine.spaces.get(workspace_id, now)
    if known:
        return known
    async with engine.pool.reading(workspace_id) as db:
        space = await generations.space(db, workspace_id)
    engine.spaces.put(workspace_id, space, now)
    return space


async def attach(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    memory_id: MemoryId,
    embedded: Embedded | None,
) -> bool:
    """Store the vector in the serving generation, opening the first one; False when it is owed."""
    serving = await generations.hold_serving(db, workspace_id)
    if serving is None and embedded and embedded.fingerprint is not None:
        await _begin(engine, db, workspace_id, embedded.identity, embedded.fingerprint, "serving")
        serving = await generations.hold_serving(db, workspace_id)
    if serving is None or embedded is None or not embedded.belongs_to(serving):
        return False
    await vectors.insert(db, workspace_id, memory_id, serving.number, embedded.vector)
    return True


@dataclass(frozen=True, slots=True)
class Moved:
    """A passage's vector in the space of the configured model, which may not serve yet."""

    vector: Vector
    generation: Generation


async def embed_anew(engine: Engine, workspace_id: WorkspaceId, text: str) -> Moved | None:
    """The text's vector by the model that is configured now; None when there is none in time.

    If that model is another than the serving one, its generation begins.
    """
    space = await current_space(engine, workspace_id)
    try:
        embedder = engine.embedders.configured(space.embedder)
        vector, fingerprint = await embedder.embed(
            [text, PROBE], Purpose.PASSAGE, deadline=engine.embedding_deadline
        )
    except Unavailable:
        return None
    return Moved(vector, await _target(engine, workspace_id, embedder.identity, fingerprint))


async def attach_anew(
    engine: Engine, db: Db, workspace_id: WorkspaceId, memory_id: MemoryId, moved: Moved
) -> None:
    """Store a vector in its generation; where that does not serve yet, see that it will."""
    await vectors.insert(db, workspace_id, memory_id, moved.generation.number, moved.vector)
    if moved.generation.state != "serving":
        await jobs.enqueue(db, workspace_id, [TEND], engine.now())


Heartbeat = Callable[[], Awaitable[None]]


async def no_beat() -> None:
    """For work that nobody else waits for: it has no lease to keep."""


async def tend_vectors(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Give all that wants one its vector in the configured model's space, and let that serve.

    Raises `Unavailable` while the embedder is down, or when some of it failed for another reason
    than the text; running it again goes on where it stopped.
    """
    async with engine.pool.reading(workspace_id) as db:
        space = await generations.space(db, workspace_id)
    embedder = engine.embedders.configured(space.embedder)
    [fingerprint] = await embedder.embed([PROBE], Purpose.PASSAGE)
    target = await _target(engine, workspace_id, embedder.identity, fingerprint)
    while True:
        failures = [
            await _fill(engine, workspace_id, target, embedder, owed, beat) for owed in EVERYTHING
        ]
        _raise_first(failures)
        if await _settle(engine, workspace_id, target):
            return


async def _target(
    engine: Engine, workspace_id: WorkspaceId, identity: Identity, fingerprint: Vector
) -> Generation:
    """The generation to fill: the serving one if the model is still the same, else a new one."""
    async with engine.pool.writing(workspace_id) as db:
        await generations.hold_for_switch(db, workspace_id)
        space = await generations.space(db, workspace_id)
        for generation in (space.serving, space.filling):
            if generation and _is_same_model(generation, identity, fingerprint):
                if generation is space.serving and space.filling:
                    await generations.abandon_filling(db, workspace_id)
                return generation
        await generations.abandon_filling(db, workspace_id)
        state = "filling" if space.serving else "serving"
        await _begin(engine, db, workspace_id, identity, fingerprint, state)
        space = await generations.space(db, workspace_id)
    found = space.filling or space.serving
    assert found
    return found


async def fill_serving(
    engine: Engine, workspace_id: WorkspaceId, owed: Owed, beat: Heartbeat
) -> None:
    """Pay what is owed in the generation that serves, if there is one.

    Raises `Unavailable` while the embedder is down, as `tend_vectors`.
    """
    async with engine.pool.reading(workspace_id) as db:
        space = await generations.space(db, workspace_id)
    if space.serving:
        embedder = engine.embedders.of(identity_of(space.serving))
        failure = await _fill(engine, workspace_id, space.serving, embedder, owed, beat)
        _raise_first([failure])


async def see_paid(engine: Engine, db: Db, workspace_id: WorkspaceId, owed: Owed) -> None:
    """Queue the job that pays what the serving generation still owes, if anything."""
    serving = await generations.hold_serving(db, workspace_id)
    if serving is None or await owed.lacking(
        db, workspace_id, serving.number, after=UUID(int=0), limit=1
    ):
        await jobs.enqueue(db, workspace_id, [TEND], engine.now())


async def _fill(
    engine: Engine,
    workspace_id: WorkspaceId,
    target: Generation,
    embedder: Embedder,
    owed: Owed,
    beat: Heartbeat,
) -> Unavailable | None:
    """Pay what is owed; why some of it must be tried again later, if so."""
    after = UUID(int=0)
    failures: list[Unavailable | None] = []
    while True:
        async with engine.pool.reading(workspace_id) as db:
            batch = await owed.lacking(db, workspace_id, target.number, after=after, limit=_BATCH)
        if not batch:
            return _first(failures)
        failures.append(await _embed_batch(engine, workspace_id, target, embedder, owed, batch))
        await beat()
        after = batch[-1].id


async def _embed_batch(
    engine: Engine,
    workspace_id: WorkspaceId,
    target: Generation,
    embedder: Embedder,
    owed: Owed,
    batch: Sequence[Owing],
) -> Unavailable | None:
    """Pay a batch; why some of it must be tried again later, if so."""
    try:
        found = await embedder.embed([each.text for each in batch], Purpose.PASSAGE)
    except Unavailable as failure:
        if failure.retry_after:  # it asks to be left alone
            raise
        # Down, or one text it will not have? If a plain text passes, it is not down.
        await embedder.embed([PROBE], Purpose.PASSAGE)
        if len(batch) > 1:
            return _first(
                [
                    await _embed_batch(engine, workspace_id, target, embedder, owed, [each])
                    for each in batch
                ]
            )
        # What is not the text's fault may pass. It holds up no other, and is found by words.
        if not isinstance(failure, Refused) and not await _fails_always(embedder, batch[0].text):
            return failure
        async with engine.pool.writing(workspace_id) as db:
            await owed.refuse(db, workspace_id, batch[0])
        return None
    if any(len(vector) != target.dimension for vector in found):
        raise Unavailable("embedder")  # swapped under our hands; the next run finds out
    async with engine.pool.writing(workspace_id) as db:
        paid = list(zip(batch, found, strict=True))
        await owed.pay(db, workspace_id, target.number, paid)
    return None


async def _fails_always(embedder: Embedder, text: str) -> bool:
    """Whether a text fails again and again beside a plain one that does not.

    Then it is the text, whatever the endpoint says of it: some answer 500 to what they cannot read,
    and one such text would keep a new model from ever serving.
    """
    for _ in range(_TRIES):
        try:
            await embedder.embed([text], Purpose.PASSAGE)
        except Unavailable as failure:
            if failure.retry_after:
                raise
        else:
            return False
        await embedder.embed([PROBE], Purpose.PASSAGE)
    return True


def _first(failures: Sequence[Unavailable | None]) -> Unavailable | None:
    return next(filter(None, failures), None)


def _raise_first(failures: Sequence[Unavailable | None]) -> None:
    failure = _first(failures)
    if failure:
        raise failure


async def _settle(engine: Engine, workspace_id: WorkspaceId, target: Generation) -> bool:
    """Let the filled generation serve; False when something that arrived meanwhile lacks one."""
    # First without the lock that saves wait for: looking takes 70 to 150 ms at 50,000 memories.
    # Where the target serves already that is all; a save that comes meanwhile queues its own job.
    async with engine.pool.reading(workspace_id) as db:
        if await _some_lack(db, workspace_id, target):
            return False
    if target.state == "filling" and not await _switch(engine, workspace_id, target):
        return False
    engine.spaces.drop(workspace_id)
    return True


async def _switch(engine: Engine, workspace_id: WorkspaceId, target: Generation) -> bool:
    """Let the generation serve in place of the old one, unless something was saved without it."""
    now = engine.now()
    async with engine.pool.writing(workspace_id) as db:
        await generations.hold_for_switch(db, workspace_id)
        if await _some_lack(db, workspace_id, target):
            return False
        if await generations.switch(db, workspace_id, target.number, now):
            drop = NewJob(DROP, run_after=now + _RETIRED_KEPT)
            await jobs.enqueue(db, workspace_id, [drop], now)
    return True


async def _some_lack(db: Db, workspace_id: WorkspaceId, target: Generation) -> bool:
    for owed in EVERYTHING:
        if await owed.lacking(db, workspace_id, target.number, after=UUID(int=0), limit=1):
            return True
    return False


async def drop_vectors(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Delete the vectors of retired generations, a batch at a time, and their indexes."""
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


async def _begin(
    engine: Engine,
    db: Db,
    workspace_id: WorkspaceId,
    identity: Identity,
    fingerprint: Vector,
    state: str,
) -> None:
    await generations.begin(
        db,
        workspace_id,
        endpoint=identity.endpoint,
        model=identity.model,
        fingerprint=[float(value) for value in fingerprint],
        state=state,
        now=engine.now(),
    )
    engine.spaces.drop(workspace_id)


def identity_of(generation: Generation) -> Identity:
    """Which model a generation's vectors come from."""
    return Identity(generation.endpoint, generation.model)


def _is_same_model(generation: Generation, identity: Identity, fingerprint: Vector) -> bool:
    if identity_of(generation) != identity or generation.dimension != len(fingerprint):
        return False
    earlier = np.asarray(generation.fingerprint, dtype=np.float32)
    return float(earlier @ fingerprint) >= SAME_MODEL
