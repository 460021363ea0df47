"""Conversations to test with, and a model that answers as it is told to."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

from recollect.domain import Caller, Message, Ref, Thread
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage, append
from recollect.engine.threads import OpenThread, open_thread
from recollect.models.chat import Answer


async def new_chat(engine: Engine, caller: Caller) -> Thread:
    """A thread in which nothing was said."""
    return await open_thread(engine, caller, OpenThread(agent="chat"))


async def say(
    engine: Engine,
    caller: Caller,
    thread: Thread,
    *texts: str,
    at: datetime | None = None,
    every: timedelta = timedelta(seconds=30),
) -> list[Message]:
    """Messages by two people in turn, all at once; spoken at a steady pace if `at` is given."""
    new = spoken(texts, at, every)
    found = await append(engine, caller, Ref(id=thread.id), new)
    return [each.message for each in found]


def spoken(
    texts: Sequence[str], at: datetime | None = None, every: timedelta = timedelta(seconds=30)
) -> list[NewMessage]:
    """What two people say in turn."""
    return [
        NewMessage(
            role=("user", "assistant")[number % 2],
            content=text,
            said_at=None if at is None else at + number * every,
        )
        for number, text in enumerate(texts)
    ]


class ScriptedChat:
    """Answers every question with one text; keeps what it was asked."""

    takes_tools = False

    def __init__(self, text: str, *, status: int = 200, finish: str = "stop") -> None:
        self.text = text
        self.status = status
        self.finish = finish
        self.asked: list[bytes] = []

    @asynccontextmanager
    async def post(
        self, path: str, body: bytes, headers: Mapping[str, str]
    ) -> AsyncGenerator[Answer]:
        self.asked.append(body)
        told = {"choices": [{"message": {"content": self.text}, "finish_reason": self.finish}]}

        async def chunks() -> AsyncGenerator[bytes]:
            yield json.dumps(told).encode()

        yield Answer(self.status, {}, chunks())

    async def get(self, path: str) -> Any:
        return {}

    async def aclose(self) -> None:
        pass
