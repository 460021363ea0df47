"""Serve the web page's files, each with an ETag and a strict content security policy.

The files are in `recollect/ui` and are read once, at start. Their data comes from the JSON routes.
"""

import gzip
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

UI = Path(__file__).parents[2] / "ui"

# Only rendered Markdown becomes markup, through the one named Trusted Types policy.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types recollect-markdown"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # Cached, but revalidated each time, so that an upgraded server never serves an old page.
    "cache-control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _StaticFile:
    body: bytes
    compressed: bytes
    media_type: str
    etag: str


class WebPage:
    """The files of the web page, held in memory."""

    def __init__(self, root: Path = UI) -> None:
        self._files: Mapping[str, _StaticFile] = {
            path.relative_to(root).as_posix(): _read(path)
            for path in sorted(root.rglob("*"))
            if path.suffix in _TYPES
        }

    def routes(self) -> Sequence[Route]:
        """Return the public routes: files that are the same for every user."""
        return [
            Route("/", self._index),
            Route("/login", self._login, methods=["GET"]),
            Route("/ui/{path:path}", self._asset),
        ]

    def login(self, status: int = 200) -> Response:
        """Return the sign-in page."""
        file = self._files["login.html"]
        headers = {**_HEADERS, "cache-control": "no-store"}
        return Response(file.body, status, headers, media_type=file.media_type)

    async def _index(self, request: Request) -> Response:
        return _respond(self._files["index.html"], request)

    async def _login(self, _: Request) -> Response:
        return self.login()

    async def _asset(self, request: Request) -> Response:
        file = self._files.get(request.path_params["path"])
        if file is None:
            return JSONResponse({"error": "Not found."}, 404)
        return _respond(file, request)


def _read(path: Path) -> _StaticFile:
    body = path.read_bytes()
    # These files contain no secrets, so their compressed size reveals nothing.
    compressed = gzip.compress(body, mtime=0)
    digest = hashlib.sha256(body).hexdigest()[:32]
    return _StaticFile(body, compressed, _TYPES[path.suffix], f'W/"{digest}"')


def _respond(file: _StaticFile, request: Request) -> Response:
    headers = {**_HEADERS, "etag": file.etag, "vary": "accept-encoding"}
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if file.etag in known:
        return Response(None, 304, headers)
    accepted = request.headers.get("accept-encoding", "").split(",")
    if "gzip" in [each.split(";")[0].strip() for each in accepted]:
        headers["content-encoding"] = "gzip"
        return Response(file.compressed, 200, headers, media_type=file.media_type)
    return Response(file.body, 200, headers, media_type=file.media_type)
