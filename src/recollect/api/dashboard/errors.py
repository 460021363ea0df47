"""Error responses of the dashboard: `{error: {code, message}}`, or the sign-in page.

A request without a valid session gets the sign-in page, whatever it asked for.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from recollect.api.dashboard.page import WebPage
from recollect.api.errors import (
    ErrorCode,
    ErrorReply,
    ErrorTable,
    MethodNotAllowed,
    NoRoute,
    answer_with,
    find_code,
)
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
_TABLE: ErrorTable = {
    WrongFormat: ErrorCode(415, "unsupported_media_type"),
    Invalid: ErrorCode(400, "invalid_request"),
    Denied: ErrorCode(403, "denied"),
    NoRoute: ErrorCode(404, "not_found"),
    MethodNotAllowed: ErrorCode(405, "method_not_allowed"),
    Conflict: ErrorCode(409, "conflict"),
    TooLarge: ErrorCode(413, "too_large"),
    RateLimited: ErrorCode(429, "rate_limited"),
    Unavailable: ErrorCode(503, "unavailable"),
}
_BUG = ErrorCode(500, "internal_error")


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure; an unknown exception becomes a 500."""
    code = find_code(failure, _TABLE, _BUG)
    match failure:
        case Unauthenticated():
            return _login_page()
        case NotFound():
            code = ErrorCode(404, f"{failure.thing.replace(' ', '_')}_not_found")
        case _:
            pass
    return answer_with(_envelope, code, failure)


@cache
def _login_page() -> ErrorReply:
    response = WebPage().login(401)
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return ErrorReply(401, {}, {**headers, **_CHALLENGE}, page=bytes(response.body).decode())


def wrong_sign_in(failure: Unauthenticated) -> ErrorReply:
    """Return the response to a wrong username or password, which the sign-in page shows."""
    reply = answer_with(_envelope, ErrorCode(401, "wrong_sign_in"), failure)
    return replace(reply, headers=_CHALLENGE)


def _envelope(code: ErrorCode, _failure: Failure | None, message: str) -> dict[str, Any]:
    return {"error": {"code": code.code, "message": message}}
