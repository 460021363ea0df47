"""Find the memories to inject into a turn's prompt, within a deadline."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any

import structlog

from recollect.chat.builtin_tools.tool import ToolContext
from recollect.chat.prompt import text_of, user_message_digests
from recollect.chat.queries import injections
from recollect.chat.queries.injections import BuiltinCalls, Injection
from recollect.core.domain import Caller, Memory, MemoryId, Ref, Right
from recollect.core.errors import Unavailable
from recollect.core.prompt_fence import fence_memories, new_suffix, stable_suffix, strip_fences
from recollect.core.tasks import run_within
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.engine import Engine
from recollect.memories.queries import memories
from recollect.search.semantic import Hit, Recall, Recalled, not_in_messages, recall_within
from recollect.tenancy.thread_lookup import ThreadName

Message = dict[str, Any]

# Limits on how much of the prompt injected memories may take.
_MAX_RECALLED = 8
_MAX_STABLE = 30
# The start of a longer message is enough to find its topic.
_MAX_QUERY_CHARACTERS = 4_000

# The summary of a conversation names the speaker of each sentence.
_SPEAKER = re.compile(r"^[^:\n]{1,60} (?:says|asks): ")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NON_WORD = re.compile(r"\W+")

_log = structlog.get_logger(__name__)


class InjectionState(StrEnum):
    """How memory took part in a turn."""

    USED = "used"
    NONE = "none"
    DEGRADED = "degraded"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class InjectedMemories:
    """What to add to a request: the stable block, and blocks by the index of their message."""

    state: InjectionState = InjectionState.OFF
    stable: str | None = None
    blocks: Mapping[int, str] = field(default_factory=dict[int, str])
    builtin_calls: Mapping[str, BuiltinCalls] = field(default_factory=dict[str, BuiltinCalls])
    # The codes of all injected memories; those recalled for this turn come first.
    codes: Sequence[str] = ()
    # Memories recalled for this turn, best first, and those injected into every turn.
    recalled: Sequence[Hit] = ()
    pinned: Sequence[Memory] = ()
    # The injection of this turn. It is stored, because the next request repeats it.
    injection: Injection | None = None
    took_ms: float = 0.0

    @property
    def summary(self) -> list[dict[str, Any]]:
        """Each memory's id, how it was found and its score, to store with the answer; no text."""
        found = [
            {"memory": str(hit.memory.id), "by": hit.found_by, "score": round(hit.score, 4)}
            for hit in self.recalled
        ]
        return found + [{"memory": str(each.id), "by": "pinned"} for each in self.pinned]


async def recall_for_turn(
    engine: Engine, caller: Caller, context: ToolContext, messages: Sequence[Message], seed: str
) -> InjectedMemories:
    """Return what to inject into this turn; nothing if memory is slow or unavailable."""
    started = perf_counter()
    try:
        found = await run_within(
            engine.injection_deadline.total_seconds(),
            _find_memories(engine, caller, context, messages, seed),
        )
    except (TimeoutError, Unavailable) as error:
        _log.warning("memory.degraded", why=type(error).__name__)
        found = InjectedMemories(InjectionState.DEGRADED)
    took_ms = (perf_counter() - started) * 1000
    return replace(found, took_ms=round(took_ms, 1))


async def _find_memories(
    engine: Engine, caller: Caller, context: ToolContext, messages: Sequence[Message], seed: str
) -> InjectedMemories:
    caller.require(Right.READ)
    digests = user_message_digests(messages, seed)
    current = len(messages) - 1 if messages and messages[-1].get("role") == "user" else None
    query = "" if current is None else _query_text(messages[current])
    # Before the transaction: no connection is held during a model call.
    vector = await generations.embed_query(engine, caller.workspace_id, query) if query else None
    async with engine.searching(caller, is_filtered=not context.visible.is_open) as db:
        stable = await injections.stable_memories(
            db, caller, context.visible, limit=_MAX_STABLE, now=engine.now()
        )
        stored = await injections.find(db, caller.workspace_id, list(digests.values()))
        builtin_calls = await _find_builtin_calls(db, caller, messages)
        still_visible = await _find_earlier_memories(engine, db, caller, context, stored)
        found = Recalled([], is_degraded=False)
        if query:
            ask = Recall(
                query,
                limit=_MAX_RECALLED,
                threshold=engine.injection_floor,
                wanted=context.visible,
            )
            found = await recall_within(engine, db, caller, ask, vector)
        new_hits = await not_in_messages(db, caller, found.hits, context.prompt_message_ids)
    injected_ids = {each.id for each in stable}
    blocks: dict[int, str] = {}
    earlier: list[Memory] = []
    for index, digest in digests.items():
        if digest in stored and index != current:
            memory_ids = stored[digest].memory_ids
            repeated = [still_visible[each] for each in memory_ids if each in still_visible]
            earlier += repeated
            injected_ids |= {each.id for each in repeated}
            if repeated:
                blocks[index] = fence_memories(repeated, stored[digest].suffix)
    hits = [
        hit
        for hit in new_hits
        if hit.memory.id not in injected_ids
        and not _is_in_prompt(hit.memory, context, messages[:current])
    ]
    recalled = [hit.memory for hit in hits]
    injection = None
    if current is not None and recalled:
        digest = digests[current]
        injection = _injection(stored.get(digest), digest, recalled)
        blocks[current] = fence_memories(recalled, injection.suffix)
    state = InjectionState.USED if blocks or stable else InjectionState.NONE
    return InjectedMemories(
        InjectionState.DEGRADED if found.is_degraded else state,
        fence_memories(stable, stable_suffix(str(caller.workspace_id), stable)) if stable else None,
        blocks,
        builtin_calls,
        list(dict.fromkeys(each.code for each in [*recalled, *stable, *earlier])),
        hits,
        stable,
        injection,
    )


def _query_text(message: Message) -> str:
    """Return the text of the user's message, without injected blocks."""
    return strip_fences(text_of(message.get("content")))[:_MAX_QUERY_CHARACTERS].strip()


def _is_in_prompt(memory: Memory, context: ToolContext, earlier: Sequence[Message]) -> bool:
    """Whether the memory is from this thread, and the prompt already says it word for word."""
    if not _is_from(memory, context.thread_name):
        return False
    prompt = _words(" ".join(text_of(each.get("content")) for each in earlier))
    sentences = [_words(_SPEAKER.sub("", part)) for part in _SENTENCE_END.split(memory.content)]
    return all(sentence in prompt for sentence in sentences)


def _is_from(memory: Memory, thread: ThreadName | None) -> bool:
    if thread is None or memory.thread_code is None:
        return False
    ref = thread.ref or Ref()
    has_code = ref.code is not None and memory.thread_code.startswith(ref.code)
    return has_code or ref.id == memory.thread_id or memory.thread_label == thread.name


def _words(text: str) -> str:
    return _NON_WORD.sub(" ", text).strip().casefold()


def _injection(before: Injection | None, digest: bytes, recalled: Sequence[Memory]) -> Injection:
    """Return the injection for a user message; the stored one, with its suffix, if unchanged."""
    ids = [memory.id for memory in recalled]
    if before and list(before.memory_ids) == ids:
        return before
    return Injection(digest, ids, new_suffix())


async def _find_earlier_memories(
    engine: Engine,
    db: Db,
    caller: Caller,
    context: ToolContext,
    stored: Mapping[bytes, Injection],
) -> dict[MemoryId, Memory]:
    """Return the memories of earlier blocks that exist and that this turn may still see."""
    ids = [memory_id for each in stored.values() for memory_id in each.memory_ids]
    if not ids:
        return {}
    found = await memories.find_all(db, caller, ids, engine.now())
    subjects = {None, context.subject}
    return {
        memory_id: memory
        for memory_id, memory in found.items()
        if context.subject is None or memory.subject in subjects
    }


async def _find_builtin_calls(
    db: Db, caller: Caller, messages: Sequence[Message]
) -> dict[str, BuiltinCalls]:
    ids = [
        str(message["tool_call_id"])
        for message in messages
        if message.get("role") == "tool" and message.get("tool_call_id")
    ]
    return await injections.find_builtin_calls(db, caller, ids) if ids else {}
