"""The built-in embedder, loaded when first asked: with an endpoint configured, often never."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic

from recollect.errors import Unavailable
from recollect.models import calibration
from recollect.models.builtin import BuiltinEmbedder, open_builtin
from recollect.models.embed import Identity, Purpose, Vector
from recollect.models.weights import MODEL


class LazyBuiltin:
    """Stands for the built-in embedder until somebody needs it."""

    def __init__(self, weights_dir: Path | None, cache: Path) -> None:
        self._weights_dir = weights_dir
        self._cache = cache
        self._opened: BuiltinEmbedder | None = None
        self._opening: asyncio.Task[BuiltinEmbedder] | None = None

    @property
    def identity(self) -> Identity:
        """Which endpoint and model this is."""
        return Identity("builtin", MODEL)

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """One unit vector a text, in order; raise `Unavailable` when it fails or the time is up."""
        if self._opened or deadline is None:
            embedder = self._opened or await self.open()
            return await embedder.embed(texts, purpose, deadline=deadline)
        began = monotonic()
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                embedder = await self.open()
        except TimeoutError:
            raise Unavailable("embedder") from None
        left = deadline - timedelta(seconds=monotonic() - began)
        return await embedder.embed(texts, purpose, deadline=left)

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        return calibration.relevance(cosine)

    def may_answer(self, cosine: float) -> bool:
        """Whether the passage is relevant at all, as these scores are meant to be read."""
        return calibration.may_answer(cosine)

    def likeness(self, cosine: float) -> float:
        """How nearly two passages say the same, 0 to 1, from the cosine of their vectors."""
        return calibration.likeness(cosine)

    async def open(self) -> BuiltinEmbedder:
        """Load it now; raise `Unavailable` when its weights are nowhere to be found."""
        if self._opened is None:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._load())
            # Whoever cannot wait that long leaves the loading to those who come later.
            return await asyncio.shield(self._opening)
        return self._opened

    async def _load(self) -> BuiltinEmbedder:
        self._opened = await open_builtin(self._weights_dir, self._cache)
        return self._opened

    async def aclose(self) -> None:
        """Let go of its threads, if it ever had any."""
        if self._opening:
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._opened:
            await self._opened.aclose()
