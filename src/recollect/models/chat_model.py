"""The interface of a chat model, and how to ask one a question.

A chat model speaks the OpenAI protocol as bytes. Unknown parts of a request or an answer pass
through unchanged.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, cast

from recollect.core.errors import Unavailable
from recollect.models.backoff import retry_after
from recollect.models.chat_errors import NotUnderstood, TooSlow, failure_of

CHAT = "/chat/completions"

# Background answers are short. A model that repeats itself endlessly is cut off here.
_MAX_ANSWER_BYTES = 256 * 1024

# The body of a refusal contains the reason, but it is not worth a long wait.
_REFUSAL_SECONDS = 2.0
_CODE = re.compile(r"[a-z][a-z0-9_]{2,63}")


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's response: its status, its headers, and its bytes as they arrive."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]

    @property
    def is_success(self) -> bool:
        """Whether the model accepted the request."""
        return 200 <= self.status < 300

    async def read(self, max_bytes: int) -> bytes:
        """Return the whole body; raise `NotUnderstood` if it exceeds `max_bytes`."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > max_bytes:
                raise NotUnderstood
        return b"".join(parts)


class ChatModel(Protocol):
    """A model that answers OpenAI requests."""

    @property
    def takes_tools(self) -> bool:
        """Whether a request may offer tools to the model."""
        ...

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[ModelAnswer]:
        """Send a request; leaving the block closes the connection, even in mid-answer.

        Raises `Unavailable` if the model cannot be reached, `TooSlow` if it stops sending.
        """
        ...

    async def get(self, path: str) -> Any:
        """Return the JSON of a GET request such as `/models`; raise `Unavailable` on failure."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A question to a model: the messages, and the limits of the answer."""

    messages: Sequence[Mapping[str, Any]]
    max_tokens: int = 1_000
    deadline: timedelta = timedelta(seconds=60)
    # Further fields of the request, such as `response_format`.
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of a call, as counted by the model."""

    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer to a question; `is_whole` is False if it was cut off."""

    text: str
    usage: TokenUsage
    is_whole: bool


@dataclass(frozen=True, slots=True)
class ChatRoute:
    """An upstream and the name of the model to use there."""

    chat: ChatModel
    model: str

    async def ask(self, question: ModelRequest) -> Completion:
        """Ask and wait for the whole answer.

        Raises `Unavailable` if no answer comes in time, and `Refused` if a retry would not help.
        """
        body: dict[str, Any] = {
            **question.options,
            "model": self.model,
            "messages": list(question.messages),
            "max_tokens": question.max_tokens,
            "stream": False,
        }
        try:
            async with (
                asyncio.timeout(question.deadline.total_seconds()),
                self.chat.post(CHAT, json.dumps(body, ensure_ascii=False).encode(), {}) as answer,
            ):
                if not answer.is_success:
                    raise refusal_of(answer.status, answer.headers, await _read_refusal(answer))
                return _parse_completion(await answer.read(_MAX_ANSWER_BYTES))
        except TimeoutError:
            raise TooSlow from None


def refusal_of(status: int, headers: Mapping[str, str], body: bytes) -> Unavailable:
    """Return the error for the response of a model that refused a request."""
    pause = retry_after(headers.get("retry-after"))
    return failure_of(status, retry_after=pause, code=_error_code(body))


async def _read_refusal(answer: ModelAnswer) -> bytes:
    try:
        async with asyncio.timeout(_REFUSAL_SECONDS):
            return await answer.read(_MAX_ANSWER_BYTES)
    except (Unavailable, TimeoutError):
        return b""


def _error_code(body: bytes) -> str | None:
    """Return the endpoint's error code of a refusal, such as `context_length_exceeded`.

    Only a plain identifier is accepted: the rest of a refusal may quote the question.
    """
    try:
        code = json.loads(body)["error"]["code"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return code if isinstance(code, str) and _CODE.fullmatch(code) else None


def storable(text: str) -> str:
    """Remove what PostgreSQL cannot store: NUL characters and unpaired surrogates."""
    return text.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "ignore")


def usage_of(value: Any) -> TokenUsage:
    """Read the `usage` of an answer. Values that are not numbers count as 0."""
    if not isinstance(value, dict):
        return TokenUsage()
    numbers = cast("dict[str, Any]", value)

    def count(*names: str) -> int:
        found = [numbers[name] for name in names if isinstance(numbers.get(name), int)]
        return max(0, *found) if found else 0

    return TokenUsage(
        count("prompt_tokens", "input_tokens"), count("completion_tokens", "output_tokens")
    )


def _parse_completion(raw: bytes) -> Completion:
    try:
        fields = json.loads(raw)
        choice = fields["choices"][0]
        text = choice["message"].get("content") or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise NotUnderstood from None
    if not isinstance(text, str):
        raise NotUnderstood
    is_whole = choice.get("finish_reason") != "length"
    return Completion(text, usage_of(fields.get("usage")), is_whole)
