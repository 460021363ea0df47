"""The contract of `Embedder`, tested with every implementation."""

from collections.abc import AsyncIterator
from datetime import timedelta

import numpy as np
import pytest
from stub_endpoint import StubEndpoint

from recollect.core.errors import Unavailable
from recollect.core.settings import EmbeddingEndpoint
from recollect.models.builtin_embedder import BuiltinEmbedder
from recollect.models.embedder import Embedder, Purpose
from recollect.models.endpoint_embedder import EndpointEmbedder
from recollect.models.openai_embeddings import OPENAI_EMBEDDINGS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["builtin", "endpoint"])
async def embedder(
    request: pytest.FixtureRequest, builtin: BuiltinEmbedder, stub: StubEndpoint
) -> AsyncIterator[Embedder]:
    if request.param == "builtin":
        yield builtin
        return
    endpoint = EndpointEmbedder(EmbeddingEndpoint(stub.url, "some-model"), OPENAI_EMBEDDINGS)
    yield endpoint
    await endpoint.aclose()


@pytest.mark.parametrize("purpose", Purpose)
async def test_each_text_gets_one_unit_vector_of_one_dimension(
    embedder: Embedder, purpose: Purpose
) -> None:
    found = await embedder.embed(["Ada", "User prefers dark mode", "Ada"], purpose)

    assert len(found) == 3
    assert {vector.dtype for vector in found} == {np.dtype(np.float32)}
    assert len({vector.shape for vector in found}) == 1
    assert [float(np.linalg.norm(vector)) for vector in found] == pytest.approx([1, 1, 1], abs=1e-5)


async def test_vectors_are_in_order_and_independent_of_other_texts(
    embedder: Embedder,
) -> None:
    texts = ["short", "a much longer text about the weather in Lisbon " * 20, "middling length"]

    together = await embedder.embed(texts, Purpose.PASSAGE)

    alone = [(await embedder.embed([text], Purpose.PASSAGE))[0] for text in texts]
    assert np.array_equal(together, alone)


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\x00", "🙂", "これは長い文章です"])
async def test_an_unusual_text_gets_a_vector(embedder: Embedder, text: str) -> None:
    [found] = await embedder.embed([text], Purpose.PASSAGE)

    assert np.linalg.norm(found) == pytest.approx(1, abs=1e-5)


async def test_no_texts_give_no_vectors(embedder: Embedder) -> None:
    assert await embedder.embed([], Purpose.PASSAGE) == []


async def test_a_zero_deadline_is_unavailable(embedder: Embedder) -> None:
    with pytest.raises(Unavailable) as caught:
        await embedder.embed(["Never asked before"], Purpose.QUERY, deadline=timedelta(0))

    assert caught.value.service == "embedder"


async def test_scores_increase_with_the_cosine_between_0_and_1(embedder: Embedder) -> None:
    cosines = np.linspace(-1, 1, 401).tolist()

    for shown in (embedder.relevance, embedder.likeness):
        scores = [shown(cosine) for cosine in cosines]
        assert scores == sorted(scores)
        assert (scores[0], scores[-1]) == (0.0, 1.0)
