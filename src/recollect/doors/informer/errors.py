"""How this door says that something went wrong: `{statusCode, error, message}`, as hapi does."""

from http import HTTPStatus

from pydantic import BaseModel

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


class ErrorObject(BaseModel):
    """The envelope of every error."""

    statusCode: int
    error: str
    message: str


def answer(failure: Failure | Exception) -> Reply:
    """The answer to any failure, a bug included."""
    match failure:
        case WrongFormat():
            return _reply(415, failure)
        case Invalid():
            return _reply(400, failure)
        case NoRoute():
            return _reply(failure.status, failure, failure.headers)
        case Unauthenticated():
            return _reply(401, failure, {"www-authenticate": "Bearer"})
        case Denied():
            return _reply(403, failure)
        case NotFound():
            return _reply(404, failure)
        case Conflict():
            return _reply(409, failure)
        case TooLarge():
            return _reply(413, failure)
        case RateLimited():
            return _reply(429, failure, {"retry-after": retry_after(failure)})
        case Unavailable():
            return _reply(503, failure)
        case _:
            return _reply(500, None)


def _reply(status: int, failure: Failure | None, headers: dict[str, str] | None = None) -> Reply:
    message = failure.message if failure else "An internal server error occurred"
    body = {"statusCode": status, "error": HTTPStatus(status).phrase, "message": message}
    return Reply(status, body, headers or {})
