"""A chat endpoint with scripted answers that records the requests."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from recollect.core.settings import Upstream
from recollect.models.chat_model import ChatModel, ChatRoute
from recollect.models.chat_registry import ChatModels
from recollect.models.endpoint_chat import EndpointChat

Object = dict[str, Any]

# The longest that an answer waits for its gate, so that a failing test ends.
_GATE_SECONDS = 20.0


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as the endpoint received it."""

    path: str
    headers: dict[str, str]
    body: bytes
    # Address and port. Each connection has its own port.
    client: tuple[str, int]

    @property
    def json(self) -> Object:
        return json.loads(self.body)

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.json.get("tools", [])]

    @property
    def prompt(self) -> str:
        """All messages as JSON text."""
        return json.dumps(self.json["messages"], ensure_ascii=False)


@dataclass(frozen=True)
class Call:
    """A tool call in a model's answer."""

    name: str
    arguments: Any
    id: str = "call_1"

    @property
    def text(self) -> str:
        is_text = isinstance(self.arguments, str)
        return self.arguments if is_text else json.dumps(self.arguments)


@dataclass(frozen=True)
class Answer:
    """One answer of the model, streamed if the request asks for it."""

    text: str | None = "Hello."
    calls: Sequence[Call] = ()
    finish: str | None = None
    usage: Object = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5})
    extra: Object = field(default_factory=dict[str, Any])
    # Seconds before the first byte, and between chunks.
    delay: float = 0.0
    pause: float = 0.0
    # If set, nothing is sent before this event.
    gate: threading.Event | None = None

    @property
    def finish_reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def whole(self, model: str) -> bytes:
        message: Object = {"role": "assistant", "content": self.text, **self.extra}
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.text},
                }
                for call in self.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason}
        total = sum(self.usage.values())
        body = {
            "id": "chatcmpl-up",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": model,
            "choices": [choice],
            "usage": {**self.usage, "total_tokens": total},
        }
        return json.dumps(body).encode()

    def events(self, model: str, *, with_usage: bool) -> list[bytes]:
        def chunk(delta: Object, finish: str | None = None) -> Object:
            return {
                "id": "chatcmpl-up",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": model,
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }

        chunks = [chunk({"role": "assistant", "content": ""})]
        words = (self.text or "").split(" ")
        chunks += [
            chunk({"content": word if number == 0 else f" {word}", **self.extra})
            for number, word in enumerate(words)
            if self.text
        ]
        for index, call in enumerate(self.calls):
            head = {"name": call.name, "arguments": ""}
            chunks.append(
                chunk(
                    {
                        "tool_calls": [
                            {"index": index, "id": call.id, "type": "function", "function": head}
                        ]
                    }
                )
            )
            middle = len(call.text) // 2
            chunks += [
                chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                for part in (call.text[:middle], call.text[middle:])
            ]
        chunks.append(chunk({}, self.finish_reason))
        if with_usage:
            total = sum(self.usage.values())
            chunks.append(
                {**chunk({}), "choices": [], "usage": {**self.usage, "total_tokens": total}}
            )
        return [b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks] + [
            b"data: [DONE]\n\n"
        ]


@dataclass(frozen=True)
class RawAnswer:
    """Exactly these bytes. `breaks` disconnects before the end; `hangs` sends nothing more."""

    chunks: Sequence[bytes]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    breaks: bool = False
    hangs: bool = False


Reply = Answer | RawAnswer
Script = Reply | Callable[[ReceivedRequest], Reply]


class Endpoint:
    """Sends the answers of `script` in order, then `default`."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.script: list[Script] = []
        self.default: Script = Answer()
        self.models = ["m1"]
        self.owner = "up"
        # If set, the list of models needs this `Authorization` header.
        self.key: str | None = None
        self.url = ""
        self.disconnected = threading.Event()

    def reset(self) -> None:
        """Reset everything for the next test."""
        self.requests.clear()
        self.script = []
        self.default = Answer()
        self.disconnected.clear()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if scope["path"].endswith("/models") and self.key in (None, headers.get("authorization")):
            listed = {
                "object": "list",
                "data": [
                    {"id": name, "object": "model", "created": 1, "owned_by": self.owner}
                    for name in dict.fromkeys(self.models)
                ],
            }
            await _send(send, 200, "application/json", {}, [json.dumps(listed).encode()])
            return
        if scope["path"].endswith("/models"):
            await _send(send, 401, "application/json", {}, [b"{}"])
            return
        request = ReceivedRequest(
            scope["path"], headers, body, (scope["client"][0], scope["client"][1])
        )
        self.requests.append(request)
        script = self.script.pop(0) if self.script else self.default
        reply = script if isinstance(script, (Answer, RawAnswer)) else script(request)
        if isinstance(reply, Answer):
            await self._send_answer(reply, request, send)
        else:
            await self._send_raw(reply, receive, send)

    async def _send_answer(self, answer: Answer, request: ReceivedRequest, send: Any) -> None:
        await asyncio.sleep(answer.delay)
        if answer.gate:
            await asyncio.to_thread(answer.gate.wait, _GATE_SECONDS)
        model = request.json.get("model", "m1")
        if not request.json.get("stream"):
            await _send(send, 200, "application/json", {}, [answer.whole(model)])
            return
        options: Object = request.json.get("stream_options") or {}
        events = answer.events(model, with_usage=bool(options.get("include_usage")))
        await _send(send, 200, "text/event-stream", {}, events, answer.pause)

    async def _send_raw(self, raw: RawAnswer, receive: Any, send: Any) -> None:
        await _send(
            send,
            raw.status,
            raw.content_type,
            raw.headers,
            raw.chunks,
            ends=not (raw.breaks or raw.hangs),
        )
        if raw.hangs:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.disconnected.set()
        if raw.breaks:
            raise ConnectionResetError


async def _send(
    send: Any,
    status: int,
    kind: str,
    headers: dict[str, str],
    chunks: Sequence[bytes],
    pause: float = 0.0,
    *,
    ends: bool = True,
) -> None:
    raw = [(b"content-type", kind.encode())]
    raw += [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if pause:
            await asyncio.sleep(pause)
    if ends:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def chat_models_at(
    url: str, builtin: Mapping[str, ChatModel] | None = None, *, model: str | None = None
) -> ChatModels:
    """Chat models with one upstream for everything, and built-in models."""
    chat = EndpointChat(Upstream(url + "/v1", "sk-upstream", model), idle_seconds=5.0)
    return ChatModels(ChatRoute(chat, model or ""), builtin=builtin)


async def events_of(response: httpx2.Response) -> AsyncIterator[Any]:
    """The data of each event of a stream."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)
