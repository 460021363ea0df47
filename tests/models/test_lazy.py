"""The built-in embedder is loaded by whoever asks first, and nobody waits longer than they can."""

from datetime import timedelta
from pathlib import Path

import pytest

from recollect.errors import Invalid, Unavailable
from recollect.models.embed import Purpose
from recollect.models.lazy import LazyBuiltin
from recollect.models.weights import find_weights

pytestmark = pytest.mark.anyio

AT_ONCE = timedelta(microseconds=1)


async def test_who_cannot_wait_for_the_loading_goes_on_without_and_the_next_one_has_it(
    tmp_path: Path,
) -> None:
    embedder = LazyBuiltin(None, tmp_path)
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=AT_ONCE)
    loading = embedder._opening
    assert loading
    assert not loading.done()

    [found] = await embedder.embed(["Ada"], Purpose.QUERY)

    assert found.shape == (384,)
    assert embedder._opening is loading  # loaded once
    await embedder.aclose()


async def test_leaving_while_it_loads_leaves_nothing_behind(tmp_path: Path) -> None:
    embedder = LazyBuiltin(None, tmp_path)
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=AT_ONCE)

    await embedder.aclose()

    assert embedder._opened
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY)


async def test_a_loading_that_failed_is_tried_again(tmp_path: Path) -> None:
    embedder = LazyBuiltin(tmp_path / "weights", tmp_path)
    with pytest.raises(Invalid):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(seconds=30))
    found = find_weights(None, tmp_path)
    (tmp_path / "weights").mkdir()
    for path, name in ((found.model, "model_quantized.onnx"), (found.tokenizer, "tokenizer.json")):
        (tmp_path / "weights" / name).symlink_to(path)

    [vector] = await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(seconds=30))

    assert vector.shape == (384,)
    await embedder.aclose()
