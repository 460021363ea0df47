"""Logs are an event and fields, and no field is named like something private.

`logs.py` blots such fields out should one slip through; this keeps them from being written.
"""

import ast
from collections.abc import Iterator

from recollect import logs
from tests.rules.source import files, tree

LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log", "bind"}
PRIVATE = logs._PRIVATE | {
    "address",
    "answer",
    "credential",
    "headers",
    "message",
    "messages",
    "metadata",
    "path",
    "prompt",
    "secret",
    "state",
    "tags",
    "url",
    "value",
}


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger: by our convention it is named `log` or `_log`."""
    for file in files():
        for node in ast.walk(tree(file)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in LEVELS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"log", "_log", "logger", "_logger"}
            ):
                yield f"{file}:{node.lineno}", node


def test_S81_no_log_has_a_field_named_like_something_private() -> None:
    named = {
        place: keyword.arg
        for place, call in calls()
        for keyword in call.keywords
        if keyword.arg is None or set(keyword.arg.split("_")) & PRIVATE
    }

    assert named == {}
    assert len(list(calls())) > 5


def test_S81_an_event_is_a_constant_and_never_a_sentence_with_values() -> None:
    composed = [
        place
        for place, call in calls()
        if len(call.args) != 1
        or not isinstance(call.args[0], ast.Constant)
        or " " in str(call.args[0].value)
    ]

    assert composed == []


def test_S81_nobody_logs_past_the_redaction() -> None:
    """The standard library's loggers and tracebacks know nothing of what is private.

    Another package's logger may be named, to quiet it.
    """
    strays = [
        f"{file}:{node.lineno}"
        for file in files()
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and (
            (node.func.value.id == "logging" and node.func.attr in LEVELS)
            or (
                node.func.value.id == "traceback"
                and node.func.attr.endswith(("_exc", "_exception"))
            )
            or (node.func.attr == "getLogger" and not names_another_package(node))
        )
    ]

    assert strays == []


def names_another_package(call: ast.Call) -> bool:
    name = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
    return isinstance(name, str) and not name.startswith("recollect")


def test_S81_a_private_field_that_slips_through_is_blotted_out() -> None:
    event = dict.fromkeys(logs._PRIVATE, "hunter2") | {"event": "a", "exc_info": True}

    assert "hunter2" not in repr(logs._redact(None, "info", event))
    assert "exc_info" not in logs._redact(None, "info", event)
