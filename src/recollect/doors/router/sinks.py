"""Answers on their way to the client: started late, kept alive, ended cleanly, given up in time."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recollect.domain import Caller
from recollect.doors.front import BROKEN, Reply
from recollect.doors.limits import Turnstile
from recollect.doors.router.errors import answer
from recollect.doors.router.headers import downward
from recollect.engine.turn import Begun, Piece, Ran, Sink
from recollect.errors import Failure
from recollect.logs import frames
from recollect.models import sse
from recollect.models.faults import HIDDEN, refusal
from recollect.tasks import end

Object = dict[str, Any]

HEARTBEAT_SECONDS = 15.0
_ALIVE = b": keep-alive\n\n"
_EVENTS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}

_log = structlog.get_logger(__name__)


class Line:
    """The connection to the client: one answer, whole or in events."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._spoke = 0.0
        self.is_begun = False
        self.is_streaming = False
        # Whether the client has had all of it, though the turn may have something left to do.
        self.is_complete = False

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A complete answer."""
        length = {"content-length": str(len(body))}
        await self._start(status, {"content-type": "application/json", **headers, **length})
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, headers: Mapping[str, str]) -> None:
        """The head of a stream of events."""
        self.is_streaming = True
        await self._start(200, {**_EVENTS, **headers})
        await self.write(b"")

    async def write(self, event: bytes, *, is_last: bool = False) -> None:
        """One event, or bytes of one, as they are."""
        async with self._lock:
            self.is_complete = self.is_complete or is_last
            self._spoke = asyncio.get_running_loop().time()
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        """No more events."""
        async with self._lock:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self) -> None:
        """A comment whenever it has been silent for long: the only heartbeat all clients take."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(self._spoke + HEARTBEAT_SECONDS - loop.time(), 0.1))
            if self.is_streaming and loop.time() - self._spoke >= HEARTBEAT_SECONDS:
                await self.write(_ALIVE)

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.is_begun = True
        raw = [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


class ClosingSink(Sink):
    """A sink that can say that the turn failed after the stream had begun, and that it is over."""

    async def failed(self, reply: Reply) -> None:
        """Tell a failure as an event."""
        raise NotImplementedError


class TurnResponse(Response):
    """Runs a turn while the client listens; a client that hangs up ends it."""

    def __init__(
        self, run: Callable[[ClosingSink], Awaitable[None]], sink: Callable[[Line], ClosingSink]
    ) -> None:
        super().__init__()
        self._run = run
        self._sink = sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the turn; what fails before the first byte is raised and answered by the door."""
        caller: Caller = scope["state"]["caller"]
        turnstile: Turnstile = scope["app"].state.turnstile
        with turnstile.passing(caller.key_id or caller.user_id):
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        line = Line(send)
        sink = self._sink(line)
        turn = asyncio.ensure_future(self._run(sink))
        gone = asyncio.create_task(_gone(receive))
        heart = asyncio.create_task(line.keep_alive())
        is_over = False
        try:
            await asyncio.wait({turn, gone}, return_when=asyncio.FIRST_COMPLETED)
            # Clients hang up when they have heard the end: what is left to do is writing it down.
            if not turn.done() and not line.is_complete:
                turn.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turn
                is_over = True
        except Exception as error:
            if not line.is_begun:
                raise
            if not isinstance(error, Failure):
                _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
            await sink.failed(answer(error))
        except asyncio.CancelledError:
            # The server ends: it waits for us, and nobody else for what was said to be kept.
            await end([turn])
            raise
        finally:
            for task in (turn, gone, heart):
                task.cancel()
        if not is_over and not line.is_complete:
            scope["state"][BROKEN] = True
        if line.is_streaming:
            await line.end()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class ChatSink(ClosingSink):
    """Chat completions, as the upstream spells them."""

    def __init__(self, line: Line, request: Object) -> None:
        self._line = line
        options = request.get("stream_options")
        asked = cast("Object", options) if isinstance(options, dict) else {}
        self._wants_usage = bool(asked.get("include_usage"))

    async def refused(self, begun: Begun, body: bytes) -> None:
        """The upstream's own words, unless they are about our credentials or itself."""
        headers = downward(begun)
        if begun.status in HIDDEN or not 400 <= begun.status < 500:
            await self._line.answer(502, headers, _refusal(refusal(begun.status)))
        elif _is_object(body):
            await self._line.answer(begun.status, headers, body)
        else:
            await self._line.answer(begun.status, headers, _refusal(refusal(begun.status)))

    async def whole(self, begun: Begun, answer: Object, raw: bytes | None) -> None:
        """A complete answer."""
        await self._line.answer(begun.status, downward(begun), raw or encoded(answer))

    async def begin(self, begun: Begun) -> None:
        """A stream begins."""
        await self._line.begin(downward(begun))

    async def chunks(self, pieces: Sequence[Piece]) -> None:
        """Pieces of it, in one go."""
        told = b"".join(
            event(piece.chunk or {}) if piece.raw is None else piece.raw for piece in pieces
        )
        await self._line.write(told, is_last=any(_is_end(piece) for piece in pieces))

    async def ran(self, ran: Ran) -> None:
        """A built-in tool leaves no trace here."""

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The one end of the stream."""
        choice: Object = {"index": 0, "delta": {}, "finish_reason": reason}
        head = {name: value for name, value in last.items() if name != "usage"}
        await self._line.write(event({**head, "choices": [choice]}))
        if self._wants_usage and usage:
            await self._line.write(event({**head, "choices": [], "usage": usage}))
        await self._line.write(b"data: [DONE]\n\n", is_last=True)

    async def failed(self, reply: Reply) -> None:
        """The way to fail after the headers that every client understands."""
        await self._line.write(event(dict(reply.body)))


def encoded(value: Any) -> bytes:
    """Compact JSON; half a letter, which a model may end in, is none."""
    told = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return told.encode("utf-8", "replace")


def event(value: Object) -> bytes:
    """One data event."""
    return b"data: " + encoded(value) + b"\n\n"


def _is_end(piece: Piece) -> bool:
    return piece.chunk is None and piece.raw is not None and sse.data(piece.raw) == sse.DONE


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _refusal(message: str) -> bytes:
    error = {"message": message, "type": "server_error", "param": None, "code": "upstream_error"}
    return encoded({"error": error})
