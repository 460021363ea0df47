"""Which models there are, and vectors for whoever wants them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from recollect.domain import Caller, Right
from recollect.engine.core import Engine
from recollect.errors import Invalid, NotFound, Unavailable
from recollect.models.chat import Route
from recollect.models.embed import Purpose

_OWNER = "recollect"
_MOST_TEXTS = 2_048
# Some 8,192 tokens, as elsewhere; a longer one would keep the embedder from everybody else's.
_MOST_LETTERS = 32_768
_MODELS_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Model:
    """A model by the name a request gives it."""

    id: str
    created: int
    owner: str


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors, and the model that made them."""

    model: str
    dimension: int
    vectors: list[list[float]]


async def list_models(
    engine: Engine, caller: Caller, *, patience_seconds: float = _MODELS_SECONDS
) -> list[Model]:
    """Every model that can be asked for; an upstream that is down has none just now."""
    caller.require(Right.READ)
    upstreams = engine.chats.upstreams
    listed = await asyncio.gather(
        *(_listed(name, each, patience_seconds) for name, each in upstreams.items())
    )
    builtin = [Model(name, 0, _OWNER) for name in engine.chats.builtin]
    return [*builtin, *(model for found in listed for model in found)]


def default_model(engine: Engine, listed: Sequence[Model]) -> str | None:
    """The model to offer first: the configured one, else the first an upstream lists, if any."""
    found = engine.chats.find(None)
    if found and found.model:
        return found.model
    return next((each.id for each in listed if each.id not in engine.chats.builtin), None)


async def find_model(engine: Engine, caller: Caller, name: str) -> Model:
    """One model; raise `NotFound` where nobody has it."""
    found = await list_models(engine, caller)
    for model in found:
        if model.id == name:
            return model
    raise NotFound("model")


async def embed(engine: Engine, caller: Caller, texts: Sequence[str]) -> Embedded:
    """Vectors of texts by the server's own embedder."""
    caller.require(Right.READ)
    if not texts or not all(text.strip() for text in texts) or len(texts) > _MOST_TEXTS:
        raise Invalid(
            f"`input` must be a text, or 1 to {_MOST_TEXTS:,} texts, none empty.", field="input"
        )
    if any(len(text) > _MOST_LETTERS for text in texts):
        raise Invalid(
            f"Each text of `input` may have up to {_MOST_LETTERS:,} characters.", field="input"
        )
    embedder = engine.embedders.configured(None)
    vectors = await embedder.embed(list(texts), Purpose.PASSAGE)
    return Embedded(
        embedder.identity.model,
        int(vectors[0].size),
        [[float(number) for number in vector] for vector in vectors],
    )


async def _listed(prefix: str, route: Route, patience_seconds: float) -> list[Model]:
    try:
        async with asyncio.timeout(patience_seconds):
            told = await route.chat.get("/models")
        data = cast("list[Any]", told["data"])
        return [
            Model(
                f"{prefix}/{each['id']}" if prefix else str(each["id"]),
                int(each.get("created") or 0),
                str(each.get("owned_by") or prefix or "upstream"),
            )
            for each in data
        ]
    except (Unavailable, TimeoutError, KeyError, TypeError, ValueError, AttributeError):
        return []
