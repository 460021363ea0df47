"""Run one turn of a conversation: store the message, recall, ask the model, store the answer.

The client's request goes upstream unchanged, except for what memory adds. The answer comes back
unchanged too. Built-in tools run here, in rounds that the client does not see. A sink writes the
answer in the format of its route.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, TypeVar, cast
from uuid import uuid4

import structlog

from recollect.chat.answers import (
    answer_text,
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
from recollect.chat.builtin_tools.tool import ToolContext, TurnPolicy
from recollect.chat.injection import InjectedMemories, InjectionState, recall_for_turn
from recollect.chat.prompt import compose_messages, text_of, user_message_digests
from recollect.chat.queries import injections
from recollect.chat.queries.injections import BuiltinCalls, Injection
from recollect.chat.tool_rounds import (
    MAX_STORED_CHARACTERS,
    ToolCall,
    ToolRound,
    assistant_message,
    split_calls,
    tool_result,
)
from recollect.conversations.messages import NewMessage, append_within
from recollect.core import turn_kinds
from recollect.core.domain import (
    THREAD_PREFIXES,
    Caller,
    Message,
    MessageId,
    Ref,
    Right,
    Thread,
    parse_ref,
)
from recollect.core.errors import NotFound, Unavailable
from recollect.core.prompt_fence import strip_fences
from recollect.db.pool import Db, pipeline
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, claim_duration, inbox_item_of, learn_from
from recollect.learning.queries.inbox import InboxItem
from recollect.models import sse
from recollect.models.chat_errors import NotUnderstood, TooSlow
from recollect.models.chat_model import CHAT, ChatRoute, ModelAnswer, TokenUsage, storable, usage_of
from recollect.tenancy.thread_lookup import ThreadName, find_or_create_thread
from recollect.usage.ledger import LedgerEntry, close_entry, open_entry

Object = dict[str, Any]
T = TypeVar("T")

# Model calls in one turn. The last round offers no built-in tools, so the model must answer.
MAX_ROUNDS = 5
MAX_CALLS_PER_ROUND = 16
_MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_REFUSAL_BYTES = 1024 * 1024
_DRAIN_SECONDS = 0.1

_log = structlog.get_logger(__name__)


class MemoryMode(StrEnum):
    """What a turn may do with memory."""

    ON = "on"
    READ = "read"
    WRITE = "write"
    OFF = "off"

    @property
    def reads(self) -> bool:
        """Whether memories may be injected into the prompt."""
        return self in {MemoryMode.ON, MemoryMode.READ}

    @property
    def writes(self) -> bool:
        """Whether the turn may be stored and learnt from."""
        return self in {MemoryMode.ON, MemoryMode.WRITE}


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """A request for one turn: its bytes, its parsed body, and its user and thread.

    `raw` is empty if the body was already changed.
    """

    raw: bytes
    body: Object
    mode: MemoryMode = MemoryMode.ON
    thread: str | None = None
    subject: str | None = None
    agent: str | None = None
    # One of `turn_kinds`: the answers of these kinds are learnt from too. Plain turns are `chat`.
    kind: str = "chat"
    # Whether the sink distils the outcome at once; otherwise the worker does.
    is_awaited: bool = False
    # Whether the model may store files in the workspace.
    makes_artifacts: bool = False
    # Stored messages that are part of the request: a memory made of these alone adds nothing.
    prompt_message_ids: frozenset[MessageId] = frozenset()
    # Whether the sink translates the answer into another format. Such a sink parses every chunk
    # and shows the client our tool calls, so the client sends them back with its next request.
    is_translated: bool = False
    # Headers to send upstream.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class StartedTurn:
    """The start of an answer: the upstream's status and headers, and the injected memories."""

    status: int
    headers: Mapping[str, str]
    injected: InjectedMemories


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """A completed call of a built-in tool, and its result."""

    call: ToolCall
    result: str


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of a stream; `raw` is set if these are exactly the upstream's bytes."""

    chunk: Object | None
    raw: bytes | None


class TurnSink(Protocol):
    """Writes an answer to the client.

    The first of the calls about the answer is exactly one of `refused`, `whole` and `begin`.
    """

    async def refused(self, begun: StartedTurn, body: bytes) -> None:
        """The upstream refused the request; `body` is its response."""
        ...

    async def whole(self, begun: StartedTurn, answer: Object, raw: bytes | None) -> None:
        """A complete answer arrived; `raw` is set if it is exactly what the upstream sent."""
        ...

    async def begin(self, begun: StartedTurn) -> None:
        """A stream starts."""
        ...

    async def chunks(self, pieces: Sequence[AnswerPiece]) -> None:
        """Pieces of the stream arrived together, and can be sent together."""
        ...

    async def ran(self, ran: FinishedTurn) -> None:
        """A built-in tool ran between two rounds."""
        ...

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The stream ends; `last` is a chunk without choices, `usage` the sum of all rounds."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether the user stopped the turn, if it was cancelled."""
        return False

    async def heard(self, message: Message, remembered: InjectedMemories) -> None:
        """The user's message was stored in the thread. If there is a thread, this comes first."""

    async def kept(self, message: Message, outcome: InboxItem | None) -> None:
        """The answer was stored in the thread, complete or as far as it came. This comes last.

        `outcome` is the inbox item of a turn whose outcome is distilled. The sink holds its claim
        and may distil it with `learn_now`.
        """


async def run_turn(engine: Engine, caller: Caller, ask: TurnRequest, sink: TurnSink) -> None:
    """Run one turn and write the answer to the sink.

    Raises `NotFound` for an unknown model and `Unavailable` for one that fails. If the turn is
    cancelled, it disconnects from the model and stores the answer so far.
    """
    route = engine.chat_models.find(_model_name(ask.body))
    if route is None:
        raise NotFound("model")
    # A turn writes several times, so its writes cannot use the request's idempotency key. The
    # gateway stores the response under that key.
    turn = _Turn(engine, replace(caller, repeat_key=None), ask, route, sink)
    try:
        async with asyncio.timeout(engine.turn_deadline.total_seconds()):
            await turn.run()
    except TimeoutError:
        raise TooSlow from None


class _Turn:
    def __init__(
        self, engine: Engine, caller: Caller, ask: TurnRequest, route: ChatRoute, sink: TurnSink
    ) -> None:
        self._engine = engine
        self._caller = caller
        self._ask = ask
        self._route = route
        self._sink = sink
        self._thread: Thread | None = None
        self._injected = InjectedMemories()
        self._usage = TokenUsage()
        self._usages: list[Object] = []
        self._answer = ""
        self._call_count = 0
        self._our_tools: frozenset[str] = frozenset()
        self._context = ToolContext()
        # Stores the injection while the model starts; done before the client sees any answer.
        self._injection_write: asyncio.Future[None] | None = None

    async def run(self) -> None:
        entry = await self._start()
        is_done = False
        try:
            await self._run_rounds()
            is_done = True
        finally:
            # After every failure too, and after the client has disconnected.
            await self._finish(entry, is_done=is_done)

    @property
    def _messages(self) -> list[Object]:
        found = self._ask.body.get("messages")
        return cast("list[Object]", found) if isinstance(found, list) else []

    async def _start(self) -> LedgerEntry | None:
        """Store the user's message and open a usage entry, and recall at the same time."""
        caller, ask = self._caller, self._ask
        reads = ask.mode.reads and Right.READ in caller.rights
        writes = ask.mode.writes and Right.WRITE in caller.rights
        seed = f"{ask.subject or ''}\0{ask.thread or ''}"
        self._context = ToolContext(
            makes_artifacts=self._ask.makes_artifacts,
            subject=ask.subject,
            thread_name=self._thread_name() if writes else None,
            user_text=_last_user_text(self._messages),
            learns=writes,
            turn=uuid4().hex,
            prompt_message_ids=ask.prompt_message_ids,
        )
        recalling = asyncio.ensure_future(self._recall(seed)) if reads else None
        try:
            entry, message = await self._record_start(seed, writes=writes)
            if recalling:
                self._injected = await recalling
        finally:
            if recalling:
                recalling.cancel()
        if entry is None:
            self._injected = replace(self._injected, state=InjectionState.DEGRADED)
            return None
        if self._injected.injection:
            self._injection_write = asyncio.ensure_future(
                self._store_injection(self._injected.injection)
            )
        if message:
            await self._sink.heard(message, self._injected)
        return entry

    async def _recall(self, seed: str) -> InjectedMemories:
        return await recall_for_turn(
            self._engine, self._caller, self._context, self._messages, seed
        )

    async def _record_start(
        self, seed: str, *, writes: bool
    ) -> tuple[LedgerEntry | None, Message | None]:
        """Store the user's message and open a usage entry in one transaction.

        Returns no entry if the database is unavailable.
        """
        caller = self._caller
        try:
            async with self._engine.writing(caller) as db:
                message, item = await self._store_question(db, seed) if writes else (None, None)
                async with pipeline(db):
                    entry = await open_entry(
                        self._engine,
                        db,
                        caller.workspace_id,
                        purpose="turn",
                        model=self._route.model,
                        reserved=0,
                    )
                    if item:
                        await learn_from(self._engine, db, caller, item)
        except Unavailable:
            # The chat goes on without the database.
            _log.warning("turn.unrecorded")
            return None, None
        return entry, message

    async def _store_injection(self, injection: Injection) -> None:
        """Store what is injected for the user's message, so that the next request can repeat it."""
        try:
            async with self._engine.writing(self._caller) as db:
                await injections.store_injection(db, self._caller, injection, self._engine.now())
        except Unavailable:
            _log.warning("turn.unrecorded")

    def _thread_name(self) -> ThreadName | None:
        name = self._ask.thread
        if not name:
            return None
        ref = parse_ref(name, *THREAD_PREFIXES)
        return ThreadName(name, ref, agent=self._ask.agent)

    async def _store_question(self, db: Db, seed: str) -> tuple[Message | None, InboxItem | None]:
        """Store the user's message, and return it with the inbox item to learn from.

        Both are stored once, however often the turn is repeated.
        """
        if self._context.thread_name:
            self._thread = await find_or_create_thread(
                self._engine, db, self._caller, self._context.thread_name
            )
            self._context = replace(self._context, thread_id=self._thread.id)
        digests = user_message_digests(self._messages, seed)
        text = self._context.user_text
        if not digests or not text or not _ends_with_user(self._messages):
            return None, None
        key = f"turn {digests[max(digests)].hex()}"
        message = await self._append(db, NewMessage("user", text, client_id=key))
        source = LearningInput(
            text,
            "turn",
            self._engine.now(),
            subject=self._context.subject,
            thread_id=self._context.thread_id,
            key=key,
        )
        return message, inbox_item_of(self._caller, source)

    async def _append(self, db: Db, message: NewMessage) -> Message | None:
        if self._thread is None:
            return None
        shortened = replace(message, content=message.content[:MAX_STORED_CHARACTERS])
        ref = Ref(id=self._thread.id)
        [appended] = await append_within(self._engine, db, self._caller, ref, [shortened])
        return appended.message

    async def _finish(self, entry: LedgerEntry | None, *, is_done: bool) -> None:
        if entry is None:
            return
        try:
            message, outcome = await _run_to_completion(self._record_end(entry, is_done=is_done))
        except (Unavailable, NotFound):  # NotFound: the thread was deleted during the turn
            _log.warning("turn.unrecorded")
            return
        if message:
            await self._sink.kept(message, outcome)

    async def _record_end(
        self, entry: LedgerEntry, *, is_done: bool
    ) -> tuple[Message | None, InboxItem | None]:
        """Close the usage entry, store the answer and queue its outcome in one transaction."""
        await self._wait_for_injection_write()
        async with self._engine.writing(self._caller) as db:
            await close_entry(self._engine, db, entry, self._usage, is_done=is_done)
            message = await self._store_answer(db, is_done=is_done)
            return message, await self._queue_outcome(db) if is_done else None

    @property
    def _own_answer(self) -> str:
        """The answer without injected blocks that the model repeated, which must not be learnt."""
        return strip_fences(storable(self._answer)).strip()

    async def _store_answer(self, db: Db, *, is_done: bool) -> Message | None:
        text = self._own_answer
        if not text:
            return None
        metadata: Object = {"model": self._route.model} | ({} if is_done else {"incomplete": True})
        if not is_done and self._sink.is_stopped:
            metadata["stopped"] = True
        if self._ask.kind in turn_kinds.INSTRUCTIONS:
            metadata["kind"] = self._ask.kind
        if self._injected.state is not InjectionState.OFF:
            metadata["recall_ms"] = self._injected.took_ms
        if self._injected.recalled or self._injected.pinned:
            metadata["injected"] = self._injected.summary
        return await self._append(db, NewMessage("assistant", text, metadata=metadata))

    async def _queue_outcome(self, db: Db) -> InboxItem | None:
        """Queue the answer of a turn kind that is learnt from.

        If the sink distils it at once, the item is claimed, so that no worker takes it meanwhile.
        """
        text = self._own_answer
        if not self._context.learns or not turn_kinds.has_outcome(self._ask.kind, text):
            return None
        source = LearningInput(
            text,
            turn_kinds.outcome_label(self._ask.kind),
            self._engine.now(),
            subject=self._context.subject,
            thread_id=self._context.thread_id,
            key=f"outcome {self._context.turn}",
        )
        item = inbox_item_of(self._caller, source)
        if self._ask.is_awaited:
            item = replace(item, held_until=self._engine.now() + claim_duration(self._engine))
        await learn_from(self._engine, db, self._caller, item)
        return item

    async def _run_rounds(self) -> None:
        body = self._compose_body()
        offered = self._tools_to_offer(body)
        if not offered and not self._ask.is_translated:
            await self._relay(body)
            return
        # Empty if none are offered: the model then refuses only tools of the client.
        self._our_tools = builtin_tools.NAMES if offered else frozenset()
        if offered:
            client_tools = cast("list[Object]", body.get("tools") or [])
            body = {**body, "tools": [*client_tools, *offered]}
        if body.get("stream"):
            options = cast("Object", body.get("stream_options") or {})
            body = {**body, "stream_options": {**options, "include_usage": True}}
            await self._run_streamed(body)
        else:
            await self._run_unstreamed(body)

    def _compose_body(self) -> Object:
        """Add memories to the client's request; return the same object if nothing changes."""
        body = self._ask.body
        messages = self._messages
        if self._ask.mode is not MemoryMode.OFF and messages:
            composed = compose_messages(
                messages, stable=self._injected.stable, blocks=self._injected.blocks
            )
            if not self._ask.is_translated:
                composed = restore_builtin_calls(composed, self._injected.builtin_calls)
            if composed != messages:
                body = {**body, "messages": composed}
        if body.get("model") != self._route.model and self._route.model:
            body = {**body, "model": self._route.model}
        return body

    def _tools_to_offer(self, body: Object) -> list[Object]:
        """Return the built-in tools to offer; none if they change the answer or are refused."""
        chats = self._engine.chat_models
        choice = body.get("tool_choice")
        if (
            self._ask.mode is MemoryMode.OFF
            or (choice is not None and choice not in ("auto", "required"))
            or (body.get("n") or 1) != 1
            or not self._messages
            or not chats.takes_tools(self._route)
            or builtin_tools.NAMES & tool_names(body)
        ):
            return []
        policy = TurnPolicy(
            may_save=self._ask.mode.writes,
            may_recall=self._ask.mode.reads,
            may_create_artifacts=self._ask.makes_artifacts,
        )
        return builtin_tools.offered_tools(self._caller, policy)

    def _encode(self, body: Object) -> bytes:
        if body is self._ask.body and self._ask.raw:
            return self._ask.raw
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "replace")

    def _started(self, answer: ModelAnswer) -> StartedTurn:
        return StartedTurn(answer.status, answer.headers, self._injected)

    async def _relay(self, body: Object) -> None:
        """Forward the upstream's bytes unchanged: no built-in tools are offered."""
        async with self._post(body) as answer:
            if not answer.is_success:
                refusal = await answer.read(_MAX_REFUSAL_BYTES)
                await self._sink.refused(self._started(answer), refusal)
            elif not body.get("stream"):
                await self._relay_whole(answer)
            else:
                await self._sink.begin(self._started(answer))
                received = ToolRound(frozenset())
                async for events in sse.events(answer.chunks):
                    pieces = [AnswerPiece(parse_object(sse.data(event)), event) for event in events]
                    for piece in pieces:
                        if piece.chunk:
                            received.take(piece.chunk)
                    self._answer = received.text
                    await self._sink.chunks(pieces)
                self._count_usage(received.usage_chunk)

    async def _relay_whole(self, answer: ModelAnswer) -> None:
        raw = await answer.read(_MAX_ANSWER_BYTES)
        parsed = parse_object(raw)
        if parsed is None:
            raise NotUnderstood
        self._count_usage(parsed)
        self._answer = answer_text(parsed)
        await self._sink.whole(self._started(answer), parsed, raw)

    async def _run_streamed(self, body: Object) -> None:
        first: Object | None = None
        for number in range(1, MAX_ROUNDS + 1):
            async with self._post(body) as answer:
                if not answer.is_success:
                    await self._handle_refusal(answer, number)
                    return
                if number == 1:
                    await self._sink.begin(self._started(answer))
                received = ToolRound(
                    self._our_tools, is_first=number == 1, needs_gap=bool(self._answer)
                )
                try:
                    first = await self._forward_stream(answer, received, first)
                finally:
                    gap = "\n\n" if self._answer and received.text else ""
                    self._answer += gap + received.text
                    self._count_usage(received.usage_chunk)
            if not await self._close_round(number, received.our_calls, received.client_calls):
                body = await self._next_body(body, received.text, received.our_calls, number)
                continue
            reason = finish_reason(received.finish, received.client_calls)
            await self._sink.finish(reason, {**(first or {}), "choices": []}, self._total_usage())
            return
        raise AssertionError  # the last round always ends the turn

    async def _forward_stream(
        self, answer: ModelAnswer, received: ToolRound, first: Object | None
    ) -> Object | None:
        """Send the client its part of a round; return the first chunk of the turn."""
        async for events in sse.events(answer.chunks):
            pieces: list[AnswerPiece] = []
            is_over = False
            try:
                for event in events:
                    data = sse.data(event)
                    if data is None:
                        continue
                    if data.strip() == sse.DONE:
                        is_over = True
                        break
                    chunk = parse_object(data)
                    if chunk is None or "error" in chunk:
                        raise NotUnderstood
                    visible = received.take(chunk)
                    first = first or chunk
                    if visible is chunk and received.is_first:
                        pieces.append(AnswerPiece(chunk, event))
                    elif visible:
                        pieces.append(AnswerPiece(with_identity_of(first, visible), None))
            finally:
                # The client still gets the chunks before one that cannot be parsed.
                if pieces:
                    await self._sink.chunks(pieces)
            if is_over:
                await _drain(answer)
                break
        if received.finish is None:
            raise NotUnderstood
        return first

    async def _run_unstreamed(self, body: Object) -> None:
        texts: list[str] = []
        first: Object | None = None
        for number in range(1, MAX_ROUNDS + 1):
            async with self._post(body) as answer:
                if not answer.is_success:
                    await self._handle_refusal(answer, number)
                    return
                raw = await answer.read(_MAX_ANSWER_BYTES)
            parsed = parse_object(raw)
            if parsed is None:
                raise NotUnderstood
            try:
                our_calls, client_calls, message = split_calls(parsed, self._our_tools)
            except (KeyError, IndexError, TypeError, AttributeError):
                raise NotUnderstood from None
            self._count_usage(parsed)
            first = first or parsed
            text = text_of(message.get("content"))
            texts += [text] if text else []
            if not await self._close_round(number, our_calls, client_calls):
                body = await self._next_body(body, text, our_calls, number)
                continue
            self._answer = "\n\n".join(texts)
            if number == 1 and not our_calls:
                await self._sink.whole(self._started(answer), parsed, raw)
            else:
                merged = merge_rounds(
                    first, parsed, self._answer, client_calls, self._total_usage()
                )
                await self._sink.whole(self._started(answer), merged, None)
            return
        raise AssertionError  # the last round always ends the turn

    async def _handle_refusal(self, answer: ModelAnswer, number: int) -> None:
        """Ask again without built-in tools if the model refuses those; else report the refusal."""
        if number > 1:
            raise Unavailable("chat model")
        body = await answer.read(_MAX_REFUSAL_BYTES)
        if self._our_tools and answer.status in {400, 404, 422, 501} and b"tool" in body.lower():
            _log.info("upstream.refuses_tools")
            self._engine.chat_models.note_refusal(self._route)
            await self._run_rounds()
        else:
            await self._sink.refused(self._started(answer), body)

    async def _close_round(
        self, number: int, our_calls: Sequence[ToolCall], client_calls: Sequence[ToolCall]
    ) -> bool:
        """Return whether this round ends the turn.

        A round may call our tools and the client's together. Then our calls run now, and their
        results are stored until the client sends the results of its own calls.
        """
        if client_calls and our_calls:
            finished = [await self._run_call(call) for call in our_calls[:MAX_CALLS_PER_ROUND]]
            made = BuiltinCalls(
                client_calls[0].id,
                [each.call.message for each in finished],
                [tool_result(each.call, each.result) for each in finished],
            )
            async with self._engine.writing(self._caller) as db:
                for call in client_calls:
                    row = replace(made, call_id=call.id)
                    await injections.store_builtin_calls(db, self._caller, row, self._engine.now())
        return bool(client_calls) or not our_calls or number == MAX_ROUNDS

    async def _next_body(
        self, body: Object, text: str, our_calls: Sequence[ToolCall], number: int
    ) -> Object:
        """Run our calls and return the request for the next round.

        No tool is forced any more, and the last round has no built-in tools.
        """
        finished = [await self._run_call(call) for call in our_calls[:MAX_CALLS_PER_ROUND]]
        calls = [each.call for each in finished]
        messages = [
            *cast("list[Object]", body["messages"]),
            assistant_message(text, calls),
            *(tool_result(each.call, each.result) for each in finished),
        ]
        following = {**body, "messages": messages}
        if following.get("tool_choice") not in (None, "auto"):
            following["tool_choice"] = "auto"
        if number + 1 == MAX_ROUNDS:
            tools = [tool for tool in following["tools"] if tool_name(tool) not in self._our_tools]
            following["tools"] = tools
            if not tools:
                following.pop("tools")
                following.pop("tool_choice", None)
        return following

    async def _run_call(self, call: ToolCall) -> FinishedTurn:
        # Shielded: a save that has started completes, with its inbox item, even if the client
        # disconnects.
        self._call_count += 1
        context = replace(self._context, turn=f"{self._context.turn} {self._call_count}")
        result = await asyncio.shield(
            builtin_tools.run_tool(self._engine, self._caller, context, call)
        )
        finished = FinishedTurn(call, result)
        await self._sink.ran(finished)
        return finished

    @asynccontextmanager
    async def _post(self, body: Object) -> AsyncGenerator[ModelAnswer]:
        async with self._route.chat.post(CHAT, self._encode(body), self._ask.headers) as answer:
            await self._wait_for_injection_write()
            yield answer

    async def _wait_for_injection_write(self) -> None:
        if self._injection_write:
            await asyncio.shield(self._injection_write)

    def _count_usage(self, answer: Object | None) -> None:
        usage = answer.get("usage") if answer else None
        if isinstance(usage, dict):
            self._usage += usage_of(usage)
            self._usages.append(cast("Object", usage))

    def _total_usage(self) -> Object | None:
        """Return the usage of all rounds, with the upstream's field names."""
        if len(self._usages) < 2:
            return self._usages[0] if self._usages else None
        return sum_usages(self._usages)


async def _drain(answer: ModelAnswer) -> None:
    """Wait a moment for the body to end, so that its connection can be reused."""
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in answer.chunks:
                pass


async def _run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end even if this task is cancelled; the cancellation is raised after it."""
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancellation = error
    if cancellation and not task.cancelled() and task.exception() is None:
        raise cancellation
    return task.result()


def _model_name(body: Object) -> str | None:
    found = body.get("model")
    return found if isinstance(found, str) else None


def _last_user_text(messages: Sequence[Object]) -> str:
    """Return the text of the last user message, without injected blocks."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return strip_fences(text_of(message.get("content"))).strip()
    return ""


def _ends_with_user(messages: Sequence[Object]) -> bool:
    return bool(messages) and messages[-1].get("role") == "user"
