"""The built-in embedder, loaded on first use. With a configured endpoint, often never."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic

from recollect.core.errors import Unavailable
from recollect.models import calibration
from recollect.models.builtin_embedder import BuiltinEmbedder, open_builtin
from recollect.models.embedder import EmbedderIdentity, Purpose, Vector
from recollect.models.weights import MODEL


class LazyEmbedder:
    """A proxy that loads the built-in embedder on first use."""

    def __init__(self, weights_dir: Path | None, cache: Path) -> None:
        self._weights_dir = weights_dir
        self._cache = cache
        self._opened: BuiltinEmbedder | None = None
        self._opening: asyncio.Task[BuiltinEmbedder] | None = None

    @property
    def identity(self) -> EmbedderIdentity:
        """The kind, endpoint and model of this embedder."""
        return EmbedderIdentity("builtin", "builtin", MODEL)

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """Return one unit vector per text, in order; raise `Unavailable` on failure or timeout."""
        if self._opened or deadline is None:
            embedder = self._opened or await self.open()
            return await embedder.embed(texts, purpose, deadline=deadline)
        started = monotonic()
        try:
            async with asyncio.timeout(deadline.total_seconds()):
                embedder = await self.open()
        except TimeoutError:
            raise Unavailable("embedder") from None
        remaining = deadline - timedelta(seconds=monotonic() - started)
        return await embedder.embed(texts, purpose, deadline=remaining)

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        return calibration.relevance(cosine)

    def may_answer(self, cosine: float) -> bool:
        """Whether a passage with this cosine may be relevant to a query at all."""
        return calibration.may_answer(cosine)

    def likeness(self, cosine: float) -> float:
        """How similar two passages are in meaning, 0 to 1, from the cosine of their vectors."""
        return calibration.likeness(cosine)

    async def open(self) -> BuiltinEmbedder:
        """Load the embedder now; raise `Unavailable` if its weights cannot be found."""
        if self._opened is None:
            if self._opening is None or self._opening.done():
                self._opening = asyncio.create_task(self._load())
            # Shielded: a cancelled caller does not stop the loading for later callers.
            return await asyncio.shield(self._opening)
        return self._opened

    async def _load(self) -> BuiltinEmbedder:
        self._opened = await open_builtin(self._weights_dir, self._cache)
        return self._opened

    async def aclose(self) -> None:
        """End its threads, if it was loaded."""
        if self._opening:
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._opened:
            await self._opened.aclose()
