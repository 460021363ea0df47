"""The door of the dashboard: what is open to strangers, and the routes behind the sign-in."""

from starlette.datastructures import Headers

from recollect.doors.cookies import Cookies
from recollect.doors.dashboard import chats, documents, house, memories, signin, workspace
from recollect.doors.dashboard.errors import answer
from recollect.doors.dashboard.page import Page
from recollect.doors.dashboard.turns import Turns
from recollect.doors.front import MIB, Door
from recollect.doors.furnish import furnish, new_app
from recollect.doors.limits import Limiter
from recollect.engine.core import Engine

PREFIXES = ("/chat/api", "/login", "/logout", "/ui", "/")
_OPEN = ("/", "/login", "/logout", "/ui")


def door(engine: Engine, cookies: Cookies, limiter: Limiter, turns: Turns) -> Door:
    """The door, ready to be hung."""
    app = new_app(
        "Recollect: the dashboard",
        "The web chat and its memory. Known by the cookie that `POST /login` gives.",
        [
            *Page().routes(),
            *signin.router.routes,
            *house.router.routes,
            *chats.router.routes,
            *workspace.router.routes,
            *memories.router.routes,
            *documents.router.routes,
        ],
    )
    app.state.cookies = cookies
    app.state.turns = turns
    scheme = {"cookie": {"type": "apiKey", "in": "cookie", "name": cookies.name}}
    furnish(app, engine, answer, scheme, is_repeatable=False)
    return Door(
        "dashboard",
        PREFIXES,
        app,
        answer,
        _no_key,
        most_bytes=MIB,
        uploads=documents.UPLOADS,
        most_upload_bytes=documents.UPLOAD_BYTES,
        recognise=cookies.recognise,
        is_open=_is_open,
        limiter=limiter,
    )


def _no_key(_: Headers) -> str | None:
    """No API key opens this door."""
    return None


def _is_open(path: str) -> bool:
    return path in _OPEN or path.startswith("/ui/")
