"""How this door says that something went wrong: `{error: {code, message}}`; to strangers, a page.

Whoever is not signed in gets the page where one signs in, whatever they asked for.
"""

from functools import cache

from recollect.doors.dashboard.page import Page
from recollect.doors.front import Reply, retry_after
from recollect.doors.furnish import NoRoute
from recollect.errors import (
    Conflict,
    Denied,
    Failure,
    Invalid,
    NotFound,
    RateLimited,
    TooLarge,
    Unauthenticated,
    Unavailable,
    WrongFormat,
)

# No browser knows the scheme, so none covers the page with a dialog of its own.
_CHALLENGE = {"www-authenticate": 'Cookie realm="Recollect"'}


def answer(failure: Failure | Exception) -> Reply:
    """The answer to any failure, a bug included."""
    match failure:
        case Unauthenticated():
            return _login_page()
        case WrongFormat():
            return _reply(415, "unsupported_media_type", failure)
        case Invalid():
            return _reply(400, "invalid_request", failure)
        case NoRoute():
            code = "not_found" if failure.status == 404 else "method_not_allowed"
            return _reply(failure.status, code, failure, failure.headers)
        case Denied():
            return _reply(403, "denied", failure)
        case NotFound():
            return _reply(404, f"{failure.thing.replace(' ', '_')}_not_found", failure)
        case Conflict():
            return _reply(409, "conflict", failure)
        case TooLarge():
            return _reply(413, "too_large", failure)
        case RateLimited():
            return _reply(429, "rate_limited", failure, {"retry-after": retry_after(failure)})
        case Unavailable():
            return _reply(503, "unavailable", failure)
        case _:
            return _reply(500, "internal_error", None)


@cache
def _login_page() -> Reply:
    response = Page().login(401)
    kept = {name: value for name, value in response.headers.items() if name != "content-length"}
    return Reply(401, {}, {**kept, **_CHALLENGE}, page=bytes(response.body).decode())


def wrong_sign_in(failure: Unauthenticated) -> Reply:
    """The answer to a name and password that do not fit: the page that asked shows it."""
    return _reply(401, "wrong_sign_in", failure, _CHALLENGE)


def _reply(
    status: int, code: str, failure: Failure | None, headers: dict[str, str] | None = None
) -> Reply:
    message = failure.message if failure else "Something went wrong on our side."
    return Reply(status, {"error": {"code": code, "message": message}}, headers or {})
