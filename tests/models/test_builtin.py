import asyncio
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from recollect.core.errors import Unavailable
from recollect.models.builtin_embedder import BuiltinEmbedder
from recollect.models.embedder import EmbedderIdentity, Purpose
from recollect.models.weights import Weights

pytestmark = pytest.mark.anyio

PLENTY = timedelta(seconds=20)
LONG = "The committee met again and again to talk about the budget of the town. " * 33  # one window


def test_the_identity_names_the_model(builtin: BuiltinEmbedder) -> None:
    assert builtin.identity == EmbedderIdentity("builtin", "builtin", "snowflake-arctic-embed-s")


def test_the_runtime_writes_nothing_to_the_home_directory(weights: Weights, tmp_path: Path) -> None:
    """By default, loading the runtime is enough to create a device id and queue telemetry."""
    home = tmp_path / "home"
    home.mkdir()
    loads = (
        "import sys, pathlib; from recollect.models.builtin_embedder import BuiltinEmbedder;"
        "from recollect.models.weights import Weights;"
        "BuiltinEmbedder(Weights(*map(pathlib.Path, sys.argv[1:])))"
    )
    subprocess.run(
        [sys.executable, "-c", loads, str(weights.model), str(weights.tokenizer)],
        env={"HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    assert list(home.rglob("*")) == []


async def test_a_query_and_a_passage_get_different_vectors(builtin: BuiltinEmbedder) -> None:
    [question] = await builtin.embed(["dark mode"], Purpose.QUERY)
    [statement] = await builtin.embed(["dark mode"], Purpose.PASSAGE)

    assert question.shape == statement.shape == (384,)
    assert not np.allclose(question, statement)


async def test_the_end_of_a_long_text_affects_the_vector(builtin: BuiltinEmbedder) -> None:
    long = LONG * 3

    plain, ending = await builtin.embed(
        [long, long + "Ada's parrot speaks Portuguese. " * 40], Purpose.PASSAGE
    )

    [parrot] = await builtin.embed(["Which language does the parrot speak?"], Purpose.QUERY)
    assert ending @ parrot > plain @ parrot + 0.1


async def test_windows_are_even_and_contain_every_token(builtin: BuiltinEmbedder) -> None:
    model = builtin._model

    windows = model.windows("search: ", LONG * 3)

    whole = [token for window in windows for token in window[3:-1]]
    assert whole == model._tokens(LONG * 3)
    assert {tuple(window[:3]) for window in windows} == {tuple(windows[0][:3])}
    assert max(map(len, windows)) <= 512
    assert max(map(len, windows)) - min(map(len, windows)) < len(windows)


async def test_a_special_token_in_the_input_is_text(builtin: BuiltinEmbedder) -> None:
    [window] = builtin._model.windows("", "[SEP] [CLS] [MASK]")

    assert len(window) > 5
    assert window.count(window[-1]) == window.count(window[0]) == 1


@pytest.mark.parametrize("purpose", Purpose)
async def test_a_request_with_a_deadline_overtakes_a_long_batch(
    builtin: BuiltinEmbedder, purpose: Purpose
) -> None:
    batch = asyncio.create_task(builtin.embed([LONG] * 100, Purpose.PASSAGE))
    await builtin.embed(["the batch is under way"], Purpose.PASSAGE, deadline=PLENTY)

    await builtin.embed([f"A {purpose} that cannot wait"], purpose, deadline=PLENTY)

    assert not batch.done()
    batch.cancel()
    await asyncio.wait([batch])


async def test_a_task_cancelled_before_it_starts_never_runs(
    builtin: BuiltinEmbedder,
) -> None:
    batch = asyncio.create_task(builtin.embed([LONG] * 500, Purpose.PASSAGE))
    await builtin.embed(["the batch is under way"], Purpose.PASSAGE, deadline=PLENTY)

    batch.cancel()
    await asyncio.wait([batch])

    async with asyncio.timeout(5):  # the whole batch would take longer
        await builtin.embed(["next, without a deadline"], Purpose.PASSAGE)


async def test_a_deadline_in_the_middle_of_a_batch_is_unavailable(builtin: BuiltinEmbedder) -> None:
    with pytest.raises(Unavailable):
        await builtin.embed([LONG] * 500, Purpose.PASSAGE, deadline=timedelta(milliseconds=50))

    async with asyncio.timeout(5):
        await builtin.embed(["next"], Purpose.PASSAGE)


async def test_a_repeated_query_is_cached(builtin: BuiltinEmbedder) -> None:
    [first] = await builtin.embed(["What did I ask before?"], Purpose.QUERY)

    [second] = await builtin.embed(["What did I ask before?"], Purpose.QUERY)

    assert second is first
    assert not first.flags.writeable


async def test_only_the_latest_queries_are_cached(
    builtin: BuiltinEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.models.builtin_embedder._CACHED_QUERIES", 2)
    builtin._query_cache.clear()

    for question in ("one", "two", "one", "three"):
        await builtin.embed([question], Purpose.QUERY)

    assert list(builtin._query_cache) == ["one", "three"]


async def test_two_instances_return_identical_vectors(
    builtin: BuiltinEmbedder, weights: Weights
) -> None:
    other = BuiltinEmbedder(weights)

    theirs = await other.embed(["User prefers dark mode", LONG * 2], Purpose.PASSAGE)

    ours = await builtin.embed(["User prefers dark mode", LONG * 2], Purpose.PASSAGE)
    assert np.array_equal(ours, theirs)
    await other.aclose()


async def test_closing_fails_queued_and_later_calls(weights: Weights) -> None:
    embedder = BuiltinEmbedder(weights)
    waiting = asyncio.create_task(embedder.embed([LONG] * 100, Purpose.PASSAGE))
    await embedder.embed(["the batch is under way"], Purpose.PASSAGE, deadline=PLENTY)

    await embedder.aclose()

    with pytest.raises(Unavailable):
        await waiting
    with pytest.raises(Unavailable):
        await embedder.embed(["too late"], Purpose.QUERY)


async def test_a_failure_in_the_model_is_unavailable_and_temporary(
    builtin: BuiltinEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_window: list[int]) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(builtin._model, "vector", fails)
        with pytest.raises(Unavailable):
            await builtin.embed(["first"], Purpose.PASSAGE)

    assert len(await builtin.embed(["second"], Purpose.PASSAGE)) == 1
