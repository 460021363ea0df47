"""The numbered statements about Recollect, and which tests prove them.

A test proves the statements whose numbers are in its name: `test_R017_...`.
"""

import ast
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
KINDS = {"R": "behaviour", "N": "clients", "S": "security"}  # each in its own TOML file

_NUMBER = re.compile(r"R\d{3}|N\d{2}|S\d{2,3}")
# Any capital letter with digits, so that a misspelt number is noticed.
_IN_NAME = re.compile(r"(?<=_)[A-Z]\d+(?=_|$)")


@dataclass(frozen=True)
class Statement:
    number: str
    interface: str
    text: str


def statements() -> list[Statement]:
    """Every statement, by kind and number."""
    return [
        statement
        for kind in KINDS.values()
        for statement in sorted(_read(kind), key=lambda each: int(each.number[1:]))
    ]


def numbered_tests() -> dict[str, list[str]]:
    """The pytest ids of all tests with a number in their name, by number."""
    tests: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        file = path.relative_to(TESTS.parent).as_posix()
        for node in ast.parse(path.read_text("utf-8"), file).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for number in numbers_in(node.name):
                    tests.setdefault(number, []).append(f"{file}::{node.name}")
    return tests


def numbers_in(name: str) -> list[str]:
    """The numbers in the name of a test function."""
    return _IN_NAME.findall(name) if name.startswith("test_") else []


def problems(listed: list[Statement], tests: dict[str, list[str]]) -> list[str]:
    """Where the statements and the names of the tests do not match."""
    times = Counter(statement.number for statement in listed)
    return [
        *(f"{number}: is not a number" for number in times if not _NUMBER.fullmatch(number)),
        *(f"{number}: has {count} statements" for number, count in times.items() if count > 1),
        *(f"{number}: has no test" for number in times if number not in tests),
        *(f"{number}: has no statement: {tests[number][0]}" for number in tests.keys() - times),
    ]


def _read(kind: str) -> list[Statement]:
    path = Path(__file__).with_name(f"{kind}.toml")
    interfaces = tomllib.loads(path.read_text("utf-8"))
    return [
        Statement(number, interface, text)
        for interface, texts in interfaces.items()
        for number, text in texts.items()
    ]
