"""Routes of the Responses API (`/v1/responses`): turns that a later request continues by id."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from fastapi import Request
from fastapi.responses import Response
from pydantic import BaseModel

from recollect.api.apps import CallerOf, EngineOf, new_router
from recollect.api.errors import ErrorReply
from recollect.api.openai.body import RawAndBody, request_schema
from recollect.api.openai.errors import OpenAIErrorObject
from recollect.api.openai.headers import client_headers, to_turn_request
from recollect.api.openai.streams import (
    ChatSink,
    ClientConnection,
    FailableSink,
    TurnResponse,
    encode,
)
from recollect.api.openai.translate import chat_body, items_of, messages_of, response_usage
from recollect.chat.stored_responses import Response as Stored
from recollect.chat.stored_responses import (
    continue_response,
    delete_response,
    find_items,
    get_response,
    store_response,
)
from recollect.chat.turn import run_turn
from recollect.chat.turn_request import MemoryMode
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, StartedTurn
from recollect.core.domain import Caller, Right
from recollect.core.errors import Invalid
from recollect.engine import Engine
from recollect.models.chat_model import storable

Object = dict[str, Any]
Store = Callable[[Object], Awaitable[None]]
# The last event of a stream is one of these.
_FINAL_EVENTS = {"response.completed", "response.incomplete"}

router = new_router(OpenAIErrorObject, 502, 504)


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(16)}"


@router.post(
    "/v1/responses",
    openapi_extra=request_schema(
        model={"type": "string"},
        input={},
        stream={"type": "boolean"},
        previous_response_id={"type": ["string", "null"]},
    ),
)
async def create_response(
    request: Request, engine: EngineOf, caller: CallerOf, raw_and_body: RawAndBody
) -> Response:
    """Create a response, streamed or not; it may continue an earlier one."""
    _, body = raw_and_body
    ask = to_turn_request(request.headers, b"", body)
    items = await _resolve_references(engine, caller, items_of(body), ask.subject)
    conversation = _conversation(body)
    previous_id = body.get("previous_response_id")
    if previous_id is not None and not isinstance(previous_id, str):
        raise Invalid("`previous_response_id` must be a string.", field="previous_response_id")
    earlier = await continue_response(
        engine, caller, previous_id=previous_id, conversation=conversation, subject=ask.subject
    )
    new_messages = messages_of(items)
    chat = chat_body(ask.body, [*earlier.messages, *new_messages])
    ask = replace(ask, body=chat, is_translated=True, thread=ask.thread or conversation)
    response = _new_response(ask.body, body, int(engine.now().timestamp()))
    is_stored = body.get("store") is not False and ask.mode is not MemoryMode.OFF
    is_stored = is_stored and Right.WRITE in caller.rights

    async def store(answer: Object) -> None:
        if is_stored:
            stored = Stored(
                id=str(answer["id"]),
                previous_id=earlier.previous_id,
                conversation=conversation,
                subject=ask.subject,
                input=items,
                messages=[*new_messages, *messages_of(answer["output"])],
                answer=answer,
                created_at=engine.now(),
            )
            await store_response(engine, caller, stored)

    return TurnResponse(
        lambda sink: run_turn(engine, caller, ask, sink),
        lambda client: ResponseSink(client, response, store),
    )


async def _resolve_references(
    engine: Engine, caller: Caller, items: list[Object], subject: str | None
) -> list[Object]:
    """Replace references to items of earlier responses by those items."""
    ids = [str(item.get("id")) for item in items if item.get("type") == "item_reference"]
    if not ids:
        return items
    # The id of an item contains the id of its response.
    response_ids = {item_id: f"resp_{item_id.partition('_')[2][:32]}" for item_id in ids}
    known = await find_items(engine, caller, response_ids, subject)
    return [
        known[str(item["id"])] if item.get("type") == "item_reference" else item for item in items
    ]


@router.get("/v1/responses/{response_id}")
async def read_response(engine: EngineOf, caller: CallerOf, response_id: str) -> dict[str, Any]:
    """Get a stored response."""
    return (await get_response(engine, caller, response_id)).answer


class OpenAIDeleted(BaseModel):
    """A deleted response."""

    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


@router.delete("/v1/responses/{response_id}")
async def remove_response(engine: EngineOf, caller: CallerOf, response_id: str) -> OpenAIDeleted:
    """Delete a stored response."""
    await delete_response(engine, caller, response_id)
    return OpenAIDeleted(id=response_id)


class ItemList(BaseModel):
    """The items of a request."""

    object: Literal["list"] = "list"
    data: list[dict[str, Any]]
    has_more: bool = False
    first_id: str | None = None
    last_id: str | None = None


@router.get("/v1/responses/{response_id}/input_items")
async def input_items(engine: EngineOf, caller: CallerOf, response_id: str) -> ItemList:
    """List the input items of a response."""
    found = await get_response(engine, caller, response_id)
    data = [
        {
            "id": item.get("id") or f"msg_{found.id[5:]}{number}",
            "type": "message",
            **_with_parts(item),
        }
        for number, item in enumerate(found.input)
    ]
    ids = [str(item["id"]) for item in data]
    return ItemList(data=data, first_id=ids[0] if ids else None, last_id=ids[-1] if ids else None)


def _with_parts(item: Object) -> Object:
    """Put the text of a message into a part; a request may send it as a plain string."""
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
        raise Invalid("`conversation` must be an id of 1 to 255 characters.", field="conversation")
    if body.get("previous_response_id"):
        raise Invalid(
            "Use either `conversation` or `previous_response_id`, not both.", field="conversation"
        )
    return found


def _new_response(chat: Object, body: Object, created_at: int) -> Object:
    """Return the response in its first state, with every field that clients expect."""
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


class ResponseSink(FailableSink):
    """Translates chat completions into the format of the Responses API."""

    def __init__(self, client: ClientConnection, response: Object, store: Store) -> None:
        self._client = client
        self._response = response
        self._store = store
        self._refusals = ChatSink(client, {})
        self._output: list[Object] = []
        # The text item in progress, with its output index and its pieces under `_` names.
        self._text: Object | None = None
        # Calls in progress by their index in the answer: output index and item so far.
        self._calls: dict[int, tuple[int, Object]] = {}
        self._sequence_number = 0
        self._item_count = 0
        self._is_streaming = False
        self._is_over = False
        self._events: list[bytes] = []

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """Send the upstream's refusal."""
        await self._refusals.refused(begun, body)

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """Send a complete answer as items."""
        del raw
        choice = cast("Object", answer["choices"][0])
        message = cast("Object", choice["message"])
        if message.get("content"):
            self._add_text(str(message["content"]))
        self._add_calls(
            [{"index": at, **call} for at, call in enumerate(message.get("tool_calls") or [])]
        )
        self._close_all()
        done = self._final_response(choice.get("finish_reason"), answer.get("usage"))
        await self._store(done)
        await self._client.respond(200, client_headers(begun), encode(done))

    async def begin(self, begun: StartedTurn) -> None:
        """Start the stream with its lifecycle events."""
        self._is_streaming = True
        await self._client.start_stream(client_headers(begun))
        self._send("response.created", response=self._response)
        self._send("response.in_progress", response=self._response)
        await self._flush()

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Send pieces of text or of calls."""
        for piece in pieces:
            for choice in cast("list[Object]", (piece.chunk or {}).get("choices") or [])[:1]:
                delta = cast("Object", choice.get("delta") or {})
                if delta.get("content"):
                    self._add_text(str(delta["content"]))
                self._add_calls(cast("list[Object]", delta.get("tool_calls") or []))
        await self._flush()

    async def tool_ran(self, finished: FinishedCall) -> None:
        """Send a call of a built-in tool and its result as an `mcp_call` item."""
        self._close_all()
        item: Object = {
            "id": self._item_id("mcp"),
            "type": "mcp_call",
            "server_label": "recollect",
            "name": finished.call.name,
            "arguments": finished.call.arguments or "{}",
            "output": finished.result,
            "error": None,
            "status": "completed",
        }
        index = self._add_item({**item, "output": None, "status": "in_progress"})
        self._close_item(index, item)
        await self._flush()

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """Store the response and end the stream."""
        del last
        self._close_all()
        await self._flush()
        done = self._final_response(reason, usage)
        await self._store(done)
        self._send(f"response.{done['status']}", response=done)
        await self._flush()

    async def failed(self, reply: ErrorReply) -> None:
        """Send the event of a failed response."""
        details = cast("Object", reply.body["error"])
        error = {"code": "server_error", "message": details["message"]}
        failed = {
            **self._response, "status": "failed", "error": error, "output": list(self._output)
        }  # fmt: skip
        self._send("response.failed", response=failed)
        await self._flush()

    def _item_id(self, prefix: str) -> str:
        """Return an item id that contains the response's id: a later request may refer to it."""
        self._item_count += 1
        return f"{prefix}_{str(self._response['id'])[5:]}{self._item_count:04x}"

    def _final_response(self, reason: str | None, usage: Any) -> Object:
        why = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reason or "")
        return {
            **self._response,
            "status": "incomplete" if why else "completed",
            "incomplete_details": {"reason": why} if why else None,
            "output": list(self._output),
            "usage": response_usage(usage),
        }

    def _add_text(self, text: str) -> None:
        text = storable(text)
        if self._text is None:
            self._text = {
                "id": self._item_id("msg"),
                "type": "message",
                "status": "in_progress",
                "role": "assistant",
                "content": [],
            }
            index = self._add_item(self._text)
            self._text = {**self._text, "_index": index, "_parts": []}
            self._send_text_part("response.content_part.added", "")
        self._text["_parts"].append(text)
        self._send_text_event("response.output_text.delta", delta=text, logprobs=[])

    def _add_calls(self, deltas: list[Object]) -> None:
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
                self._calls[delta["index"]] = (self._add_item(new), new)
            if arguments:
                index, item = self._calls[delta["index"]]
                longer = {**item, "arguments": item["arguments"] + arguments}
                self._calls[delta["index"]] = (index, longer)
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
            self._close_item(index, item)
        self._calls = {}

    def _close_text(self) -> None:
        if self._text is None:
            return
        text = "".join(self._text["_parts"])
        self._send_text_event("response.output_text.done", text=text, logprobs=[])
        self._send_text_part("response.content_part.done", text)
        item = {name: value for name, value in self._text.items() if not name.startswith("_")}
        item = {**item, "status": "completed", "content": [_text_part(text)]}
        index, self._text = self._text["_index"], None
        self._close_item(index, item)

    def _send_text_part(self, kind: str, text: str) -> None:
        self._send_text_event(kind, part=_text_part(text))

    def _send_text_event(self, kind: str, **fields: Any) -> None:
        assert self._text
        position = {"item_id": self._text["id"], "output_index": self._text["_index"]}
        self._send(kind, **position, content_index=0, **fields)

    def _add_item(self, item: Object) -> int:
        self._output.append(item)
        index = len(self._output) - 1
        self._send("response.output_item.added", output_index=index, item=item)
        return index

    def _close_item(self, index: int, item: Object) -> None:
        self._output[index] = item
        self._send("response.output_item.done", output_index=index, item=item)

    def _send(self, kind: str, **fields: Any) -> None:
        if self._is_streaming:
            data = encode({"type": kind, "sequence_number": self._sequence_number, **fields})
            self._sequence_number += 1
            self._events.append(b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n")
            self._is_over = kind in _FINAL_EVENTS

    async def _flush(self) -> None:
        """Send the collected events in one write."""
        if self._events:
            events, self._events = b"".join(self._events), []
            await self._client.write(events, is_last=self._is_over)


def _text_part(text: str) -> Object:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
