"""JSON as every door reads it: nothing in it that cannot be stored and given back unchanged."""

import json
from typing import Any

from recollect.errors import Invalid

DEEPEST = 64
_INTEGERS = range(-(2**63), 2**63)


def read(raw: bytes) -> Any:
    """The value; raise `Invalid` on what is no JSON or cannot be kept.

    PostgreSQL refuses NUL, no UTF-8 holds a lone surrogate, NaN is no JSON, an integer beyond
    64 bits comes back as another one, and of a key that stands there twice only one comes back.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            parse_int=integer,
            parse_float=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object,
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Invalid("The body is not valid JSON.", is_syntax=True) from error
    # Only escapes can bring in what the decoders above let through, and only many brackets depth:
    # nearly every body is spared the walk.
    lowered = raw.lower()
    if b"\\u0000" in lowered or b"\\ud" in lowered or raw.count(b"[") + raw.count(b"{") > DEEPEST:
        _walk(value)
    return value


def check_text(text: str) -> None:
    """Raise `Invalid` on a text that cannot be stored."""
    if not is_storable(text):
        raise Invalid("A text holds a NUL character or half of a surrogate pair.")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL takes the text and UTF-8 can hold it."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def integer(digits: str) -> int:
    """The number; raise `Invalid` on one of more than 64 bits."""
    # Compared by length first: Python refuses to read thousands of digits at all.
    if len(digits) > 20 or int(digits) not in _INTEGERS:
        raise Invalid("A number in the body has more than 64 bits.")
    return int(digits)


def _walk(value: Any) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        below: list[Any] = []
        for each in level:
            if isinstance(each, str):
                check_text(each)
            elif isinstance(each, (dict, list)):
                if depth > DEEPEST:
                    raise Invalid(f"The body is nested deeper than {DEEPEST} levels.")
                below += each  # of an object: its keys
                below += each.values() if isinstance(each, dict) else ()
        level = below


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Invalid("An object in the body names a key twice.")
    return found


def _number(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise Invalid("A number in the body is too large.")
    return number


def _refuse_constant(_: str) -> None:
    raise Invalid("The body holds `NaN` or `Infinity`, which are not JSON.", is_syntax=True)
