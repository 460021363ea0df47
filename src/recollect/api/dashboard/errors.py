"""Error responses of the dashboard: `{error: {code, message}}`, or the sign-in page.

A request without a valid session gets the sign-in page, whatever it asked for.
"""

from functools import cache

from recollect.api.apps import NoRoute
from recollect.api.dashboard.page import WebPage
from recollect.api.gateway import ErrorReply, retry_after
from recollect.core.errors import (
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

# Browsers do not know this scheme, so they show no password dialog over the page.
_CHALLENGE = {"www-authenticate": 'Cookie realm="Recollect"'}


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure; an unknown exception becomes a 500."""
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
def _login_page() -> ErrorReply:
    response = WebPage().login(401)
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return ErrorReply(401, {}, {**headers, **_CHALLENGE}, page=bytes(response.body).decode())


def wrong_sign_in(failure: Unauthenticated) -> ErrorReply:
    """Return the response to a wrong username or password, which the sign-in page shows."""
    return _reply(401, "wrong_sign_in", failure, _CHALLENGE)


def _reply(
    status: int, code: str, failure: Failure | None, headers: dict[str, str] | None = None
) -> ErrorReply:
    message = failure.message if failure else "Something went wrong on our side."
    return ErrorReply(status, {"error": {"code": code, "message": message}}, headers or {})
