"""Turns whose outcome is distilled: deep thought, research, compaction; told to who waits."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from recollect.domain import Caller, Memory, Message
from recollect.engine import kinds
from recollect.engine.core import Engine
from recollect.engine.distiller import Candidate, concluded
from recollect.engine.inject import Remembered
from recollect.engine.learn import learn_now
from recollect.engine.learning import HELD
from recollect.engine.turn import Ask, Begun, Object, Piece, Ran, Sink, run_turn
from recollect.store.lessons import Lesson
from tests.support.chats import new_chat
from tests.support.clock import Clock
from tests.support.live import on_a_port
from tests.support.tools import rows
from tests.support.upstream import Endpoint, Say, chats_of
from tests.work.test_learning import Stub, drain, stored

pytestmark = pytest.mark.anyio

KINDS = list(kinds.INSTRUCTIONS)


@dataclass
class Watcher(Sink):
    """Somebody who watches a turn and takes its outcome, as the dashboard does."""

    engine: Engine
    caller: Caller
    events: list[str] = field(default_factory=list[str])
    messages: list[Message] = field(default_factory=list[Message])
    saved: list[Memory] = field(default_factory=list[Memory])
    takes: bool = True

    async def refused(self, begun: Begun, body: bytes) -> None:
        self.events.append("refused")

    async def whole(self, begun: Begun, answer: Object, raw: bytes | None) -> None:
        self.events.append("whole")

    async def begin(self, begun: Begun) -> None:
        self.events.append("begin")

    async def chunks(self, pieces: Sequence[Piece]) -> None:
        pass

    async def ran(self, ran: Ran) -> None:
        pass

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        self.events.append("finish")

    async def heard(self, message: Message, remembered: Remembered) -> None:
        self.events.append("heard")
        self.messages.append(message)

    async def kept(self, message: Message, outcome: Lesson | None) -> None:
        self.events.append("kept")
        self.messages.append(message)
        if outcome and self.takes:
            self.saved = await learn_now(self.engine, self.caller, outcome)


@pytest.fixture
async def model(engine: Engine) -> AsyncGenerator[tuple[Engine, Endpoint, Stub]]:
    endpoint, stub = Endpoint(), Stub(Candidate("Concluded.", "fact", "word"))
    with on_a_port(endpoint) as url:
        chats = chats_of(url, model="m1")
        yield replace(engine, chats=chats, distiller=stub), endpoint, stub
        await chats.aclose()


async def turn(engine: Engine, caller: Caller, kind: str, **options: Any) -> Watcher:
    thread = await new_chat(engine, caller)
    sink = Watcher(engine, caller, takes=options.pop("takes", True))
    body = {"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Think."}]}
    ask = Ask(b"", body, thread=f"chat_{thread.code}", kind=kind, is_awaited=True)
    await run_turn(engine, caller, ask, sink)
    return sink


@pytest.mark.parametrize("kind", KINDS)
async def test_R029_R030_R035_R036_an_outcome_of_200_characters_is_distilled(
    model: tuple[Engine, Endpoint, Stub], caller: Caller, kind: str
) -> None:
    house, endpoint, stub = model
    endpoint.script = [Say("word " * 39 + "four"), Say("word " * 39 + "five!")]

    short = await turn(house, caller, kind)
    assert (short.saved, stub.asked) == ([], [])

    long = await turn(house, caller, kind)

    # R040: readable by the time somebody hears of it.
    [row] = await stored(house, caller)
    assert [memory.id.hex for memory in long.saved] == [row["id"].replace("-", "")]
    assert (row["origin"], row["origin_label"]) == ("auto", f"auto_{kind}")
    assert row["summary"]
    assert long.events == ["heard", "begin", "finish", "kept"]
    assert [message.role for message in long.messages] == ["user", "assistant"]
    assert long.messages[1].metadata["kind"] == kind


async def test_R035_plain_talk_has_no_outcome(
    model: tuple[Engine, Endpoint, Stub], caller: Caller
) -> None:
    house, endpoint, stub = model
    endpoint.script = [Say("word " * 100)]

    assert (await turn(house, caller, "chat")).saved == []
    assert stub.asked == []


async def test_an_outcome_nobody_took_is_taken_by_the_worker(
    model: tuple[Engine, Endpoint, Stub], caller: Caller, clock: Clock
) -> None:
    house, endpoint, stub = model
    endpoint.script = [Say("word " * 100)]
    await turn(house, caller, "research", takes=False)

    await drain(house)  # what the user said; the outcome is held
    assert not any("word" in each for each in stub.asked)
    clock.advance(HELD + timedelta(seconds=1))
    await drain(house)

    assert [row["origin_label"] for row in await stored(house, caller)][-1] == "auto_research"
    waiting = await rows(
        house,
        "SELECT 1 FROM lesson WHERE workspace_id = %s AND state = 'pending'",
        caller.workspace_id,
    )
    assert waiting == []


async def test_R037_another_kind_has_the_same_prefix() -> None:
    assert kinds.label("retrospective") == "auto_retrospective"


async def test_without_a_model_the_main_sentences_are_the_outcome() -> None:
    text = (
        "I looked at three databases for you. PostgreSQL 17 keeps vectors beside rows and is "
        "backed up with them. Which one do you know? A separate vector database doubles the "
        "backups and the failures. It is slower. Let's talk about this tomorrow."
    )

    assert [each.content for each in concluded(text)] == [
        "PostgreSQL 17 keeps vectors beside rows and is backed up with them.",
        "A separate vector database doubles the backups and the failures.",
    ]
