"""An export's text: one JSON object a line, with a header before and a count behind."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID

from recollect.engine.imports import Line, Refusal
from recollect.engine.records import FORMAT
from recollect.trade.errors import Unreadable
from recollect.trade.making import object_of

# Above the longest message with its parts and metadata; whatever is longer is none of ours.
MOST_LINE_BYTES = 16 * 1024 * 1024


def encoded(line: Mapping[str, Any]) -> bytes:
    """One line, its end included."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode() + b"\n"


def _plain(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            raise TypeError(type(value).__name__)


def decoded(stream: BinaryIO) -> Iterator[Line | Refusal]:
    """The lines between header and end, each with its number; what is broken is told and passed.

    Raises `Unreadable` when the file is no export, or one of a newer format.
    """
    _check_header(stream.readline(MOST_LINE_BYTES))
    counts: Counter[str] = Counter()
    ended = False
    for number, text in _numbered(stream, first=2):
        where = f"line {number}"
        if text is None:
            yield Refusal(where, "?", f"longer than {MOST_LINE_BYTES:,} bytes")
            continue
        raw = _object(text)
        if isinstance(raw, str):
            yield Refusal(where, "?", raw)
            continue
        kind = raw.get("type")
        if kind == "end":
            ended = True
            told = {name: total for name, total in _counts(raw).items() if counts[name] != total}
            for name, total in told.items():
                why = f"the end says {total:,} of this kind, and there are {counts[name]:,}"
                yield Refusal(where, name, why)
        elif not isinstance(kind, str):
            yield Refusal(where, "?", "`type` is missing")
        else:
            counts[kind] += 1
            yield Line(where, kind, raw, len(text))
    if not ended:
        yield Refusal("the end", "?", "the file was cut off: its last line is missing")


def _check_header(text: bytes) -> None:
    raw = _object(text)
    if isinstance(raw, str) or raw.get("type") != "recollect":
        raise Unreadable(
            "This is no export of Recollect: its first line is not the header. For what other "
            "systems write, say which wrote it: `--from mem0`, or `?from=mem0`."
        )
    version = raw.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise Unreadable(
            f"The export has format `{version}`, and this release reads up to `{FORMAT}`. Upgrade."
        )


def _numbered(stream: BinaryIO, first: int) -> Iterator[tuple[int, bytes | None]]:
    """Lines with their numbers, blank ones left out; None for one that is too long."""
    number = first
    while text := stream.readline(MOST_LINE_BYTES + 1):
        is_too_long = len(text) > MOST_LINE_BYTES and not text.endswith(b"\n")
        while is_too_long and text and not text.endswith(b"\n"):
            text = stream.readline(MOST_LINE_BYTES)
        if is_too_long:
            yield number, None
        elif text.strip():
            yield number, text
        number += 1


def _object(text: bytes) -> dict[str, Any] | str:
    """The object in a line, or what is wrong with it."""
    try:
        found = json.loads(text.decode(), parse_constant=_no_number)
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as error:
        return f"not valid JSON at character {error.pos + 1}"
    except (ValueError, RecursionError):
        return "not valid JSON"
    return object_of(found) if isinstance(found, dict) else "no JSON object"


def _no_number(_: str) -> float:
    raise ValueError("no JSON number")


def _counts(raw: Mapping[str, Any]) -> dict[str, int]:
    lines = object_of(raw.get("lines"))
    return {name: total for name, total in lines.items() if isinstance(total, int)}
