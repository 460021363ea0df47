"""Parse the project's documents for tests: prose, links, code, and runnable blocks.

A test runs every block marked `run`:

    ```console run
    $ curl http://127.0.0.1:8484/v1/memories -H "X-API-Key: $KEY"
    {"object":"list","data":[{"object":"memory","id":"mem_…",…

The lines after a command are its output; `…` matches anything. In a command, `rk_…`, `chat-…` and
so on are replaced by the last printed id with that prefix. The output of `make serve` is that of
the server that the test has started. In a `python run` block, the comment after each `print` is its
output.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

PROJECT = Path(__file__).resolve().parents[2]

# A block in a list is indented.
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SHOWN = re.compile(r"print\(.*\)  # (.+)$", re.MULTILINE)
_ANYTHING = re.escape("…")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, whether to run it, its text and its line."""

    language: str
    is_run: bool
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """A command and its expected output."""

    command: str
    expected: str


@dataclass(frozen=True, slots=True)
class MarkdownFile:
    """One Markdown file."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        return self.path.relative_to(PROJECT).as_posix()

    @property
    def blocks(self) -> list[Block]:
        return [_block(self.text, match) for match in _FENCE.finditer(self.text)]

    @property
    def runnable_blocks(self) -> list[Block]:
        return [block for block in self.blocks if block.is_run]

    @property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def code(self) -> list[str]:
        """Everything a reader may copy: code spans and the lines of every block."""
        lines = [line for block in self.blocks for line in block.text.splitlines()]
        return _CODE.findall(self.prose) + lines

    @property
    def anchors(self) -> set[str]:
        """The possible targets of `#...` links, in GitHub's form."""
        return {_anchor(title) for title in _HEADING.findall(self.prose)}


def documents() -> list[MarkdownFile]:
    """The Markdown files of the project's root and of `docs/`."""
    paths = sorted(PROJECT.glob("*.md")) + sorted((PROJECT / "docs").rglob("*.md"))
    return [MarkdownFile(path, path.read_text("utf-8")) for path in paths]


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block, each with its output."""
    lines = block.text.splitlines()
    while lines:
        command = [lines.pop(0)]
        assert command[0].startswith("$ "), f"line {block.line}: no command: {command[0]}"
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        output: list[str] = []
        while lines and not lines[0].startswith("$ "):
            output.append(lines.pop(0))
        yield Step("\n".join(command)[2:], "\n".join(output).strip())


def script(block: Block) -> Step:
    """A Python block and the output that its comments document."""
    return Step(block.text, "\n".join(_SHOWN.findall(block.text)))


def matches(output: str, expected: str) -> bool:
    """Whether an output matches the documented one, in which `…` matches anything."""
    pattern = re.escape(expected).replace(_ANYTHING, ".*?")
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def _block(text: str, match: re.Match[str]) -> Block:
    language, _, rest = match["info"].strip().partition(" ")
    line = text.count("\n", 0, match.start()) + 1
    return Block(language, rest.strip() == "run", dedent(match["text"]), line)


def _anchor(title: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return kept.replace(" ", "-")
