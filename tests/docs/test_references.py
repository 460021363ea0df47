"""Everything the documents refer to exists: files, headings, make targets, commands, modules."""

import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from recollect.cli import main
from tests.support.markdown_docs import PROJECT, MarkdownFile, documents

DOCUMENTS = documents()
each_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=[document.name for document in DOCUMENTS]
)

_MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_COMMAND = re.compile(r"\brecollect ([a-z]+(?:-[a-z]+)*)(?: ([a-z]+)(?=[\s`]|$))?")
_OPTION = re.compile(r"(?<=\s)--[a-z-]+")
_MODULE = re.compile(r"\bpython -m ((?:bench|tests)(?:\.\w+)+)")


@each_document
def test_every_link_resolves(document: MarkdownFile) -> None:
    broken = [link for link in document.links if not _resolves(document, link)]

    assert broken == []


@each_document
def test_every_make_target_exists(document: MarkdownFile) -> None:
    targets = set(_TARGET.findall((PROJECT / "Makefile").read_text("utf-8")))

    named = {found for code in document.code for found in _MAKE.findall(code)}

    assert named - targets == set()


@each_document
def test_every_command_and_option_exists(
    document: MarkdownFile, capsys: pytest.CaptureFixture[str]
) -> None:
    for code in document.code:
        for match in _COMMAND.finditer(code):
            words = [word for word in match.groups() if word]
            with pytest.raises(SystemExit) as ended:
                main([*words, "--help"])
            printed = capsys.readouterr()
            assert ended.value.code == 0, f"`{code}`: {printed.err}"
            options = _OPTION.findall(code[match.end() :])
            assert [option for option in options if option not in printed.out] == [], code


@each_document
def test_every_runnable_module_exists(document: MarkdownFile) -> None:
    named = {found for code in document.code for found in _MODULE.findall(code)}

    assert [name for name in named if not _is_module(name)] == []


def test_no_file_contains_a_path_of_the_development_machine() -> None:
    machine = re.compile(r"(?<![\w.])/(?:work|root|Users)/\w")

    found = [
        f"{path.name}: {line.strip()[:100]}"
        for path in _files()
        for line in _lines(path)
        if machine.search(line)
    ]

    assert found == []


def test_S100_packages_come_only_from_the_public_index() -> None:
    lock = (PROJECT / "uv.lock").read_text("utf-8")
    hosts = set(re.findall(r"https?://([^/\"]+)", lock))

    assert hosts == {"pypi.org", "files.pythonhosted.org"}


def test_S100_every_package_has_a_hash_and_a_compatible_licence() -> None:
    locked = tomllib.loads((PROJECT / "uv.lock").read_text("utf-8"))["package"]
    packages = [each for each in locked if each["source"] != {"editable": "."}]
    files = [
        (each["name"], file.get("hash", ""))
        for each in packages
        for file in [*each.get("wheels", []), *([each["sdist"]] if "sdist" in each else [])]
    ]
    assert {name for name, _ in files} == {each["name"] for each in packages}
    assert [name for name, digest in files if not re.fullmatch("sha256:[0-9a-f]{64}", digest)] == []

    licences = {name: _licence(name) for name in {each["name"] for each in packages}}
    known = {name: text for name, text in licences.items() if text is not None}
    assert len(known) > len(licences) / 2  # the others are for other systems and Python versions
    assert {name: text for name, text in known.items() if not _COMPATIBLE.search(text)} == {}
    assert {name: text for name, text in known.items() if _INCOMPATIBLE.search(text)} == {}


# Compatible with an Apache licence: permissive licences and per-file copyleft.
_COMPATIBLE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software|MPL|Mozilla|LGPL|Zlib|CC0|Unlicense"
)
_INCOMPATIBLE = re.compile(r"AGPL|(?<!L)GPL|SSPL|BUSL|Proprietary|Commercial")


def _licence(name: str) -> str | None:
    """The licence of an installed package; None if it is not installed."""
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return None
    named = [each for each in about.get_all("Classifier", []) if each.startswith("License")]
    return about["License-Expression"] or " ".join(named) or about["License"] or ""


def _resolves(document: MarkdownFile, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return True
    name, _, anchor = link.partition("#")
    target = document.path.parent / name if name else document.path
    if not target.exists():
        return False
    if not anchor:
        return True
    return anchor in MarkdownFile(target, target.read_text("utf-8")).anchors


def _is_module(name: str) -> bool:
    return PROJECT.joinpath(*name.split(".")).with_suffix(".py").exists()


def _files() -> list[Path]:
    """The files in git, or without git all files that are neither generated nor hidden."""
    if not (PROJECT / ".git").exists():
        return [each for each in PROJECT.rglob("*") if each.is_file() and not _is_generated(each)]
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [PROJECT / name for name in listed.stdout.split("\0") if name]


def _is_generated(path: Path) -> bool:
    parts = path.relative_to(PROJECT).parts
    return any(part.startswith(".") or part in {"__pycache__", "node_modules"} for part in parts)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except (UnicodeDecodeError, FileNotFoundError):
        return []
