"""Every failure the engine knows is answered by every door, with a status that is not 500."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from recollect.doors.front import Reply
from recollect.doors.furnish import NoRoute
from recollect.errors import (
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

Answer = Callable[[Failure | Exception], Reply]

EXAMPLES: dict[type[Failure], list[Failure]] = {
    Invalid: [Invalid("No.", field="content"), Invalid("No.", is_syntax=True)],
    WrongFormat: [WrongFormat("No.")],
    Unauthenticated: [Unauthenticated("No.")],
    Denied: [Denied("No.")],
    NotFound: [NotFound("memory"), NotFound("session"), NotFound("trace")],
    Conflict: [Conflict("No."), Conflict("No.", is_passing=True)],
    TooLarge: [TooLarge("content", most=1), TooLarge("body", most=1, unit="bytes")],
    RateLimited: [RateLimited(timedelta(milliseconds=1)), RateLimited(timedelta(hours=1))],
    Unavailable: [Unavailable("database")],
    NoRoute: [NoRoute(404, {}), NoRoute(405, {"allow": "GET"})],
}
# Said to whoever starts the server, before there is a door.
AT_THE_TERMINAL = {"recollect.embedded", "recollect.dumps", "recollect.cli", "recollect.compose"}


def failures(kind: type[Failure] = Failure) -> Iterator[type[Failure]]:
    for each in kind.__subclasses__():
        yield each
        yield from failures(each)


def answers() -> dict[str, Answer]:
    """How each door answers: every public function `answer...` of its `errors.py`."""
    found: dict[str, Answer] = {}
    for file in files():
        if file.startswith("doors/") and file.endswith("errors.py"):
            module = importlib.import_module("recollect." + file[:-3].replace("/", "."))
            names = [name for name in vars(module) if name.startswith("answer")]
            found |= {f"{file} {name}": getattr(module, name) for name in names}
    return found


def of_doors() -> set[type[Failure]]:
    for file in files():
        if not file.startswith(("cli/", "__main__")):
            importlib.import_module(
                "recollect." + file[:-3].replace("/", ".").removesuffix(".__init__")
            )
    return {
        each
        for each in failures()
        if not any(each.__module__.startswith(place) for place in AT_THE_TERMINAL)
        and not inspect.isabstract(each)
        and each.__module__.startswith("recollect.")
    }


def test_every_failure_has_an_example_here() -> None:
    unanswered = {
        each for each in of_doors() if not any(issubclass(each, known) for known in EXAMPLES)
    }

    assert unanswered == set()


@pytest.mark.parametrize("door", answers())
def test_every_door_answers_every_failure(door: str) -> None:
    answer = answers()[door]

    replies: dict[Any, Reply] = {
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


@pytest.mark.parametrize("door", answers())
def test_a_bug_is_a_500_that_says_nothing(door: str) -> None:
    reply = answers()[door](ValueError("SELECT secret FROM /var/lib"))

    assert reply.status == 500
    assert "secret" not in repr(reply)
