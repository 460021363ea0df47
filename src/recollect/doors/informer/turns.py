"""Turns on their way to a client, as AI SDK UI messages: its words as the model finds them."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import structlog

from recollect.domain import Caller, Ref
from recollect.doors.informer.errors import answer
from recollect.doors.informer.wire import id_of_message
from recollect.doors.under_way import Events, Place, UnderWay
from recollect.engine.chats import converse, hear
from recollect.engine.core import Engine
from recollect.engine.messages import NewMessage
from recollect.errors import Failure
from recollect.logs import frames

_log = structlog.get_logger(__name__)


async def take_turn(
    under_way: UnderWay,
    engine: Engine,
    caller: Caller,
    chat: Ref,
    message: NewMessage,
    break_off: Callable[[], None] = lambda: None,
) -> AsyncGenerator[bytes]:
    """The stream of a turn that goes on though nobody listens.

    Raises what goes wrong before the model has said anything; after that the stream tells it, and
    `break_off` is called: half an answer is none to repeat.
    """
    turn = _Turn(engine, caller, chat, message, break_off)
    stream = under_way.begin(Place(caller.workspace_id, caller.user_id), turn.run)
    await asyncio.shield(turn.begun)
    return stream


class _Turn:
    def __init__(
        self,
        engine: Engine,
        caller: Caller,
        chat: Ref,
        message: NewMessage,
        break_off: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._chat = chat
        self._message = message
        self._break_off = break_off
        # The answer's, once it is known.
        self._id = ""
        self._events = Events(engine.now())
        # Done when the first words are there, or none will come.
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Looked at here as well: whoever waited for it may have gone.
        self.begun.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def run(self, events: Events) -> None:
        self._events = events
        is_whole = False
        try:
            asked = await hear(self._engine, self._caller, self._chat, self._message)
            self._id = id_of_message(asked.code)
            await converse(self._engine, self._caller, asked, self._hear)
            self._begin()
            self._tell("text-end", id=self._text_id)
            self._tell("finish-step")
            self._tell("finish")
            is_whole = True
        except Exception as error:  # noqa: BLE001 - the last handler: nobody else awaits this
            self._failed(error)
        finally:
            if not is_whole:
                self._break_off()
            if not self.begun.done():
                self.begun.cancel()
            events.put_nowait(b"data: [DONE]\n\n")

    @property
    def _text_id(self) -> str:
        return f"{self._id}-text"

    def _hear(self, text: str) -> None:
        self._begin()
        self._tell("text-delta", id=self._text_id, delta=text)

    def _begin(self) -> None:
        if self.begun.done():
            return
        self._tell("start", messageId=self._id)
        self._tell("start-step")
        self._tell("text-start", id=self._text_id)
        self.begun.set_result(None)

    def _failed(self, error: Exception) -> None:
        if not self.begun.done():
            self.begun.set_exception(error)
            return
        if not isinstance(error, Failure):
            _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
        self._tell("error", errorText=answer(error).body["message"])

    def _tell(self, kind: str, **more: Any) -> None:
        frame = json.dumps({"type": kind, **more}, ensure_ascii=False)
        self._events.put_nowait(f"data: {frame}\n\n".encode("utf-8", "replace"))
