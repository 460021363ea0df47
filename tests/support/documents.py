"""The documents of the project as tests read them: prose, links, code, and blocks to be run.

A block marked `run` is typed by a reader, so a test types it too:

    ```console run
    $ curl http://127.0.0.1:8484/v1/memories -H "X-API-Key: $KEY"
    {"object":"list","data":[{"object":"memory","id":"mem_…",…

What follows a command is what it prints; `…` stands for anything. In a command `rk_…`, `sess_…`
and their like stand for the last such id that was printed, as they do for a reader. The output of
`make serve` is that of the server the test has started. In a `python run` block each comment
behind a `print` is what that `print` prints.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_SHOWN = re.compile(r"print\(.*\)  # (.+)$", re.MULTILINE)
_ANYTHING = re.escape("…")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, whether it is to be run, and where it stands."""

    language: str
    is_run: bool
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Step:
    """A command and what it should print."""

    command: str
    expected: str


@dataclass(frozen=True, slots=True)
class Document:
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
    def to_run(self) -> list[Block]:
        return [block for block in self.blocks if block.is_run]

    @property
    def prose(self) -> str:
        return _FENCE.sub("", self.text)

    @property
    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    @property
    def code(self) -> list[str]:
        """Whatever a reader may copy: code spans, and the lines of every block."""
        lines = [line for block in self.blocks for line in block.text.splitlines()]
        return _CODE.findall(self.prose) + lines

    @property
    def anchors(self) -> set[str]:
        """What `#...` may name, spelt as code hosts spell it."""
        return {_anchor(title) for title in _HEADING.findall(self.prose)}


def documents() -> list[Document]:
    """The README and its siblings, and everything in `docs/`."""
    paths = sorted(PROJECT.glob("*.md")) + sorted((PROJECT / "docs").rglob("*.md"))
    return [Document(path, path.read_text("utf-8")) for path in paths]


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
    """A Python block and what its comments say that it prints."""
    return Step(block.text, "\n".join(_SHOWN.findall(block.text)))


def fits(output: str, expected: str) -> bool:
    """Whether an output is as it was written down, `…` standing for anything."""
    pattern = re.escape(expected).replace(_ANYTHING, ".*?")
    return re.fullmatch(pattern, output.strip(), re.DOTALL) is not None


def _block(text: str, match: re.Match[str]) -> Block:
    language, _, rest = match["info"].strip().partition(" ")
    line = text.count("\n", 0, match.start()) + 1
    return Block(language, rest.strip() == "run", match["text"], line)


def _anchor(title: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", title.strip().lower())
    return kept.replace(" ", "-")
