"""What a turn is told from memory, without being asked: found, or not, in bounded time."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any

import structlog

from recollect.domain import Caller, Memory, MemoryId, Ref, Right
from recollect.engine import spaces
from recollect.engine.builtins import Context
from recollect.engine.channels import Channel
from recollect.engine.core import Engine
from recollect.engine.fence import fenced, new_suffix, stable_suffix, unfenced
from recollect.engine.prompt import text_of, user_places
from recollect.engine.recall import Hit, Recall, Recalled, recall_within, unsaid
from recollect.errors import Unavailable
from recollect.store import injections, memories
from recollect.store.injections import Hidden, Injection
from recollect.store.pool import Db
from recollect.tasks import within

Message = dict[str, Any]

# So much of a prompt is worth giving away unasked.
_MOST_RECALLED = 8
_MOST_STABLE = 30
# Of a longer message the beginning says what it is about.
_LONGEST_QUERY = 4_000

# A conversation's summary says whose words its sentences are.
_SPEAKER = re.compile(r"^[^:\n]{1,60} (?:says|asks): ")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_BETWEEN = re.compile(r"\W+")

_log = structlog.get_logger(__name__)


class State(StrEnum):
    """What memory had to do with a turn."""

    USED = "used"
    NONE = "none"
    DEGRADED = "degraded"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Remembered:
    """What to put into a request: the stable block, and blocks by the index of their message."""

    state: State = State.OFF
    stable: str | None = None
    blocks: Mapping[int, str] = field(default_factory=dict[int, str])
    hidden: Mapping[str, Hidden] = field(default_factory=dict[str, Hidden])
    # The codes of the memories, those of this turn first.
    codes: Sequence[str] = ()
    # Found for this turn, best first, and those that stand in every turn.
    recalled: Sequence[Hit] = ()
    pinned: Sequence[Memory] = ()
    # Of this turn, to be kept: the next request repeats it.
    injection: Injection | None = None
    took_ms: float = 0.0

    @property
    def noted(self) -> list[dict[str, Any]]:
        """What is kept with the answer: which memories, by what, how relevant; never their text."""
        found = [
            {"memory": str(hit.memory.id), "by": hit.found_by, "score": round(hit.score, 4)}
            for hit in self.recalled
        ]
        return found + [{"memory": str(each.id), "by": "pinned"} for each in self.pinned]


async def remember(
    engine: Engine, caller: Caller, context: Context, messages: Sequence[Message], seed: str
) -> Remembered:
    """What this turn should be told; a memory that is slow or down costs the turn nothing else."""
    began = perf_counter()
    try:
        found = await within(
            engine.injection_deadline.total_seconds(),
            _remember(engine, caller, context, messages, seed),
        )
    except (TimeoutError, Unavailable) as error:
        _log.warning("memory.degraded", why=type(error).__name__)
        found = Remembered(State.DEGRADED)
    took_ms = (perf_counter() - began) * 1000
    return replace(found, took_ms=round(took_ms, 1))


async def _remember(
    engine: Engine, caller: Caller, context: Context, messages: Sequence[Message], seed: str
) -> Remembered:
    caller.require(Right.READ)
    places = user_places(messages, seed)
    now_at = len(messages) - 1 if messages and messages[-1].get("role") == "user" else None
    query = "" if now_at is None else _query(messages[now_at])
    # Before the transaction: no connection is held while a model thinks.
    asked = await spaces.embed_query(engine, caller.workspace_id, query) if query else None
    async with engine.searching(caller, is_filtered=not context.visible.is_open) as db:
        stable = await injections.stable(
            db, caller, context.visible, limit=_MOST_STABLE, now=engine.now()
        )
        placed = await injections.find(db, caller.workspace_id, list(places.values()))
        hidden = await _hidden(db, caller, messages)
        known = await _known(engine, db, caller, context, placed)
        found = Recalled([], is_degraded=False)
        if query:
            ask = Recall(
                query,
                limit=_MOST_RECALLED,
                threshold=engine.injection_floor,
                wanted=context.visible,
            )
            found = await recall_within(engine, db, caller, ask, asked)
        unheard = await unsaid(db, caller, found.hits, context.in_front)
    told = {each.id for each in stable}
    blocks: dict[int, str] = {}
    earlier: list[Memory] = []
    for index, place in places.items():
        if place in placed and index != now_at:
            shown = [known[each] for each in placed[place].memory_ids if each in known]
            earlier += shown
            told |= {each.id for each in shown}
            if shown:
                blocks[index] = fenced(shown, placed[place].suffix)
    hits = [
        hit
        for hit in unheard
        if hit.memory.id not in told and not _is_said(hit.memory, context, messages[:now_at])
    ]
    recalled = [hit.memory for hit in hits]
    injection = None
    if now_at is not None and recalled:
        injection = _injection(placed.get(places[now_at]), places[now_at], recalled)
        blocks[now_at] = fenced(recalled, injection.suffix)
    state = State.USED if blocks or stable else State.NONE
    return Remembered(
        State.DEGRADED if found.is_degraded else state,
        fenced(stable, stable_suffix(str(caller.workspace_id), stable)) if stable else None,
        blocks,
        hidden,
        list(dict.fromkeys(each.code for each in [*recalled, *stable, *earlier])),
        hits,
        stable,
        injection,
    )


def _query(message: Message) -> str:
    """What the user asks now, without anything of ours."""
    return unfenced(text_of(message.get("content")))[:_LONGEST_QUERY].strip()


def _is_said(memory: Memory, context: Context, earlier: Sequence[Message]) -> bool:
    """Whether the conversation that it is from already says it, word for word, in this prompt."""
    if not _is_of(memory, context.channel):
        return False
    prompt = _bare(" ".join(text_of(each.get("content")) for each in earlier))
    said = [_bare(_SPEAKER.sub("", part)) for part in _SENTENCE_END.split(memory.content)]
    return all(part in prompt for part in said)


def _is_of(memory: Memory, channel: Channel | None) -> bool:
    if channel is None or memory.thread_code is None:
        return False
    ref = channel.ref or Ref()
    is_named = ref.code is not None and memory.thread_code.startswith(ref.code)
    return is_named or ref.id == memory.thread_id or memory.thread_label == channel.name


def _bare(text: str) -> str:
    return _BETWEEN.sub(" ", text).strip().casefold()


def _injection(before: Injection | None, place: bytes, recalled: Sequence[Memory]) -> Injection:
    """What stands at this place; the same as before, suffix included, where nothing changed."""
    ids = [memory.id for memory in recalled]
    if before and list(before.memory_ids) == ids:
        return before
    return Injection(place, ids, new_suffix())


async def _known(
    engine: Engine,
    db: Db,
    caller: Caller,
    context: Context,
    placed: Mapping[bytes, Injection],
) -> dict[MemoryId, Memory]:
    """The memories of earlier blocks that are still there and still this user's to see."""
    ids = [memory_id for each in placed.values() for memory_id in each.memory_ids]
    if not ids:
        return {}
    found = await memories.find_all(db, caller, ids, engine.now())
    seen = {None, context.subject}
    return {
        memory_id: memory
        for memory_id, memory in found.items()
        if context.subject is None or memory.subject in seen
    }


async def _hidden(db: Db, caller: Caller, messages: Sequence[Message]) -> dict[str, Hidden]:
    ids = [
        str(message["tool_call_id"])
        for message in messages
        if message.get("role") == "tool" and message.get("tool_call_id")
    ]
    return await injections.hidden_beside(db, caller, ids) if ids else {}
