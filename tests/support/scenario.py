"""A server whose upstream fails on some messages."""

import json
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from structlog.testing import capture_logs

from recollect.core.domain import Caller
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, inbox_item_of, learn_from
from recollect.server import Server
from recollect.worker import Worker
from tests.support.alumia import client_of
from tests.support.clock import Clock
from tests.support.instance import connect
from tests.support.metrics import sample
from tests.support.tools import fetch_rows
from tests.support.upstream import Answer, Endpoint, RawAnswer, ReceivedRequest, Reply

LEARNING = "You extract long-term memories"
HANGS = RawAnswer([], hangs=True)


def answer_by_model(request: ReceivedRequest) -> Answer:
    """Answer like a working model."""
    [quote] = re.findall(r"I (?:live in|moved to) [\w ]+", request.prompt)
    return Answer(json.dumps([{"content": f"By the model: {quote}.", "quote": quote}]))


def status_answer(number: int, body: bytes = b"{}", *, hint: str | None = None) -> RawAnswer:
    return RawAnswer([body], number, "application/json", {"retry-after": hint} if hint else {})


@dataclass
class Scenario:
    """A server, its upstream and a clock, for tests of a failing upstream."""

    engine: Engine
    server: Server
    upstream: Endpoint
    clock: Clock
    # The reply to learning requests whose prompt contains these words.
    replies: dict[str, Reply] = field(default_factory=dict[str, Reply])
    outage: Reply | None = None
    log: list[Any] = field(default_factory=list[Any])

    def answer(self, request: ReceivedRequest) -> Reply:
        if LEARNING not in request.prompt:
            return self.outage or Answer("Hello.")
        for words, reply in self.replies.items():
            if words in request.prompt:
                return reply
        return self.outage or answer_by_model(request)

    async def turn(self, caller: Caller, text: str) -> None:
        """Run one turn through the router."""
        body = {"model": "m1", "messages": [{"role": "user", "content": text}]}
        async with client_of(self.engine, self.server, caller) as http:
            answer = await http.post("/v1/chat/completions", json=body)
        assert answer.status_code == 200, answer.text

    async def queue(self, caller: Caller, text: str, **options: Any) -> None:
        """Queue the inbox item of a turn, without the turn."""
        source = LearningInput(text, "turn", self.engine.now(), **options)
        async with self.engine.writing(caller) as db:
            await learn_from(self.engine, db, caller, inbox_item_of(caller, source))

    async def drain(self, *, after: timedelta = timedelta()) -> None:
        self.clock.advance(after)
        with capture_logs() as logged:
            await Worker(self.engine, slots=1).run_until_empty()
        self.log += logged

    def learning_requests(self, words: str = "") -> list[ReceivedRequest]:
        """Return the learning requests whose prompt contains these words."""
        return [
            each
            for each in self.upstream.requests
            if LEARNING in each.prompt and words in each.prompt
        ]

    def logged(self, event: str) -> list[Any]:
        return [each for each in self.log if each["event"] == event]

    async def learnt(self, caller: Caller) -> list[str]:
        found = await fetch_rows(
            self.engine,
            "SELECT content FROM memory WHERE workspace_id = %s AND user_id = %s ORDER BY id",
            caller.workspace_id,
            caller.user_id,
        )
        return [each[0] for each in found]

    async def inbox_item(self, caller: Caller) -> tuple[str, int, str | None]:
        [found] = await fetch_rows(
            self.engine,
            "SELECT state, attempts, failure FROM inbox_item WHERE workspace_id = %s AND user_id = %s",
            caller.workspace_id,
            caller.user_id,
        )
        return tuple(found)

    async def metric(self, name: str, **labels: str) -> float:
        async with connect(self.server) as http:
            return sample((await http.get("/metrics")).text, name, **labels)

    async def background_calls(self, outcome: str, purpose: str = "distil") -> float:
        return await self.metric(
            "recollect_background_calls_total", purpose=purpose, outcome=outcome
        )

    async def health(self) -> Any:
        async with connect(self.server) as http:
            answer = await http.get("/health")
        assert answer.status_code == 200
        return answer.json()
