"""Find the memories to inject into a turn's prompt, within a deadline."""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import perf_counter
from typing import Any

import structlog

from recollect.chat.prompt import text_of
from recollect.chat.queries import injections
from recollect.chat.queries.injections import BuiltinCalls, Injection
from recollect.chat.turn_context import Conversation, TurnContext
from recollect.core.domain import Caller, Memory, MemoryId, Ref
from recollect.core.errors import Unavailable
from recollect.core.prompt_fence import fence_memories, new_suffix, stable_suffix
from recollect.core.tasks import run_within
from recollect.db.pool import Db
from recollect.embeddings import generations
from recollect.embeddings.generations import EmbeddedQuery
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


# Finds the memories to inject into a turn of a caller who may read.
Recaller = Callable[[Engine, Caller, TurnContext], Coroutine[Any, Any, InjectedMemories]]


async def recall_in_time(
    engine: Engine, caller: Caller, context: TurnContext, recall: Recaller
) -> InjectedMemories:
    """Return what to inject into this turn; nothing if memory is slow or unavailable."""
    started = perf_counter()
    try:
        found = await run_within(
            engine.injection_deadline.total_seconds(), recall(engine, caller, context)
        )
    except (TimeoutError, Unavailable) as error:
        _log.warning("memory.degraded", why=type(error).__name__)
        found = InjectedMemories(InjectionState.DEGRADED)
    took_ms = (perf_counter() - started) * 1000
    return replace(found, took_ms=round(took_ms, 1))


async def recall_for_turn(engine: Engine, caller: Caller, context: TurnContext) -> InjectedMemories:
    """Recall for the last user message, and repeat the blocks of earlier ones in their places."""
    query = _query_text(context.conversation)
    # Before the transaction: no connection is held during a model call.
    vector = await generations.embed_query(engine, caller.workspace_id, query) if query else None
    async with engine.searching(caller, is_filtered=not context.visible.is_open) as db:
        stable = await injections.stable_memories(
            db, caller, context.visible, limit=_MAX_STABLE, now=engine.now()
        )
        earlier = await _find_earlier_blocks(engine, db, caller, context)
        builtin_calls = await _find_builtin_calls(db, caller, context.conversation.messages)
        found = await _find_new(engine, db, caller, context, query, vector)
    hits = _without_repeats(found.hits, [*stable, *earlier.memories], context)
    block = _new_block(hits, context.conversation, earlier.stored)
    blocks = {**earlier.blocks, **block.blocks}
    state = InjectionState.USED if blocks or stable else InjectionState.NONE
    recalled = [hit.memory for hit in hits]
    return InjectedMemories(
        InjectionState.DEGRADED if found.is_degraded else state,
        fence_memories(stable, stable_suffix(str(caller.workspace_id), stable)) if stable else None,
        blocks,
        builtin_calls,
        list(dict.fromkeys(each.code for each in [*recalled, *stable, *earlier.memories])),
        hits,
        stable,
        block.injection,
    )


@dataclass(frozen=True, slots=True)
class _EarlierBlocks:
    """The blocks of earlier user messages, by the index of the message, and their memories."""

    stored: Mapping[bytes, Injection]
    blocks: Mapping[int, str]
    memories: Sequence[Memory]


@dataclass(frozen=True, slots=True)
class _NewBlock:
    """The block of the last user message, by its index, and the injection to store."""

    blocks: Mapping[int, str] = field(default_factory=dict[int, str])
    injection: Injection | None = None


async def _find_earlier_blocks(
    engine: Engine, db: Db, caller: Caller, context: TurnContext
) -> _EarlierBlocks:
    """Return the blocks of earlier messages, without memories that may no longer be seen."""
    conversation = context.conversation
    digests = conversation.digests
    stored = await injections.find(db, caller.workspace_id, list(digests.values()))
    visible = await _find_visible(engine, db, caller, context, stored)
    blocks: dict[int, str] = {}
    repeated: list[Memory] = []
    for index, digest in digests.items():
        if digest in stored and index != conversation.current:
            again = [visible[each] for each in stored[digest].memory_ids if each in visible]
            repeated += again
            if again:
                blocks[index] = fence_memories(again, stored[digest].suffix)
    return _EarlierBlocks(stored, blocks, repeated)


async def _find_new(
    engine: Engine,
    db: Db,
    caller: Caller,
    context: TurnContext,
    query: str,
    vector: EmbeddedQuery | None,
) -> Recalled:
    """Recall for the last user message, without what the prompt's own messages say."""
    if not query:
        return Recalled([], is_degraded=False)
    ask = Recall(
        query, limit=_MAX_RECALLED, threshold=engine.injection_floor, wanted=context.visible
    )
    found = await recall_within(engine, db, caller, ask, vector)
    hits = await not_in_messages(db, caller, found.hits, context.prompt_message_ids)
    return replace(found, hits=hits)


def _without_repeats(
    hits: Sequence[Hit], injected: Sequence[Memory], context: TurnContext
) -> list[Hit]:
    """Return the hits that the prompt contains neither in a block nor in the conversation."""
    injected_ids = {each.id for each in injected}
    before = context.conversation.messages[: context.conversation.current]
    return [
        hit
        for hit in hits
        if hit.memory.id not in injected_ids
        and not _is_in_prompt(hit.memory, context.thread_name, before)
    ]


def _new_block(
    hits: Sequence[Hit], conversation: Conversation, stored: Mapping[bytes, Injection]
) -> _NewBlock:
    """Build the block for the last user message. It keeps its suffix if it is repeated."""
    current = conversation.current
    if current is None or not hits:
        return _NewBlock()
    digest = conversation.digests[current]
    memories = [hit.memory for hit in hits]
    ids = [memory.id for memory in memories]
    injection = stored.get(digest)
    if injection is None or list(injection.memory_ids) != ids:
        injection = Injection(digest, ids, new_suffix())
    return _NewBlock({current: fence_memories(memories, injection.suffix)}, injection)


def _query_text(conversation: Conversation) -> str:
    """Return the start of the message to answer, without injected blocks; empty if none."""
    if conversation.current is None:
        return ""
    return conversation.user_text[:_MAX_QUERY_CHARACTERS].strip()


def _is_in_prompt(memory: Memory, thread: ThreadName | None, before: Sequence[Message]) -> bool:
    """Whether the memory is from this thread, and the prompt already says it word for word."""
    if not _is_from(memory, thread):
        return False
    prompt = _words(" ".join(text_of(each.get("content")) for each in before))
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


async def _find_visible(
    engine: Engine,
    db: Db,
    caller: Caller,
    context: TurnContext,
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
