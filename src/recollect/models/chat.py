"""Chat models: what one is, and how to ask one a plain question.

A chat model speaks the OpenAI protocol as bytes: what the house does not understand of a request or
an answer passes through it untouched.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, cast

from recollect.errors import Unavailable
from recollect.models import sse
from recollect.models.faults import SERVICE, NotUnderstood, TooSlow

CHAT = "/chat/completions"

# What is asked in the background is short; a model that loops is cut off here, not believed.
MOST_ANSWER_BYTES = 256 * 1024
# Each word of a streamed answer comes in some 200 bytes of its own.
MOST_STREAM_BYTES = 64 * 1024 * 1024


# Hears a model's answer, piece by piece.
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer as it begins: its status, its headers, and its bytes as they come."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    @property
    def is_success(self) -> bool:
        """Whether the model took the request."""
        return 200 <= self.status < 300

    async def read(self, most: int) -> bytes:
        """The whole body; raise `NotUnderstood` when it is longer than anybody can want."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise NotUnderstood
        return b"".join(parts)


class Chat(Protocol):
    """Anything that answers OpenAI requests."""

    @property
    def takes_tools(self) -> bool:
        """Whether a request may offer it tools."""
        ...

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Answer]:
        """Send a request; leaving the block hangs up, whatever the model is still saying.

        Raises `Unavailable` when it cannot be reached, `TooSlow` when it falls silent.
        """
        ...

    async def get(self, path: str) -> Any:
        """What it answers to a plain question such as `/models`; raise `Unavailable`."""
        ...

    async def aclose(self) -> None:
        """Let go of connections."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """What background work asks a model: some messages, and how much may come back."""

    messages: Sequence[Mapping[str, Any]]
    most_tokens: int = 1_000
    deadline: timedelta = timedelta(seconds=60)
    # Further fields of the request, such as `response_format`.
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call cost in tokens, as the model counts them."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer to a question; `is_whole` is False where it was cut off."""

    text: str
    usage: Usage
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Route:
    """A model of some upstream: whom to ask, and by what name it knows the model."""

    chat: Chat
    model: str

    async def ask(self, question: Question, tell: Tell | None = None) -> Completion:
        """Ask and wait for the whole answer; raise `Unavailable` when none comes in time.

        Whoever is to be told of it hears it piece by piece, as it comes.
        """
        body: dict[str, Any] = {
            **question.options,
            "model": self.model,
            "messages": list(question.messages),
            "max_tokens": question.most_tokens,
            "stream": tell is not None,
        }
        if tell:
            body["stream_options"] = {"include_usage": True}
        try:
            async with (
                asyncio.timeout(question.deadline.total_seconds()),
                self.chat.post(CHAT, json.dumps(body, ensure_ascii=False).encode(), {}) as answer,
            ):
                if not answer.is_success:
                    raise Unavailable(SERVICE)
                if tell and "event-stream" in answer.headers.get("content-type", ""):
                    return await _heard(answer, tell)
                completion = _completion(await answer.read(MOST_ANSWER_BYTES))
        except TimeoutError:
            raise TooSlow from None
        if tell and completion.text:
            tell(completion.text)
        return completion


async def _heard(answer: Answer, tell: Tell) -> Completion:
    """The whole of a streamed answer, told on as it comes."""
    said: list[str] = []
    usage, size = Usage(), 0
    finish: Any = None
    async for event in _one_by_one(answer.chunks):
        size += len(event)
        if size > MOST_STREAM_BYTES:
            raise NotUnderstood
        data = sse.data(event)
        if data is None or data.strip() == sse.DONE:
            continue
        try:
            chunk = json.loads(data)
            usage = usage_of(chunk["usage"]) if chunk.get("usage") else usage
            choice: Any = next(iter(cast("list[Any]", chunk.get("choices") or [])), None) or {}
            finish = choice.get("finish_reason") or finish
            delta: Any = choice.get("delta") or {}
            text: Any = delta.get("content")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise NotUnderstood from None
        if isinstance(text, str) and text:
            said.append(text)
            tell(text)
    if finish is None:
        raise NotUnderstood  # it fell silent in the middle of a sentence
    return Completion("".join(said), usage, finish != "length")


async def _one_by_one(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for events in sse.events(chunks):
        for event in events:
            yield event


def storable(text: str) -> str:
    """What a model said as a database keeps it: without NUL, and without half a letter."""
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "ignore")


def usage_of(told: Any) -> Usage:
    """The `usage` of an answer; whatever is no number counts as nothing."""
    if not isinstance(told, dict):
        return Usage()
    numbers = cast("dict[str, Any]", told)

    def count(*names: str) -> int:
        found = [numbers[name] for name in names if isinstance(numbers.get(name), int)]
        return max(0, *found) if found else 0

    return Usage(
        count("prompt_tokens", "input_tokens"), count("completion_tokens", "output_tokens")
    )


def _completion(raw: bytes) -> Completion:
    try:
        told = json.loads(raw)
        choice = told["choices"][0]
        text = choice["message"].get("content") or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise NotUnderstood from None
    if not isinstance(text, str):
        raise NotUnderstood
    is_whole = choice.get("finish_reason") != "length"
    return Completion(text, usage_of(told.get("usage")), is_whole)
