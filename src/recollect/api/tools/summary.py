"""Render recalled memories as text for a model. Pure functions."""

from collections.abc import Sequence

from recollect.api.tools.wire import RecalledMemory, Why
from recollect.core.prompt_fence import visible_text

NOTHING_FOUND = "No memories were found."
NOTHING_FOUND_BY_WORDS = (
    "No memories were found by words and links; search by meaning is unavailable right now."
)
BY_WORDS = "Found by words and links alone: search by meaning is unavailable right now."

# How much of a forgotten memory the confirmation quotes.
_PREVIEW_BYTES = 80
# How much of a memory an entry shows. A dozen of the longest would fill a model's context window.
_MAX_ENTRY = 2_000
# Names of the result lists in the text.
_LISTS = {"vector": "meaning", "words": "words", "links": "links", "time": "time"}
# From this position on, a long text is cut at the end of a line, a sentence or a word.
_EARLIEST_CUT = 1_800


def summary(
    memories: Sequence[RecalledMemory],
    total: int,
    *,
    is_ranked: bool = False,
    is_degraded: bool = False,
) -> str:
    """Return the memories as a numbered Markdown list under a second-level heading.

    Ranked lists state the scale, because a relevance of 0.03 looks like a poor match.
    """
    if not memories:
        return NOTHING_FOUND_BY_WORDS if is_degraded else NOTHING_FOUND
    entries = [_entry(number, each) for number, each in enumerate(memories, start=1)]
    scale = ", best first; relevance is at most 0.05" if is_ranked else ""
    heading = f"## Memories ({len(memories)} of {total}{scale})"
    return "\n\n".join([heading, *([BY_WORDS] if is_degraded else []), *entries])


def preview(content: str) -> str:
    """Return the beginning of the first line, cut between characters."""
    first = visible_text(content.strip().splitlines()[0])
    cut = first.encode()[:_PREVIEW_BYTES].decode(errors="ignore")
    return cut if cut == first else cut + "…"


def _entry(number: int, memory: RecalledMemory) -> str:
    details = [
        f"importance {memory.importance:.2f}",
        f"relevance {memory.relevance_score:.2f}",
        memory.created_at[:10],
    ]
    if memory.doubted:
        details.append("doubted: it is based on a statement that is no longer valid")
    if memory.valid_until:
        details.append(f"replaced on {memory.valid_until[:10]}")
    heading = f"{number}. **{memory.memory_type}** ({', '.join(details)}) id {memory.id}"
    # Indented, so that a line that looks like a heading or an entry stays part of this entry.
    indent = " " * (len(str(number)) + 2)
    body = [*_content_lines(memory), *_found_by(memory.why)]
    lines = (f"{indent}{line}".rstrip() for line in body)
    return "\n".join([heading, *lines])


def _content_lines(memory: RecalledMemory) -> list[str]:
    """Return the lines of a memory. A long one is cut, with a note on where to read all of it."""
    text = "\n".join(map(visible_text, memory.content.strip().splitlines()))
    if len(text) <= _MAX_ENTRY:
        return text.split("\n")
    beginning = _beginning(text)
    left = len(text) - len(beginning)
    note = (
        f"[Cut here, {left:,} more characters. The whole memory: resource `memory://{memory.id}`, "
        f"or `GET /v1/memory/{memory.id}`.]"
    )
    return [*beginning.split("\n"), note]


def _found_by(why: Sequence[Why] | None) -> list[str]:
    """Return one line that names the lists that found it, or none without an explanation."""
    if not why:
        return []
    return [f"[Found by {', '.join(_describe(each) for each in why)}.]"]


def _describe(reason: Why) -> str:
    text = f"{_LISTS[reason.source]} (rank {reason.rank}"
    # The path is memory, relation, memory, relation, ..., and ends with this memory itself.
    steps = (reason.path or [])[:-1]
    path = " to ".join(
        f"{memory} over {relation}"
        for memory, relation in zip(steps[::2], steps[1::2], strict=True)
    )
    return f"{text}, from {path})" if path else f"{text})"


def _beginning(text: str) -> str:
    for end in ("\n", ". ", " "):
        at = text.rfind(end, _EARLIEST_CUT, _MAX_ENTRY)
        if at >= 0:
            return text[: at + 1].rstrip()
    return text[:_MAX_ENTRY]
