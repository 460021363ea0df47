"""The JSON parser of every interface. Rejects what cannot be stored and returned unchanged."""

import json
from typing import Any

from recollect.core.errors import Invalid

MAX_DEPTH = 64
_INTEGERS = range(-(2**63), 2**63)


def read(raw: bytes) -> Any:
    """The parsed value. Raises `Invalid` for invalid JSON and for values that cannot be stored.

    PostgreSQL rejects NUL, UTF-8 cannot encode a lone surrogate, NaN is not JSON, an integer of
    more than 64 bits would change, and only one value of a duplicate key would be kept.
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
    # NUL and surrogates can only come from escapes, and deep nesting needs many brackets. Nearly
    # every body has neither and skips the walk.
    lowered = raw.lower()
    if b"\\u0000" in lowered or b"\\ud" in lowered or raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        _walk(value)
    return value


def check_text(text: str) -> None:
    """Raise `Invalid` for a text that cannot be stored."""
    if not is_storable(text):
        raise Invalid("A text contains a NUL character or half of a surrogate pair.")


def is_storable(text: str) -> bool:
    """Whether PostgreSQL accepts the text and UTF-8 can encode it."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def integer(digits: str) -> int:
    """The number. Raises `Invalid` if it has more than 64 bits."""
    # Check the length first: Python refuses to parse thousands of digits.
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
                if depth > MAX_DEPTH:
                    raise Invalid(f"The body is nested deeper than {MAX_DEPTH} levels.")
                below += each  # the keys of an object
                below += each.values() if isinstance(each, dict) else ()
        level = below


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Invalid("An object in the body has a duplicate key.")
    return found


def _number(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        raise Invalid("A number in the body is too large.")
    return number


def _refuse_constant(_: str) -> None:
    raise Invalid("The body contains `NaN` or `Infinity`, which are not JSON.", is_syntax=True)
