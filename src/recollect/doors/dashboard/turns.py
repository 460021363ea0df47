"""Turns on their way to the page, which listens for as long as it likes."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any, cast

import structlog
from starlette.responses import StreamingResponse

from recollect.domain import Caller, Message
from recollect.doors.dashboard import chat_wire, memory_wire, wire
from recollect.doors.dashboard.errors import answer
from recollect.doors.under_way import Events, Place, UnderWay
from recollect.engine.core import Engine
from recollect.engine.inject import Remembered
from recollect.engine.learn import Lesson, learn_now
from recollect.engine.shelf import shown
from recollect.engine.talk import Told, shown_of, with_memories
from recollect.engine.turn import Ask, Begun, Mode, Object, Piece, Ran, Sink, run_turn
from recollect.errors import Failure
from recollect.logs import frames
from recollect.models.faults import refusal

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

_log = structlog.get_logger(__name__)


class TurnStream(StreamingResponse):
    """The events of one turn, until its end or until nobody listens."""

    media_type = "text/event-stream"


class Turns:
    """The turns of the page that are under way in this process."""

    def __init__(self, under_way: UnderWay) -> None:
        self._under_way = under_way

    def begin(self, engine: Engine, place: Place, caller: Caller, ask: Ask) -> TurnStream:
        """Start a turn; raise `RateLimited` when this user has too many under way."""
        events = self._under_way.begin(place, lambda events: _run(engine, caller, ask, events))
        return TurnStream(events, headers=_HEADERS)

    def is_answering(self, place: Place) -> bool:
        """Whether an answer is under way there, in this process."""
        return self._under_way.has(place)

    def stop(self, place: Place) -> bool:
        """Break off what is under way there; False when that is nothing, in this process."""
        return self._under_way.stop(place)


async def _run(engine: Engine, caller: Caller, ask: Ask, events: Events) -> None:
    sink = _PageSink(engine, caller, ask, events)
    try:
        await sink.welcome()
        await run_turn(engine, caller, ask, sink)
        sink.farewell(is_complete=True)
    except asyncio.CancelledError:
        sink.farewell(is_complete=False)
        if events.is_stopped:
            sink.tell("stopped", {})
        raise
    except Exception as error:  # noqa: BLE001 - the last handler: nobody else awaits this
        if not isinstance(error, Failure):
            _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
        sink.tell("error", answer(error).body["error"])
    finally:
        events.put_nowait(b"data: [DONE]\n\n")


class _PageSink(Sink):
    """Tells the page what happens, as it happens."""

    def __init__(self, engine: Engine, caller: Caller, ask: Ask, events: Events) -> None:
        self._engine = engine
        self._caller = caller
        self._is_passing = ask.mode is Mode.OFF
        self._content = str(ask.body["messages"][-1]["content"])
        self._events = events
        self._said = ""

    def tell(self, name: str, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        self._events.put_nowait(f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace"))

    async def welcome(self) -> None:
        """A temporary turn is kept nowhere; its question is told as it was asked."""
        if self._is_passing:
            asked = chat_wire.from_passing("user", self._content, self._engine.now())
            self.tell("message.created", asked.model_dump())

    def farewell(self, *, is_complete: bool) -> None:
        """And its answer, as far as it was given."""
        if self._is_passing and self._said:
            said = chat_wire.from_passing("assistant", self._said, self._engine.now())
            ended = {"is_complete": is_complete, "is_stopped": self.is_stopped}
            self.tell("message.completed", said.model_dump() | ended)

    @property
    def is_stopped(self) -> bool:
        """Whether its reader had enough."""
        return self._events.is_stopped

    async def heard(self, message: Message, remembered: Remembered) -> None:
        """The question is kept; what the model is shown follows."""
        self.tell("message.created", chat_wire.from_told(Told(message)).model_dump())
        items = [chat_wire.from_shown(each).model_dump() for each in shown_of(remembered)]
        self.tell("injected", {"items": items})

    async def refused(self, begun: Begun, body: bytes) -> None:
        """The model said no; why is for the operator's eyes."""
        del body
        self.tell("error", {"code": "model_refused", "message": refusal(begun.status)})

    async def whole(self, begun: Begun, answer: Object, raw: bytes | None) -> None:
        """A model that does not stream has said it all at once."""
        del begun, raw
        text = answer["choices"][0]["message"].get("content")
        if isinstance(text, str) and text:
            self._delta(text)

    async def begin(self, begun: Begun) -> None:
        """The stream began with the question."""

    async def chunks(self, pieces: Sequence[Piece]) -> None:
        """Some more of the answer."""
        for piece in pieces:
            for choice in cast("list[Object]", (piece.chunk or {}).get("choices") or []):
                text = cast("Object", choice.get("delta") or {}).get("content")
                if isinstance(text, str) and text:
                    self._delta(text)

    def _delta(self, text: str) -> None:
        self._said += text
        self.tell("delta", {"text": text})

    async def ran(self, ran: Ran) -> None:
        """A tool was run."""
        self.tell("tool", {"name": ran.call.name, "status": "done"})

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The answer is complete; it is told of when it is kept."""

    async def kept(self, message: Message, outcome: Lesson | None) -> None:
        """The answer is kept; what was learnt of it at once follows, readable by then."""
        [told] = await with_memories(self._engine, self._caller, [message])
        self.tell("message.completed", chat_wire.from_told(told).model_dump())
        if outcome is None:
            return
        saved = await learn_now(self._engine, self._caller, outcome)
        sources = await shown(self._engine, self._caller, saved)
        for memory in saved:
            self.tell(
                "x_memory.auto_saved",
                {
                    "memory": memory_wire.from_memory(memory, sources).model_dump(),
                    "chat_id": wire.chat_id(message.thread_code),
                    "workspace_id": wire.workspace_id(memory.workspace_id),
                },
            )
