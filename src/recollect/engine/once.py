"""Requests a client may repeat: each is carried out once, a repeat gets the first one's answer."""

from dataclasses import dataclass, replace
from datetime import timedelta
from hashlib import sha256

from recollect.domain import NOWHERE, Caller, Once
from recollect.engine.core import Engine
from recollect.errors import Conflict, Invalid
from recollect.store import idempotency

MOST_CHARACTERS = 255

# Longer than any request may take; after that its process is taken for dead.
_UNDER_WAY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it went out."""

    status: int
    body: bytes
    media_type: str | None


async def begin_once(
    engine: Engine, caller: Caller, *, route: str, token: str, body: bytes
) -> Caller | Answer:
    """The caller to carry the request out as, or the answer that was given to it before."""
    if not 0 < len(token) <= MOST_CHARACTERS or "\0" in token:
        raise Invalid(f"`Idempotency-Key` takes 1 to {MOST_CHARACTERS} characters.")
    if caller.key_id is None or caller.workspace_id == NOWHERE:
        return caller
    now = engine.now()
    once = Once(caller.key_id, route, token, held_until=now + _UNDER_WAY)
    digest = sha256(body).digest()
    async with engine.pool.writing(caller.workspace_id) as db:
        earlier = await idempotency.claim(db, caller.workspace_id, once, digest, now)
    if earlier is None:
        return replace(caller, once=once)
    if bytes(earlier.body_digest) != digest:
        raise Conflict("This `Idempotency-Key` was used for another request.")
    if earlier.status is not None and earlier.answer is not None:
        return Answer(earlier.status, bytes(earlier.answer), earlier.media_type)
    if earlier.is_done:
        raise Conflict("That request was carried out, but its answer is not kept any more.")
    raise Conflict("The first request with this key is still under way.", is_passing=True)


async def end_once(
    engine: Engine, caller: Caller, answer: Answer | None, *, is_secret: bool = False
) -> None:
    """Keep the answer for a repeat; without one, let a repeat try again unless it was done.

    Of an answer that tells a secret only that there was one is kept.
    """
    if caller.once is None:
        return
    async with engine.pool.writing(caller.workspace_id) as db:
        if answer is None:
            await idempotency.release(db, caller.workspace_id, caller.once)
        elif is_secret:
            await idempotency.mark_done(db, caller.workspace_id, caller.once)
        else:
            await idempotency.keep(
                db,
                caller.workspace_id,
                caller.once,
                status=answer.status,
                answer=answer.body,
                media_type=answer.media_type,
            )
