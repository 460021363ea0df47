"""The interface of an embedder: it turns texts into unit vectors and interprets their cosines."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.core.errors import Unavailable

Vector = NDArray[np.float32]


class TextRefused(Unavailable):
    """The embedder works but refuses one of the texts; a retry would not help."""


class Purpose(StrEnum):
    """Why a text is embedded; asymmetric models treat a question and a statement differently."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class EmbedderIdentity:
    """The origin of vectors. The same identity should mean the same vector space."""

    # `builtin`, or the kind of API that the endpoint speaks; see `kinds.py`.
    kind: str
    endpoint: str
    model: str


class Embedder(Protocol):
    """Turns texts into unit vectors of one vector space."""

    @property
    def identity(self) -> EmbedderIdentity:
        """The kind, endpoint and model of this embedder."""
        ...

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """Return one unit vector per text, in order; raise `Unavailable` on failure or timeout.

        Raises `TextRefused` if a text is known to be the cause.
        """
        ...

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        ...

    def may_answer(self, cosine: float) -> bool:
        """Whether a passage with this cosine may answer a query; True if the scale is unknown."""
        ...

    def likeness(self, cosine: float) -> float:
        """How similar two passages are in meaning, 0 to 1, from the cosine of their vectors."""
        ...

    async def aclose(self) -> None:
        """End threads and close connections."""
        ...
