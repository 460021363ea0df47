"""Every file, folder and name in the documents about the code exists.

A code span such as `memories/save.py:save` names a function, class, constant or setting of that
file. Paths begin at `src/recollect/` or at the project's root.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.markdown_docs import PROJECT, MarkdownFile, documents

CODE_MAP = ("docs/architecture.md", "docs/decisions.md", "CONTRIBUTING.md")
DOCUMENTS = [document for document in documents() if document.name in CODE_MAP]
SOURCE = PROJECT / "src" / "recollect"

each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=[document.name for document in DOCUMENTS]
)

_PATH = re.compile(r"(?P<path>[\w.*-]*(?:/[\w.*-]*)*?(?:\.(?:py|sql|js|ts|css|html|md|toml)|/))")
_SPAN = re.compile(rf"{_PATH.pattern}(?::(?P<name>\w+(?:\.\w+)*))?")


def references(document: MarkdownFile) -> Iterator[tuple[str, str | None]]:
    """The paths in the code spans of a document, each with the name that follows it, if any."""
    for span in re.findall(r"`([^`\n]+)`", document.prose):
        if found := _SPAN.fullmatch(span):
            yield found["path"], found["name"]


def files_named(path: str) -> list[Path]:
    return [file for root in (SOURCE, PROJECT) for file in root.glob(path)]


def names_in(file: Path) -> set[str]:
    """The names that a file defines at its top level, and `Class.name` for those of its classes."""
    text = file.read_text("utf-8")
    if file.suffix != ".py":
        return set(re.findall(r"[\w-]+", text))
    found: set[str] = set()
    for node in ast.parse(text).body:
        for name in _defined(node):
            found.add(name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{name}.{inner}" for each in node.body for inner in _defined(each)}
    return found


def _defined(node: ast.stmt) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Assign():
            targets = [
                inner for each in node.targets for inner in getattr(each, "elts", None) or [each]
            ]
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []


def test_every_document_about_the_code_names_files() -> None:
    assert {document.name for document in DOCUMENTS} == set(CODE_MAP)
    assert [document.name for document in DOCUMENTS if not list(references(document))] == []


@each_document
def test_every_path_exists(document: MarkdownFile) -> None:
    missing = [path for path, _ in references(document) if not files_named(path)]

    assert missing == []


@each_document
def test_every_name_is_defined_in_its_file(document: MarkdownFile) -> None:
    missing = [
        f"{path}:{name}"
        for path, name in references(document)
        if name and not any(name in names_in(file) for file in files_named(path))
    ]

    assert missing == []


def test_the_tree_lists_every_part_of_the_source() -> None:
    [architecture] = [each for each in DOCUMENTS if each.name == "docs/architecture.md"]
    rows = re.findall(r"^\| ((?:`[^`]+`(?:, )?)+) \|", architecture.text, re.MULTILINE)
    listed = {path.rstrip("/") for row in rows for path in re.findall(r"`([^`]+)`", row)}
    parts = {
        each.name
        for each in SOURCE.iterdir()
        if (each.is_dir() or each.suffix == ".py") and not each.name.startswith("__")
    }
    interfaces = {
        f"api/{each.name}"
        for each in (SOURCE / "api").iterdir()
        if each.is_dir() and not each.name.startswith("__")
    }

    assert (parts | interfaces) - listed == set()
