"""Structured logs: an event and fields, never a text that somebody told us."""

import io
import logging
import logging.config
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

# Fields that must never reach a log, whoever adds them.
_PRIVATE = frozenset(
    {"authorization", "body", "content", "cookie", "key", "password", "query", "text", "token"}
)

# The MCP library logs sentences with values in them, and the HTTP server a sentence for whatever
# a stranger sends that is no HTTP; what goes wrong there is told by our events.
_LIBRARIES = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {name: {"handlers": ["nowhere"], "propagate": False} for name in ("mcp", "uvicorn")},
}


class _Forgiving(io.TextIOBase):
    """Standard error; a line that it will not take, as on a full disk, is lost and stops nobody."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure_logging(level: str, style: str) -> None:
    """Send our logs to standard error, as lines for people or as JSON."""
    render: Any = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    logging.config.dictConfig(_LIBRARIES)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _redact,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _Forgiving())),
        cache_logger_on_first_use=False,
    )


def frames(error: BaseException) -> list[str]:
    """Where it happened, without what it says: messages quote values, and values are private."""
    return [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-8:]
    ]


def _redact(_: Any, __: str, event: Any) -> Any:
    for field in _PRIVATE & event.keys():
        event[field] = "[redacted]"
    event.pop("exc_info", None)
    return event
