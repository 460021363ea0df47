"""What the child process hands back, and how it is written down between the two."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

# As much as an upload may bring; what a small file unfolds to is held to the same.
MOST_CHARACTERS = 20 * 1024 * 1024
# One chunk says one thing; a tenth of it is said again by the next, so that no sentence is lost
# between two.
CHUNK_CHARACTERS = 1_200
OVERLAP_CHARACTERS = 120

# What the child process ends with when it can say why a document cannot be read.
REFUSED = 3

BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A chunk of a text: where it begins, what it says, and how to cite it."""

    start: int
    content: str
    heading: str | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A document as it was read; without pieces it is kept and cannot be searched."""

    media_type: str
    pieces: Sequence[TextPiece] = ()
    note: str | None = None


class UnreadableDocument(Exception):
    """The document cannot be read; the message says why to whoever brought it."""


def written(reading: Reading) -> bytes:
    """A reading as bytes; what is no text of this world is replaced."""
    return json.dumps(asdict(reading), ensure_ascii=False).encode("utf-8", "replace")


def from_written(data: bytes) -> Reading:
    """The reading that was written."""
    found: dict[str, Any] = json.loads(data)
    pieces = [TextPiece(**each) for each in found["pieces"]]
    return Reading(found["media_type"], pieces, found["note"])
