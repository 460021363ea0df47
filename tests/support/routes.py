"""The route table of the composed application: what tests of every route are generated from."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.applications import Starlette

from recollect.doors.front import Door, Front
from recollect.server import Server


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def door_named(server: Server, name: str) -> Door:
    """One door of the composed application."""
    [door] = [each for each in server.doors if each.name == name]
    return door


def routes_of(door: Door) -> list[Route]:
    """Every route behind a door, in the document or not."""
    assert isinstance(door.app, FastAPI)
    return [
        Route(method, context.path or "")
        for context in iter_route_contexts(door.app.routes)
        for method in sorted(getattr(context, "methods", None) or ["ANY"])
    ]


def routes_behind_no_door(server: Server) -> list[str]:
    """Every address of the house itself."""
    assert isinstance(server.app, Front)
    house = server.app._rest
    assert isinstance(house, Starlette)
    return [str(getattr(route, "path", route)) for route in house.routes]


def operation(door: Door, route: Route) -> dict[str, Any]:
    """What the door's own document says of a route."""
    assert isinstance(door.app, FastAPI)
    return door.app.openapi()["paths"][route.path][route.method.lower()]


def fields_of_body(door: Door, route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a route's body, by name."""
    assert isinstance(door.app, FastAPI)
    document = door.app.openapi()
    body = operation(door, route).get("requestBody", {})
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    for choice in schema.get("anyOf", [schema]):
        name = choice.get("$ref", "").rpartition("/")[2]
        yield from document["components"]["schemas"].get(name, {}).get("properties", {}).items()
