"""The text format of an export: one JSON object per line, from a header to an end with counts."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, BinaryIO
from uuid import UUID

from recollect.portability.errors import UnreadableFile
from recollect.portability.importers.record_maker import as_object
from recollect.portability.importing import ImportLine, Refusal
from recollect.portability.records import FORMAT

# More than the longest message with its parts and metadata; an export has no longer line.
MAX_LINE_BYTES = 16 * 1024 * 1024


def encode_line(line: Mapping[str, Any]) -> bytes:
    """Return one line with its line break."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"), default=_to_text)
    return text.encode() + b"\n"


def _to_text(value: Any) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case UUID():
            return str(value)
        case bytes():
            return value.hex()
        case _:
            raise TypeError(type(value).__name__)


def decode_lines(stream: BinaryIO) -> Iterator[ImportLine | Refusal]:
    """Yield the lines between header and end with their numbers; broken ones as a `Refusal`.

    Raises `UnreadableFile` when the file is not an export, or has a newer format.
    """
    _check_header(stream.readline(MAX_LINE_BYTES))
    counts: Counter[str] = Counter()
    has_end = False
    for number, text in _numbered(stream, first=2):
        where = f"line {number}"
        if text is None:
            yield Refusal(where, "?", f"longer than {MAX_LINE_BYTES:,} bytes")
            continue
        raw = _object(text)
        if isinstance(raw, str):
            yield Refusal(where, "?", raw)
            continue
        kind = raw.get("type")
        if kind == "end":
            has_end = True
            wrong = {name: total for name, total in _counts(raw).items() if counts[name] != total}
            for name, total in wrong.items():
                why = (
                    f"the end line counts {total:,} of this kind, but the file has {counts[name]:,}"
                )
                yield Refusal(where, name, why)
        elif not isinstance(kind, str):
            yield Refusal(where, "?", "`type` is missing")
        else:
            counts[kind] += 1
            yield ImportLine(where, kind, raw, len(text))
    if not has_end:
        yield Refusal("the end", "?", "the file is truncated: its last line is missing")


def _check_header(text: bytes) -> None:
    raw = _object(text)
    if isinstance(raw, str) or raw.get("type") != "recollect":
        raise UnreadableFile(
            "This is not an export of Recollect: its first line is not the header. For a file of "
            "another system, name the system: `--from mem0`, or `?from=mem0`."
        )
    version = raw.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise UnreadableFile(
            f"The export has format `{version}`; this release reads up to `{FORMAT}`. Upgrade."
        )


def _numbered(stream: BinaryIO, first: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield lines with their numbers, without blank ones; None for a line that is too long."""
    number = first
    while text := stream.readline(MAX_LINE_BYTES + 1):
        is_too_long = len(text) > MAX_LINE_BYTES and not text.endswith(b"\n")
        while is_too_long and text and not text.endswith(b"\n"):
            text = stream.readline(MAX_LINE_BYTES)
        if is_too_long:
            yield number, None
        elif text.strip():
            yield number, text
        number += 1


def _object(text: bytes) -> dict[str, Any] | str:
    """Return the object in a line, or the reason why there is none."""
    try:
        found = json.loads(text.decode(), parse_constant=_reject_constant)
    except UnicodeDecodeError:
        return "not UTF-8"
    except json.JSONDecodeError as error:
        return f"not valid JSON at character {error.pos + 1}"
    except (ValueError, RecursionError):
        return "not valid JSON"
    return as_object(found) if isinstance(found, dict) else "not a JSON object"


def _reject_constant(_: str) -> float:
    raise ValueError("not a JSON number")


def _counts(raw: Mapping[str, Any]) -> dict[str, int]:
    lines = as_object(raw.get("lines"))
    return {name: total for name, total in lines.items() if isinstance(total, int)}
