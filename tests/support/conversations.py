"""Helpers for tests of conversations, and a model with a scripted answer."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from recollect.conversations.messages import NewMessage, append
from recollect.conversations.threads import OpenThread, open_thread
from recollect.core.domain import Caller, Message, Ref, Thread
from recollect.engine import Engine
from recollect.models.chat_model import ModelAnswer


async def new_chat(engine: Engine, caller: Caller) -> Thread:
    """Create an empty thread."""
    return await open_thread(engine, caller, OpenThread(agent="chat"))


async def add_messages(
    engine: Engine,
    caller: Caller,
    thread: Thread,
    *texts: str,
    at: datetime | None = None,
    every: timedelta = timedelta(seconds=30),
) -> list[Message]:
    """Append alternating messages in one call. With `at`, they are `every` apart from there on."""
    new = alternating_messages(texts, at, every)
    found = await append(engine, caller, Ref(id=thread.id), new)
    return [each.message for each in found]


def alternating_messages(
    texts: Sequence[str], at: datetime | None = None, every: timedelta = timedelta(seconds=30)
) -> list[NewMessage]:
    """Messages of the user and the assistant in turn."""
    return [
        NewMessage(
            role=("user", "assistant")[number % 2],
            content=text,
            said_at=None if at is None else at + number * every,
        )
        for number, text in enumerate(texts)
    ]


class ScriptedChat:
    """Answers every request with the same text and records the requests."""

    takes_tools = False

    def __init__(self, text: str, *, status: int = 200, finish: str = "stop") -> None:
        self.text = text
        self.status = status
        self.finish = finish
        self.requests: list[bytes] = []

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[ModelAnswer]:
        self.requests.append(body)
        answer = {"choices": [{"message": {"content": self.text}, "finish_reason": self.finish}]}

        async def chunks() -> AsyncGenerator[bytes]:
            yield json.dumps(answer).encode()

        yield ModelAnswer(self.status, {}, chunks())

    async def get(self, path: str) -> Any:
        return {}

    async def aclose(self) -> None:
        pass
