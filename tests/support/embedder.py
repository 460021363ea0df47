"""An embedder with a table from text to vector, so that each cosine in a test is exact."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import sqrt

import numpy as np

from recollect.core.errors import Unavailable
from recollect.models.embedder import EmbedderIdentity, Purpose, TextRefused, Vector


def at_cosine(cosine: float, dimension: int = 8, *, axis: int = 0) -> Vector:
    """A unit vector with this cosine to the first axis. `axis` selects the other direction."""
    vector = np.zeros(dimension, dtype=np.float32)
    vector[0] = cosine
    vector[1 + axis % (dimension - 1)] = sqrt(1 - cosine * cosine)
    return vector


def pseudo_random(text: str, dimension: int) -> Vector:
    """A unit vector that depends only on the text and differs from all others."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimension).astype(np.float32)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class StubEmbedder:
    """Embeds by table; other texts get a pseudo-random vector. Can be slow or unavailable."""

    def __init__(
        self,
        table: Mapping[str, Vector] | None = None,
        *,
        dimension: int = 8,
        model: str = "stub",
        endpoint: str = "stub",
        kind: str = "stub",
        salt: str = "",
    ) -> None:
        self.table = dict(table or {})
        self.dimension = dimension
        self.salt = salt
        self.is_down = False
        self.refused: set[str] = set()
        # Errors to raise for a text, one per call.
        self.failures: dict[str, list[Unavailable]] = {}
        self.delay = timedelta()
        self.seen_texts: list[str] = []
        self._identity = EmbedderIdentity(kind, endpoint, model)

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        self.seen_texts += texts
        if self.delay:
            if deadline is not None and deadline < self.delay:
                await asyncio.sleep(deadline.total_seconds())
                raise Unavailable("embedder")
            await asyncio.sleep(self.delay.total_seconds())
        if self.is_down:
            raise Unavailable("embedder")
        for text in texts:
            if self.failures.get(text):
                raise self.failures[text].pop(0)
        if self.refused & set(texts):
            raise TextRefused("embedder")
        return [self._vector(text) for text in texts]

    def relevance(self, cosine: float) -> float:
        return min(max(cosine, 0.0), 1.0)

    def may_answer(self, cosine: float) -> bool:
        return True

    def likeness(self, cosine: float) -> float:
        return min(max(cosine, 0.0), 1.0)

    async def aclose(self) -> None:
        pass

    def _vector(self, text: str) -> Vector:
        known = self.table.get(text)
        return pseudo_random(self.salt + text, self.dimension) if known is None else known
