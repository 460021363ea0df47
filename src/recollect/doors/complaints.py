"""What is wrong with the fields of a request, said in one way at every door.

A complaint names the field and the rule, and never the value, which is private; how long a text is
may be said.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.errors import Invalid, at_most

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
# One of the values that a field may have, as the library shows a text or the member of an enum.
_QUOTED = re.compile(r"(?:<[\w.]+: )?'([^']*)'>?")
# What a field may be when it may be one of several things: no part of its name.
_KINDS = {"str", "int", "float", "bool", "none"}

# How many names of fields inside one another are told.
_DEEPEST = 3


def complaint(errors: Sequence[Any], *, below: int = 0) -> Invalid:
    """The first of a model's complaints; `below` is how far down the model lies in what it read."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return Invalid("The body is not valid JSON.", is_syntax=True)
    where = first["loc"][below:]
    names = [part for part in where if _is_name(part)][:_DEEPEST]
    if not names:
        return Invalid("The body must be a JSON object.")
    return Invalid(_said(_place(where), first), field=".".join(names))


def _place(where: Sequence[str | int]) -> str:
    """The field, and of a list which entry, counted from 0: `associations[1].weight`."""
    names, spelt = 0, ""
    for part in where:
        if isinstance(part, int):
            spelt += f"[{part}]" if spelt else ""
        elif _is_name(part):
            if names == _DEEPEST:
                break
            names, spelt = names + 1, f"{spelt}.{part}" if spelt else part
    return spelt


def _is_name(part: str | int) -> bool:
    return isinstance(part, str) and part not in _KINDS and "[" not in part


def _said(name: str, error: Mapping[str, Any]) -> str:
    rule: Mapping[str, Any] = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"`{name}` is required."
        case "string_too_long":
            return at_most(name, rule["max_length"], "characters", _length(error))
        case "too_long":
            return at_most(name, rule["max_length"], "entries", _length(error))
        case "string_too_short" | "too_short" if rule["min_length"] == 1:
            return f"`{name}` must not be empty."
        case "string_too_short":
            return f"`{name}` must have at least {rule['min_length']:,} characters."
        case "too_short":
            return f"`{name}` must have at least {rule['min_length']:,} entries."
        case "literal_error" | "enum":
            return f"`{name}` must be {_offered(rule['expected'])}."
        case "string_pattern_mismatch":
            return f"`{name}` must match `{rule['pattern']}`."
        case "value_error":
            return f"`{name}` is not acceptable: {rule['error']}."
        case kind if kind in _BOUNDS:
            bound, words = _BOUNDS[kind]
            return f"`{name}` must be {words} {_number(rule[bound])}."
        case kind if kind in _MUST_BE:
            return f"`{name}` must be {_MUST_BE[kind]}."
        case _:
            return f"`{name}` is not acceptable."


def _offered(expected: str) -> str:
    return _QUOTED.sub(r"`\1`", expected)


def _length(error: Mapping[str, Any]) -> int | None:
    given = error.get("input")
    return len(given) if isinstance(given, str | list | dict) else None  # pyright: ignore[reportUnknownArgumentType]


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"
