"""An embeddings endpoint with scripted replies that records its requests."""

import base64
import hashlib
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class EmbeddingRequest:
    """A request as the server received it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def texts(self) -> list[str]:
        return json.loads(self.body)["input"]


@dataclass(frozen=True)
class Reply:
    """A response of the server; if `hangs` is set, it never comes."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False


Respond = Callable[[EmbeddingRequest], Reply]


class StubEndpoint:
    """Sends each of `replies` in turn, then the responses of a working endpoint."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[EmbeddingRequest] = []
        self.replies: list[Reply | Respond] = []

    def answer(self, asked: EmbeddingRequest) -> Reply:
        self.requests.append(asked)
        reply = self.replies.pop(0) if self.replies else well_behaved
        return reply if isinstance(reply, Reply) else reply(asked)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        reply = self.answer(EmbeddingRequest(scope["method"], scope["path"], headers, body))
        if reply.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        sent = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": sent})
        await send({"type": "http.response.body", "body": reply.body})


def well_behaved(asked: EmbeddingRequest) -> Reply:
    return embeddings_reply([vector_of(text) for text in asked.texts])


def vector_of(text: str) -> list[float]:
    """Return eight numbers derived from the hash of a text."""
    return [float(byte) - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def embeddings_reply(vectors: list[list[float]]) -> Reply:
    data = [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]
    return Reply(body=json.dumps({"object": "list", "data": data}).encode())


def to_base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
