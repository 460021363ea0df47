"""Fixtures: the real built-in embedder, loaded once, and a scripted HTTP server."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
from stub_endpoint import StubEndpoint

from recollect.models.builtin_embedder import BuiltinEmbedder
from recollect.models.weights import Weights, find_weights
from tests.support.live_server import serve_app


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Weights:
    return find_weights(None, tmp_path_factory.mktemp("models"), hub="http://127.0.0.1:9/")


@pytest.fixture(scope="session")
def builtin(weights: Weights) -> Iterator[BuiltinEmbedder]:
    embedder = BuiltinEmbedder(weights)
    yield embedder
    asyncio.run(embedder.aclose())


@pytest.fixture(scope="session")
def _server() -> Iterator[StubEndpoint]:
    stub = StubEndpoint()
    with serve_app(stub) as url:
        stub.url = f"{url}/v1"
        yield stub


@pytest.fixture
def stub(_server: StubEndpoint) -> StubEndpoint:
    _server.requests.clear()
    _server.replies.clear()
    return _server


@pytest.fixture
def refused_url() -> Iterator[str]:
    """An address where nothing listens. The socket is bound so that no other process takes it."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@pytest.fixture
def carrier_files(weights: Weights) -> dict[str, bytes]:
    """The genuine files by their paths at the hub."""
    return {
        "/v1/onnx/model_quantized.onnx": weights.model.read_bytes(),
        "/v1/tokenizer.json": weights.tokenizer.read_bytes().replace(b"\r\n", b"\n"),
    }
