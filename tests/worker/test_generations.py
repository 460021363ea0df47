"""While the embedding model changes, recall keeps working and vector spaces are never mixed."""

import asyncio
import itertools
from dataclasses import replace
from datetime import timedelta

import pytest

from recollect.core.domain import Caller, GenerationState, Ref
from recollect.db import job_queue
from recollect.embeddings import generations as spaces
from recollect.embeddings.queries import generations
from recollect.engine import Engine
from recollect.maintenance import survey
from recollect.memories.edit import EditMemory, edit
from recollect.memories.save import Save, save
from recollect.models.embedder_registry import Embedders
from recollect.search.semantic import Recall, recall
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder
from tests.support.instance import new_caller, open_engine
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TEXTS = [f"statement number {number}" for number in range(300)]


async def is_filling(engine: Engine, caller: Caller) -> bool:
    return (await generation_state(engine, caller)).filling is not None


async def generation_state(engine: Engine, caller: Caller) -> GenerationState:
    async with engine.pool.reading(caller.workspace_id) as db:
        return await generations.find_generations(db, caller.workspace_id)


async def vectors_by_generation(engine: Engine, caller: Caller) -> dict[tuple[int, int], int]:
    """Count the vectors of each generation and dimension."""
    async with engine.pool.reading(caller.workspace_id) as db:
        cursor = await db.execute(
            "SELECT generation, vector_dims(embedding), count(*) FROM memory_vector "
            "WHERE workspace_id = %s GROUP BY 1, 2",
            [caller.workspace_id],
        )
        return {(row[0], row[1]): row[2] for row in await cursor.fetchall()}


def with_old_model(new: StubEmbedder, old: StubEmbedder) -> Embedders:
    """Embedders with the new model as default; the old one still serves its generation."""
    return Embedders(new, {"old": old})


@pytest.mark.parametrize(
    ("kind", "endpoint"),
    [("builtin", "builtin"), ("openai", "https://example.org/v1/embeddings")],
)
async def test_a_generation_of_a_release_without_kinds_still_works(
    engine: Engine, caller: Caller, kind: str, endpoint: str
) -> None:
    embedder = StubEmbedder(kind=kind, endpoint=endpoint)
    engine = replace(engine, embedders=Embedders(embedder))
    await save(engine, caller, Save("Ada drinks tea"))
    async with engine.pool.writing(caller.workspace_id) as db:
        await db.execute(
            "UPDATE generation SET kind = NULL WHERE workspace_id = %s", [caller.workspace_id]
        )
    engine.generation_cache.drop(caller.workspace_id)

    await spaces.embed_missing(engine, caller.workspace_id, spaces.no_heartbeat)

    state = await generation_state(engine, caller)
    assert state.filling is None
    assert state.serving is not None
    assert state.serving.number == 1
    assert spaces.identity_of(state.serving) == embedder.identity


async def test_another_kind_at_the_same_endpoint_is_another_generation(
    engine: Engine, caller: Caller
) -> None:
    old, new = StubEmbedder(kind="one"), StubEmbedder(kind="two")
    await save(replace(engine, embedders=Embedders(old)), caller, Save("Ada drinks tea"))
    engine = replace(engine, embedders=with_old_model(new, old))

    await spaces.embed_missing(engine, caller.workspace_id, spaces.no_heartbeat)

    state = await generation_state(engine, caller)
    assert state.serving is not None
    assert (state.serving.number, state.serving.kind) == (2, "two")


async def test_recall_works_while_the_embedding_model_changes_under_load(
    database_url: str, clock: Clock
) -> None:
    models = [
        StubEmbedder(dimension=768, model="first"),
        StubEmbedder(dimension=1024, model="second"),
        StubEmbedder(dimension=768, model="third"),
    ]
    async with open_engine(database_url, Embedders(models[0]), clock) as engine:
        caller = await new_caller(engine)
        for text in TEXTS:
            await save(engine, caller, Save(text))

    for number, (old, new) in enumerate(itertools.pairwise(models), start=2):
        async with open_engine(database_url, with_old_model(new, old), clock) as engine:
            new.delay = timedelta(
                milliseconds=100
            )  # so that saves and recalls happen during the backfill
            stop = asyncio.Event()
            answers: list[bool] = []

            async def ask(
                engine: Engine = engine,
                stop: asyncio.Event = stop,
                answers: list[bool] = answers,
            ) -> None:
                at = 0
                while not stop.is_set():
                    text = TEXTS[at % len(TEXTS)]
                    recalled = await recall(engine, caller, Recall(query=text, limit=1))
                    answers.append(
                        not recalled.is_degraded and recalled.hits[0].memory.content == text
                    )
                    at += 7

            asking = [asyncio.create_task(ask()) for _ in range(2)]
            async with engine.pool.writing(caller.workspace_id) as db:
                await job_queue.enqueue(
                    db, caller.workspace_id, [job_queue.NewJob("fill_vectors")], engine.now()
                )
            working = asyncio.create_task(Worker(engine, slots=1).run_until_empty())
            late = await save(engine, caller, Save(f"said during move {number}"))
            await working
            await Worker(engine, slots=1).run_until_empty()
            clock.advance(timedelta(seconds=3))
            last = await recall(engine, caller, Recall(query=late.memory.content, limit=1))
            stop.set()
            await asyncio.gather(*asking)
            space = await generation_state(engine, caller)

        assert answers
        assert all(answers)
        assert last.hits[0].memory.id == late.memory.id
        assert space.filling is None
        assert space.serving
        assert (space.serving.model, space.serving.number) == (new.identity.model, number)

    async with open_engine(database_url, Embedders(models[2]), clock) as engine:
        clock.advance(timedelta(minutes=2))
        await Worker(engine, slots=1).run_until_empty()
        assert await vectors_by_generation(engine, caller) == {(3, 768): len(TEXTS) + 2}


async def test_a_model_replaced_under_the_same_name_gets_new_vectors(
    database_url: str, clock: Clock
) -> None:
    model = StubEmbedder(dimension=32)
    async with open_engine(database_url, Embedders(model), clock) as engine:
        caller = await new_caller(engine)
        for text in TEXTS[:20]:
            await save(engine, caller, Save(text))

        model.salt = "another model under the same name"
        await queue_embedding(engine, caller)
        await Worker(engine, slots=2).run_until_empty()
        clock.advance(timedelta(seconds=3))
        recalled = await recall(engine, caller, Recall(query=TEXTS[3], limit=1, threshold=0.9))
        space = await generation_state(engine, caller)

    assert [hit.memory.content for hit in recalled.hits] == [TEXTS[3]]
    assert space.serving
    assert space.serving.number == 2


async def test_a_survey_queues_jobs_for_every_workspace(
    databases: TestDatabases, clock: Clock
) -> None:
    model = StubEmbedder()
    async with open_engine(databases.clone(), Embedders(model), clock) as engine:
        callers = [await new_caller(engine) for _ in range(3)]
        for caller in callers:
            await save(engine, caller, Save("Ada lives in Oslo"))
        model.salt = "another model under the same name"

        await survey(engine)
        await Worker(engine, slots=2).run_until_empty()
        spaces = [await generation_state(engine, caller) for caller in callers]

    assert [space.serving and space.serving.number for space in spaces] == [2, 2, 2]


async def test_an_edit_during_a_backfill_is_not_overwritten_by_the_old_text(
    database_url: str, clock: Clock
) -> None:
    old, new = StubEmbedder(model="old"), StubEmbedder(model="new", dimension=16)
    async with open_engine(database_url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        saved = await save(engine, caller, Save("Ada lives in Oslo"))

    async with open_engine(database_url, with_old_model(new, old), clock) as engine:
        new.delay = timedelta(milliseconds=300)
        await queue_embedding(engine, caller)
        working = asyncio.create_task(Worker(engine, slots=1).run_until_empty())
        await until(lambda: "Ada lives in Oslo" in new.seen_texts)
        await edit(engine, caller, Ref(id=saved.memory.id), EditMemory(content="Ada is in Bergen"))
        await working
        clock.advance(timedelta(seconds=3))
        recalled = await recall(
            engine, caller, Recall(query="Ada is in Bergen", limit=1, threshold=0.99)
        )
        vectors = await vectors_by_generation(engine, caller)

    assert [hit.memory.content for hit in recalled.hits] == ["Ada is in Bergen"]
    assert vectors[2, 16] == 1


async def test_an_unavailable_new_model_leaves_the_old_one_serving(
    database_url: str, clock: Clock
) -> None:
    old, new = StubEmbedder(model="old"), StubEmbedder(model="new", dimension=16)
    async with open_engine(database_url, Embedders(old), clock) as engine:
        caller = await new_caller(engine)
        await save(engine, caller, Save("Ada lives in Oslo"))

    async with open_engine(database_url, with_old_model(new, old), clock) as engine:
        new.is_down = True
        await queue_embedding(engine, caller)
        await Worker(engine, slots=1).run_until_empty()
        saved = await save(engine, caller, Save("Ben lives in Bergen"))
        recalled = await recall(engine, caller, Recall(query="Ada lives in Oslo", limit=1))

    assert saved.memory.has_vector
    assert [hit.memory.content for hit in recalled.hits] == ["Ada lives in Oslo"]


async def test_a_backfill_interrupted_by_a_third_model_ends_with_the_third(
    database_url: str, clock: Clock
) -> None:
    first, second, third = (
        StubEmbedder(model=name, dimension=size)
        for name, size in (("first", 8), ("second", 16), ("third", 24))
    )
    async with open_engine(database_url, Embedders(first), clock) as engine:
        caller = await new_caller(engine)
        for text in TEXTS[:100]:
            await save(engine, caller, Save(text))

    async with open_engine(database_url, with_old_model(second, first), clock) as engine:
        await queue_embedding(engine, caller)
        second.refused = set(TEXTS)  # the backfill stops half-way
        second.delay = timedelta(milliseconds=20)
        working = asyncio.create_task(Worker(engine, slots=1).run_until_empty())
        await until(lambda: is_filling(engine, caller))
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    async with open_engine(database_url, with_old_model(third, first), clock) as engine:
        await queue_embedding(engine, caller)
        await Worker(engine, slots=1).run_until_empty()
        clock.advance(timedelta(minutes=2))
        await Worker(engine, slots=1).run_until_empty()
        space, vectors = (
            await generation_state(engine, caller),
            await vectors_by_generation(engine, caller),
        )

    assert space.serving
    assert (space.serving.model, space.filling) == ("third", None)
    assert vectors == {(space.serving.number, 24): 100}


async def test_checking_for_missing_vectors_does_not_block_saves(
    database_url: str, clock: Clock
) -> None:
    async with open_engine(database_url, Embedders(StubEmbedder()), clock) as engine:
        caller = await new_caller(engine)
        await save(engine, caller, Save("Ada lives in Oslo"))
        async with asyncio.timeout(10), engine.writing(caller) as db:
            serving = await generations.lock_serving(db, caller.workspace_id)
            assert serving
            assert await spaces._finish(engine, caller.workspace_id, serving)


async def queue_embedding(engine: Engine, caller: Caller) -> None:
    async with engine.pool.writing(caller.workspace_id) as db:
        await job_queue.enqueue(
            db, caller.workspace_id, [job_queue.NewJob("fill_vectors")], engine.now()
        )
