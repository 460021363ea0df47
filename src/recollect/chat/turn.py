"""Run one turn of a conversation: store the message, recall, ask the model, store the answer.

The client's request goes upstream unchanged, except for what memory adds. The answer comes back
unchanged too. Built-in tools run in rounds that the client does not see. A sink writes the answer
in the format of its route.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast
from uuid import uuid4

import structlog

from recollect.chat.injection import (
    InjectedMemories,
    InjectionState,
    recall_for_turn,
    recall_in_time,
)
from recollect.chat.model_rounds import RunningTurn, ask_model
from recollect.chat.queries import injections
from recollect.chat.queries.injections import Injection
from recollect.chat.transcript import AnswerText, StoredQuestion, ThreadTranscript, Transcript
from recollect.chat.turn_context import TurnContext, read_conversation
from recollect.chat.turn_request import TurnRequest
from recollect.chat.turn_sink import TurnSink
from recollect.core import turn_kinds
from recollect.core.domain import THREAD_PREFIXES, Caller, Message, Right, parse_ref
from recollect.core.errors import NotFound, Unavailable
from recollect.core.prompt_fence import strip_fences
from recollect.db.pool import Db, pipeline
from recollect.engine import Engine
from recollect.learning.inbox import LearningInput, claim_duration, inbox_item_of, learn_from
from recollect.learning.queries.inbox import InboxItem
from recollect.models.chat_errors import TooSlow
from recollect.models.chat_model import ChatRoute, storable
from recollect.tenancy.thread_lookup import ThreadName
from recollect.usage.ledger import LedgerEntry, close_entry, open_entry

Object = dict[str, Any]
T = TypeVar("T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A turn before anything has happened."""

    engine: Engine
    caller: Caller
    ask: TurnRequest
    route: ChatRoute
    context: TurnContext
    transcript: Transcript | None
    sink: TurnSink


@dataclass(frozen=True, slots=True)
class _Record:
    """The rows stored at the start of a turn. Without an entry, the database was unavailable."""

    entry: LedgerEntry | None = None
    question: StoredQuestion = StoredQuestion()


async def run_turn(engine: Engine, caller: Caller, ask: TurnRequest, sink: TurnSink) -> None:
    """Run one turn and write the answer to the sink.

    Raises `NotFound` for an unknown model and `Unavailable` for one that fails. If the turn is
    cancelled, it disconnects from the model and stores the answer so far.
    """
    model = ask.body.get("model")
    route = engine.chat_models.find(model if isinstance(model, str) else None)
    if route is None:
        raise NotFound("model")
    # A turn writes several times, so its writes cannot use the request's idempotency key. The
    # gateway stores the response under that key.
    turn = _prepare(engine, replace(caller, repeat_key=None), ask, route, sink)
    deadline = ask.deadline or engine.turn_deadline
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            await _run(turn)
    except TimeoutError:
        raise TooSlow from None


async def _run(turn: _Turn) -> None:
    record, running = await _start(turn)
    is_done = False
    try:
        await ask_model(running)
        is_done = True
    finally:
        # After every failure too, and after the client has disconnected.
        await _finish(turn, record, running, is_done=is_done)


def _prepare(
    engine: Engine, caller: Caller, ask: TurnRequest, route: ChatRoute, sink: TurnSink
) -> _Turn:
    found = ask.body.get("messages")
    messages = cast("list[Object]", found) if isinstance(found, list) else []
    writes = ask.mode.writes and Right.WRITE in caller.rights
    context = TurnContext(
        read_conversation(messages, f"{ask.subject or ''}\0{ask.thread or ''}"),
        subject=ask.subject,
        thread_name=_thread_name(ask) if writes else None,
        learns=writes,
        makes_artifacts=ask.makes_artifacts,
        turn=uuid4().hex,
        prompt_message_ids=ask.prompt_message_ids,
    )
    transcript = ThreadTranscript(engine, caller, context) if writes else None
    return _Turn(engine, caller, ask, route, context, ask.transcript or transcript, sink)


def _thread_name(ask: TurnRequest) -> ThreadName | None:
    if not ask.thread:
        return None
    return ThreadName(ask.thread, parse_ref(ask.thread, *THREAD_PREFIXES), agent=ask.agent)


async def _start(turn: _Turn) -> tuple[_Record, RunningTurn]:
    """Store the user's message and open a usage entry, and recall at the same time."""
    engine, caller, ask = turn.engine, turn.caller, turn.ask
    recalling = None
    if ask.mode.reads and Right.READ in caller.rights:
        recall = ask.recall or recall_for_turn
        recalling = asyncio.ensure_future(recall_in_time(engine, caller, turn.context, recall))
    try:
        record = await _record_start(turn)
        injected = await recalling if recalling else InjectedMemories()
    finally:
        if recalling:
            recalling.cancel()
    if record.entry is None:
        injected = replace(injected, state=InjectionState.DEGRADED)
    write = None
    if record.entry and injected.injection:
        write = asyncio.ensure_future(_store_injection(engine, caller, injected.injection))
    if record.question.message:
        await turn.sink.question_stored(record.question.message, injected)
    context = replace(turn.context, thread_id=record.question.thread_id)
    running = RunningTurn(engine, caller, ask, turn.route, context, injected, turn.sink, write)
    return record, running


async def _record_start(turn: _Turn) -> _Record:
    """Store the user's message and open a usage entry in one transaction."""
    engine, caller = turn.engine, turn.caller
    question = StoredQuestion()
    try:
        async with engine.writing(caller) as db:
            if turn.transcript:
                question = await turn.transcript.store_question(db)
            async with pipeline(db):
                entry = await open_entry(
                    engine,
                    db,
                    caller.workspace_id,
                    purpose="turn",
                    model=turn.route.model,
                    reserved=0,
                )
                if question.item:
                    await learn_from(engine, db, caller, question.item)
    except Unavailable:
        # The turn continues without the database.
        _log.warning("turn.unrecorded")
        return _Record()
    return _Record(entry, question)


async def _store_injection(engine: Engine, caller: Caller, injection: Injection) -> None:
    """Store what is injected for the user's message, so that the next request can repeat it."""
    try:
        async with engine.writing(caller) as db:
            await injections.store_injection(db, caller, injection, engine.now())
    except Unavailable:
        _log.warning("turn.unrecorded")


async def _finish(turn: _Turn, record: _Record, running: RunningTurn, *, is_done: bool) -> None:
    if record.entry is None:
        return
    end = _record_end(turn, record.entry, running, is_done=is_done)
    try:
        message, outcome = await _run_to_completion(end)
    except (Unavailable, NotFound):  # NotFound: the thread was deleted during the turn
        _log.warning("turn.unrecorded")
        return
    if message:
        await turn.sink.answer_stored(message, outcome)


async def _record_end(
    turn: _Turn, entry: LedgerEntry, running: RunningTurn, *, is_done: bool
) -> tuple[Message | None, InboxItem | None]:
    """Close the usage entry, store the answer and queue its outcome in one transaction."""
    await running.wait_for_injection()
    engine = turn.engine
    # Without injected blocks that the model repeated, which must not be learnt.
    text = strip_fences(storable(running.answer.text)).strip()
    async with engine.writing(turn.caller) as db:
        await close_entry(engine, db, entry, running.answer.usage, is_done=is_done)
        message = None
        if turn.transcript:
            metadata = _answer_metadata(turn, running, is_done=is_done)
            answer = AnswerText(text, turn.route.model, is_done, metadata)
            message = await turn.transcript.store_answer(db, running.context.thread_id, answer)
        return message, await _queue_outcome(turn, db, running, text) if is_done else None


def _answer_metadata(turn: _Turn, running: RunningTurn, *, is_done: bool) -> Object:
    """Return how the turn went, to store with the answer."""
    injected = running.injected
    metadata: Object = {}
    if not is_done and turn.sink.is_stopped:
        metadata["stopped"] = True
    if turn.ask.kind in turn_kinds.INSTRUCTIONS:
        metadata["kind"] = turn.ask.kind
    if injected.state is not InjectionState.OFF:
        metadata["recall_ms"] = injected.took_ms
    if injected.recalled or injected.pinned:
        metadata["injected"] = injected.summary
    return metadata


async def _queue_outcome(turn: _Turn, db: Db, running: RunningTurn, text: str) -> InboxItem | None:
    """Queue the answer of a turn kind that is learnt from.

    If the sink distils it at once, the item is claimed, so that no worker takes it meanwhile.
    """
    engine, context = turn.engine, running.context
    if not context.learns or not turn_kinds.has_outcome(turn.ask.kind, text):
        return None
    source = LearningInput(
        text,
        turn_kinds.outcome_label(turn.ask.kind),
        engine.now(),
        subject=context.subject,
        thread_id=context.thread_id,
        key=f"outcome {context.turn}",
    )
    item = inbox_item_of(turn.caller, source)
    if turn.ask.is_awaited:
        item = replace(item, held_until=engine.now() + claim_duration(engine))
    await learn_from(engine, db, turn.caller, item)
    return item


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
