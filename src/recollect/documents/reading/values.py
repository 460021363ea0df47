"""The result of the child process, and how it is sent to the parent."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

# The maximum size of an upload. The text extracted from a small file has the same limit.
MAX_CHARACTERS = 20 * 1024 * 1024
# A chunk is about one topic. A tenth of it is repeated in the next one, so that no sentence is lost
# at the boundary.
CHUNK_CHARACTERS = 1_200
OVERLAP_CHARACTERS = 120

# The exit code of the child process if it can say why a document cannot be read.
REFUSED = 3

BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A chunk of a text: its position, its content, and how to cite it."""

    start: int
    content: str
    heading: str | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """A document as it was read. Without pieces, it is stored but not searchable."""

    media_type: str
    pieces: Sequence[TextPiece] = ()
    note: str | None = None


class UnreadableDocument(Exception):
    """The document cannot be read; the message tells the user why."""


def serialise(reading: Reading) -> bytes:
    """Return the result as bytes; unpaired surrogates are replaced."""
    return json.dumps(asdict(reading), ensure_ascii=False).encode("utf-8", "replace")


def parse(data: bytes) -> Reading:
    """Return the result from its bytes."""
    found: dict[str, Any] = json.loads(data)
    pieces = [TextPiece(**each) for each in found["pieces"]]
    return Reading(found["media_type"], pieces, found["note"])
