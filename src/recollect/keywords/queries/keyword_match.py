"""A memory found by keyword search."""

import re
from datetime import datetime
from typing import NamedTuple

from recollect.core.domain import MemoryId, ThreadId


class KeywordMatch(NamedTuple):
    """A memory found by its words, with just enough fields to rank it."""

    id: MemoryId
    # BM25, unbounded; only meaningful for ordering.
    score: float
    # The share of the query's weight that the memory's words have, 0 to 1.
    coverage: float
    # Whether it contains every quoted phrase of the query.
    has_phrases: bool
    importance: float
    importance_base: float
    thread_id: ThreadId | None
    created_at: datetime
    # The speaker, if the text begins like "Ana: ...".
    speaker: str | None = None
    # Similarity to the query vector; None if either has no vector.
    cosine: float | None = None

    @property
    def order(self) -> tuple[bool, float, float, float, MemoryId]:
        """Sort key: memories with the phrases first, then by words, importance and age."""
        return (
            not self.has_phrases,
            -self.score,
            -self.importance,
            -self.created_at.timestamp(),
            self.id,
        )


# A name has at most four words: "What I want for dinner: soup" names no speaker.
_SPEAKER_PREFIX = re.compile(r"([^\s:]+(?:\ [^\s:]+){0,3}):\s")


def speaker_of(opening: str) -> str | None:
    """Return the speaker if the text begins like "Ana: ...", else None."""
    found = _SPEAKER_PREFIX.match(opening)
    return found[1] if found else None
