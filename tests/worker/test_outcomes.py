"""Turns whose outcome is distilled at once: deep think, research and compaction."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from recollect.chat.injection import InjectedMemories
from recollect.chat.turn import run_turn
from recollect.chat.turn_request import TurnRequest
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, Object, StartedTurn, TurnSink
from recollect.core import turn_kinds
from recollect.core.domain import Caller, Memory, Message
from recollect.engine import Engine
from recollect.learning.distil_job import learn_now
from recollect.learning.inbox import claim_duration
from recollect.learning.queries.inbox import InboxItem
from recollect.learning.rules import Candidate, distil_outcome
from tests.support.clock import Clock
from tests.support.conversations import new_chat
from tests.support.live_server import serve_app
from tests.support.tools import fetch_rows
from tests.support.upstream import Answer, Endpoint, RawAnswer, chat_models_at
from tests.worker.test_learning import StubDistiller, run_jobs, stored_memories

pytestmark = pytest.mark.anyio

KINDS = list(turn_kinds.INSTRUCTIONS)


@dataclass
class Watcher(TurnSink):
    """A sink that follows a turn and distils its outcome, as the dashboard does."""

    engine: Engine
    caller: Caller
    events: list[str] = field(default_factory=list[str])
    messages: list[Message] = field(default_factory=list[Message])
    saved: list[Memory] = field(default_factory=list[Memory])
    takes: bool = True

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        self.events.append("refused")

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        self.events.append("whole")

    async def begin(self, begun: StartedTurn) -> None:
        self.events.append("begin")

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        pass

    async def tool_ran(self, finished: FinishedCall) -> None:
        pass

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        self.events.append("finish")

    async def question_stored(self, message: Message, injected: InjectedMemories) -> None:
        self.events.append("question_stored")
        self.messages.append(message)

    async def answer_stored(self, message: Message, outcome: InboxItem | None) -> None:
        self.events.append("answer_stored")
        self.messages.append(message)
        if outcome and self.takes:
            self.saved = await learn_now(self.engine, self.caller, outcome)


@pytest.fixture
async def model(engine: Engine) -> AsyncGenerator[tuple[Engine, Endpoint, StubDistiller]]:
    endpoint, stub = Endpoint(), StubDistiller(Candidate("Concluded.", "fact", "word"))
    with serve_app(endpoint) as url:
        chats = chat_models_at(url, model="m1")
        yield replace(engine, chat_models=chats, distiller=stub), endpoint, stub
        await chats.aclose()


async def turn(engine: Engine, caller: Caller, kind: str, **options: Any) -> Watcher:
    thread = await new_chat(engine, caller)
    sink = Watcher(engine, caller, takes=options.pop("takes", True))
    body = {"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Think."}]}
    ask = TurnRequest(b"", body, thread=f"chat_{thread.code}", kind=kind, is_awaited=True)
    await run_turn(engine, caller, ask, sink)
    return sink


@pytest.mark.parametrize("kind", KINDS)
async def test_R029_R030_R035_R036_an_outcome_of_200_characters_is_distilled(
    model: tuple[Engine, Endpoint, StubDistiller], caller: Caller, kind: str
) -> None:
    instance, endpoint, stub = model
    endpoint.script = [Answer("word " * 39 + "four"), Answer("word " * 39 + "five!")]

    short = await turn(instance, caller, kind)
    assert (short.saved, stub.asked) == ([], [])

    long = await turn(instance, caller, kind)

    # R040: the memory can be read by the time it is reported.
    [row] = await stored_memories(instance, caller)
    assert [memory.id.hex for memory in long.saved] == [row["id"].replace("-", "")]
    assert (row["origin"], row["origin_label"]) == ("auto", f"auto_{kind}")
    assert row["summary"]
    assert long.events == ["question_stored", "begin", "finish", "answer_stored"]
    assert [message.role for message in long.messages] == ["user", "assistant"]
    assert long.messages[1].metadata["kind"] == kind


async def test_R035_a_plain_chat_turn_has_no_outcome(
    model: tuple[Engine, Endpoint, StubDistiller], caller: Caller
) -> None:
    instance, endpoint, stub = model
    endpoint.script = [Answer("word " * 100)]

    assert (await turn(instance, caller, "chat")).saved == []
    assert stub.asked == []


async def test_the_worker_distils_an_outcome_that_no_client_claimed(
    model: tuple[Engine, Endpoint, StubDistiller], caller: Caller, clock: Clock
) -> None:
    instance, endpoint, stub = model
    endpoint.script = [Answer("word " * 100)]
    await turn(instance, caller, "research", takes=False)

    await run_jobs(instance)  # distils the user's message; the outcome is still claimed
    assert not any("word" in each for each in stub.asked)
    clock.advance(claim_duration(instance) + timedelta(seconds=1))
    await run_jobs(instance)

    assert [row["origin_label"] for row in await stored_memories(instance, caller)][
        -1
    ] == "auto_research"
    waiting = await fetch_rows(
        instance,
        "SELECT 1 FROM inbox_item WHERE workspace_id = %s AND state = 'pending'",
        caller.workspace_id,
    )
    assert waiting == []


async def test_an_outcome_the_model_refuses_is_distilled_by_rule_at_once(
    model: tuple[Engine, Endpoint, StubDistiller], caller: Caller
) -> None:
    instance, endpoint, _ = model
    outcome = "PostgreSQL 17 keeps vectors beside rows and is backed up with them. " * 4
    refusal = RawAnswer([b"{}"], 400, "application/json")
    endpoint.script = [Answer(outcome), refusal]

    watcher = await turn(replace(instance, distiller=None), caller, "research")

    assert [each.content for each in watcher.saved] == [outcome[:67]]


async def test_an_outcome_on_which_the_model_hangs_is_distilled_by_the_worker(
    model: tuple[Engine, Endpoint, StubDistiller], caller: Caller
) -> None:
    instance, endpoint, _ = model
    instance = replace(instance, distiller=None, learning_deadline=timedelta(seconds=0.2))
    endpoint.script = [Answer("word " * 100), RawAnswer([], hangs=True)]

    watcher = await turn(instance, caller, "research")

    assert watcher.saved == []
    left = await fetch_rows(
        instance,
        "SELECT state, attempts FROM inbox_item WHERE workspace_id = %s AND source <> 'turn'",
        caller.workspace_id,
    )
    assert [tuple(each) for each in left] == [("pending", 1)]


async def test_R037_labels_of_other_kinds_have_the_same_prefix() -> None:
    assert turn_kinds.outcome_label("retrospective") == "auto_retrospective"


async def test_without_a_model_the_outcome_is_its_main_sentences() -> None:
    text = (
        "I looked at three databases for you. PostgreSQL 17 keeps vectors beside rows and is "
        "backed up with them. Which one do you know? A separate vector database doubles the "
        "backups and the failures. It is slower. Let's talk about this tomorrow."
    )

    assert [each.content for each in distil_outcome(text)] == [
        "PostgreSQL 17 keeps vectors beside rows and is backed up with them.",
        "A separate vector database doubles the backups and the failures.",
    ]
