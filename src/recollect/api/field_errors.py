"""Messages for invalid fields, the same at every interface.

A message names the field and the rule, but never the value, which is private. It may give the
length of a text.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.core.errors import Invalid, size_message

_MUST_BE = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "bool_type": "`true` or `false`",
    "bool_parsing": "`true` or `false`",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "more than"),
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "less than"),
}
# An allowed value as pydantic prints it: a string or a member of an enum.
_QUOTED = re.compile(r"(?:<[\w.]+: )?'([^']*)'>?")
# Types that pydantic adds to the location of a union's error. They are not part of the name.
_UNION_TYPES = {"str", "int", "float", "bool", "none"}

# How many levels of nested field names a message shows.
_MAX_NAMES = 3


def field_error(errors: Sequence[Any], *, skip: int = 0) -> Invalid:
    """The first of pydantic's errors. `skip` drops that many parts of its location."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Invalid("The body is not valid JSON.", is_syntax=True)
    location = first["loc"][skip:]
    names = [part for part in location if _is_name(part)][:_MAX_NAMES]
    if not names:
        return Invalid("The body must be a JSON object.")
    return Invalid(_message(_path(location), first), field=".".join(names))


def _path(location: Sequence[str | int]) -> str:
    """The field with the index of list entries, counted from 0: `associations[1].weight`."""
    names, path = 0, ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]" if path else ""
        elif _is_name(part):
            if names == _MAX_NAMES:
                break
            names, path = names + 1, f"{path}.{part}" if path else part
    return path


def _is_name(part: str | int) -> bool:
    return isinstance(part, str) and part not in _UNION_TYPES and "[" not in part


def _message(name: str, error: Mapping[str, Any]) -> str:
    rule: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"`{name}` is required."
        case "string_too_long":
            return size_message(name, rule["max_length"], "characters", _length(error))
        case "too_long":
            return size_message(name, rule["max_length"], "entries", _length(error))
        case "string_too_short" | "too_short" if rule["min_length"] == 1:
            return f"`{name}` must not be empty."
        case "string_too_short":
            return f"`{name}` must have at least {rule['min_length']:,} characters."
        case "too_short":
            return f"`{name}` must have at least {rule['min_length']:,} entries."
        case "literal_error" | "enum":
            return f"`{name}` must be {_choices(rule['expected'])}."
        case "string_pattern_mismatch":
            return f"`{name}` must match `{rule['pattern']}`."
        case "value_error":
            return f"`{name}` is invalid: {rule['error']}."
        case kind if kind in _BOUNDS:
            bound, words = _BOUNDS[kind]
            return f"`{name}` must be {words} {_number(rule[bound])}."
        case kind if kind in _MUST_BE:
            return f"`{name}` must be {_MUST_BE[kind]}."
        case _:
            return f"`{name}` is invalid."


def _choices(expected: str) -> str:
    return _QUOTED.sub(r"`\1`", expected)


def _length(error: Mapping[str, Any]) -> int | None:
    given = error.get("input")
    return len(given) if isinstance(given, str | list | dict) else None  # pyright: ignore[reportUnknownArgumentType]


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"
