"""Send answers to the client: whole or as a stream, with heartbeats and errors in the stream."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from recollect.api.errors import ErrorReply
from recollect.api.gateway import INCOMPLETE_BODY
from recollect.api.openai.errors import answer
from recollect.api.openai.headers import client_headers
from recollect.api.rate_limits import ConcurrentTurns
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, StartedTurn, TurnSink
from recollect.core.domain import Caller
from recollect.core.errors import Failure
from recollect.core.logging import frames
from recollect.core.tasks import cancel_all
from recollect.models import sse
from recollect.models.chat_errors import HIDDEN, refusal

Object = dict[str, Any]

HEARTBEAT_SECONDS = 15.0
_HEARTBEAT = b": keep-alive\n\n"
_STREAM_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}

_log = structlog.get_logger(__name__)


class ClientConnection:
    """The connection to the client, for one response: whole, or a stream of events."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._lock = asyncio.Lock()
        self._last_write = 0.0
        self.is_started = False
        self.is_streaming = False
        # Whether the client has the whole response. The turn may still have data to store.
        self.is_complete = False

    async def respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Send a complete response."""
        length = {"content-length": str(len(body))}
        await self._start(status, {"content-type": "application/json", **headers, **length})
        self.is_complete = True
        await self._send({"type": "http.response.body", "body": body})

    async def start_stream(self, headers: Mapping[str, str]) -> None:
        """Send the status and headers of a stream of events."""
        self.is_streaming = True
        await self._start(200, {**_STREAM_HEADERS, **headers})
        await self.write(b"")

    async def write(self, event: bytes, *, is_last: bool = False) -> None:
        """Send one event, or some bytes of it, unchanged."""
        async with self._lock:
            self.is_complete = self.is_complete or is_last
            self._last_write = asyncio.get_running_loop().time()
            await self._send({"type": "http.response.body", "body": event, "more_body": True})

    async def end(self) -> None:
        """End the stream."""
        async with self._lock:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def keep_alive(self) -> None:
        """Send a comment after each silence: the only heartbeat that all clients accept."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(max(self._last_write + HEARTBEAT_SECONDS - loop.time(), 0.1))
            if self.is_streaming and loop.time() - self._last_write >= HEARTBEAT_SECONDS:
                await self.write(_HEARTBEAT)

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.is_started = True
        raw = [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": raw})


class FailableSink(TurnSink):
    """A sink that can report a failure after its stream has started."""

    async def failed(self, reply: ErrorReply) -> None:
        """Send the failure as an event."""
        raise NotImplementedError


class TurnResponse(Response):
    """Runs a turn while the client is connected; a client that disconnects cancels it."""

    def __init__(
        self,
        run: Callable[[FailableSink], Awaitable[None]],
        sink: Callable[[ClientConnection], FailableSink],
    ) -> None:
        super().__init__()
        self._run = run
        self._sink = sink

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the turn; a failure before the first byte is raised, for the error handler."""
        caller: Caller = scope["state"]["caller"]
        concurrent_turns: ConcurrentTurns = scope["app"].state.concurrent_turns
        with concurrent_turns.slot(caller.key_id or caller.user_id):
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = ClientConnection(send)
        sink = self._sink(client)
        turn = asyncio.ensure_future(self._run(sink))
        disconnect = asyncio.create_task(_wait_for_disconnect(receive))
        heartbeat = asyncio.create_task(client.keep_alive())
        is_over = False
        try:
            await asyncio.wait({turn, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            # Some clients disconnect as soon as they have the whole answer. The turn then only has
            # to store it, and must not be cancelled.
            if not turn.done() and not client.is_complete:
                turn.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await turn
                is_over = True
        except Exception as error:
            if not client.is_started:
                raise
            if not isinstance(error, Failure):
                _log.error("turn.failed", kind=type(error).__name__, at=frames(error))
            await sink.failed(answer(error))
        except asyncio.CancelledError:
            # The server is shutting down and waits for this task only. So wait here until the
            # turn has stored the answer so far.
            await cancel_all([turn])
            raise
        finally:
            for task in (turn, disconnect, heartbeat):
                task.cancel()
        if not is_over and not client.is_complete:
            scope["state"][INCOMPLETE_BODY] = True
        if client.is_streaming:
            await client.end()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class ChatSink(FailableSink):
    """Writes chat completions, in the upstream's format."""

    def __init__(self, client: ClientConnection, request: Object) -> None:
        self._client = client
        found = request.get("stream_options")
        options = cast("Object", found) if isinstance(found, dict) else {}
        self._wants_usage = bool(options.get("include_usage"))

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """Send the upstream's refusal, unless it is about our credentials or a server error."""
        headers = client_headers(begun)
        if begun.status in HIDDEN or not 400 <= begun.status < 500:
            await self._client.respond(502, headers, _refusal(refusal(begun.status)))
        elif _is_object(body):
            await self._client.respond(begun.status, headers, body)
        else:
            await self._client.respond(begun.status, headers, _refusal(refusal(begun.status)))

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """Send a complete answer."""
        body = raw or encode(answer)
        await self._client.respond(begun.status, client_headers(begun), body)

    async def begin(self, begun: StartedTurn) -> None:
        """Start the stream."""
        await self._client.start_stream(client_headers(begun))

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Send pieces of the stream in one write."""
        events = b"".join(
            event(piece.chunk or {}) if piece.raw is None else piece.raw for piece in pieces
        )
        await self._client.write(events, is_last=any(_is_end(piece) for piece in pieces))

    async def tool_ran(self, finished: FinishedCall) -> None:
        """Send nothing: the client does not see built-in tools."""

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """End the stream."""
        choice: Object = {"index": 0, "delta": {}, "finish_reason": reason}
        head = {name: value for name, value in last.items() if name != "usage"}
        await self._client.write(event({**head, "choices": [choice]}))
        if self._wants_usage and usage:
            await self._client.write(event({**head, "choices": [], "usage": usage}))
        await self._client.write(b"data: [DONE]\n\n", is_last=True)

    async def failed(self, reply: ErrorReply) -> None:
        """Send an error event: every client understands it after the headers."""
        await self._client.write(event(dict(reply.body)))


def encode(value: Any) -> bytes:
    """Encode as compact JSON. A lone surrogate, which a model may end with, is replaced."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def event(value: Object) -> bytes:
    """Encode one data event."""
    return b"data: " + encode(value) + b"\n\n"


def _is_end(piece: AnswerPiece) -> bool:
    return piece.chunk is None and piece.raw is not None and sse.data(piece.raw) == sse.DONE


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False


def _refusal(message: str) -> bytes:
    error = {"message": message, "type": "server_error", "param": None, "code": "upstream_error"}
    return encode({"error": error})
