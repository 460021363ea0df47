"""Segments of a conversation: the worker makes them memories, each with its reason."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta

import httpx2
import pytest

from recollect.core.domain import Caller, SegmentRules
from recollect.engine import Engine
from recollect.models.embedder import Vector
from recollect.worker import Worker
from tests.support.clock import Clock
from tests.support.database import TestDatabases
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.informer import Http, add_messages, list_memories, new_chat
from tests.support.instance import connect, key_for, make_server

pytestmark = pytest.mark.anyio

MAX_PAUSE = timedelta(minutes=30)
ABOUT_NUMBERS = [f"Point {number} is about the quarterly numbers" for number in range(6)]
ABOUT_CATS = [f"Point {number} is about our cats" for number in range(2)]


@pytest.fixture(scope="module")
def database_url(databases: TestDatabases) -> str:
    """A separate database: a worker claims the jobs of every test."""
    return databases.clone()


class TwoTopics(StubEmbedder):
    """Texts about cats are on one topic, all others on another."""

    def _vector(self, text: str) -> Vector:
        return at_cosine(0.0 if "cats" in text else 1.0)


@pytest.fixture
def embedder() -> StubEmbedder:
    return TwoTopics()


@pytest.fixture
def engine(engine: Engine) -> Engine:
    return replace(engine, segment_rules=SegmentRules(max_messages=6, max_pause=MAX_PAUSE))


@pytest.fixture
async def http(engine: Engine, caller: Caller) -> AsyncGenerator[httpx2.AsyncClient]:
    key = await key_for(engine, caller.workspace_id)
    async with connect(make_server(engine), Authorization=f"Bearer {key}") as client:
        yield client


async def work(engine: Engine) -> None:
    await Worker(engine, slots=1).run_until_empty()


async def segments(http: Http, chat: str) -> list[tuple[str, list[str]]]:
    """The reason and the messages of each memory of the chat."""
    listed = (await list_memories(http, chat))["_embedded"]["inf:memory"]
    found = [(await http.get(f"/api/memories/{each['id']}")).json() for each in listed]
    return [(each["reason"], [said["content"] for said in each["messages"]]) for each in found]


async def test_R136_messages_before_a_pause_become_a_memory(
    http: Http, engine: Engine, clock: Clock
) -> None:
    chat = await new_chat(http)
    await add_messages(http, chat, *ABOUT_NUMBERS[:2])
    await work(engine)
    clock.advance(MAX_PAUSE + timedelta(seconds=1))
    await add_messages(http, chat, *ABOUT_NUMBERS[2:4])

    await work(engine)

    assert await segments(http, chat) == [("time_threshold", ABOUT_NUMBERS[:2])]


async def test_R136_a_pause_of_the_threshold_makes_no_memory(
    http: Http, engine: Engine, clock: Clock
) -> None:
    chat = await new_chat(http)
    await add_messages(http, chat, *ABOUT_NUMBERS[:2])
    await work(engine)
    clock.advance(MAX_PAUSE)
    await add_messages(http, chat, *ABOUT_NUMBERS[2:4])

    await work(engine)

    assert await segments(http, chat) == []


async def test_R136_silence_makes_a_memory_without_a_further_message(
    http: Http, engine: Engine, clock: Clock
) -> None:
    chat = await new_chat(http)
    await add_messages(http, chat, *ABOUT_NUMBERS[:3])
    await work(engine)
    clock.advance(MAX_PAUSE - timedelta(seconds=1))
    await work(engine)
    before = await segments(http, chat)
    clock.advance(timedelta(minutes=1))

    await work(engine)

    assert before == []
    assert await segments(http, chat) == [("time_threshold", ABOUT_NUMBERS[:3])]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (ABOUT_NUMBERS[:5], []),
        (ABOUT_NUMBERS, [("length_threshold", ABOUT_NUMBERS)]),
        (ABOUT_NUMBERS[:3] + ABOUT_CATS, [("topic_change", ABOUT_NUMBERS[:3])]),
        (
            [*ABOUT_NUMBERS[:2], "Thanks, that is all!", "You're welcome!"],
            [
                (
                    "completed_discussion",
                    [*ABOUT_NUMBERS[:2], "Thanks, that is all!", "You're welcome!"],
                )
            ],
        ),
        ([*ABOUT_NUMBERS[:2], "Thanks, that helps. And the budget?", "It is in the file."], []),
    ],
    ids=["too short", "length", "topic", "closing", "thanks in the middle"],
)
async def test_R133_R134_R135_a_segment_ends_for_its_reason(
    http: Http, engine: Engine, texts: list[str], found: list[tuple[str, list[str]]]
) -> None:
    chat = await new_chat(http)
    await add_messages(http, chat, *texts)

    await work(engine)

    assert await segments(http, chat) == found
