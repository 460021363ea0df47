"""What an embedder is: text in, unit vectors out, and what its cosines mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.errors import Unavailable

Vector = NDArray[np.float32]


class Refused(Unavailable):
    """The embedder is well and will not have one of the texts: asking again would not help."""


class Purpose(StrEnum):
    """Why a text is embedded; asymmetric models treat a question and a statement differently."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class Identity:
    """Where vectors come from: two embedders with one identity should share a space."""

    endpoint: str
    model: str


class Embedder(Protocol):
    """Anything that turns text into unit vectors of one space."""

    @property
    def identity(self) -> Identity:
        """Which endpoint and model this is."""
        ...

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        """One unit vector a text, in order; raise `Unavailable` when it fails or the time is up.

        `Refused`, where it is known to be a text's fault.
        """
        ...

    def relevance(self, cosine: float) -> float:
        """How well a passage answers a query, 0 to 1, from the cosine of their vectors."""
        ...

    def may_answer(self, cosine: float) -> bool:
        """Whether a passage this near may answer a query; True where nobody knows the scale."""
        ...

    def likeness(self, cosine: float) -> float:
        """How nearly two passages say the same, 0 to 1, from the cosine of their vectors."""
        ...

    async def aclose(self) -> None:
        """Let go of threads and connections."""
        ...
