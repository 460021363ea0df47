"""`/v1/responses`: the same turns in the spelling of the Responses API, continued by id."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from recollect.domain import Caller, Right
from recollect.doors.front import Reply
from recollect.doors.furnish import CallerOf, EngineOf, new_router
from recollect.doors.router.body import Sent, takes
from recollect.doors.router.errors import ErrorObject
from recollect.doors.router.headers import ask_of, downward
from recollect.doors.router.sinks import ChatSink, ClosingSink, Line, TurnResponse, encoded
from recollect.doors.router.translate import chat_body, items_of, messages_of, usage_shown
from recollect.engine.core import Engine
from recollect.engine.responses import Response as Stored
from recollect.engine.responses import (
    continued,
    delete_response,
    find_items,
    get_response,
    keep_response,
)
from recollect.engine.turn import Begun, Mode, Piece, Ran, run_turn
from recollect.errors import Invalid
from recollect.models.chat import storable

Object = dict[str, Any]
Keep = Callable[[Object], Awaitable[None]]
# The events after which nothing comes.
_ENDS = {"response.completed", "response.incomplete"}

router = new_router(ErrorObject, 502, 504)


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


@router.post(
    "/v1/responses",
    openapi_extra=takes(
        model={"type": "string"},
        input={},
        stream={"type": "boolean"},
        previous_response_id={"type": ["string", "null"]},
    ),
)
async def create_response(
    request: Request, engine: EngineOf, caller: CallerOf, sent: Sent
) -> Response:
    """A response, streamed or not, to this input and whatever it continues."""
    _, body = sent
    ask = ask_of(request.headers, b"", body)
    items = await _referred(engine, caller, items_of(body), ask.subject)
    conversation = _conversation(body)
    previous_id = body.get("previous_response_id")
    if previous_id is not None and not isinstance(previous_id, str):
        raise Invalid("`previous_response_id` must be a text.", field="previous_response_id")
    earlier = await continued(
        engine, caller, previous_id=previous_id, conversation=conversation, subject=ask.subject
    )
    said = messages_of(items)
    chat = chat_body(ask.body, [*earlier.messages, *said])
    ask = replace(ask, body=chat, is_translated=True, thread=ask.thread or conversation)
    response = _begun(ask.body, body, int(engine.now().timestamp()))
    is_kept = body.get("store") is not False and ask.mode is not Mode.OFF
    is_kept = is_kept and Right.WRITE in caller.rights

    async def keep(answer: Object) -> None:
        if is_kept:
            stored = Stored(
                id=str(answer["id"]),
                previous_id=earlier.previous_id,
                conversation=conversation,
                subject=ask.subject,
                input=items,
                messages=[*said, *messages_of(answer["output"])],
                answer=answer,
                created_at=engine.now(),
            )
            await keep_response(engine, caller, stored)

    return TurnResponse(
        lambda sink: run_turn(engine, caller, ask, sink),
        lambda line: ResponseSink(line, response, keep),
    )


async def _referred(
    engine: Engine, caller: Caller, items: list[Object], subject: str | None
) -> list[Object]:
    """The items, those that only refer to one of an earlier response replaced by it."""
    names = [str(item.get("id")) for item in items if item.get("type") == "item_reference"]
    if not names:
        return items
    # An item's id holds that of its response.
    answers = {name: f"resp_{name.partition('_')[2][:32]}" for name in names}
    known = await find_items(engine, caller, answers, subject)
    return [
        known[str(item["id"])] if item.get("type") == "item_reference" else item for item in items
    ]


@router.get("/v1/responses/{response_id}")
async def read_response(engine: EngineOf, caller: CallerOf, response_id: str) -> dict[str, Any]:
    """A response that was kept."""
    return (await get_response(engine, caller, response_id)).answer


class Deleted(BaseModel):
    """A response that is gone."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


@router.delete("/v1/responses/{response_id}")
async def remove_response(engine: EngineOf, caller: CallerOf, response_id: str) -> Deleted:
    """Remove a response that was kept."""
    await delete_response(engine, caller, response_id)
    return Deleted(id=response_id)


class ItemList(BaseModel):
    """The items of a request."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None


@router.get("/v1/responses/{response_id}/input_items")
async def input_items(engine: EngineOf, caller: CallerOf, response_id: str) -> ItemList:
    """What a response was the answer to."""
    found = await get_response(engine, caller, response_id)
    data = [
        {
            "id": item.get("id") or f"msg_{found.id[5:]}{number}",
            "type": "message",
            **_in_parts(item),
        }
        for number, item in enumerate(found.input)
    ]
    ids = [str(item["id"]) for item in data]
    return ItemList(data=data, first_id=ids[0] if ids else None, last_id=ids[-1] if ids else None)


def _in_parts(item: Object) -> Object:
    """A message as it is listed: its text in a part, whatever shorthand it came in."""
    text = item.get("content")
    if item.get("type", "message") != "message" or not isinstance(text, str):
        return item
    part = _text_part(text) if item.get("role") == "assistant" else None
    return {
        "status": "completed",
        **item,
        "content": [part or {"type": "input_text", "text": text}],
    }


def _conversation(body: Object) -> str | None:
    found = body.get("conversation")
    if isinstance(found, dict):
        found = cast("Object", found).get("id")
    if found is None:
        return None
    if not isinstance(found, str) or not 0 < len(found) <= 255:
        raise Invalid("`conversation` must be an id.", field="conversation")
    if body.get("previous_response_id"):
        raise Invalid(
            "`conversation` and `previous_response_id` exclude each other.", field="conversation"
        )
    return found


def _begun(chat: Object, body: Object, created_at: int) -> Object:
    """The response as it begins, with everything clients look for in one."""
    return {
        "id": _new_id("resp"),
        "object": "response",
        "created_at": created_at,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": chat.get("metadata") or {},
        "model": chat.get("model") or "",
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": body.get("reasoning") or {"effort": None, "summary": None},
        "store": body.get("store") is not False,
        "temperature": body.get("temperature", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "truncation": body.get("truncation") or "disabled",
        "usage": None,
        "user": body.get("user"),
    }


class ResponseSink(ClosingSink):
    """Chat completions on their way to a client that speaks Responses."""

    def __init__(self, line: Line, response: Object, keep: Keep) -> None:
        self._line = line
        self._response = response
        self._keep = keep
        self._refusals = ChatSink(line, {})
        self._output: list[Object] = []
        self._text: Object | None = None
        # Calls as far as they have arrived: where they stand, and what they say.
        self._calls: dict[int, tuple[int, Object]] = {}
        self._number = 0
        self._items = 0
        self._is_streaming = False
        self._is_over = False
        self._events: list[bytes] = []

    async def refused(self, begun: Begun, body: bytes) -> None:
        """The upstream's own words."""
        await self._refusals.refused(begun, body)

    async def whole(self, begun: Begun, answer: Object, raw: bytes | None) -> None:
        """A complete answer, in items."""
        del raw
        choice = cast("Object", answer["choices"][0])
        message = cast("Object", choice["message"])
        if message.get("content"):
            self._say(str(message["content"]))
        self._called(
            [{"index": at, **call} for at, call in enumerate(message.get("tool_calls") or [])]
        )
        self._close_all()
        done = self._ended(choice.get("finish_reason"), answer.get("usage"))
        await self._keep(done)
        await self._line.answer(200, downward(begun), encoded(done))

    async def begin(self, begun: Begun) -> None:
        """The lifecycle begins, once."""
        self._is_streaming = True
        await self._line.begin(downward(begun))
        self._send("response.created", response=self._response)
        self._send("response.in_progress", response=self._response)
        await self._flush()

    async def chunks(self, pieces: Sequence[Piece]) -> None:
        """Pieces of text or of calls."""
        for piece in pieces:
            for choice in cast("list[Object]", (piece.chunk or {}).get("choices") or [])[:1]:
                delta = cast("Object", choice.get("delta") or {})
                if delta.get("content"):
                    self._say(str(delta["content"]))
                self._called(cast("list[Object]", delta.get("tool_calls") or []))
        await self._flush()

    async def ran(self, ran: Ran) -> None:
        """A tool of the server's is shown with its result, as what it is."""
        self._close_all()
        item: Object = {
            "id": self._item_id("mcp"),
            "type": "mcp_call",
            "server_label": "recollect",
            "name": ran.call.name,
            "arguments": ran.call.arguments or "{}",
            "output": ran.result,
            "error": None,
            "status": "completed",
        }
        index = self._add({**item, "output": None, "status": "in_progress"})
        self._done(index, item)
        await self._flush()

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The one end."""
        del last
        self._close_all()
        await self._flush()
        done = self._ended(reason, usage)
        await self._keep(done)
        self._send(f"response.{done['status']}", response=done)
        await self._flush()

    async def failed(self, reply: Reply) -> None:
        """The end of a lifecycle that went wrong."""
        told = cast("Object", reply.body["error"])
        error = {"code": "server_error", "message": told["message"]}
        failed = {
            **self._response, "status": "failed", "error": error, "output": list(self._output)
        }  # fmt: skip
        self._send("response.failed", response=failed)
        await self._flush()

    def _item_id(self, prefix: str) -> str:
        """An id that says of which response the item is: a later request may refer to it."""
        self._items += 1
        return f"{prefix}_{str(self._response['id'])[5:]}{self._items:04x}"

    def _ended(self, reason: str | None, usage: Any) -> Object:
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason or "")
        return {
            **self._response,
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "output": list(self._output),
            "usage": usage_shown(usage),
        }

    def _say(self, text: str) -> None:
        text = storable(text)
        if self._text is None:
            self._text = {
                "id": self._item_id("msg"),
                "type": "message",
                "status": "in_progress",
                "role": "assistant",
                "content": [],
            }
            index = self._add(self._text)
            self._text = {**self._text, "_index": index, "_parts": []}
            self._part("response.content_part.added", "")
        self._text["_parts"].append(text)
        self._event_of_text("response.output_text.delta", delta=text, logprobs=[])

    def _called(self, deltas: list[Object]) -> None:
        for delta in deltas:
            function = cast("Object", delta.get("function") or {})
            arguments = storable(str(function.get("arguments") or ""))
            if delta["index"] not in self._calls:
                self._close_text()
                new: Object = {
                    "id": self._item_id("fc"),
                    "type": "function_call",
                    "status": "in_progress",
                    "call_id": delta.get("id") or _new_id("call"),
                    "name": function.get("name") or "",
                    "arguments": "",
                }
                self._calls[delta["index"]] = (self._add(new), new)
            if arguments:
                index, item = self._calls[delta["index"]]
                grown = {**item, "arguments": item["arguments"] + arguments}
                self._calls[delta["index"]] = (index, grown)
                self._send(
                    "response.function_call_arguments.delta",
                    item_id=item["id"],
                    output_index=index,
                    delta=arguments,
                )

    def _close_all(self) -> None:
        self._close_text()
        for index, call in self._calls.values():
            item = {**call, "status": "completed"}
            self._send(
                "response.function_call_arguments.done",
                item_id=item["id"],
                output_index=index,
                name=item["name"],
                arguments=item["arguments"],
            )
            self._done(index, item)
        self._calls = {}

    def _close_text(self) -> None:
        if self._text is None:
            return
        text = "".join(self._text["_parts"])
        self._event_of_text("response.output_text.done", text=text, logprobs=[])
        self._part("response.content_part.done", text)
        item = {name: value for name, value in self._text.items() if not name.startswith("_")}
        item = {**item, "status": "completed", "content": [_text_part(text)]}
        index, self._text = self._text["_index"], None
        self._done(index, item)

    def _part(self, kind: str, text: str) -> None:
        self._event_of_text(kind, part=_text_part(text))

    def _event_of_text(self, kind: str, **fields: Any) -> None:
        assert self._text
        place = {"item_id": self._text["id"], "output_index": self._text["_index"]}
        self._send(kind, **place, content_index=0, **fields)

    def _add(self, item: Object) -> int:
        self._output.append(item)
        index = len(self._output) - 1
        self._send("response.output_item.added", output_index=index, item=item)
        return index

    def _done(self, index: int, item: Object) -> None:
        self._output[index] = item
        self._send("response.output_item.done", output_index=index, item=item)

    def _send(self, kind: str, **fields: Any) -> None:
        if self._is_streaming:
            told = encoded({"type": kind, "sequence_number": self._number, **fields})
            self._number += 1
            self._events.append(b"event: " + kind.encode() + b"\ndata: " + told + b"\n\n")
            self._is_over = kind in _ENDS

    async def _flush(self) -> None:
        """Events that belong together go out together."""
        if self._events:
            told, self._events = b"".join(self._events), []
            await self._line.write(told, is_last=self._is_over)


def _text_part(text: str) -> Object:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
