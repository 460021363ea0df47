import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta

import numpy as np
import pytest
from stub_endpoint import Asked, Reply, Stub, embeddings, numbers, packed, well_behaved

from recollect.errors import Invalid, Unavailable
from recollect.models.embed import Identity, Purpose
from recollect.models.endpoint import EndpointEmbedder
from recollect.models.remote import Circuit
from recollect.settings import Endpoint

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret"


@pytest.fixture
async def embedder(stub: Stub) -> AsyncIterator[EndpointEmbedder]:
    embedder = EndpointEmbedder(Endpoint(stub.url, "some-model", KEY))
    yield embedder
    await embedder.aclose()


def unit(vector: list[float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return (np.array(vector) / np.linalg.norm(vector)).astype(np.float32)


async def test_it_asks_as_openai_documents_it(embedder: EndpointEmbedder, stub: Stub) -> None:
    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert np.allclose(found, unit(numbers("Ada")))
    [asked] = stub.asked
    assert (asked.method, asked.path) == ("POST", "/v1/embeddings")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert json.loads(asked.body) == {
        "model": "some-model",
        "input": ["Ada"],
        "encoding_format": "float",
    }


async def test_without_a_key_nothing_is_presented(stub: Stub) -> None:
    embedder = EndpointEmbedder(Endpoint(stub.url + "/", "some-model"))

    await embedder.embed(["Ada"], Purpose.QUERY)

    assert "authorization" not in stub.asked[0].headers
    await embedder.aclose()


async def test_many_texts_travel_in_bounded_requests(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    texts = [f"text {n}" for n in range(40)] + ["x" * 60_000, "y" * 60_000]

    found = await embedder.embed(texts, Purpose.PASSAGE)

    assert np.allclose(found, [unit(numbers(text)) for text in texts])
    assert [len(asked.texts) for asked in stub.asked] == [32, 9, 1]


async def test_answers_out_of_order_are_put_in_order(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 0]}]
    stub.replies = [Reply(body=json.dumps({"data": data}).encode())]

    found = await embedder.embed(["first", "second"], Purpose.PASSAGE)

    assert np.array_equal(found, [[1, 0], [0, 1]])


async def test_a_base64_answer_is_read(embedder: EndpointEmbedder, stub: Stub) -> None:
    data = [{"index": 0, "embedding": packed([3, 4])}]
    stub.replies = [Reply(body=json.dumps({"data": data}).encode())]

    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert found.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_passing_failure_is_tried_again(
    embedder: EndpointEmbedder, stub: Stub, status: int
) -> None:
    stub.replies = [Reply(status, headers={"Retry-After": "0"})]

    [found] = await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert np.allclose(found, unit(numbers("Ada")))
    assert len(stub.asked) == 2


@pytest.mark.parametrize("status", [307, 400, 401, 403, 404])
async def test_S64_a_lasting_failure_is_not(
    embedder: EndpointEmbedder, stub: Stub, status: int
) -> None:
    stub.replies = [Reply(status, headers={"Location": "/elsewhere"})]

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert [asked.path for asked in stub.asked] == ["/v1/embeddings"]


async def test_a_wait_that_outlasts_the_deadline_is_not_begun(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    stub.replies = [Reply(429, headers={"Retry-After": "70"})]

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable) as caught:
            await embedder.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(seconds=50))

    assert caught.value.retry_after == timedelta(seconds=70)
    assert len(stub.asked) == 1


async def test_a_long_wait_is_left_to_the_caller(embedder: EndpointEmbedder, stub: Stub) -> None:
    stub.replies = [Reply(503, headers={"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"})]

    with pytest.raises(Unavailable) as caught:
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert caught.value.retry_after == timedelta(days=1)


@pytest.mark.parametrize("header", ["soon", "nan", "", "Fri, 99 Foo"])
async def test_nonsense_in_retry_after_is_ignored(
    embedder: EndpointEmbedder, stub: Stub, header: str
) -> None:
    stub.replies = [Reply(429, headers={"Retry-After": header})]

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_an_endpoint_that_hangs_costs_the_deadline(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    stub.replies = [Reply(hangs=True)]

    async with asyncio.timeout(20):
        with pytest.raises(Unavailable):
            await embedder.embed(["Ada"], Purpose.QUERY, deadline=timedelta(milliseconds=100))

    assert len(stub.asked) == 1


BAD = {
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


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_an_answer_of_no_use_is_unavailable(
    embedder: EndpointEmbedder, stub: Stub, body: bytes
) -> None:
    stub.replies = [Reply(body=body)]

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE)


async def test_dimensions_must_agree_within_an_answer(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    stub.replies = [embeddings([[1, 2], [1, 2, 3]])]

    with pytest.raises(Unavailable):
        await embedder.embed(["one", "two"], Purpose.PASSAGE)


async def test_dimensions_must_agree_between_the_answers_to_one_call(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    stub.replies = [embeddings([[1, 2]] * 32), embeddings([[1, 2, 3]])]

    with pytest.raises(Unavailable):
        await embedder.embed(["text"] * 33, Purpose.PASSAGE)


async def test_a_refused_connection_is_unavailable(refused_url: str) -> None:
    embedder = EndpointEmbedder(Endpoint(refused_url, "some-model"))

    with pytest.raises(Unavailable):
        await embedder.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(milliseconds=300))

    await embedder.aclose()


async def test_S82_no_error_tells_address_key_or_answer(
    embedder: EndpointEmbedder, stub: Stub, refused_url: str
) -> None:
    stub.replies = [Reply(401, body=f"bad key {KEY} for {stub.url}".encode())]
    unreachable = EndpointEmbedder(Endpoint(refused_url, "some-model", KEY))

    for failing in (embedder, unreachable):
        with pytest.raises(Unavailable) as caught:
            await failing.embed(["Ada"], Purpose.PASSAGE, deadline=timedelta(milliseconds=300))
        told = f"{caught.value!r} {caught.value.message} {caught.value.__cause__!r}"
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
        assert not any(word in told for word in (KEY, "127.0.0.1", "bad key"))

    await unreachable.aclose()


async def test_what_is_too_long_is_halved_and_averaged(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    def at_most_1000(asked: Asked) -> Reply:
        if any(len(text) > 1000 for text in asked.texts):
            return Reply(400, b'{"error": {"message": "maximum context length is 1000"}}')
        return well_behaved(asked)

    stub.replies = [at_most_1000] * 20
    long = "a" * 900 + "b" * 900

    found = await embedder.embed(["short", long], Purpose.PASSAGE)

    halves = unit(numbers("a" * 900)) + unit(numbers("b" * 900))
    assert np.allclose(found, [unit(numbers("short")), unit(halves.tolist())], atol=1e-6)


async def test_a_text_is_not_halved_for_ever(embedder: EndpointEmbedder, stub: Stub) -> None:
    stub.replies = [Reply(413)] * 100

    with pytest.raises(Unavailable):
        await embedder.embed(["x" * 1000], Purpose.PASSAGE)

    assert len(stub.asked) < 10


async def test_a_dead_endpoint_is_soon_left_alone(embedder: EndpointEmbedder, stub: Stub) -> None:
    stub.replies = [Reply(401)] * 100
    for _ in range(Circuit.FAILURES):
        with pytest.raises(Unavailable):
            await embedder.embed(["Ada"], Purpose.PASSAGE)

    with pytest.raises(Unavailable) as caught:
        await embedder.embed(["Ada"], Purpose.PASSAGE)

    assert len(stub.asked) == Circuit.FAILURES
    assert caught.value.retry_after is not None
    assert timedelta(0) < caught.value.retry_after <= timedelta(seconds=Circuit.PAUSE_SECONDS)


async def test_texts_it_refuses_do_not_cut_off_the_others(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    stub.replies = [Reply(400)] * Circuit.FAILURES
    for _ in range(Circuit.FAILURES):
        with pytest.raises(Unavailable):
            await embedder.embed(["indigestible"], Purpose.PASSAGE)

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_a_cancelled_call_says_nothing_about_the_endpoint(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    reached = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_asked: Asked) -> Reply:
        loop.call_soon_threadsafe(reached.set)
        return Reply(hangs=True)

    for _ in range(Circuit.FAILURES):
        stub.replies = [hang]
        call = asyncio.create_task(embedder.embed(["Ada"], Purpose.PASSAGE))
        await asyncio.wait_for(reached.wait(), 5)
        reached.clear()
        call.cancel()
        await asyncio.wait([call])

    assert len(await embedder.embed(["Ada"], Purpose.PASSAGE)) == 1


async def test_passages_never_take_the_places_of_questions(
    embedder: EndpointEmbedder, stub: Stub
) -> None:
    full = asyncio.Event()
    loop = asyncio.get_running_loop()

    def hang(_asked: Asked) -> Reply:
        if len(stub.asked) == 4:
            loop.call_soon_threadsafe(full.set)
        return Reply(hangs=True)

    stub.replies = [hang] * 4
    backfill = [
        asyncio.create_task(embedder.embed([f"passage {n}"], Purpose.PASSAGE)) for n in range(12)
    ]
    await asyncio.wait_for(full.wait(), 5)

    [found] = await asyncio.wait_for(embedder.embed(["a question"], Purpose.QUERY), 5)

    assert np.allclose(found, unit(numbers("a question")))
    assert not any(task.done() for task in backfill)
    for task in backfill:
        task.cancel()
    await asyncio.wait(backfill)


class TestCircuit:
    def test_it_lets_one_through_after_each_pause(self) -> None:
        now = [0.0]
        circuit = Circuit(lambda: now[0])
        for _ in range(Circuit.FAILURES):
            circuit.admit()
            circuit.failed()

        for _ in range(2):
            with pytest.raises(Unavailable):
                circuit.admit()
            now[0] += Circuit.PAUSE_SECONDS
            circuit.admit()

        with pytest.raises(Unavailable):
            circuit.admit()

    def test_one_success_closes_it(self) -> None:
        now = [0.0]
        circuit = Circuit(lambda: now[0])
        for _ in range(Circuit.FAILURES):
            circuit.failed()
        now[0] += Circuit.PAUSE_SECONDS
        circuit.admit()

        circuit.succeeded()

        circuit.admit()
        circuit.admit()


def test_identity_leaves_the_password_out() -> None:
    embedder = EndpointEmbedder(Endpoint("https://ada:secret@example.org/v1?version=2", "m"))

    assert embedder.identity == Identity("https://example.org/v1/embeddings?version=2", "m")


@pytest.mark.parametrize(
    "url", ["", "example.org/v1", "ftp://example.org", "http://", "http://a:b"]
)
def test_a_url_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(Invalid):
        EndpointEmbedder(Endpoint(url, "m"))
