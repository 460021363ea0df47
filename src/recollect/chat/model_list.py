"""List the available models, and embed texts for clients."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from recollect.core.domain import Caller, Right
from recollect.core.errors import Invalid, NotFound, Unavailable
from recollect.engine import Engine
from recollect.models.chat_model import ChatRoute
from recollect.models.embedder import Purpose

_OWNER = "recollect"
_MAX_TEXTS = 2_048
# About 8,192 tokens, a common limit. A longer text would block the embedder for other callers.
_MAX_CHARACTERS = 32_768
_MODELS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model; `id` is the name that requests use."""

    id: str
    created: int
    owner: str


@dataclass(frozen=True, slots=True)
class EmbeddingResult:
    """Vectors, and the model that computed them."""

    model: str
    dimension: int
    vectors: list[list[float]]


async def list_models(
    engine: Engine, caller: Caller, *, timeout_seconds: float = _MODELS_SECONDS
) -> list[ListedModel]:
    """List every model that a request can name; an unavailable upstream contributes none."""
    caller.require(Right.READ)
    upstreams = engine.chat_models.upstreams
    listed = await asyncio.gather(
        *(_list_upstream(name, each, timeout_seconds) for name, each in upstreams.items())
    )
    builtin = [ListedModel(name, 0, _OWNER) for name in engine.chat_models.builtin]
    return [*builtin, *(model for found in listed for model in found)]


def default_model(engine: Engine, listed: Sequence[ListedModel]) -> str | None:
    """Return the default model: the configured one, else the first that an upstream lists."""
    found = engine.chat_models.find(None)
    if found and found.model:
        return found.model
    return next((each.id for each in listed if each.id not in engine.chat_models.builtin), None)


async def find_model(engine: Engine, caller: Caller, name: str) -> ListedModel:
    """Return one model; raise `NotFound` if no upstream has it."""
    found = await list_models(engine, caller)
    for model in found:
        if model.id == name:
            return model
    raise NotFound("model")


async def embed(engine: Engine, caller: Caller, texts: Sequence[str]) -> EmbeddingResult:
    """Embed texts with the server's configured embedder."""
    caller.require(Right.READ)
    if not texts or not all(text.strip() for text in texts) or len(texts) > _MAX_TEXTS:
        raise Invalid(
            f"`input` must be a non-empty string or a list of 1 to {_MAX_TEXTS:,} of them.",
            field="input",
        )
    if any(len(text) > _MAX_CHARACTERS for text in texts):
        raise Invalid(
            f"Each text in `input` may have at most {_MAX_CHARACTERS:,} characters.", field="input"
        )
    embedder = engine.embedders.configured(None)
    vectors = await embedder.embed(list(texts), Purpose.PASSAGE)
    return EmbeddingResult(
        embedder.identity.model,
        int(vectors[0].size),
        [[float(number) for number in vector] for vector in vectors],
    )


async def _list_upstream(
    prefix: str, route: ChatRoute, timeout_seconds: float
) -> list[ListedModel]:
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await route.chat.get("/models")
        data = cast("list[Any]", response["data"])
        return [
            ListedModel(
                f"{prefix}/{each['id']}" if prefix else str(each["id"]),
                int(each.get("created") or 0),
                str(each.get("owned_by") or prefix or "upstream"),
            )
            for each in data
        ]
    except (Unavailable, TimeoutError, KeyError, TypeError, ValueError, AttributeError):
        return []
