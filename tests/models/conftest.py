"""The real built-in embedder, loaded once, and a real HTTP server that says what a test tells it to."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from stub_endpoint import Stub

from recollect.models.builtin import BuiltinEmbedder
from recollect.models.weights import Weights, find_weights


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
def _server() -> Iterator[Stub]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # from here on connections queue, so nobody waits for the start
        stub = Stub(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        config = uvicorn.Config(stub, lifespan="off", ws="none", log_level="critical")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield stub
        server.should_exit = True
        thread.join()


@pytest.fixture
def stub(_server: Stub) -> Stub:
    _server.asked.clear()
    _server.replies.clear()
    return _server


@pytest.fixture
def refused_url() -> Iterator[str]:
    """An address where nothing listens, kept from others by being bound."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/v1"


@pytest.fixture
def carrier_files(weights: Weights) -> dict[str, bytes]:
    """The genuine files under the names they have at the hub."""
    return {
        "/v1/onnx/model_quantized.onnx": weights.model.read_bytes(),
        "/v1/tokenizer.json": weights.tokenizer.read_bytes().replace(b"\r\n", b"\n"),
    }
