"""Markdown files: each list item and each paragraph becomes a memory, tagged by its headings."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.files import SourceFiles
from recollect.portability.importers.record_maker import RecordMaker, parse_time
from recollect.portability.importing import ImportLine, Refusal

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
_ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_RULE = re.compile(r"\s*([-*_])(?:\s*\1){2,}\s*")
_SETTING = re.compile(r"(\w[\w-]*)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class MarkdownStatement:
    """A list item or paragraph, with its headings and line number."""

    text: str
    headings: tuple[str, ...]
    line: int

    @property
    def where(self) -> str:
        """The position, for messages."""
        return f"line {self.line}"


def read(found: SourceFiles, make: RecordMaker) -> Iterator[ImportLine | Refusal]:
    """Yield every statement of every Markdown file."""
    names = found.names("*.md", "*.markdown", "*.txt")
    if not names:
        yield Refusal("the directory", "memory", "it has no Markdown files")
    for name in names:
        try:
            text = found.text(name)
        except UnreadableFile as error:
            yield Refusal(name, "memory", error.message)
            continue
        yield from _read_file(name, text, make)


def _read_file(name: str, text: str, make: RecordMaker) -> Iterator[ImportLine]:
    settings, skipped = _front_matter(text.splitlines())
    at = parse_time(settings.get("date") or settings.get("created"))
    tags = [each.strip(" []'\"") for each in settings.get("tags", "").split(",")]
    repeated: Counter[str] = Counter()
    for each in statements(text, skipped=skipped):
        repeated[each.text] += 1
        path = " › ".join([name, *each.headings])
        yield make.memory(
            f"{name}, line {each.line}",
            each.text,
            name,
            each.text,
            repeated[each.text],
            at=at,
            tags=[tag for tag in dict.fromkeys([*tags, *each.headings]) if tag],
            source_note=path,
        )


def statements(text: str, *, skipped: int = 0) -> Iterator[MarkdownStatement]:
    """Yield the statements of a text, in order; code blocks stay with the text before them."""
    parser = _Parser()
    for number, line in enumerate(text.splitlines()[skipped:], skipped + 1):
        yield from parser.line(line, number)
    yield from parser.end()


class _Parser:
    """The state of parsing a Markdown text from top to bottom."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._first = 0
        self._fence: str | None = None
        self._is_item = False

    def line(self, line: str, number: int) -> Iterator[MarkdownStatement]:
        fence = _FENCE.match(line)
        if self._fence or fence:
            self._add(line, number)
            if fence:
                self._fence = None if self._fence == fence[1] else self._fence or fence[1]
            return
        if heading := _HEADING.fullmatch(line):
            yield from self.end()
            level = len(heading[1])
            self._headings = [each for each in self._headings if each[0] < level]
            self._headings.append((level, heading[2]))
        elif not line.strip():
            # A blank line ends a paragraph; a list item continues if the next line is indented.
            if not self._is_item:
                yield from self.end()
            elif self._lines:
                self._lines.append("")
        elif _RULE.fullmatch(line):
            yield from self.end()
        elif item := _ITEM.fullmatch(line):
            if not (self._is_item and item[1]):
                yield from self.end()
                self._is_item = True
                self._add(item[2], number)
            else:
                self._add(line.strip(), number)
        elif self._is_item and self._lines and not self._lines[-1] and not line.startswith(" "):
            yield from self.end()
            self._add(line, number)
        else:
            self._add(line.strip() if self._is_item else line, number)

    def end(self) -> Iterator[MarkdownStatement]:
        """Yield the collected statement, if it has any letter or digit."""
        text = "\n".join(self._lines).strip()
        self._lines, self._is_item = [], False
        if any(letter.isalnum() for letter in text):
            yield MarkdownStatement(text, tuple(name for _, name in self._headings), self._first)

    def _add(self, line: str, number: int) -> None:
        if not self._lines:
            self._first = number
        self._lines.append(line)


def _front_matter(lines: list[str]) -> tuple[dict[str, str], int]:
    """Return the settings between two `---` lines at the top, and how many lines they take."""
    if not lines or lines[0].strip() != "---":
        return {}, 0
    found: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return found, number
        if setting := _SETTING.fullmatch(line.strip()):
            found[setting[1].lower()] = setting[2].strip(" '\"")
    return {}, 0
