import asyncio
import base64
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from stub_endpoint import (
    EmbeddingRequest,
    Reply,
    StubEndpoint,
    embeddings_reply,
    to_base64,
    vector_of,
    well_behaved,
)

from recollect.core.domain import Caller
from recollect.core.errors import Invalid, Unavailable
from recollect.core.settings import EmbeddingEndpoint
from recollect.engine import Engine
from recollect.models.embedder import Purpose
from recollect.models.embedder_registry import Embedders
from recollect.models.endpoint_embedder import EndpointEmbedder
from recollect.models.endpoints import CircuitBreaker
from recollect.models.openai_embeddings import OPENAI_EMBEDDINGS
from tests.support.dashboard import connect_signed_in
from tests.support.instance import make_server
from tests.support.isolation import dump

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret"


@pytest.fixture
async def embedder(stub: StubEndpoint) -> AsyncIterator[EndpointEmbedder]:
    embedder = EndpointEmbedder(EmbeddingEndpoint(stub.url, "some-model", KEY), OPENAI_EMBEDDINGS)
    yield embedder
    await embedder.aclose()


def unit(vector: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.array(vector) / np.linalg.norm(vector)).astype(np.float32)


async def test_the_request_follows_the_openai_format(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert np.allclose(found, unit(vector_of("Ada")))
    [asked] = stub.requests
    assert (asked.method, asked.path) == ("POST", "/v1/embeddings")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(asked.body) == {
        "model": "some-model",
        "input": ["Ada"],
        "encoding_format": "float",
    }


async def test_without_a_key_no_authorization_header_is_sent(stub: StubEndpoint) -> None:
    embedder = EndpointEmbedder(EmbeddingEndpoint(stub.url + "/", "some-model"), OPENAI_EMBEDDINGS)

    await embedder.embed(["Ada"], Purpose.QUERY)

    assert "authorization" not in stub.requests[0].headers
    await embedder.aclose()


async def test_many_texts_are_split_into_bounded_requests(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    texts = [f"text {n}" for n in range(40)] + ["x" * 60_000, "y" * 60_000]

    found = await embedder.embed(texts, Purpose.PASSAGE)

    assert np.allclose(found, [unit(vector_of(text)) for text in texts])
    assert [len(asked.texts) for asked in stub.requests] == [32, 9, 1]


async def test_vectors_are_sorted_by_index(embedder: EndpointEmbedder, stub: StubEndpoint) -> None:
    data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 0]}]
    stub.replies = [Reply(body=json.dumps({"data": data}).encode())]

    found = await embedder.embed(["first", "second"], Purpose.PASSAGE)

    assert np.array_equal(found, [[1, 0], [0, 1]])


async def test_a_base64_answer_is_read(embedder: EndpointEmbedder, stub: StubEndpoint) -> None:
    data = [{"index": 0, "embedding": to_base64([3, 4])}]
    stub.replies = [Reply(body=json.dumps({"data": data}).encode())]

    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert found.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_temporary_failure_is_retried(
    embedder: EndpointEmbedder, stub: StubEndpoint, status: int
) -> None:
    stub.replies = [Reply(status, headers={"Retry-After": "0"})]

    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert np.allclose(found, unit(vector_of("Ada")))
    assert len(stub.requests) == 2


@pytest.mark.parametrize("status", [307, 400, 401, 403, 404])
async def test_S64_a_permanent_failure_is_not_retried(
    embedder: EndpointEmbedder, stub: StubEndpoint, status: int
) -> None:
    stub.replies = [Reply(status, headers={"Location": "/elsewhere"})]

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert [asked.path for asked in stub.requests] == ["/v1/embeddings"]


async def test_a_pause_beyond_the_deadline_fails_at_once(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(429, headers={"Retry-After": "70"})]

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable) as caught:
            await embedder.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(seconds=50))

    assert caught.value.retry_after == timedelta(seconds=70)
    assert len(stub.requests) == 1


async def test_a_long_pause_is_left_to_the_caller(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})]

    with pytest.raises(Unavailable) as caught:
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert caught.value.retry_after == timedelta(days=1)


@pytest.mark.parametrize("header", ["soon", "nan", "", "Fri, 99 Foo"])
async def test_an_invalid_retry_after_is_ignored(
    embedder: EndpointEmbedder, stub: StubEndpoint, header: str
) -> None:
    stub.replies = [Reply(429, headers={"Retry-After": header})]

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_a_hanging_endpoint_fails_at_the_deadline(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(hangs=True)]

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable):
            await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(milliseconds=100))

    assert len(stub.requests) == 1


UNUSABLE_ANSWERS = {
    "no JSON": b"<html>busy</html>",
    "not UTF-8": b"\xff\xfe",
    "another shape": b'{"vectors": [[1, 2]]}',
    "too few": b'{"data": []}',
    "too many": b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}',
    "an index twice": b'{"data": [{"index": 1, "embedding": [1]}]}',
    "NaN": b'{"data": [{"index": 0, "embedding": [1, NaN]}]}',
    "infinity": b'{"data": [{"index": 0, "embedding": [1, 1e999]}]}',
    "too large for a float": b'{"data": [{"index": 0, "embedding": [1, 1e300]}]}',
    "a null": b'{"data": [{"index": 0, "embedding": [1, null]}]}',
    "zeros": b'{"data": [{"index": 0, "embedding": [0, 0]}]}',
    "nothing": b'{"data": [{"index": 0, "embedding": []}]}',
    "bad base64": b'{"data": [{"index": 0, "embedding": "!!!!"}]}',
    "half a number": b'{"data": [{"index": 0, "embedding": "AAAA"}]}',
}


@pytest.mark.parametrize("body", UNUSABLE_ANSWERS.values(), ids=UNUSABLE_ANSWERS.keys())
async def test_an_unusable_answer_is_unavailable(
    embedder: EndpointEmbedder, stub: StubEndpoint, body: bytes
) -> None:
    stub.replies = [Reply(body=body)]

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE)


async def test_dimensions_must_agree_within_an_answer(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [embeddings_reply([[1, 2], [1, 2, 3]])]

    with pytest.raises(Unavailable):
        await embedder.embed(["one", "two"], Purpose.PASSAGE)


async def test_dimensions_must_agree_between_batches(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [embeddings_reply([[1, 2]] * 32), embeddings_reply([[1, 2, 3]])]

    with pytest.raises(Unavailable):
        await embedder.embed(["text"] * 33, Purpose.PASSAGE)


async def test_a_refused_connection_is_unavailable(refused_url: str) -> None:
    embedder = EndpointEmbedder(EmbeddingEndpoint(refused_url, "some-model"), OPENAI_EMBEDDINGS)

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(milliseconds=300))

    await embedder.aclose()


async def test_S82_errors_do_not_reveal_address_key_or_response(
    embedder: EndpointEmbedder, stub: StubEndpoint, refused_url: str
) -> None:
    stub.replies = [Reply(401, body=f"bad key {KEY} for {stub.url}".encode())]
    unreachable = EndpointEmbedder(
        EmbeddingEndpoint(refused_url, "some-model", KEY), OPENAI_EMBEDDINGS
    )

    for failing in (embedder, unreachable):
        with pytest.raises(Unavailable) as caught:
            await failing.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(milliseconds=300))
        error = f"{caught.value!r} {caught.value.message} {caught.value.__cause__!r}"
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert not any(word in error for word in (KEY, "127.0.0.1", "bad key"))

    await unreachable.aclose()


async def test_a_text_that_is_too_long_is_halved_and_averaged(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    def at_most_1000(asked: EmbeddingRequest) -> Reply:
        if any(len(text) > 1000 for text in asked.texts):
            return Reply(400, b'{"error": {"message": "maximum context length is 1000"}}')
        return well_behaved(asked)

    stub.replies = [at_most_1000] * 20
    long = "a" * 900 + "b" * 900

    found = await embedder.embed(["short", long], Purpose.PASSAGE)

    halves = unit(vector_of("a" * 900)) + unit(vector_of("b" * 900))
    assert np.allclose(found, [unit(vector_of("short")), unit(halves.tolist())], atol=1e-6)


async def test_a_text_is_not_halved_endlessly(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(413)] * 100

    with pytest.raises(Unavailable):
        await embedder.embed(["x" * 1000], Purpose.PASSAGE)

    assert len(stub.requests) < 10


async def test_repeated_failures_open_the_circuit(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(401)] * 100
    for _ in range(CircuitBreaker.FAILURES):
        with pytest.raises(Unavailable):
            await embedder.embed(["Ada"], Purpose.PASSAGE)

    with pytest.raises(Unavailable) as caught:
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert len(stub.requests) == CircuitBreaker.FAILURES
    assert caught.value.retry_after is not None
    assert (
        timedelta(0) < caught.value.retry_after <= timedelta(seconds=CircuitBreaker.PAUSE_SECONDS)
    )


async def test_refused_texts_do_not_open_the_circuit(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    stub.replies = [Reply(400)] * CircuitBreaker.FAILURES
    for _ in range(CircuitBreaker.FAILURES):
        with pytest.raises(Unavailable):
            await embedder.embed(["indigestible"], Purpose.PASSAGE)

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_a_cancelled_call_is_not_counted_as_a_failure(
    embedder: EndpointEmbedder, stub: StubEndpoint
) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_asked: EmbeddingRequest) -> Reply:
        loop.call_soon_threadsafe(reached.set)
        return Reply(hangs=True)

    for _ in range(CircuitBreaker.FAILURES):
        stub.replies = [hang]
        call = asyncio.create_task(embedder.embed(["Ada"], Purpose.PASSAGE))
        await asyncio.wait_for(reached.wait(), 5)
        reached.clear()
        call.cancel()
        await asyncio.wait([call])

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_passages_never_block_queries(embedder: EndpointEmbedder, stub: StubEndpoint) -> None:
    full = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_asked: EmbeddingRequest) -> Reply:
        if len(stub.requests) == 4:
            loop.call_soon_threadsafe(full.set)
        return Reply(hangs=True)

    stub.replies = [hang] * 4
    backfill = [
        asyncio.create_task(embedder.embed([f"passage {n}"], Purpose.PASSAGE)) for n in range(12)
    ]
    await asyncio.wait_for(full.wait(), 5)

    [found] = await asyncio.wait_for(embedder.embed(["a question"], Purpose.QUERY), 5)

    assert np.allclose(found, unit(vector_of("a question")))
    assert not any(task.done() for task in backfill)
    for task in backfill:
        task.cancel()
    await asyncio.wait(backfill)


class TestCircuit:
    def test_an_open_circuit_admits_one_call_after_each_pause(self) -> None:
        now = [0.0]
        circuit = CircuitBreaker(lambda: now[0])
        for _ in range(CircuitBreaker.FAILURES):
            circuit.admit()
            circuit.failed()

        for _ in range(2):
            with pytest.raises(Unavailable):
                circuit.admit()
            now[0] += CircuitBreaker.PAUSE_SECONDS
            circuit.admit()

        with pytest.raises(Unavailable):
            circuit.admit()

    def test_one_success_closes_the_circuit(self) -> None:
        now = [0.0]
        circuit = CircuitBreaker(lambda: now[0])
        for _ in range(CircuitBreaker.FAILURES):
            circuit.failed()
        now[0] += CircuitBreaker.PAUSE_SECONDS
        circuit.admit()

        circuit.succeeded()

        circuit.admit()
        circuit.admit()


async def test_S82_a_password_in_the_address_is_used_but_never_stored_or_shown(
    stub: StubEndpoint, engine: Engine, caller: Caller
) -> None:
    address = stub.url.replace("http://", "http://ada:hunter2@") + "?version=2"
    embedder = EndpointEmbedder(EmbeddingEndpoint(address, "m"), OPENAI_EMBEDDINGS)
    instance = replace(engine, embedders=Embedders(embedder))
    path = f"/chat/api/workspaces/ws_{caller.workspace_id}/memories"
    async with await connect_signed_in(make_server(instance), instance, caller) as http:
        saved = await http.post(path, json={"content": "Ada lives in Oslo"})
        settings = await http.get("/chat/api/settings")
    await embedder.aclose()

    stored = await dump(engine, caller.workspace_id)

    credentials = base64.b64encode(b"ada:hunter2").decode()
    assert (saved.status_code, settings.status_code) == (201, 200)
    assert stub.requests[0].headers["authorization"] == f"Basic {credentials}"
    [generation] = stored["generation"]
    assert "/v1/embeddings?version=2" in generation
    assert "hunter2" not in f"{stored} {saved.text} {settings.text}"


@pytest.mark.parametrize(
    "url", ["", "example.org/v1", "ftp://example.org", "http://", "http://a:b"]
)
def test_an_invalid_url_is_rejected(url: str) -> None:
    with pytest.raises(Invalid):
        EndpointEmbedder(EmbeddingEndpoint(url, "m"), OPENAI_EMBEDDINGS)
