"""Split a text into chunks that can be found, cited, and joined again."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from recollect.documents.reading.values import CHUNK_CHARACTERS, OVERLAP_CHARACTERS, TextPiece

_HEADING = re.compile(r"^(#{1,6})[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_MAX_HEADING = 200
_PAGE_GAP = "\n\n"

# The splitter's time grows with the square of a text that has no lines: 2 MB took 15 s whole and
# 0.3 s in blocks of this size.
_BLOCK_CHARACTERS = 20_000
# Where a block may end, best first; inside a word only if there is no other place.
_ENDS = ("\n#", "\n\n", "\n", " ")

_Splitter = TextSplitter | MarkdownSplitter


def chunks_of_text(text: str) -> list[TextPiece]:
    """Split a plain text into chunks."""
    splitter = TextSplitter(CHUNK_CHARACTERS, overlap=OVERLAP_CHARACTERS, trim=False)
    return [TextPiece(start, content) for start, content in _split(splitter, text)]


def chunks_of_markdown(text: str) -> list[TextPiece]:
    """Split a text with headings into chunks, each with the headings above it."""
    splitter = MarkdownSplitter(CHUNK_CHARACTERS, overlap=OVERLAP_CHARACTERS, trim=False)
    headings = _headings(text)
    starts = [place for place, _ in headings]

    def headings_above(start: int, content: str) -> str | None:
        # A heading at the beginning of the chunk belongs to it.
        first = start + len(content) - len(content.lstrip())
        found = bisect_right(starts, first) - 1
        return headings[found][1] if found >= 0 else None

    return [
        TextPiece(start, content, headings_above(start, content))
        for start, content in _split(splitter, text)
    ]


def chunks_of_pages(pages: Sequence[str]) -> list[TextPiece]:
    """Split pages into chunks, each with the number of the page on which it begins."""
    text = _PAGE_GAP.join(pages)
    starts: list[int] = []
    place = 0
    for page in pages:
        starts.append(place)
        place += len(page) + len(_PAGE_GAP)
    return [
        TextPiece(each.start, each.content, page=bisect_right(starts, _first(each)))
        for each in chunks_of_text(text)
    ]


def _split(splitter: _Splitter, text: str) -> Iterator[tuple[int, str]]:
    begin = 0
    while begin < len(text):
        end = _end_of_block(text, begin)
        for start, content in splitter.chunk_indices(text[begin:end]):
            yield begin + start, content
        begin = end


def _end_of_block(text: str, begin: int) -> int:
    last = begin + _BLOCK_CHARACTERS
    if last >= len(text):
        return len(text)
    middle = begin + _BLOCK_CHARACTERS // 2
    for mark in _ENDS:
        found = text.rfind(mark, middle, last)
        if found > 0:
            # A heading begins the next block; other separators end this one.
            return found + (1 if mark == "\n#" else len(mark))
    return last


def _first(piece: TextPiece) -> int:
    return piece.start + len(piece.content) - len(piece.content.lstrip())


def _headings(text: str) -> list[tuple[int, str]]:
    """Return the position of each heading, with those above it: `Guide > Set-up`."""
    fenced = [(match.start(), match.end()) for match in _FENCE.finditer(text)]
    ends = [end for _, end in fenced]
    path: list[tuple[int, str]] = []
    found: list[tuple[int, str]] = []
    for match in _HEADING.finditer(text):
        fence = bisect_right(ends, match.start())
        if fence < len(fenced) and fenced[fence][0] <= match.start():
            continue
        level = len(match[1])
        path = [each for each in path if each[0] < level]
        path.append((level, match[2].strip()))
        found.append((match.start(), " > ".join(name for _, name in path)[:_MAX_HEADING]))
    return found
