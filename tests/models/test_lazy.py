"""The built-in embedder is loaded on first use, and no caller waits beyond its deadline."""

from datetime import timedelta
from pathlib import Path

import pytest

from recollect.core.errors import Invalid, Unavailable
from recollect.models.embedder import Purpose
from recollect.models.lazy_embedder import LazyEmbedder
from recollect.models.weights import find_weights

pytestmark = pytest.mark.anyio

AT_ONCE = timedelta(microseconds=1)


async def test_a_timeout_during_loading_does_not_stop_the_loading(
    tmp_path: Path,
) -> None:
    embedder = LazyEmbedder(None, tmp_path)
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=AT_ONCE)
    loading = embedder._opening
    assert loading
    assert not loading.done()

    [found] = await embedder.embed(["Ada"], Purpose.QUERY)

    assert found.shape == (384,)
    assert embedder._opening is loading  # loaded once
    await embedder.aclose()


async def test_closing_during_loading_waits_and_closes_the_embedder(tmp_path: Path) -> None:
    embedder = LazyEmbedder(None, tmp_path)
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=AT_ONCE)

    await embedder.aclose()

    assert embedder._opened
    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.QUERY)


async def test_a_failed_load_is_retried(tmp_path: Path) -> None:
    embedder = LazyEmbedder(tmp_path / "weights", tmp_path)
    with pytest.raises(Invalid):
        await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(seconds=30))
    found = find_weights(None, tmp_path)
    (tmp_path / "weights").mkdir()
    for path, name in ((found.model, "model_quantized.onnx"), (found.tokenizer, "tokenizer.json")):
        (tmp_path / "weights" / name).symlink_to(path)

    [vector] = await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(seconds=30))

    assert vector.shape == (384,)
    await embedder.aclose()
