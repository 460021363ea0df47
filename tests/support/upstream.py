"""A chat endpoint that says what a test tells it to, and remembers what it was asked."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from recollect.models.chat import Chat, Route
from recollect.models.chats import Chats
from recollect.models.upstream import UpstreamChat
from recollect.settings import Upstream

Object = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """A request as the endpoint saw it."""

    path: str
    headers: dict[str, str]
    body: bytes
    # Address and port: one connection, one port.
    client: tuple[str, int]

    @property
    def json(self) -> Object:
        return json.loads(self.body)

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.json.get("tools", [])]

    @property
    def prompt(self) -> str:
        """Every text of every message."""
        return json.dumps(self.json["messages"], ensure_ascii=False)


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    name: str
    arguments: Any
    id: str = "call_1"

    @property
    def text(self) -> str:
        is_text = isinstance(self.arguments, str)
        return self.arguments if is_text else json.dumps(self.arguments)


@dataclass(frozen=True)
class Say:
    """What the model says in one answer, streamed or not as it was asked."""

    text: str | None = "Hello."
    calls: Sequence[Call] = ()
    finish: str | None = None
    usage: Object = field(default_factory=lambda: {"prompt_tokens": 10, "completion_tokens": 5})
    extra: Object = field(default_factory=dict[str, Any])
    # Seconds before the first byte, and between chunks.
    waits: float = 0.0
    pause: float = 0.0

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
class Raw:
    """Exactly these bytes; `breaks` hangs up without an end, `hangs` never says anything more."""

    chunks: Sequence[bytes]
    status: int = 200
    content_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    breaks: bool = False
    hangs: bool = False


Reply = Say | Raw
Script = Reply | Callable[[Asked], Reply]


class Endpoint:
    """Plays each of `script` in turn, then says hello."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.script: list[Script] = []
        self.otherwise: Script = Say()
        self.models = ["m1"]
        self.owner = "up"
        # Whose list it is: shown only to who sends this header, where there is one.
        self.key: str | None = None
        self.url = ""
        self.hung_up = threading.Event()

    def reset(self) -> None:
        """As new, for the next test."""
        self.asked.clear()
        self.script = []
        self.otherwise = Say()
        self.hung_up.clear()

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
        asked = Asked(scope["path"], headers, body, (scope["client"][0], scope["client"][1]))
        self.asked.append(asked)
        script = self.script.pop(0) if self.script else self.otherwise
        reply = script if isinstance(script, (Say, Raw)) else script(asked)
        if isinstance(reply, Say):
            await self._say(reply, asked, send)
        else:
            await self._raw(reply, receive, send)

    async def _say(self, say: Say, asked: Asked, send: Any) -> None:
        await asyncio.sleep(say.waits)
        model = asked.json.get("model", "m1")
        if not asked.json.get("stream"):
            await _send(send, 200, "application/json", {}, [say.whole(model)])
            return
        options: Object = asked.json.get("stream_options") or {}
        events = say.events(model, with_usage=bool(options.get("include_usage")))
        await _send(send, 200, "text/event-stream", {}, events, say.pause)

    async def _raw(self, raw: Raw, receive: Any, send: Any) -> None:
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
            self.hung_up.set()
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
    told = [(b"content-type", kind.encode())]
    told += [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": told})
    for chunk in chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if pause:
            await asyncio.sleep(pause)
    if ends:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def chats_of(
    url: str, builtin: Mapping[str, Chat] | None = None, *, model: str | None = None
) -> Chats:
    """One upstream for everything, and built-in models."""
    chat = UpstreamChat(Upstream(url + "/v1", "sk-upstream", model), idle_seconds=5.0)
    return Chats(Route(chat, model or ""), builtin=builtin)


async def events_of(answer: httpx2.Response) -> AsyncIterator[Any]:
    """The data of each event of a stream."""
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            data = line.removeprefix("data: ")
            yield data if data == "[DONE]" else json.loads(data)
