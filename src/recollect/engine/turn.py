"""One turn of a conversation with a model: remembered, asked, answered, and learnt from.

The client's request goes upstream with what memory adds and otherwise as it came; the answer goes
back as it comes. Built-in tools run here, between rounds the client does not see. A sink writes
what the client sees, each in the spelling of its route.
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

from recollect.domain import (
    THREAD_PREFIXES,
    Caller,
    Message,
    MessageId,
    Ref,
    Right,
    Thread,
    parse_ref,
)
from recollect.engine import builtins, kinds
from recollect.engine.builtins import Context
from recollect.engine.channels import Channel, enter_channel
from recollect.engine.core import Engine
from recollect.engine.fence import unfenced
from recollect.engine.inject import Remembered, State, remember
from recollect.engine.learning import HELD, Said, learn_from, lesson_of
from recollect.engine.ledger import Entry, close_entry, open_entry
from recollect.engine.messages import NewMessage, append_within
from recollect.engine.prompt import composed, text_of, user_places
from recollect.engine.rounds import MOST_KEPT, Call, Round, assistant, tool_result, whole
from recollect.errors import NotFound, Unavailable
from recollect.models import sse
from recollect.models.chat import CHAT, Answer, Route, Usage, storable, usage_of
from recollect.models.faults import NotUnderstood, TooSlow
from recollect.store import injections
from recollect.store.injections import Hidden, Injection
from recollect.store.lessons import Lesson
from recollect.store.pool import Db, together

Object = dict[str, Any]
T = TypeVar("T")

# The model is asked this often in one turn; in the last round it has no tools left and must answer.
MOST_ROUNDS = 5
MOST_CALLS = 16
_MOST_WHOLE_BYTES = 64 * 1024 * 1024
_LONGEST_REFUSAL = 1024 * 1024
_FAREWELL_SECONDS = 0.1

_log = structlog.get_logger(__name__)


class Mode(StrEnum):
    """What a turn may do with memory."""

    ON = "on"
    READ = "read"
    WRITE = "write"
    OFF = "off"

    @property
    def reads(self) -> bool:
        """Whether memory may be told to the model."""
        return self in {Mode.ON, Mode.READ}

    @property
    def writes(self) -> bool:
        """Whether anything may be learnt."""
        return self in {Mode.ON, Mode.WRITE}


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for one turn: as it came, and as it reads; who it is for, and in which thread.

    `raw` is empty where the request had to be changed already.
    """

    raw: bytes
    body: Object
    mode: Mode = Mode.ON
    thread: str | None = None
    subject: str | None = None
    agent: str | None = None
    # One of `kinds`: what the model says in it is learnt from too.
    kind: str = "chat"
    # Whether its sink takes the outcome at once; else the worker does.
    is_awaited: bool = False
    # Whether the model may keep what it makes as files of the workspace.
    makes_artifacts: bool = False
    # Messages of the thread that are in the request: what was made of them alone adds nothing.
    in_front: frozenset[MessageId] = frozenset()
    # Told in another spelling: its sink reads every piece, and shows the calls we run, so that
    # they come back by themselves.
    is_translated: bool = False
    # Headers that go upstream.
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Begun:
    """How the answer begins: the upstream's status and headers, and what memory had to do."""

    status: int
    headers: Mapping[str, str]
    remembered: Remembered


@dataclass(frozen=True, slots=True)
class Ran:
    """A built-in call that was run, and its result."""

    call: Call
    result: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a stream; `raw` where it is exactly what the upstream sent."""

    chunk: Object | None
    raw: bytes | None


class Sink(Protocol):
    """Where an answer goes. Exactly one of `refused`, `whole` and `begin` comes first."""

    async def refused(self, begun: Begun, body: bytes) -> None:
        """The upstream said no; its own words."""
        ...

    async def whole(self, begun: Begun, answer: Object, raw: bytes | None) -> None:
        """A complete answer; `raw` where it is exactly what the upstream sent."""
        ...

    async def begin(self, begun: Begun) -> None:
        """A stream begins."""
        ...

    async def chunks(self, pieces: Sequence[Piece]) -> None:
        """Pieces of it that arrived together: they can go on together."""
        ...

    async def ran(self, ran: Ran) -> None:
        """A built-in tool was run between two rounds."""
        ...

    async def finish(self, reason: str, last: Object, usage: Object | None) -> None:
        """The stream ends; `last` is the upstream's own last chunk, `usage` the sum."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Whether a turn that was cancelled was so by its user, who has heard enough."""
        return False

    async def heard(self, message: Message, remembered: Remembered) -> None:
        """What the user said is kept in the thread; before anything else, if there is a thread."""

    async def kept(self, message: Message, outcome: Lesson | None) -> None:
        """What the model said is kept in the thread, at last, whole or as far as it came.

        `outcome` is the lesson of a turn whose outcome is distilled; whoever is told of it here
        holds it, and may take it with `learn_now`.
        """


async def run_turn(engine: Engine, caller: Caller, ask: Ask, sink: Sink) -> None:
    """Run one turn; what the client gets goes into the sink.

    Raises `NotFound` for a model nobody has and `Unavailable` for one that fails; cancelled, it
    hangs up, and what was said so far is on the record.
    """
    route = engine.chats.find(_model(ask.body))
    if route is None:
        raise NotFound("model")
    # Its own writes are many; the front desk keeps the answer.
    turn = _Turn(engine, replace(caller, once=None), ask, route, sink)
    try:
        async with asyncio.timeout(engine.turn_deadline.total_seconds()):
            await turn.run()
    except TimeoutError:
        raise TooSlow from None


class _Turn:
    def __init__(self, engine: Engine, caller: Caller, ask: Ask, route: Route, sink: Sink) -> None:
        self._engine = engine
        self._caller = caller
        self._ask = ask
        self._route = route
        self._sink = sink
        self._thread: Thread | None = None
        self._remembered = Remembered()
        self._usage = Usage()
        self._usages: list[Object] = []
        self._said = ""
        self._calls = 0
        self._ours: frozenset[str] = frozenset()
        self._context = Context()
        # Written down while the model begins to think; before anybody hears an answer.
        self._keeping: asyncio.Future[None] | None = None

    async def run(self) -> None:
        entry = await self._begin()
        is_done = False
        try:
            await self._rounds()
            is_done = True
        finally:
            # Whatever happened, and though the client may be gone.
            await self._end(entry, is_done=is_done)

    @property
    def _messages(self) -> list[Object]:
        found = self._ask.body.get("messages")
        return cast("list[Object]", found) if isinstance(found, list) else []

    async def _begin(self) -> Entry | None:
        """Write down what was said and that a model is asked, and recall meanwhile."""
        caller, ask = self._caller, self._ask
        reads = ask.mode.reads and Right.READ in caller.rights
        writes = ask.mode.writes and Right.WRITE in caller.rights
        seed = f"{ask.subject or ''}\0{ask.thread or ''}"
        self._context = Context(
            makes_artifacts=self._ask.makes_artifacts,
            subject=ask.subject,
            channel=self._channel() if writes else None,
            said=_user_text(self._messages),
            learns=writes,
            turn=uuid4().hex,
            in_front=ask.in_front,
        )
        recalling = asyncio.ensure_future(self._recall(seed)) if reads else None
        try:
            entry, heard = await self._write_down(seed, writes=writes)
            if recalling:
                self._remembered = await recalling
        finally:
            if recalling:
                recalling.cancel()
        if entry is None:
            self._remembered = replace(self._remembered, state=State.DEGRADED)
            return None
        if self._remembered.injection:
            self._keeping = asyncio.ensure_future(self._keep(self._remembered.injection))
        if heard:
            await self._sink.heard(heard, self._remembered)
        return entry

    async def _recall(self, seed: str) -> Remembered:
        return await remember(self._engine, self._caller, self._context, self._messages, seed)

    async def _write_down(self, seed: str, *, writes: bool) -> tuple[Entry | None, Message | None]:
        """In one transaction what was said and that a model is asked; no entry where that fails."""
        caller = self._caller
        try:
            async with self._engine.writing(caller) as db:
                heard, lesson = await self._hear(db, seed) if writes else (None, None)
                async with together(db):
                    entry = await open_entry(
                        self._engine,
                        db,
                        caller.workspace_id,
                        purpose="turn",
                        model=self._route.model,
                        reserved=0,
                    )
                    if lesson:
                        await learn_from(self._engine, db, caller, lesson)
        except Unavailable:
            # Whoever chats does not wait for our database to come back.
            _log.warning("turn.unrecorded")
            return None, None
        return entry, heard

    async def _keep(self, injection: Injection) -> None:
        """What the model is told, so that the next request can repeat it."""
        try:
            async with self._engine.writing(self._caller) as db:
                await injections.put(db, self._caller, injection, self._engine.now())
        except Unavailable:
            _log.warning("turn.unrecorded")

    def _channel(self) -> Channel | None:
        name = self._ask.thread
        if not name:
            return None
        ref = parse_ref(name, *THREAD_PREFIXES)
        return Channel(name, ref, agent=self._ask.agent)

    async def _hear(self, db: Db, seed: str) -> tuple[Message | None, Lesson | None]:
        """Keep what the user said, and what is to be learnt from it.

        Once each, however often the turn is repeated.
        """
        if self._context.channel:
            self._thread = await enter_channel(
                self._engine, db, self._caller, self._context.channel
            )
            self._context = replace(self._context, thread_id=self._thread.id)
        places = user_places(self._messages, seed)
        if not places or not self._context.said or not _ends_with_user(self._messages):
            return None, None
        key = f"turn {places[max(places)].hex()}"
        message = await self._append(db, NewMessage("user", self._context.said, client_id=key))
        said = Said(
            self._context.said,
            "turn",
            self._engine.now(),
            subject=self._context.subject,
            thread_id=self._context.thread_id,
            key=key,
        )
        return message, lesson_of(self._caller, said)

    async def _append(self, db: Db, message: NewMessage) -> Message | None:
        if self._thread is None:
            return None
        kept = replace(message, content=message.content[:MOST_KEPT])
        ref = Ref(id=self._thread.id)
        [appended] = await append_within(self._engine, db, self._caller, ref, [kept])
        return appended.message

    async def _end(self, entry: Entry | None, *, is_done: bool) -> None:
        if entry is None:
            return
        try:
            message, outcome = await _to_its_end(self._record(entry, is_done=is_done))
        except (Unavailable, NotFound):  # or the thread was deleted while the model spoke
            _log.warning("turn.unrecorded")
            return
        if message:
            await self._sink.kept(message, outcome)

    async def _record(self, entry: Entry, *, is_done: bool) -> tuple[Message | None, Lesson | None]:
        await self._settled()
        async with self._engine.writing(self._caller) as db:
            await close_entry(self._engine, db, entry, self._usage, is_done=is_done)
            message = await self._answered(db, is_done=is_done)
            return message, await self._outcome(db) if is_done else None

    @property
    def _own_words(self) -> str:
        """What the model said, without what of ours it repeats: it is learnt from, later."""
        return unfenced(storable(self._said)).strip()

    async def _answered(self, db: Db, *, is_done: bool) -> Message | None:
        said = self._own_words
        if not said:
            return None
        about: Object = {"model": self._route.model} | ({} if is_done else {"incomplete": True})
        if not is_done and self._sink.is_stopped:
            about["stopped"] = True
        if self._ask.kind in kinds.INSTRUCTIONS:
            about["kind"] = self._ask.kind
        if self._remembered.state is not State.OFF:
            about["recall_ms"] = self._remembered.took_ms
        if self._remembered.recalled or self._remembered.pinned:
            about["injected"] = self._remembered.noted
        return await self._append(db, NewMessage("assistant", said, metadata=about))

    async def _outcome(self, db: Db) -> Lesson | None:
        """Queue what such a turn has come to; held where somebody waits to take it at once."""
        text = self._own_words
        if not self._context.learns or not kinds.has_outcome(self._ask.kind, text):
            return None
        said = Said(
            text,
            kinds.label(self._ask.kind),
            self._engine.now(),
            subject=self._context.subject,
            thread_id=self._context.thread_id,
            key=f"outcome {self._context.turn}",
        )
        lesson = lesson_of(self._caller, said)
        if self._ask.is_awaited:
            lesson = replace(lesson, held_until=self._engine.now() + HELD)
        await learn_from(self._engine, db, self._caller, lesson)
        return lesson

    async def _rounds(self) -> None:
        body = self._composed()
        offered = self._tools(body)
        if not offered and not self._ask.is_translated:
            await self._relay(body)
            return
        # Asked again without our tools, a refusal of tools is about the client's own.
        self._ours = builtins.NAMES if offered else frozenset()
        if offered:
            theirs = cast("list[Object]", body.get("tools") or [])
            body = {**body, "tools": [*theirs, *offered]}
        if body.get("stream"):
            options = cast("Object", body.get("stream_options") or {})
            body = {**body, "stream_options": {**options, "include_usage": True}}
            await self._streamed(body)
        else:
            await self._unstreamed(body)

    def _composed(self) -> Object:
        """The client's request and what memory adds; the very same object where that is nothing."""
        body = self._ask.body
        messages = self._messages
        if self._ask.mode is not Mode.OFF and messages:
            made = composed(
                messages, stable=self._remembered.stable, blocks=self._remembered.blocks
            )
            if not self._ask.is_translated:
                made = _woven(made, self._remembered.hidden)
            if made != messages:
                body = {**body, "messages": made}
        if body.get("model") != self._route.model and self._route.model:
            body = {**body, "model": self._route.model}
        return body

    def _tools(self, body: Object) -> list[Object]:
        """The built-in tools to offer; none where the client would notice or the model refuses."""
        chats = self._engine.chats
        choice = body.get("tool_choice")
        if (
            self._ask.mode is Mode.OFF
            or (choice is not None and choice not in ("auto", "required"))
            or (body.get("n") or 1) != 1
            or not self._messages
            or not chats.takes_tools(self._route)
            or builtins.NAMES & _tool_names(body)
        ):
            return []
        return builtins.offered(
            self._caller,
            may_save=self._ask.mode.writes,
            may_recall=self._ask.mode.reads,
            may_make=self._ask.makes_artifacts,
        )

    def _encoded(self, body: Object) -> bytes:
        if body is self._ask.body and self._ask.raw:
            return self._ask.raw
        told = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        return told.encode("utf-8", "replace")

    def _begun(self, answer: Answer) -> Begun:
        return Begun(answer.status, answer.headers, self._remembered)

    async def _relay(self, body: Object) -> None:
        """Without tools of ours the answer is none of our business: its bytes go through."""
        async with self._post(body) as answer:
            if not answer.is_success:
                await self._sink.refused(self._begun(answer), await answer.read(_LONGEST_REFUSAL))
            elif not body.get("stream"):
                await self._whole_relayed(answer)
            else:
                await self._sink.begin(self._begun(answer))
                heard = Round(frozenset())
                async for events in sse.events(answer.chunks):
                    pieces = [Piece(_object(sse.data(event)), event) for event in events]
                    for piece in pieces:
                        if piece.chunk:
                            heard.take(piece.chunk)
                    self._said = heard.text
                    await self._sink.chunks(pieces)
                self._count(heard.usage_chunk)

    async def _whole_relayed(self, answer: Answer) -> None:
        raw = await answer.read(_MOST_WHOLE_BYTES)
        told = _object(raw)
        if told is None:
            raise NotUnderstood
        self._count(told)
        self._said = _said_in(told)
        await self._sink.whole(self._begun(answer), told, raw)

    async def _streamed(self, body: Object) -> None:
        first: Object | None = None
        for number in range(1, MOST_ROUNDS + 1):
            async with self._post(body) as answer:
                if not answer.is_success:
                    await self._turned_down(answer, number)
                    return
                if number == 1:
                    await self._sink.begin(self._begun(answer))
                heard = Round(self._ours, is_first=number == 1, needs_gap=bool(self._said))
                try:
                    first = await self._hear_out(answer, heard, first)
                finally:
                    self._said += ("\n\n" if self._said and heard.text else "") + heard.text
                    self._count(heard.usage_chunk)
            if not await self._is_answered(number, heard.our_calls, heard.client_calls):
                body = await self._next(body, heard.text, heard.our_calls, number)
                continue
            reason = _reason(heard.finish, heard.client_calls)
            await self._sink.finish(reason, {**(first or {}), "choices": []}, self._sum())
            return
        raise AssertionError  # the last round is answered, whatever is in it

    async def _hear_out(self, answer: Answer, heard: Round, first: Object | None) -> Object | None:
        """Pass on what the client sees of a round; return the first chunk of the turn."""
        async for events in sse.events(answer.chunks):
            pieces: list[Piece] = []
            is_over = False
            try:
                for event in events:
                    data = sse.data(event)
                    if data is None:
                        continue
                    if data.strip() == sse.DONE:
                        is_over = True
                        break
                    chunk = _object(data)
                    if chunk is None or "error" in chunk:
                        raise NotUnderstood
                    shown = heard.take(chunk)
                    first = first or chunk
                    if shown is chunk and heard.is_first:
                        pieces.append(Piece(chunk, event))
                    elif shown:
                        pieces.append(Piece(_as_of(first, shown), None))
            finally:
                # What came before something that cannot be understood is the client's.
                if pieces:
                    await self._sink.chunks(pieces)
            if is_over:
                await _heard_to_the_end(answer)
                break
        if heard.finish is None:
            raise NotUnderstood
        return first

    async def _unstreamed(self, body: Object) -> None:
        texts: list[str] = []
        first: Object | None = None
        for number in range(1, MOST_ROUNDS + 1):
            async with self._post(body) as answer:
                if not answer.is_success:
                    await self._turned_down(answer, number)
                    return
                raw = await answer.read(_MOST_WHOLE_BYTES)
            told = _object(raw)
            if told is None:
                raise NotUnderstood
            try:
                ours, theirs, message = whole(told, self._ours)
            except (KeyError, IndexError, TypeError, AttributeError):
                raise NotUnderstood from None
            self._count(told)
            first = first or told
            text = text_of(message.get("content"))
            texts += [text] if text else []
            if not await self._is_answered(number, ours, theirs):
                body = await self._next(body, text, ours, number)
                continue
            self._said = "\n\n".join(texts)
            if number == 1 and not ours:
                await self._sink.whole(self._begun(answer), told, raw)
            else:
                shown = _shown(told, first, "\n\n".join(texts), theirs, self._sum())
                await self._sink.whole(self._begun(answer), shown, None)
            return
        raise AssertionError  # the last round is answered, whatever is in it

    async def _turned_down(self, answer: Answer, number: int) -> None:
        """The model says no: to our tools, then it is asked without them, or to the client."""
        if number > 1:
            raise Unavailable("chat model")
        if await self._refused(answer):
            await self._rounds()

    async def _refused(self, answer: Answer) -> bool:
        """Tell the client no, or find that it is only our tools the model refuses: then True."""
        body = await answer.read(_LONGEST_REFUSAL)
        if self._ours and answer.status in {400, 404, 422, 501} and b"tool" in body.lower():
            _log.info("upstream.refuses_tools")
            self._engine.chats.note_refusal(self._route)
            return True
        await self._sink.refused(self._begun(answer), body)
        return False

    async def _is_answered(self, number: int, ours: Sequence[Call], theirs: Sequence[Call]) -> bool:
        """Whether the client gets the word now; mixed calls are run and kept for its return."""
        if theirs and ours:
            ran = [await self._run(call) for call in ours[:MOST_CALLS]]
            hidden = Hidden(
                theirs[0].id,
                [each.call.message for each in ran],
                [tool_result(each.call, each.result) for each in ran],
            )
            async with self._engine.writing(self._caller) as db:
                for call in theirs:
                    kept = replace(hidden, call_id=call.id)
                    await injections.hide(db, self._caller, kept, self._engine.now())
        return bool(theirs) or not ours or number == MOST_ROUNDS

    async def _next(self, body: Object, text: str, ours: Sequence[Call], number: int) -> Object:
        """The next round's request: the calls answered, nothing forced, at last no tools."""
        ran = [await self._run(call) for call in ours[:MOST_CALLS]]
        calls = [each.call for each in ran]
        messages = [
            *cast("list[Object]", body["messages"]),
            assistant(text, calls),
            *(tool_result(each.call, each.result) for each in ran),
        ]
        following = {**body, "messages": messages}
        if following.get("tool_choice") not in (None, "auto"):
            following["tool_choice"] = "auto"
        if number + 1 == MOST_ROUNDS:
            tools = [tool for tool in following["tools"] if _tool_name(tool) not in self._ours]
            following["tools"] = tools
            if not tools:
                following.pop("tools")
                following.pop("tool_choice", None)
        return following

    async def _run(self, call: Call) -> Ran:
        # Shielded: what a tool has begun to save is saved, with its lesson, though the client goes.
        self._calls += 1
        context = replace(self._context, turn=f"{self._context.turn} {self._calls}")
        result = await asyncio.shield(builtins.run(self._engine, self._caller, context, call))
        ran = Ran(call, result)
        await self._sink.ran(ran)
        return ran

    @asynccontextmanager
    async def _post(self, body: Object) -> AsyncGenerator[Answer]:
        async with self._route.chat.post(CHAT, self._encoded(body), self._ask.headers) as answer:
            await self._settled()
            yield answer

    async def _settled(self) -> None:
        if self._keeping:
            await asyncio.shield(self._keeping)

    def _count(self, told: Object | None) -> None:
        usage = told.get("usage") if told else None
        if isinstance(usage, dict):
            self._usage += usage_of(usage)
            self._usages.append(cast("Object", usage))

    def _sum(self) -> Object | None:
        """The usage of all rounds, in the upstream's own terms."""
        if len(self._usages) < 2:
            return self._usages[0] if self._usages else None
        return _added(self._usages)


async def _heard_to_the_end(answer: Answer) -> None:
    """Let the body end by itself, if it does so at once: its connection can be used again."""
    with suppress(TimeoutError, Unavailable):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            async for _ in answer.chunks:
                pass


async def _to_its_end(act: Coroutine[Any, Any, T]) -> T:
    """What it comes to. Who is told to stop meanwhile does, after it: nobody else waits for it."""
    task = asyncio.create_task(act)
    stopped: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as told:
            stopped = told
    if stopped and not task.cancelled() and task.exception() is None:
        raise stopped
    return task.result()


def _model(body: Object) -> str | None:
    found = body.get("model")
    return found if isinstance(found, str) else None


def _user_text(messages: Sequence[Object]) -> str:
    """What the user said last, without anything of ours."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return unfenced(text_of(message.get("content"))).strip()
    return ""


def _ends_with_user(messages: Sequence[Object]) -> bool:
    return bool(messages) and messages[-1].get("role") == "user"


def _tool_name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return ""
    function = cast("Object", tool).get("function")
    return str(cast("Object", function).get("name")) if isinstance(function, dict) else ""


def _tool_names(body: Object) -> set[str]:
    tools = body.get("tools")
    return (
        {_tool_name(tool) for tool in cast("list[Any]", tools)}
        if isinstance(tools, list)
        else set()
    )


def _object(data: bytes | None) -> Object | None:
    try:
        found = json.loads(data) if data else None
    except ValueError:
        return None
    return cast("Object", found) if isinstance(found, dict) else None


def _said_in(told: Object) -> str:
    try:
        return text_of(told["choices"][0]["message"].get("content"))
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""


def _as_of(first: Object, chunk: Object) -> Object:
    """A later round's chunk as one of the same answer: one id, one time, one model."""
    same = {name: first[name] for name in ("id", "created", "model") if name in first}
    return {**chunk, **same}


def _reason(finish: str | None, theirs: Sequence[Call]) -> str:
    if theirs:
        return "tool_calls"
    return "stop" if finish in {None, "tool_calls", "function_call"} else str(finish)


def _shown(
    told: Object, first: Object, text: str, theirs: Sequence[Call], usage: Object | None
) -> Object:
    """The last round's answer as the answer to the client's one request."""
    choice = cast("Object", cast("list[Any]", told["choices"])[0])
    message = {name: value for name, value in choice["message"].items() if name != "tool_calls"}
    message["content"] = text or None
    if theirs:
        message["tool_calls"] = [call.message for call in theirs]
    reason = _reason(choice.get("finish_reason"), theirs)
    shown = {**told, "choices": [{**choice, "message": message, "finish_reason": reason}]}
    if usage:
        shown["usage"] = usage
    return _as_of(first, shown)


def _added(usages: Sequence[Object]) -> Object:
    """Numbers added by name, at every depth; whatever is no number is the last one's."""
    total: Object = {}
    for usage in usages:
        for name, value in usage.items():
            before = total.get(name)
            if isinstance(value, dict):
                inner = cast("Object", before) if isinstance(before, dict) else {}
                total[name] = _added([inner, cast("Object", value)])
            elif isinstance(value, (int, float)) and isinstance(before, (int, float)):
                total[name] = before + value
            else:
                total[name] = value
    return total


def _woven(messages: Sequence[Object], hidden: Mapping[str, Hidden]) -> list[Object]:
    """The messages with the calls the client never saw back in their places."""
    if not hidden:
        return list(messages)
    made: list[Object] = []
    for message in messages:
        calls = cast("list[Object]", message.get("tool_calls") or [])
        beside = next((hidden[call["id"]] for call in calls if call.get("id") in hidden), None)
        if beside is None:
            made.append(message)
            continue
        made.append({**message, "tool_calls": [*beside.calls, *calls]})
        made += beside.results
    return made
