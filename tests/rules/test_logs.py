"""A log entry is an event with fields, and no field has a private name.

`core/logging.py` redacts such fields; this rule prevents them in the first place.
"""

import ast
from collections.abc import Iterator

import pytest
import structlog

from recollect.core import logging
from tests.rules.source import files, tree

LEVELS = {"debug", "info", "warning", "error", "critical", "exception", "log", "bind"}
PRIVATE = logging._PRIVATE | {
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


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call of a logger. By convention a logger is named `log` or `_log`."""
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


def test_S81_no_log_field_has_a_private_name() -> None:
    named = {
        location: keyword.arg
        for location, call in log_calls()
        for keyword in call.keywords
        if keyword.arg is None or set(keyword.arg.split("_")) & PRIVATE
    }

    assert named == {}
    assert len(list(log_calls())) > 5


def test_S81_a_log_event_is_a_constant_without_spaces() -> None:
    composed = [
        location
        for location, call in log_calls()
        if len(call.args) != 1
        or not isinstance(call.args[0], ast.Constant)
        or " " in str(call.args[0].value)
    ]

    assert composed == []


def test_S81_no_code_bypasses_the_redaction() -> None:
    """The standard library's loggers and tracebacks do not redact private values.

    Another package's logger may be named, to silence it.
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


PRIVATE_FIELDS = [
    *("authorization", "body", "content", "cookie", "key", "password", "query", "text", "token")
]


@pytest.mark.parametrize("style", ["json", "text"])
def test_S81_a_private_log_field_is_redacted_at_every_level(
    capsys: pytest.CaptureFixture[str], style: str
) -> None:
    levels = ["debug", "info", "warning", "error", "critical", "exception"]
    before = structlog.get_config()
    logging.configure_logging("debug", style)
    try:
        log = structlog.get_logger()
        for level in levels:
            try:
                raise ValueError("hunter2")  # noqa: TRY301 - a traceback quotes it
            except ValueError:
                fields = dict.fromkeys(PRIVATE_FIELDS, "hunter2")
                getattr(log, level)("an.event", kind="public", exc_info=True, **fields)
    finally:
        structlog.configure(**before)

    written = capsys.readouterr().err
    assert written.count("an.event") == written.count("public") == len(levels)
    assert written.count("[redacted]") == len(levels) * len(PRIVATE_FIELDS)
    assert "hunter2" not in written
    assert "Traceback" not in written
