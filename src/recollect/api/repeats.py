"""Idempotent requests: each is carried out once, and a repeat gets the first response."""

from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256

from recollect.core.domain import NO_WORKSPACE, Caller, RepeatKey
from recollect.core.errors import Conflict, Invalid
from recollect.db import idempotency
from recollect.engine import Engine

MAX_KEY_CHARACTERS = 255

# Longer than any request may take. After that its process is considered dead.
_LEASE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response as it was sent."""

    status: int
    body: bytes
    media_type: str | None


async def begin_request(
    engine: Engine, caller: Caller, *, route: str, token: str, body: bytes
) -> Caller | StoredResponse:
    """The caller with the claimed key, or the stored response of the first request."""
    if not 0 < len(token) <= MAX_KEY_CHARACTERS or "\0" in token:
        raise Invalid(f"`Idempotency-Key` must have 1 to {MAX_KEY_CHARACTERS} characters.")
    if caller.key_id is None or caller.workspace_id == NO_WORKSPACE:
        return caller
    now = engine.now()
    repeat_key = RepeatKey(caller.key_id, route, token, locked_until=now + _LEASE)
    digest = sha256(body).digest()
    async with engine.pool.writing(caller.workspace_id) as db:
        earlier = await idempotency.claim(db, caller.workspace_id, repeat_key, digest, now)
    if earlier is None:
        return replace(caller, repeat_key=repeat_key)
    if bytes(earlier.body_digest) != digest:
        raise Conflict("This `Idempotency-Key` was used for another request.")
    if earlier.status is not None and earlier.answer is not None:
        return StoredResponse(earlier.status, bytes(earlier.answer), earlier.media_type)
    if earlier.is_done:
        raise Conflict("That request was carried out, but its response is no longer stored.")
    raise Conflict("The first request with this key is still running.", is_temporary=True)


async def end_request(
    engine: Engine, caller: Caller, response: StoredResponse | None, *, is_secret: bool = False
) -> None:
    """Store the response for a repeat. Without one, release the claim unless the write was done.

    A response with a secret is not stored; the request is only marked as done.
    """
    if caller.repeat_key is None:
        return
    async with engine.pool.writing(caller.workspace_id) as db:
        if response is None:
            await idempotency.release(db, caller.workspace_id, caller.repeat_key)
        elif is_secret:
            await idempotency.mark_done(db, caller.workspace_id, caller.repeat_key)
        else:
            await idempotency.store_response(
                db,
                caller.workspace_id,
                caller.repeat_key,
                status=response.status,
                answer=response.body,
                media_type=response.media_type,
            )
