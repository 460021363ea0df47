"""The API documentation pages, generated from each interface's OpenAPI document. Works offline."""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from recollect.api.gateway import Interface

_STYLE = """
:root { color-scheme: light dark; --ink: light-dark(#1d232b, #e6e8eb);
  --soft: light-dark(#5c6670, #9aa4af); --line: light-dark(#dfe3e8, #2d343d);
  --paper: light-dark(#fff, #14181d); --accent: light-dark(#2456c5, #8ab0ff); }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { margin-top: 2.5rem; } a { color: var(--accent); }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0;
  padding: .5rem .75rem; }
summary { cursor: pointer; } code, .verb { font-family: ui-monospace, monospace; font-size: .9em; }
.verb { display: inline-block; min-width: 4rem; color: var(--accent); }
.soft { color: var(--soft); } table { border-collapse: collapse; width: 100%; margin: .5rem 0; }
td, th { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0;
  border-top: 1px solid var(--line); } th { font-weight: 600; }
"""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
}


def openapi(interface: Interface) -> dict[str, Any]:
    """The OpenAPI 3.1 document of an interface."""
    assert isinstance(interface.app, FastAPI)
    return interface.app.openapi()


async def style(_: Request) -> Response:
    """The style sheet of the page."""
    return Response(_STYLE, media_type="text/css")


def page(interfaces: Sequence[Interface]) -> str:
    """One HTML page for all interfaces."""
    parts = ["<h1>Recollect API</h1>", "<ul>", *map(_entry, interfaces), "</ul>"]
    parts += (part for interface in interfaces for part in _interface_section(interface))
    return _document("Recollect API", "\n".join(parts))


def _document(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><link rel=stylesheet href=/docs.css></head>"
        f"<body><main>{body}</main></body></html>"
    )


def _entry(interface: Interface) -> str:
    assert isinstance(interface.app, FastAPI)
    name = escape(interface.app.title.removeprefix("Recollect: "))
    prefixes = ", ".join(f"<code>{escape(each)}</code>" for each in interface.prefixes)
    return f'<li><a href="#{interface.name}">{name}</a> <span class="soft">{prefixes}</span></li>'


def _interface_section(interface: Interface) -> Iterator[str]:
    document = openapi(interface)
    yield f'<h2 id="{interface.name}">{escape(document["info"]["title"])}</h2>'
    yield f"<p>{_text(document['info'].get('description', ''))}"
    yield f' <a href="/openapi/{interface.name}.json">OpenAPI document</a></p>'
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            yield _operation(document, verb, path, operation)


def _operation(document: dict[str, Any], verb: str, path: str, operation: dict[str, Any]) -> str:
    parameters = [
        (each["name"], each["in"], each.get("required", False), each.get("description", ""))
        for each in operation.get("parameters", [])
    ]
    schema = (
        operation.get("requestBody", {})
        .get("content", {})
        .get("application/json", {})
        .get("schema", {})
    )
    fields = list(_fields(document, schema))
    table = _table(parameters + fields) if parameters or fields else ""
    statuses = ", ".join(sorted(operation["responses"]))
    return (
        f'<details><summary><span class="verb">{verb.upper()}</span> <code>{escape(path)}</code>'
        f' <span class="soft">{_text(operation.get("description", ""))}</span></summary>'
        f'{table}<p class="soft">Responses: {statuses}</p></details>'
    )


def _fields(
    document: dict[str, Any], schema: dict[str, Any]
) -> Iterator[tuple[str, str, bool, str]]:
    for choice in schema.get("anyOf", [schema]):
        name = choice.get("$ref", "").rpartition("/")[2]
        found = document.get("components", {}).get("schemas", {}).get(name, {})
        for field, about in found.get("properties", {}).items():
            is_required = field in found.get("required", [])
            yield field, "body", is_required, about.get("description", "")


def _table(rows: Sequence[tuple[str, str, bool, str]]) -> str:
    body = "".join(
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(location)}"
        f"{', required' if is_required else ''}</td><td>{_text(about)}</td></tr>"
        for name, location, is_required, about in rows
    )
    return f"<table><tr><th>Name</th><th>In</th><th>Description</th></tr>{body}</table>"


def _text(text: str) -> str:
    """Escaped HTML, with the parts between backticks as code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)
    )
