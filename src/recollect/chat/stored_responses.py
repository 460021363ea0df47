"""Store, find, continue and delete responses of the Responses API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect.chat.queries import stored_responses
from recollect.chat.queries.stored_responses import Response
from recollect.core.domain import Caller, Right
from recollect.core.errors import Invalid, NotFound
from recollect.engine import Engine

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class EarlierResponse:
    """What a request continues: the messages so far, and the response they end with."""

    messages: list[Object]
    previous_id: str | None = None


async def continue_response(
    engine: Engine,
    caller: Caller,
    *,
    previous_id: str | None,
    conversation: str | None,
    subject: str | None,
) -> EarlierResponse:
    """Return the earlier messages; raise `NotFound` if this user may not continue the response."""
    if not previous_id and not conversation:
        return EarlierResponse([])
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        if previous_id:
            last = await stored_responses.find(db, caller, previous_id)
            if last is None or not _belongs_to(last, subject):
                raise NotFound("response")
        else:
            last = await stored_responses.newest(db, caller, conversation or "")
            if last is None:
                return EarlierResponse([])
            if not _belongs_to(last, subject):
                raise NotFound("conversation")
        messages = await stored_responses.messages_up_to(db, caller, last.id)
    return EarlierResponse(messages, last.id)


def _belongs_to(response: Response, subject: str | None) -> bool:
    return subject is None or response.subject == subject


async def store_response(engine: Engine, caller: Caller, response: Response) -> None:
    """Store a response, so that a later request can continue it."""
    async with engine.writing(caller) as db:
        await stored_responses.insert(db, caller, response)


async def get_response(engine: Engine, caller: Caller, response_id: str) -> Response:
    """Return one response."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        found = await stored_responses.find(db, caller, response_id)
    if found is None:
        raise NotFound("response")
    return found


async def find_items(
    engine: Engine, caller: Caller, response_ids: Mapping[str, str], subject: str | None
) -> dict[str, Object]:
    """Return items of earlier responses by item id; `response_ids` maps item to response ids.

    Raises `NotFound` for an item that does not exist or that this user may not continue.
    """
    caller.require(Right.READ)
    wanted = dict.fromkeys(response_ids.values())
    limit = stored_responses.MAX_EARLIER
    if len(wanted) > limit:
        raise Invalid(
            f"`input` may refer to items of at most {limit} earlier responses.", field="input"
        )
    found: dict[str, Object] = {}
    async with engine.reading(caller) as db:
        for response_id in wanted:
            response = await stored_responses.find(db, caller, response_id)
            if response and _belongs_to(response, subject):
                items: list[Object] = [*response.input, *response.answer.get("output", [])]
                found |= {str(item["id"]): item for item in items if "id" in item}
    if not response_ids.keys() <= found.keys():
        raise NotFound("item")
    return found


async def delete_response(engine: Engine, caller: Caller, response_id: str) -> None:
    """Delete a response and its content."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        if not await stored_responses.delete(db, caller, response_id):
            raise NotFound("response")
