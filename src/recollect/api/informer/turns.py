"""Stream turns to the client as AI SDK UI messages."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import structlog

from recollect.api.informer.errors import answer
from recollect.api.informer.wire import id_of_message
from recollect.api.running_turns import RunningTurns, TurnEvents, TurnOwner
from recollect.chat.informer_turns import answer_question, store_question
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, StartedTurn, TurnSink
from recollect.conversations.messages import NewMessage
from recollect.core.domain import Caller, Ref
from recollect.core.errors import Failure
from recollect.core.logging import frames
from recollect.engine import Engine
from recollect.models.chat_model import refusal_of

Object = dict[str, Any]

_log = structlog.get_logger(__name__)


async def start_turn(
    running_turns: RunningTurns,
    engine: Engine,
    caller: Caller,
    chat: Ref,
    message: NewMessage,
    mark_incomplete: Callable[[], None] = lambda: None,
) -> AsyncGenerator[bytes]:
    """Start a turn and return its stream. The turn continues even if the client disconnects.

    A failure before the model's first text is raised. A later one is reported in the stream, and
    `mark_incomplete` is called, so that the gateway does not store half an answer for a repeat.
    """
    turn = _InformerTurn(engine, caller, chat, message, mark_incomplete)
    stream = running_turns.start(TurnOwner(caller.workspace_id, caller.user_id), turn.run)
    await asyncio.shield(turn.started)
    return stream


class _InformerTurn(TurnSink):
    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        chat: Ref,
        message: NewMessage,
        mark_incomplete: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._chat = chat
        self._message = message
        self._mark_incomplete = mark_incomplete
        # The id of the answer; empty until the question is stored.
        self._id = ""
        self._events = TurnEvents(engine.now())
        # Done when the first text has arrived, or when none will come.
        self.started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Retrieve the exception here too: the request that waited for it may have been cancelled.
        self.started.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def run(self, events: TurnEvents) -> None:
        self._events = events
        is_complete = False
        try:
            question = await store_question(self._engine, self._caller, self._chat, self._message)
            self._id = id_of_message(question.code)
            if question.answer is None:
                await answer_question(self._engine, self._caller, question, self)
            else:
                self._send_text(question.answer)
            self._start()
            self._send("text-end", id=self._text_id)
            self._send("finish-step")
            self._send("finish")
            is_complete = True
        except Exception as error:  # noqa: BLE001 - the last handler: no code awaits this task
            self._report(error)
        finally:
            if not is_complete:
                self._mark_incomplete()
            if not self.started.done():
                self.started.cancel()
            events.put_nowait(b"data: [DONE]\n\n")

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """Raise the refusal."""
        raise refusal_of(begun.status, begun.headers, body)

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """Never called: the turn asks for a stream."""
        raise NotImplementedError

    async def begin(self, begun: StartedTurn) -> None:
        """Send nothing yet: the model may still fail before its first text."""

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Send the next pieces of the answer."""
        for piece in pieces:
            if piece.text:
                self._send_text(piece.text)

    async def tool_ran(self, finished: FinishedCall) -> None:
        """Never called: no tools are offered."""
        raise NotImplementedError

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """Send nothing yet: the answer ends once it is stored."""

    @property
    def _text_id(self) -> str:
        return f"{self._id}-text"

    def _send_text(self, text: str) -> None:
        self._start()
        self._send("text-delta", id=self._text_id, delta=text)

    def _start(self) -> None:
        if self.started.done():
            return
        self._send("start", messageId=self._id)
        self._send("start-step")
        self._send("text-start", id=self._text_id)
        self.started.set_result(None)

    def _report(self, error: Exception) -> None:
        if not self.started.done():
            self.started.set_exception(error)
            return
        if not isinstance(error, Failure):
            _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
        self._send("error", errorText=answer(error).body["message"])

    def _send(self, kind: str, **fields: Any) -> None:
        frame = json.dumps({"type": kind, **fields}, ensure_ascii=False)
        self._events.put_nowait(f"data: {frame}\n\n".encode("utf-8", "replace"))
