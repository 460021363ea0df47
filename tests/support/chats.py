"""Conversations to test with."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from recollect.domain import Caller, Message, Ref, Thread
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage, append
from recollect.engine.threads import OpenThread, open_thread


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
