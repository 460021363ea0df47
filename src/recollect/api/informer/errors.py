"""Map failures to responses of this interface: `{statusCode, error, message}`, as hapi does."""

from http import HTTPStatus

from pydantic import BaseModel

from recollect.api.apps import NoRoute
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


class InformerErrorObject(BaseModel):
    """The envelope of every error."""

    statusCode: int
    error: str
    message: str


def answer(failure: Failure | Exception) -> ErrorReply:
    """Return the response to any failure, including a bug."""
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


def _reply(
    status: int, failure: Failure | None, headers: dict[str, str] | None = None
) -> ErrorReply:
    message = failure.message if failure else "An internal server error occurred"
    body = {"statusCode": status, "error": HTTPStatus(status).phrase, "message": message}
    return ErrorReply(status, body, headers or {})
