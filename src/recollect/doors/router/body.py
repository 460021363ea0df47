"""Bodies that are read and passed on: the bytes as they came, and what they say."""

from typing import Annotated, Any, cast

from fastapi import Depends, Request

from recollect.doors import strict_json
from recollect.errors import Invalid

Object = dict[str, Any]


async def _body(request: Request) -> tuple[bytes, Object]:
    raw = await request.body()
    found = strict_json.read(raw) if raw else None
    if not isinstance(found, dict):
        raise Invalid("The body must be a JSON object.")
    return raw, cast("Object", found)


Sent = Annotated[tuple[bytes, Object], Depends(_body)]


def objects_in(body: Object, name: str) -> list[Object]:
    """The list of objects under a name, empty where there is none; raise `Invalid` for another."""
    found: Any = body.get(name) or []
    if not isinstance(found, list):
        raise Invalid(f"`{name}` must be a list.", field=name)
    items = cast("list[Any]", found)
    if not all(isinstance(each, dict) for each in items):
        raise Invalid(f"`{name}` must hold objects.", field=name)
    return items


def object_in(body: Object, name: str) -> Object:
    """The object under a name, empty where there is none; raise `Invalid` for anything else."""
    found: Any = body.get(name) or {}
    if not isinstance(found, dict):
        raise Invalid(f"`{name}` must be an object.", field=name)
    return cast("Object", found)


def takes(**properties: Object) -> Object:
    """The part of the OpenAPI document that says what a route reads of a body it passes on."""
    schema = {"type": "object", "properties": properties, "additionalProperties": True}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
