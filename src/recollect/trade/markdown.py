"""Plain Markdown: each item of a list and each paragraph is a statement, under its headings."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from recollect.engine.imports import Line, Refusal
from recollect.trade.errors import Unreadable
from recollect.trade.found import Found
from recollect.trade.making import Maker, moment

_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*")
_ITEM = re.compile(r"( {0,3})(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_RULE = re.compile(r"\s*([-*_])(?:\s*\1){2,}\s*")
_SETTING = re.compile(r"(\w[\w-]*)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that was written down, and under which headings."""

    text: str
    headings: tuple[str, ...]
    line: int

    @property
    def where(self) -> str:
        """For people."""
        return f"line {self.line}"


def read(found: Found, make: Maker) -> Iterator[Line | Refusal]:
    """Every statement of every Markdown file."""
    names = found.names("*.md", "*.markdown", "*.txt")
    if not names:
        yield Refusal("the directory", "memory", "it holds no Markdown files")
    for name in names:
        try:
            text = found.text(name)
        except Unreadable as error:
            yield Refusal(name, "memory", error.message)
            continue
        yield from _file(name, text, make)


def _file(name: str, text: str, make: Maker) -> Iterator[Line]:
    settings, skipped = _front_matter(text.splitlines())
    at = moment(settings.get("date") or settings.get("created"))
    common = [each.strip(" []'\"") for each in settings.get("tags", "").split(",")]
    repeated: Counter[str] = Counter()
    for each in statements(text, skipped=skipped):
        repeated[each.text] += 1
        trail = " › ".join([name, *each.headings])
        yield make.memory(
            f"{name}, line {each.line}",
            each.text,
            name,
            each.text,
            repeated[each.text],
            at=at,
            tags=[tag for tag in dict.fromkeys([*common, *each.headings]) if tag],
            source_note=trail,
        )


def statements(text: str, *, skipped: int = 0) -> Iterator[Statement]:
    """What a text states, in order; code stays with what it stands under."""
    reading = _Reading()
    for number, line in enumerate(text.splitlines()[skipped:], skipped + 1):
        yield from reading.line(line, number)
    yield from reading.end()


class _Reading:
    """A Markdown text on its way from top to bottom."""

    def __init__(self) -> None:
        self._headings: list[tuple[int, str]] = []
        self._lines: list[str] = []
        self._first = 0
        self._fence: str | None = None
        self._is_item = False

    def line(self, line: str, number: int) -> Iterator[Statement]:
        fence = _FENCE.match(line)
        if self._fence or fence:
            self._keep(line, number)
            if fence:
                self._fence = None if self._fence == fence[1] else self._fence or fence[1]
            return
        if heading := _HEADING.fullmatch(line):
            yield from self.end()
            level = len(heading[1])
            self._headings = [each for each in self._headings if each[0] < level]
            self._headings.append((level, heading[2]))
        elif not line.strip():
            # An empty line ends a paragraph; an item goes on if what follows is set in.
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
                self._keep(item[2], number)
            else:
                self._keep(line.strip(), number)
        elif self._is_item and self._lines and not self._lines[-1] and not line.startswith(" "):
            yield from self.end()
            self._keep(line, number)
        else:
            self._keep(line.strip() if self._is_item else line, number)

    def end(self) -> Iterator[Statement]:
        """What was gathered, if it says anything."""
        text = "\n".join(self._lines).strip()
        self._lines, self._is_item = [], False
        if any(letter.isalnum() for letter in text):
            yield Statement(text, tuple(name for _, name in self._headings), self._first)

    def _keep(self, line: str, number: int) -> None:
        if not self._lines:
            self._first = number
        self._lines.append(line)


def _front_matter(lines: list[str]) -> tuple[dict[str, str], int]:
    """The settings between two `---` at the top, and how many lines they take."""
    if not lines or lines[0].strip() != "---":
        return {}, 0
    found: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 2):
        if line.strip() == "---":
            return found, number
        if setting := _SETTING.fullmatch(line.strip()):
            found[setting[1].lower()] = setting[2].strip(" '\"")
    return {}, 0
