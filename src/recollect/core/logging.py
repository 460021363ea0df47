"""Structured logs: an event and fields, never a user's text."""

import io
import logging
import logging.config
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO, cast

import structlog

# Fields that are always redacted.
_PRIVATE = frozenset(
    {"authorization", "body", "content", "cookie", "key", "password", "query", "text", "token"}
)

# The MCP library logs sentences that contain values, and the HTTP server logs a sentence for every
# malformed request. Both are silenced: our own events report these problems.
_LIBRARIES = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {name: {"handlers": ["nowhere"], "propagate": False} for name in ("mcp", "uvicorn")},
}


class _TolerantStderr(io.TextIOBase):
    """Standard error that drops a line it cannot write (a full disk) instead of raising."""

    def write(self, text: str, /) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


def configure_logging(level: str, style: str) -> None:
    """Write our logs to standard error, as readable lines or as JSON."""
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
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", _TolerantStderr())),
        cache_logger_on_first_use=False,
    )


def frames(error: BaseException) -> list[str]:
    """Where an error happened, without its message: messages may quote private values."""
    return [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-8:]
    ]


def _redact(_: Any, __: str, event: Any) -> Any:
    for field in _PRIVATE & event.keys():
        event[field] = "[redacted]"
    event.pop("exc_info", None)
    return event
