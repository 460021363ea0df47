"""The web page, as files: read once, served with a tag each and a policy that lets nothing else in.

What is on the page stands in `recollect/ui`; what it shows comes from the JSON routes beside this.
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

# Rendered Markdown enters the page through the one named policy; nothing else can make markup.
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
    # Kept, but asked for each time: a server that was upgraded never meets yesterday's page.
    "cache-control": "no-cache",
}
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    packed: bytes
    media_type: str
    tag: str


class Page:
    """The files of the page, in memory."""

    def __init__(self, root: Path = UI) -> None:
        self._files: Mapping[str, _File] = {
            path.relative_to(root).as_posix(): _read(path)
            for path in sorted(root.rglob("*"))
            if path.suffix in _TYPES
        }

    def routes(self) -> Sequence[Route]:
        """What stands behind no sign-in: files that are the same for everybody."""
        return [
            Route("/", self._index),
            Route("/login", self._login, methods=["GET"]),
            Route("/ui/{path:path}", self._asset),
        ]

    def login(self, status: int = 200) -> Response:
        """The sign-in page, as it answers whoever is not signed in."""
        file = self._files["login.html"]
        headers = {**_HEADERS, "cache-control": "no-store"}
        return Response(file.body, status, headers, media_type=file.media_type)

    async def _index(self, request: Request) -> Response:
        return _answer(self._files["index.html"], request)

    async def _login(self, _: Request) -> Response:
        return self.login()

    async def _asset(self, request: Request) -> Response:
        file = self._files.get(request.path_params["path"])
        if file is None:
            return JSONResponse({"error": "There is nothing here."}, 404)
        return _answer(file, request)


def _read(path: Path) -> _File:
    body = path.read_bytes()
    # Nothing in these files is secret, so their packed size tells nobody anything.
    packed = gzip.compress(body, mtime=0)
    digest = hashlib.sha256(body).hexdigest()[:32]
    return _File(body, packed, _TYPES[path.suffix], f'W/"{digest}"')


def _answer(file: _File, request: Request) -> Response:
    headers = {**_HEADERS, "etag": file.tag, "vary": "accept-encoding"}
    known = [each.strip() for each in request.headers.get("if-none-match", "").split(",")]
    if file.tag in known:
        return Response(None, 304, headers)
    accepted = request.headers.get("accept-encoding", "").split(",")
    if "gzip" in [each.split(";")[0].strip() for each in accepted]:
        headers["content-encoding"] = "gzip"
        return Response(file.packed, 200, headers, media_type=file.media_type)
    return Response(file.body, 200, headers, media_type=file.media_type)
