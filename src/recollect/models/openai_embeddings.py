"""The embeddings API of OpenAI and compatible servers: `POST {url}/embeddings`."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import numpy as np
from pydantic import BaseModel

from recollect.models.embedder import Purpose, Vector
from recollect.models.endpoint_embedder import EmbeddingApi
from recollect.models.endpoints import http_url


class _Item(BaseModel):
    index: int
    embedding: list[float] | str


class _Response(BaseModel):
    data: list[_Item]


def _url(base: str) -> httpx2.URL:
    url = http_url(base, "an embeddings endpoint")
    return url.copy_with(path=url.path.rstrip("/").removesuffix("/embeddings") + "/embeddings")


def _headers(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _body(model: str, texts: Sequence[str], purpose: Purpose) -> Mapping[str, Any]:
    # Most of these models are symmetric, and the server that runs one of the others can best add
    # the prefix itself.
    del purpose
    return {"model": model, "input": texts, "encoding_format": "float"}


def _vectors(content: bytes) -> list[Vector]:
    items = sorted(_Response.model_validate_json(content).data, key=lambda item: item.index)
    if [item.index for item in items] != list(range(len(items))):
        raise ValueError("missing index")
    return [_to_array(item.embedding) for item in items]


def _to_array(embedding: list[float] | str) -> Vector:
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    with np.errstate(over="ignore"):  # a number that is too large becomes infinite and is refused
        return np.array(embedding, dtype=np.float32)


OPENAI_EMBEDDINGS = EmbeddingApi("openai", _url, _headers, _body, _vectors)
