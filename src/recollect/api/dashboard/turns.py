"""Stream a turn to the page as server-sent events; the turn runs on if the page disconnects."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import structlog
from starlette.responses import StreamingResponse

from recollect.api.dashboard.errors import answer
from recollect.api.dashboard.wire import chats, common, memories
from recollect.api.running_turns import RunningTurns, TurnEvents, TurnOwner
from recollect.chat.dashboard_chats import MessageWithMemories, shown_of, with_memories
from recollect.chat.injection import InjectedMemories
from recollect.chat.turn import run_turn
from recollect.chat.turn_request import MemoryMode, TurnRequest
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, Object, StartedTurn, TurnSink
from recollect.core.domain import Caller, Message
from recollect.core.errors import Failure
from recollect.core.logging import frames
from recollect.engine import Engine
from recollect.learning.distil_job import InboxItem, learn_now
from recollect.models.chat_errors import refusal
from recollect.search.memory_browser import source_codes

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}

_log = structlog.get_logger(__name__)


class TurnStream(StreamingResponse):
    """The events of one turn, until it ends or the client disconnects."""

    media_type = "text/event-stream"


class Turns:
    """The dashboard's turns that are running in this process."""

    def __init__(self, running: RunningTurns) -> None:
        self._running = running

    def start(
        self, engine: Engine, owner: TurnOwner, caller: Caller, ask: TurnRequest
    ) -> TurnStream:
        """Start a turn; raise `RateLimited` if this user has too many running turns."""
        events = self._running.start(owner, lambda events: _run(engine, caller, ask, events))
        return TurnStream(events, headers=_HEADERS)

    def is_answering(self, owner: TurnOwner) -> bool:
        """Return whether an answer is running in this process."""
        return self._running.has(owner)

    def stop(self, owner: TurnOwner) -> bool:
        """Stop the running answer; return False if none runs in this process."""
        return self._running.stop(owner)


async def _run(engine: Engine, caller: Caller, ask: TurnRequest, events: TurnEvents) -> None:
    sink = _PageSink(engine, caller, ask, events)
    try:
        await sink.send_temporary_question()
        await run_turn(engine, caller, ask, sink)
        sink.send_temporary_answer(is_complete=True)
    except asyncio.CancelledError:
        sink.send_temporary_answer(is_complete=False)
        if events.is_stopped:
            sink.send("stopped", {})
        raise
    except Exception as error:  # noqa: BLE001 - last handler: nothing awaits this task
        if not isinstance(error, Failure):
            _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
        sink.send("error", answer(error).body["error"])
    finally:
        events.put_nowait(b"data: [DONE]\n\n")


class _PageSink(TurnSink):
    """Sends the events of a turn to the page as they happen."""

    def __init__(
        self, engine: Engine, caller: Caller, ask: TurnRequest, events: TurnEvents
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._is_temporary = ask.mode is MemoryMode.OFF
        self._content = str(ask.body["messages"][-1]["content"])
        self._events = events
        self._answer_text = ""

    def send(self, name: str, data: Any) -> None:
        text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
        self._events.put_nowait(f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace"))

    async def send_temporary_question(self) -> None:
        """Send the question of a temporary turn, which is never stored."""
        if self._is_temporary:
            question = chats.from_temporary("user", self._content, self._engine.now())
            self.send("message.created", question.model_dump())

    def send_temporary_answer(self, *, is_complete: bool) -> None:
        """Send the answer of a temporary turn, as far as it was written."""
        if self._is_temporary and self._answer_text:
            message = chats.from_temporary("assistant", self._answer_text, self._engine.now())
            end = {"is_complete": is_complete, "is_stopped": self.is_stopped}
            self.send("message.completed", message.model_dump() | end)

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the answer."""
        return self._events.is_stopped

    async def question_stored(self, message: Message, injected: InjectedMemories) -> None:
        """The question is stored. Send it, then the memories that the model is shown."""
        self.send("message.created", chats.from_message(MessageWithMemories(message)).model_dump())
        items = [chats.from_injected(each).model_dump() for each in shown_of(injected)]
        self.send("injected", {"items": items})

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """The model refused. The reason is only for the operator."""
        del body
        self.send("error", {"code": "model_refused", "message": refusal(begun.status)})

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """A model that does not stream sent its whole answer."""
        del begun, raw
        text = answer["choices"][0]["message"].get("content")
        if isinstance(text, str) and text:
            self._delta(text)

    async def begin(self, begun: StartedTurn) -> None:
        """Nothing to send: the stream began with the question."""

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Send the next pieces of the answer."""
        for piece in pieces:
            if piece.text:
                self._delta(piece.text)

    def _delta(self, text: str) -> None:
        self._answer_text += text
        self.send("delta", {"text": text})

    async def tool_ran(self, finished: FinishedCall) -> None:
        """Report a finished tool call."""
        self.send("tool", {"name": finished.call.name, "status": "done"})

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """Nothing to send yet: the answer is sent once it is stored."""

    async def answer_stored(self, message: Message, outcome: InboxItem | None) -> None:
        """The answer is stored. Send it, then each memory learnt from it, once readable."""
        [stored] = await with_memories(self._engine, self._caller, [message])
        self.send("message.completed", chats.from_message(stored).model_dump())
        if outcome is None:
            return
        saved = await learn_now(self._engine, self._caller, outcome)
        sources = await source_codes(self._engine, self._caller, saved)
        for memory in saved:
            self.send(
                "x_memory.auto_saved",
                {
                    "memory": memories.from_memory(memory, sources).model_dump(),
                    "chat_id": common.chat_id(message.thread_code),
                    "workspace_id": common.workspace_id(memory.workspace_id),
                },
            )
