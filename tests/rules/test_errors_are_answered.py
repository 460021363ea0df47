"""Every interface maps every failure of the engine to a status other than 500."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from recollect.api.errors import ErrorReply, MethodNotAllowed, NoRoute
from recollect.core.errors import (
    Conflict,
    Denied,
    Failure,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongFormat,
)
from tests.rules.source import files

ErrorMapper = Callable[[Failure | Exception], ErrorReply]

EXAMPLES: dict[type[Failure], list[Failure]] = {
    Invalid: [Invalid("No.", field="content"), Invalid("No.", is_syntax=True)],
    WrongFormat: [WrongFormat("No.")],
    Unauthenticated: [Unauthenticated("No.")],
    Denied: [Denied("No.")],
    NotFound: [NotFound("memory"), NotFound("session"), NotFound("trace")],
    Conflict: [Conflict("No."), Conflict("No.", is_temporary=True)],
    TooLarge: [TooLarge("content", limit=1), TooLarge("body", limit=1, unit="bytes")],
    RateLimited: [RateLimited(timedelta(milliseconds=1)), RateLimited(timedelta(hours=1))],
    Unavailable: [Unavailable("database")],
    NoRoute: [NoRoute()],
    MethodNotAllowed: [MethodNotAllowed("GET")],
}
# Their failures are reported on the command line, before the server runs.
COMMAND_LINE_MODULES = {
    "recollect.embedded",
    "recollect.portability.dump",
    "recollect.cli",
    "recollect.compose",
}


def failures(kind: type[Failure] = Failure) -> Iterator[type[Failure]]:
    for each in kind.__subclasses__():
        yield each
        yield from failures(each)


def error_mappers() -> dict[str, ErrorMapper]:
    """The functions `answer...` of each interface's `errors.py`, by name."""
    found: dict[str, ErrorMapper] = {}
    for file in files():
        if file.startswith("api/") and "/" in file[4:] and file.endswith("errors.py"):
            module = importlib.import_module("recollect." + file[:-3].replace("/", "."))
            names = [
                name for name in vars(module) if name.startswith("answer") and name != "answer_with"
            ]
            found |= {f"{file} {name}": getattr(module, name) for name in names}
    return found


def reportable_failures() -> set[type[Failure]]:
    for file in files():
        if not file.startswith(("cli/", "__main__")):
            importlib.import_module(
                "recollect." + file[:-3].replace("/", ".").removesuffix(".__init__")
            )
    return {
        each
        for each in failures()
        if not any(each.__module__.startswith(name) for name in COMMAND_LINE_MODULES)
        and not inspect.isabstract(each)
        and each.__module__.startswith("recollect.")
    }


def test_every_failure_has_an_example() -> None:
    missing = {
        each
        for each in reportable_failures()
        if not any(issubclass(each, known) for known in EXAMPLES)
    }

    assert missing == set()


@pytest.mark.parametrize("interface", error_mappers())
def test_every_interface_maps_every_failure(interface: str) -> None:
    answer = error_mappers()[interface]

    replies: dict[Any, ErrorReply] = {
        (kind.__name__, number): answer(example)
        for kind, examples in EXAMPLES.items()
        for number, example in enumerate(examples)
    }

    assert [name for name, reply in replies.items() if not 400 <= reply.status < 600] == []
    assert [name for name, reply in replies.items() if reply.status == 500] == []
    for (name, _), reply in replies.items():
        headers = {each.lower() for each in reply.headers}
        assert ("www-authenticate" in headers) == (name == "Unauthenticated"), name
        assert ("retry-after" in headers) == (name == "RateLimited"), name


@pytest.mark.parametrize("interface", error_mappers())
def test_a_bug_is_a_500_without_details(interface: str) -> None:
    reply = error_mappers()[interface](ValueError("SELECT secret FROM /var/lib"))

    assert reply.status == 500
    assert "secret" not in repr(reply)
