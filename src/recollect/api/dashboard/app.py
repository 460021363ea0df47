"""The dashboard interface: the public paths, and the routes that need a sign-in."""

from starlette.datastructures import Headers

from recollect.api.apps import new_app, set_up
from recollect.api.cookies import Cookies
from recollect.api.dashboard import chats, documents, memories, settings, sign_in, workspace
from recollect.api.dashboard.errors import answer
from recollect.api.dashboard.page import WebPage
from recollect.api.dashboard.turns import Turns
from recollect.api.gateway import MIB, Interface
from recollect.api.rate_limits import Limiter
from recollect.engine import Engine

PREFIXES = ("/chat/api", "/login", "/logout", "/ui", "/")
_PUBLIC = ("/", "/login", "/logout", "/ui")


def new_interface(engine: Engine, cookies: Cookies, limiter: Limiter, turns: Turns) -> Interface:
    """Return the dashboard interface."""
    app = new_app(
        "Recollect: the dashboard",
        "The web chat and its memory. Sign in with `POST /login`, which sets the session cookie.",
        [
            *WebPage().routes(),
            *sign_in.router.routes,
            *settings.router.routes,
            *chats.router.routes,
            *workspace.router.routes,
            *memories.router.routes,
            *documents.router.routes,
        ],
    )
    app.state.cookies = cookies
    app.state.turns = turns
    scheme = {"cookie": {"type": "apiKey", "in": "cookie", "name": cookies.name}}
    set_up(app, engine, answer, scheme, is_repeatable=False)
    return Interface(
        "dashboard",
        PREFIXES,
        app,
        answer,
        _no_key,
        max_bytes=MIB,
        uploads=documents.UPLOADS,
        max_upload_bytes=documents.UPLOAD_BYTES,
        recognise=cookies.recognise,
        is_open=_is_public,
        limiter=limiter,
    )


def _no_key(_: Headers) -> str | None:
    """Return None: this interface accepts no API key."""
    return None


def _is_public(path: str) -> bool:
    return path in _PUBLIC or path.startswith("/ui/")
