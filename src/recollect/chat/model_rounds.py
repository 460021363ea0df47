"""Ask the model and send its answer to the sink, running built-in tools between the rounds."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import structlog

from recollect.chat.answers import (
    answer_text,
    chunk_of,
    finish_reason,
    merge_rounds,
    parse_object,
    restore_builtin_calls,
    sum_usages,
    tool_name,
    tool_names,
    with_identity_of,
)
from recollect.chat.builtin_tools import tools as builtin_tools
from recollect.chat.builtin_tools.tool import TurnPolicy
from recollect.chat.injection import InjectedMemories
from recollect.chat.prompt import compose_messages, text_of
from recollect.chat.queries import injections
from recollect.chat.queries.injections import BuiltinCalls
from recollect.chat.tool_rounds import (
    ToolCall,
    ToolRound,
    assistant_message,
    split_calls,
    tool_result,
)
from recollect.chat.turn_context import TurnContext
from recollect.chat.turn_request import MemoryMode, TurnRequest
from recollect.chat.turn_sink import AnswerPiece, FinishedCall, StartedTurn, TurnSink
from recollect.core.domain import Caller
from recollect.core.errors import Unavailable
from recollect.engine import Engine
from recollect.models import sse
from recollect.models.chat_errors import NotUnderstood
from recollect.models.chat_model import CHAT, ChatRoute, ModelAnswer, TokenUsage, usage_of

Object = dict[str, Any]

# Model calls in one turn. The last round offers no built-in tools, so the model must answer.
MAX_ROUNDS = 5
MAX_CALLS_PER_ROUND = 16
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_REFUSAL_BYTES = 1024 * 1024
_DRAIN_SECONDS = 0.1
# With these, a model may have refused the tools rather than the request.
_REFUSES_TOOLS = {400, 404, 422, 501}

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class AnswerSoFar:
    """The model's answer so far in this turn, and its cost. Grows while the model answers."""

    text: str = ""
    usage: TokenUsage = field(default_factory=TokenUsage)
    # The usage of each round, with the upstream's field names.
    usages: list[Object] = field(default_factory=list[Object])
    call_count: int = 0

    def count_usage(self, answer: Object | None) -> None:
        """Add the usage of one round, if the model reported it."""
        usage = answer.get("usage") if answer else None
        if isinstance(usage, dict):
            self.usage += usage_of(usage)
            self.usages.append(cast("Object", usage))

    @property
    def total_usage(self) -> Object | None:
        """The usage of all rounds, with the upstream's field names."""
        if len(self.usages) < 2:
            return self.usages[0] if self.usages else None
        return sum_usages(self.usages)


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A turn whose question is stored and whose memories are recalled."""

    engine: Engine
    caller: Caller
    ask: TurnRequest
    route: ChatRoute
    context: TurnContext
    injected: InjectedMemories
    sink: TurnSink
    # Stores the injection while the model starts; done before the client sees any answer.
    injection_write: asyncio.Future[None] | None = None
    answer: AnswerSoFar = field(default_factory=AnswerSoFar)

    def started(self, answer: ModelAnswer) -> StartedTurn:
        """The start of an answer for the sink."""
        return StartedTurn(answer.status, answer.headers, self.injected)

    async def wait_for_injection(self) -> None:
        """Wait until the injection is stored, even if this turn is cancelled meanwhile."""
        if self.injection_write:
            await asyncio.shield(self.injection_write)


@dataclass(frozen=True, slots=True)
class _Request:
    """The request for one round."""

    body: Object
    # The names of built-in tools if they are offered; the model then refuses only the client's.
    our_tools: frozenset[str] = frozenset()
    number: int = 1

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))


async def ask_model(turn: RunningTurn) -> None:
    """Ask the model until it has answered, and send the answer to the sink."""
    body = _compose_body(turn)
    offered = _tools_to_offer(turn, body)
    if not offered and not turn.ask.is_translated:
        await _relay(turn, _Request(body))
        return
    if offered:
        client_tools = cast("list[Object]", body.get("tools") or [])
        body = {**body, "tools": [*client_tools, *offered]}
    if body.get("stream"):
        options = cast("Object", body.get("stream_options") or {})
        body = {**body, "stream_options": {**options, "include_usage": True}}
    request = _Request(body, builtin_tools.NAMES if offered else frozenset())
    await (_run_streamed if request.is_streamed else _run_unstreamed)(turn, request)


def _compose_body(turn: RunningTurn) -> Object:
    """Add memories to the client's request; return the same object if nothing changes."""
    body = turn.ask.body
    messages = turn.context.conversation.messages
    if turn.ask.mode is not MemoryMode.OFF and messages:
        injected = turn.injected
        composed = compose_messages(messages, stable=injected.stable, blocks=injected.blocks)
        if not turn.ask.is_translated:
            composed = restore_builtin_calls(composed, injected.builtin_calls)
        if composed != messages:
            body = {**body, "messages": composed}
    if turn.route.model and body.get("model") != turn.route.model:
        body = {**body, "model": turn.route.model}
    return body


def _tools_to_offer(turn: RunningTurn, body: Object) -> list[Object]:
    """Return the built-in tools to offer; none if they change the answer or are refused."""
    ask = turn.ask
    choice = body.get("tool_choice")
    if (
        not ask.offers_tools
        or ask.mode is MemoryMode.OFF
        or (choice is not None and choice not in ("auto", "required"))
        or (body.get("n") or 1) != 1
        or not turn.context.conversation.messages
        or not turn.engine.chat_models.takes_tools(turn.route)
        or builtin_tools.NAMES & tool_names(body)
    ):
        return []
    policy = TurnPolicy(
        may_save=ask.mode.writes,
        may_recall=ask.mode.reads,
        may_create_artifacts=ask.makes_artifacts,
    )
    return builtin_tools.offered_tools(turn.caller, policy)


async def _relay(turn: RunningTurn, request: _Request) -> None:
    """Forward the upstream's bytes unchanged: no built-in tools are offered."""
    async with _post(turn, request.body) as answer:
        if not answer.is_success:
            await turn.sink.refused(turn.started(answer), await answer.read(_MAX_REFUSAL_BYTES))
        elif not request.is_streamed:
            await _relay_whole(turn, answer)
        else:
            await turn.sink.begin(turn.started(answer))
            received = ToolRound(frozenset())
            async for events in sse.events(answer.chunks):
                pieces = [AnswerPiece(parse_object(sse.data(event)), event) for event in events]
                for piece in pieces:
                    if piece.chunk:
                        received.take(piece.chunk)
                turn.answer.text = received.text
                await turn.sink.chunks(pieces)
            turn.answer.count_usage(received.usage_chunk)


async def _relay_whole(turn: RunningTurn, answer: ModelAnswer) -> None:
    raw = await answer.read(_MAX_ANSWER_BYTES)
    parsed = parse_object(raw)
    if parsed is None:
        raise NotUnderstood
    turn.answer.count_usage(parsed)
    turn.answer.text = answer_text(parsed)
    await turn.sink.whole(turn.started(answer), parsed, raw)


async def _run_streamed(turn: RunningTurn, request: _Request) -> None:
    first: Object | None = None
    while True:
        async with _post(turn, request.body) as answer:
            if not answer.is_success:
                await _handle_refusal(turn, request, answer)
                return
            if request.number == 1:
                await turn.sink.begin(turn.started(answer))
            received = ToolRound(
                request.our_tools,
                is_first=request.number == 1,
                needs_gap=bool(turn.answer.text),
            )
            try:
                first = await _forward_stream(turn, answer, received, first)
            finally:
                gap = "\n\n" if turn.answer.text and received.text else ""
                turn.answer.text += gap + received.text
                turn.answer.count_usage(received.usage_chunk)
        our_calls, client_calls = received.our_calls, received.client_calls
        if await _is_last(turn, request, our_calls, client_calls):
            reason = finish_reason(received.finish, client_calls)
            await turn.sink.finish(
                reason, {**(first or {}), "choices": []}, turn.answer.total_usage
            )
            return
        request = await _next_request(turn, request, received.text, our_calls)


async def _forward_stream(
    turn: RunningTurn, answer: ModelAnswer, received: ToolRound, first: Object | None
) -> Object | None:
    """Send the client its part of a round; return the first chunk of the turn."""
    async for events in sse.events(answer.chunks):
        pieces: list[AnswerPiece] = []
        is_over = False
        try:
            for event in events:
                if (sse.data(event) or b"").strip() == sse.DONE:
                    is_over = True
                    break
                chunk = _chunk_in(event)
                if chunk is None:
                    continue
                visible = received.take(chunk)
                first = first or chunk
                if visible is chunk and received.is_first:
                    pieces.append(AnswerPiece(chunk, event))
                elif visible:
                    pieces.append(AnswerPiece(with_identity_of(first, visible), None))
        finally:
            # The client still gets the chunks before one that cannot be parsed.
            if pieces:
                await turn.sink.chunks(pieces)
        if is_over:
            await _drain(answer)
            break
    if received.finish is None:
        raise NotUnderstood
    return first


def _chunk_in(event: bytes) -> Object | None:
    """Return the chunk in an event; None if the event has no data.

    A model that does not stream sends its whole answer as one JSON object instead of events.
    """
    data = sse.data(event)
    if data is None:
        return chunk_of(parse_object(event) or {})
    chunk = parse_object(data)
    if chunk is None or "error" in chunk:
        raise NotUnderstood
    return chunk


async def _run_unstreamed(turn: RunningTurn, request: _Request) -> None:
    texts: list[str] = []
    first: Object | None = None
    while True:
        async with _post(turn, request.body) as answer:
            if not answer.is_success:
                await _handle_refusal(turn, request, answer)
                return
            raw = await answer.read(_MAX_ANSWER_BYTES)
        parsed = parse_object(raw)
        if parsed is None:
            raise NotUnderstood
        try:
            our_calls, client_calls, message = split_calls(parsed, request.our_tools)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise NotUnderstood from None
        turn.answer.count_usage(parsed)
        first = first or parsed
        text = text_of(message.get("content"))
        texts += [text] if text else []
        if await _is_last(turn, request, our_calls, client_calls):
            turn.answer.text = "\n\n".join(texts)
            if request.number == 1 and not our_calls:
                await turn.sink.whole(turn.started(answer), parsed, raw)
            else:
                merged = merge_rounds(
                    first, parsed, turn.answer.text, client_calls, turn.answer.total_usage
                )
                await turn.sink.whole(turn.started(answer), merged, None)
            return
        request = await _next_request(turn, request, text, our_calls)


async def _handle_refusal(turn: RunningTurn, request: _Request, answer: ModelAnswer) -> None:
    """Ask again without built-in tools if the model refuses those; else report the refusal."""
    if request.number > 1:
        raise Unavailable("chat model")
    body = await answer.read(_MAX_REFUSAL_BYTES)
    if request.our_tools and answer.status in _REFUSES_TOOLS and b"tool" in body.lower():
        _log.info("upstream.refuses_tools")
        turn.engine.chat_models.note_refusal(turn.route)
        await ask_model(turn)
    else:
        await turn.sink.refused(turn.started(answer), body)


async def _is_last(
    turn: RunningTurn,
    request: _Request,
    our_calls: Sequence[ToolCall],
    client_calls: Sequence[ToolCall],
) -> bool:
    """Return whether this round ends the turn.

    A round may call our tools and the client's together. Then our calls run now, and their
    results are stored until the client sends the results of its own calls.
    """
    if client_calls and our_calls:
        finished = await _run_calls(turn, our_calls)
        made = BuiltinCalls(
            client_calls[0].id,
            [each.call.message for each in finished],
            [tool_result(each.call, each.result) for each in finished],
        )
        async with turn.engine.writing(turn.caller) as db:
            for call in client_calls:
                row = replace(made, call_id=call.id)
                await injections.store_builtin_calls(db, turn.caller, row, turn.engine.now())
    return bool(client_calls) or not our_calls or request.number == MAX_ROUNDS


async def _next_request(
    turn: RunningTurn, request: _Request, text: str, our_calls: Sequence[ToolCall]
) -> _Request:
    """Run our calls and return the request for the next round.

    No tool is forced any more, and the last round has no built-in tools.
    """
    finished = await _run_calls(turn, our_calls)
    messages = [
        *cast("list[Object]", request.body["messages"]),
        assistant_message(text, [each.call for each in finished]),
        *(tool_result(each.call, each.result) for each in finished),
    ]
    body = {**request.body, "messages": messages}
    if body.get("tool_choice") not in (None, "auto"):
        body["tool_choice"] = "auto"
    if request.number + 1 == MAX_ROUNDS:
        tools = [tool for tool in body["tools"] if tool_name(tool) not in request.our_tools]
        body["tools"] = tools
        if not tools:
            body.pop("tools")
            body.pop("tool_choice", None)
    return replace(request, body=body, number=request.number + 1)


async def _run_calls(turn: RunningTurn, calls: Sequence[ToolCall]) -> list[FinishedCall]:
    return [await _run_call(turn, call) for call in calls[:MAX_CALLS_PER_ROUND]]


async def _run_call(turn: RunningTurn, call: ToolCall) -> FinishedCall:
    # Shielded: a save that has started completes, with its inbox item, even if the client
    # disconnects.
    turn.answer.call_count += 1
    context = replace(turn.context, turn=f"{turn.context.turn} {turn.answer.call_count}")
    result = await asyncio.shield(builtin_tools.run_tool(turn.engine, turn.caller, context, call))
    finished = FinishedCall(call, result)
    await turn.sink.tool_ran(finished)
    return finished


@asynccontextmanager
async def _post(turn: RunningTurn, body: Object) -> AsyncGenerator[ModelAnswer]:
    async with turn.route.chat.post(CHAT, _encode(turn.ask, body), turn.ask.headers) as answer:
        await turn.wait_for_injection()
        yield answer


def _encode(ask: TurnRequest, body: Object) -> bytes:
    """Encode the request; return the client's own bytes if nothing was changed."""
    if body is ask.body and ask.raw:
        return ask.raw
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


async def _drain(answer: ModelAnswer) -> None:
    """Wait a moment for the body to end, so that its connection can be reused."""
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in answer.chunks:
                pass
