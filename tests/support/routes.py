"""The route table of the whole application, from which tests of every route are generated."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.applications import Starlette

from recollect.api.gateway import Gateway, Interface
from recollect.server import Server


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def interface_named(server: Server, name: str) -> Interface:
    """The interface with this name."""
    [interface] = [each for each in server.interfaces if each.name == name]
    return interface


def routes_of(interface: Interface) -> list[Route]:
    """Every route of an interface, documented or not."""
    assert isinstance(interface.app, FastAPI)
    return [
        Route(method, context.path or "")
        for context in iter_route_contexts(interface.app.routes)
        for method in sorted(getattr(context, "methods", None) or ["ANY"])
    ]


def routes_outside_interfaces(server: Server) -> list[str]:
    """Every path of the server itself, outside the interfaces."""
    assert isinstance(server.app, Gateway)
    rest = server.app._rest
    assert isinstance(rest, Starlette)
    return [str(getattr(route, "path", route)) for route in rest.routes]


def operation(interface: Interface, route: Route) -> dict[str, Any]:
    """The OpenAPI operation of a route."""
    assert isinstance(interface.app, FastAPI)
    return interface.app.openapi()["paths"][route.path][route.method.lower()]


def fields_of_body(interface: Interface, route: Route) -> Iterator[tuple[str, dict[str, Any]]]:
    """The fields of a route's body, by name."""
    assert isinstance(interface.app, FastAPI)
    document = interface.app.openapi()
    body = operation(interface, route).get("requestBody", {})
    schema = body.get("content", {}).get("application/json", {}).get("schema", {})
    for choice in schema.get("anyOf", [schema]):
        name = choice.get("$ref", "").rpartition("/")[2]
        yield from document["components"]["schemas"].get(name, {}).get("properties", {}).items()
