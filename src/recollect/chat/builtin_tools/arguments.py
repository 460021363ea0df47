"""Arguments that several built-in tools share: texts, and the page of a list."""

from typing import Any

from recollect.core.errors import Invalid

Object = dict[str, Any]

_MAX_COUNT = 10_000

PAGE_PROPERTIES: Object = {
    "offset": {"type": "integer", "minimum": 0, "description": "Results to skip, for paging."},
    "limit": {"type": "integer", "minimum": 1, "description": "Maximum number of results."},
}


def text_argument(arguments: Object, name: str) -> str:
    """Return a required text; raise `Invalid` if it is missing or empty."""
    found = arguments.get(name)
    if not isinstance(found, str) or not found.strip():
        raise Invalid(f"`{name}` is required and must be a non-empty string.", field=name)
    if "\0" in found:
        raise Invalid(f"`{name}` must not contain a NUL character.", field=name)
    return found.encode("utf-8", "replace").decode()


def page_arguments(arguments: Object, *, default: int, max_limit: int) -> tuple[int, int]:
    """Return the offset and the limit of a list."""
    offset = _count(arguments, "offset", default=0, minimum=0)
    return offset, min(_count(arguments, "limit", default=default, minimum=1), max_limit)


def _count(arguments: Object, name: str, *, default: int, minimum: int) -> int:
    found = arguments.get(name)
    if found is None:
        return default
    if isinstance(found, bool) or not isinstance(found, int) or not minimum <= found <= _MAX_COUNT:
        raise Invalid(f"`{name}` must be an integer from {minimum} to {_MAX_COUNT:,}.", field=name)
    return found
