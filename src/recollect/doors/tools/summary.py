"""Memories as text for a model: pure."""

from collections.abc import Sequence

from recollect.doors.tools.wire import RecalledMemory, Why
from recollect.engine.fence import visible

NOTHING_FOUND = "No memories were found."
NOTHING_FOUND_BY_WORDS = (
    "No memories were found by words and links; meaning could not be searched just now."
)
BY_WORDS = "Found by words and links alone: meaning could not be searched just now."

# How much of a forgotten memory its epitaph quotes.
_PREVIEW_BYTES = 80
# How much of a memory an entry shows: a dozen of the longest would fill a model's whole window.
_LONGEST_ENTRY = 2_000
# What the lists are called for who reads only text.
_LISTS = {"vector": "meaning", "words": "words", "links": "links", "time": "time"}
# From here on a place is looked for where a text can be cut: after a line, a sentence, a word.
_EARLIEST_CUT = 1_800


def summary(
    memories: Sequence[RecalledMemory],
    total: int,
    *,
    is_ranked: bool = False,
    is_degraded: bool = False,
) -> str:
    """The memories as a numbered Markdown list under a second-level heading.

    Where they are ranked it tells the scale: 0.03 would read like a poor fit.
    """
    if not memories:
        return NOTHING_FOUND_BY_WORDS if is_degraded else NOTHING_FOUND
    entries = [_entry(number, each) for number, each in enumerate(memories, start=1)]
    scale = ", best first; relevance is at most 0.05" if is_ranked else ""
    heading = f"## Memories ({len(memories)} of {total}{scale})"
    return "\n\n".join([heading, *([BY_WORDS] if is_degraded else []), *entries])


def preview(content: str) -> str:
    """The beginning of the first line, cut at a character."""
    first = visible(content.strip().splitlines()[0])
    cut = first.encode()[:_PREVIEW_BYTES].decode(errors="ignore")
    return cut if cut == first else cut + "…"


def _entry(number: int, memory: RecalledMemory) -> str:
    about = [
        f"importance {memory.importance:.2f}",
        f"relevance {memory.relevance_score:.2f}",
        memory.created_at[:10],
    ]
    if memory.doubted:
        about.append("doubted: it rests on something that no longer holds")
    if memory.valid_until:
        about.append(f"replaced on {memory.valid_until[:10]}")
    heading = f"{number}. **{memory.memory_type}** ({', '.join(about)}) id {memory.id}"
    # Indented, so that a line of it that looks like a heading or an entry stays inside its own.
    indent = " " * (len(str(number)) + 2)
    shown = [*_shown(memory), *_found_by(memory.why)]
    lines = (f"{indent}{line}".rstrip() for line in shown)
    return "\n".join([heading, *lines])


def _shown(memory: RecalledMemory) -> list[str]:
    """The lines of a memory, or of its beginning and where to read the whole."""
    text = "\n".join(map(visible, memory.content.strip().splitlines()))
    if len(text) <= _LONGEST_ENTRY:
        return text.split("\n")
    beginning = _beginning(text)
    left = len(text) - len(beginning)
    note = (
        f"[Cut here, {left:,} more characters. The whole memory: resource `memory://{memory.id}`, "
        f"or `GET /v1/memory/{memory.id}`.]"
    )
    return [*beginning.split("\n"), note]


def _found_by(why: Sequence[Why] | None) -> list[str]:
    """One line of the lists that found it, or none where that was not asked or nothing was."""
    if not why:
        return []
    return [f"[Found by {', '.join(_place(each) for each in why)}.]"]


def _place(place: Why) -> str:
    said = f"{_LISTS[place.source]} (rank {place.rank}"
    # Memory, relation, memory, relation, and the one this is about, which needs no naming.
    steps = (place.path or [])[:-1]
    way = " to ".join(
        f"{memory} over {relation}"
        for memory, relation in zip(steps[::2], steps[1::2], strict=True)
    )
    return f"{said}, from {way})" if way else f"{said})"


def _beginning(text: str) -> str:
    for end in ("\n", ". ", " "):
        at = text.rfind(end, _EARLIEST_CUT, _LONGEST_ENTRY)
        if at >= 0:
            return text[: at + 1].rstrip()
    return text[:_LONGEST_ENTRY]
