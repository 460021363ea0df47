"""The static files of the web page: headers, caching and content (S90, S93)."""

import gzip
import re
from pathlib import Path

import httpx2
import pytest

from recollect.api.dashboard.page import POLICY, UI
from recollect.server import Server
from tests.support.instance import connect

pytestmark = pytest.mark.anyio

FILES = sorted(path.relative_to(UI).as_posix() for path in UI.rglob("*") if path.is_file())
SERVED = [name for name in FILES if Path(name).suffix in {".html", ".css", ".js", ".svg"}]


@pytest.fixture
def client(server: Server) -> httpx2.AsyncClient:
    return connect(server)


@pytest.mark.parametrize("path", ["/", "/login", *(f"/ui/{name}" for name in SERVED)])
async def test_S90_S93_every_file_has_the_security_headers(
    client: httpx2.AsyncClient, path: str
) -> None:
    response = await client.get(path)

    assert response.status_code == 200
    assert response.headers["content-security-policy"] == POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] in {"no-cache", "no-store"}


async def test_S90_the_policy_allows_only_our_own_files(client: httpx2.AsyncClient) -> None:
    response = await client.get("/")

    rules = [rule.split() for rule in response.headers["content-security-policy"].split(";")]
    assert {name: value for name, *value in rules} == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "connect-src": ["'self'"],
        "img-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
        "require-trusted-types-for": ["'script'"],
        "trusted-types": ["recollect-markdown"],
    }


async def test_an_unchanged_file_is_not_sent_again(client: httpx2.AsyncClient) -> None:
    first = await client.get("/ui/app.css")

    again = await client.get("/ui/app.css", headers={"if-none-match": first.headers["etag"]})
    other = await client.get("/ui/app.css", headers={"if-none-match": '"yesterday"'})

    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert (other.status_code, other.content) == (200, first.content)


@pytest.mark.parametrize(
    "path", ["/ui/../page.py", "/ui/%2e%2e/page.py", "/ui/nothing.js", "/ui/types.d.ts", "/ui/"]
)
async def test_other_files_are_not_served(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


def test_the_page_has_no_external_resources_and_no_inline_scripts() -> None:
    for name in SERVED:
        text = (UI / name).read_text("utf-8")
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)[^\s`\"']+", text), name
        if name.endswith(".html"):
            assert not re.findall(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=|<style", text), name


def test_S91_only_one_module_creates_markup() -> None:
    makers = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|eval\(")
    found = {name for name in SERVED if makers.search((UI / name).read_text("utf-8"))}

    assert found == {"markup.js"}


def test_the_first_visit_is_small() -> None:
    """Everything that the chat loads before the first action."""
    wanted, size = ["main.js", "pages/chat.js", "theme.js"], 0
    for name in wanted:
        text = (UI / name).read_text("utf-8")
        size += len(gzip.compress(text.encode()))
        for found in re.findall(r'from "(\.[^"]+)"', text):
            path = (UI / name).parent.joinpath(found).resolve().relative_to(UI.resolve()).as_posix()
            if path not in wanted:
                wanted.append(path)
    styles = [(UI / name).read_bytes() for name in ("index.html", "app.css")]
    size += sum(len(gzip.compress(each)) for each in styles)

    assert size < 100_000


async def test_files_are_compressed_for_clients_that_accept_gzip(
    client: httpx2.AsyncClient,
) -> None:
    compressed = await client.get("/ui/main.js", headers={"accept-encoding": "gzip;q=1.0, br"})
    plain = await client.get("/ui/main.js", headers={"accept-encoding": "identity"})
    known = {"accept-encoding": "gzip", "if-none-match": plain.headers["etag"]}

    assert compressed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert compressed.content == plain.content == (UI / "main.js").read_bytes()
    assert compressed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    assert (await client.get("/ui/main.js", headers=known)).status_code == 304


def test_every_module_of_the_chat_is_preloaded() -> None:
    """Without a preload, the browser finds a module only after its importer has loaded."""
    named = re.findall(r'modulepreload" href="/ui/([^"]+)"', (UI / "index.html").read_text("utf-8"))
    needed = ["main.js", "pages/chat.js"]
    for name in needed:
        for found in re.findall(r'from "(\.[^"]+)"', (UI / name).read_text("utf-8")):
            path = (UI / name).parent.joinpath(found).resolve().relative_to(UI.resolve()).as_posix()
            if path not in needed:
                needed.append(path)

    assert sorted(named) == sorted(set(needed) - {"main.js"})
