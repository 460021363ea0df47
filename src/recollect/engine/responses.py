"""Responses that a later request continues: kept, found, followed back, deleted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recollect.domain import Caller, Right
from recollect.engine.core import Engine
from recollect.errors import Invalid, NotFound
from recollect.store import responses
from recollect.store.responses import Response

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a request goes on from: the messages so far, and the response that ends them."""

    messages: list[Object]
    previous_id: str | None = None


async def continued(
    engine: Engine,
    caller: Caller,
    *,
    previous_id: str | None,
    conversation: str | None,
    subject: str | None,
) -> Earlier:
    """What was said before; raise `NotFound` for a response that is not this user's to continue."""
    if not previous_id and not conversation:
        return Earlier([])
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        if previous_id:
            last = await responses.find(db, caller, previous_id)
            if last is None or not _is_theirs(last, subject):
                raise NotFound("response")
        else:
            last = await responses.newest(db, caller, conversation or "")
            if last is None:
                return Earlier([])
            if not _is_theirs(last, subject):
                raise NotFound("conversation")
        messages = await responses.messages_up_to(db, caller, last.id)
    return Earlier(messages, last.id)


def _is_theirs(response: Response, subject: str | None) -> bool:
    return subject is None or response.subject == subject


async def keep_response(engine: Engine, caller: Caller, response: Response) -> None:
    """Keep a response for whoever goes on from it."""
    async with engine.writing(caller) as db:
        await responses.insert(db, caller, response)


async def get_response(engine: Engine, caller: Caller, response_id: str) -> Response:
    """One response."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        found = await responses.find(db, caller, response_id)
    if found is None:
        raise NotFound("response")
    return found


async def find_items(
    engine: Engine, caller: Caller, answers: Mapping[str, str], subject: str | None
) -> dict[str, Object]:
    """Items of earlier responses by their ids, each id given with its response's.

    Raises `NotFound` for one that is not this user's to continue.
    """
    caller.require(Right.READ)
    wanted = dict.fromkeys(answers.values())
    if len(wanted) > responses.MOST_EARLIER:
        most = f"{responses.MOST_EARLIER} earlier responses"
        raise Invalid(f"`input` may refer to items of at most {most}.", field="input")
    found: dict[str, Object] = {}
    async with engine.reading(caller) as db:
        for response_id in wanted:
            response = await responses.find(db, caller, response_id)
            if response and _is_theirs(response, subject):
                items: list[Object] = [*response.input, *response.answer.get("output", [])]
                found |= {str(item["id"]): item for item in items if "id" in item}
    if not answers.keys() <= found.keys():
        raise NotFound("item")
    return found


async def delete_response(engine: Engine, caller: Caller, response_id: str) -> None:
    """Remove a response and what it held."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        if not await responses.delete(db, caller, response_id):
            raise NotFound("response")
