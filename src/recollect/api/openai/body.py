"""Read request bodies that are passed on: the original bytes and the parsed object."""

from typing import Annotated, Any, cast

from fastapi import Depends, Request

from recollect.api import strict_json
from recollect.core.errors import Invalid

Object = dict[str, Any]


async def _read_body(request: Request) -> tuple[bytes, Object]:
    raw = await request.body()
    found = strict_json.read(raw) if raw else None
    if not isinstance(found, dict):
        raise Invalid("The body must be a JSON object.")
    return raw, cast("Object", found)


RawAndBody = Annotated[tuple[bytes, Object], Depends(_read_body)]


def objects_in(body: Object, name: str) -> list[Object]:
    """Return a field's list of objects, empty if absent; raise `Invalid` for anything else."""
    found: Any = body.get(name) or []
    if not isinstance(found, list):
        raise Invalid(f"`{name}` must be a list.", field=name)
    items = cast("list[Any]", found)
    if not all(isinstance(each, dict) for each in items):
        raise Invalid(f"`{name}` must contain only objects.", field=name)
    return items


def object_in(body: Object, name: str) -> Object:
    """Return a field's object, empty if absent; raise `Invalid` for anything else."""
    found: Any = body.get(name) or {}
    if not isinstance(found, dict):
        raise Invalid(f"`{name}` must be an object.", field=name)
    return cast("Object", found)


def request_schema(**properties: Object) -> Object:
    """Return the OpenAPI description of the fields that a route reads; others are passed on."""
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
