"""Memories made of messages: cut by the segmenter as a conversation goes, or made by hand.

What follows the last closed stretch of a thread, its frontier, is open. Closing a stretch is one
transaction that holds the thread: memory, links and the new frontier together, and only if nothing
changed since the messages were read. So two servers agree, and nothing is summarised twice.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from uuid import UUID

from recollect.conversations.messages import SEGMENT_JOB, find_thread_of, lock_thread
from recollect.conversations.queries import files, messages, segments
from recollect.conversations.queries.messages import LocatedThread, LockedThread
from recollect.conversations.queries.segments import DueThread
from recollect.conversations.segmentation.boundaries import SegmentEnd, SegmenterMessage, idle
from recollect.conversations.segmentation.late_messages import split_late_messages
from recollect.conversations.segmentation.message_vectors import messages_to_read, segment_ends_of
from recollect.conversations.segmentation.segment_memories import (
    ACTOR,
    marks_of,
    record_segment_event,
    store_segment,
)
from recollect.conversations.summaries import GIVEN, Summary, speaker_of, summarise
from recollect.core.domain import (
    Caller,
    File,
    Filter,
    Memory,
    MemoryId,
    Message,
    MessagePosition,
    Ref,
    Right,
    SegmentReason,
    SegmentRules,
    ThreadId,
    WorkspaceId,
)
from recollect.core.errors import Conflict, Invalid, NotFound, Unavailable
from recollect.core.tasks import run_both
from recollect.db import job_queue
from recollect.db.job_queue import NewJob
from recollect.db.pool import Db, pipeline
from recollect.embeddings import generations
from recollect.embeddings.generations import Heartbeat
from recollect.embeddings.queries import vectors
from recollect.engine import Engine
from recollect.keywords.queries import postings
from recollect.keywords.tokenizer import terms
from recollect.memories.forget import remove_rows
from recollect.memories.queries import memories, past_texts, supersession
from recollect.memories.save import check_content, content_digest, indexed_text
from recollect.search.semantic import Hit, Recall, check_query, recall_within
from recollect.tenancy.keys import system_caller

_THREADS_AT_ONCE = 20
# So many chats after each other that could not be heard: it is the embedder, not the chats.
_FAILED_IN_A_ROW = 3
# A job works for so long; then the jobs of other workspaces have their turn.
_TURN_SECONDS = 30.0
# Somebody may edit while we summarise; nobody edits that often.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class MakeSegment:
    """Which messages to make a memory of, and how."""

    messages: Sequence[Ref]
    summary: str | None = None
    reason: SegmentReason = SegmentReason.USER


@dataclass(frozen=True, slots=True)
class SegmentMemory:
    """A memory with what it was made of."""

    memory: Memory
    messages: list[Message]
    files: list[File]
    embedding: list[float]


@dataclass(frozen=True, slots=True)
class SegmentWithCount:
    """A memory, and of how many messages it was made."""

    memory: Memory
    messages: int


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """Where the segmenter would cut a thread, and why."""

    length: int
    reason: SegmentReason | None
    note: str


# By hand.


async def make_segment(
    engine: Engine, caller: Caller, thread: Ref, ask: MakeSegment
) -> SegmentMemory:
    """Make a memory of some messages of a chat; its summary is written unless one is given.

    A summary of ours tells what was said, so who may not read must bring one.
    """
    caller.require(Right.WRITE)
    if ask.summary is None:
        caller.require(Right.READ)
    else:
        check_content(ask.summary)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        said = await _named(db, caller, located.id, ask.messages)
    summary = (
        await summarise(engine, caller.workspace_id, said)
        if ask.summary is None
        else Summary(ask.summary, GIVEN)
    )
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        held = await lock_thread(engine, db, caller, Ref(id=located.id))
        said = await _named(db, caller, held.id, ask.messages)
        async with pipeline(db):
            memory = await store_segment(
                engine, db, caller, held, said, ask.reason, summary, embedded, is_cut=False
            )
        return await _made(db, caller, memory)


async def get_segment(engine: Engine, caller: Caller, ref: Ref) -> SegmentMemory:
    """One memory with its messages and their files."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        memory = await _existing(engine, db, caller, ref)
        return await _made(db, caller, memory)


async def list_segments(
    engine: Engine, caller: Caller, thread: Ref, *, start: int, limit: int | None
) -> tuple[str, list[SegmentWithCount], int]:
    """A chat's memories, oldest first, how many there are, and the chat's code."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        caller = replace(caller, thread_id=located.id)
        wanted = Filter(thread_id=located.id)
        found = await segments.listed(
            db, caller, located.id, offset=start, limit=limit, now=engine.now()
        )
        total = await memories.count(db, caller, wanted, engine.now())
        counted = await _counted(db, caller.workspace_id, found)
    return located.code, counted, total


async def search_segments(
    engine: Engine, caller: Caller, thread: Ref, query: str, limit: int
) -> list[tuple[Hit, int]]:
    """A chat's memories closest to a question, best first, with the number of their messages."""
    caller.require(Right.READ)
    check_query(query)
    # No connection is held while a model thinks; meanwhile the chat is looked up.
    asked, located = await run_both(
        generations.embed_query(engine, caller.workspace_id, query),
        _located(engine, caller, thread),
    )
    # Every search in a chat has the same plan.
    async with engine.searching(caller) as db:
        ask = Recall(query=query, limit=limit, wanted=Filter(thread_id=located.id))
        recalled = await recall_within(engine, db, caller, ask, asked)
        counts = await segments.message_counts(
            db, caller.workspace_id, [hit.memory.id for hit in recalled.hits]
        )
    return [(hit, counts.get(hit.memory.id, 0)) for hit in recalled.hits]


async def _located(engine: Engine, caller: Caller, thread: Ref) -> LocatedThread:
    async with engine.reading(caller) as db:
        return await find_thread_of(engine, db, caller, thread)


async def regenerate_segment(engine: Engine, caller: Caller, ref: Ref) -> SegmentMemory:
    """Summarise a memory's messages anew and embed the summary with the current model.

    What a person had written is in its history then. A memory that is made of no messages, or whose
    messages are gone, keeps its text and is embedded anew.
    """
    caller.require(Right.READ)
    caller.require(Right.WRITE)
    return await _write_anew(engine, caller, ref, is_asked=True)


async def delete_segment(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a memory, its words and its vectors for good; its messages stay."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        inside = replace(caller, thread_id=await segments.thread_of(db, caller, ref))
        await supersession.lock_supersession(db, caller.workspace_id)
        memory_id = await memories.lock(db, inside, ref)
        if memory_id is None:
            raise NotFound("memory")
        await remove_rows(engine, db, caller, [memory_id])


# By itself.


async def segment_threads(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Close the stretches that have ended in a workspace, and summarise anew what changed.

    Work that takes long is left to another job, behind the jobs of other workspaces. Raises
    `Unavailable` while the embedder is down; running it again goes on where it stopped.
    """
    caller = await system_caller(engine, workspace_id, ACTOR)
    ends = monotonic() + _TURN_SECONDS
    failure: Unavailable | None = None
    failed = 0
    async for due in _due(engine, caller):
        # In the name of whose thread it is, who may see it where others may not.
        acting = replace(caller, user_id=due.owner or caller.user_id)
        try:
            await _segment(engine, acting, due.thread_id, beat)
            failed = 0
        except Unavailable as error:
            failure, failed = error, failed + 1
        if failed == _FAILED_IN_A_ROW or monotonic() > ends:
            break
        await beat()
    is_fresh = await _refresh(engine, caller, beat, ends)
    if failure:
        raise failure
    async with engine.writing(caller) as db:
        now = engine.now()
        due_at = await segments.next_due(db, workspace_id) if is_fresh else now
        if due_at:
            later = NewJob(SEGMENT_JOB, dedupe_key="later", run_after=max(due_at, now))
            await job_queue.enqueue(db, workspace_id, [later], now)


async def _due(engine: Engine, caller: Caller) -> AsyncGenerator[DueThread]:
    """Threads to look at, each once: one that fails is left for another run, and the next comes."""
    last: DueThread | None = None
    while True:
        async with engine.reading(caller) as db:
            waiting = await segments.due_thread(
                db, caller.workspace_id, engine.now(), after=last, limit=_THREADS_AT_ONCE
            )
        for last in waiting:
            yield last
        if len(waiting) < _THREADS_AT_ONCE:
            return


async def plan_segments(
    engine: Engine, caller: Caller, thread: Ref, rules: SegmentRules
) -> list[PlannedSegment]:
    """Where a chat would be cut from its beginning on; the last stretch may still be open."""
    caller.require(Right.READ)
    planned: list[PlannedSegment] = []
    beyond: MessagePosition | None = None
    located = await _located(engine, caller, thread)
    while True:
        async with engine.reading(caller) as db:
            said = await messages.page(
                db, caller, located.id, beyond=beyond, limit=messages_to_read(rules)
            )
        found = await segment_ends_of(engine, caller.workspace_id, said, rules)
        begin = 0
        for cut in found:
            planned.append(PlannedSegment(cut.length, cut.reason, cut.note))
            begin += cut.length
        if len(said) < messages_to_read(rules):
            if begin < len(said):
                planned.append(PlannedSegment(len(said) - begin, None, "still open"))
            return planned
        beyond = said[begin - 1].sort_position


async def resegment(engine: Engine, caller: Caller, thread: Ref) -> int:
    """Forget how a chat was cut, and have it cut again by the rules of now.

    The memories that the segmenter made of it go; those made by hand stay. How many went.
    """
    caller.require(Right.WRITE)
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        held = await lock_thread(engine, db, caller, thread)
        await supersession.lock_supersession(db, caller.workspace_id)
        ids = await segments.cut_memories(db, caller.workspace_id, held.id)
        await remove_rows(engine, db, caller, ids)
        await segments.close_until(db, caller.workspace_id, held.id, None)
        await segments.schedule(db, caller.workspace_id, held.id, engine.now())
        await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    return len(ids)


async def _segment(engine: Engine, caller: Caller, thread_id: ThreadId, beat: Heartbeat) -> None:
    rules = engine.segment_rules
    while True:
        async with engine.writing(caller) as db:
            held = await messages.lock_thread(db, caller, Ref(id=thread_id), engine.now())
            if held is None or rules is None:
                await segments.schedule(db, caller.workspace_id, thread_id, None)
                return
            joined = await segments.stale_in(db, caller.workspace_id, thread_id)
            said = await messages.page(
                db, caller, thread_id, beyond=held.frontier, limit=messages_to_read(rules)
            )
        found = await segment_ends_of(engine, caller.workspace_id, said, rules)
        if not found:
            found = _silence(engine, held, said, rules)
        if not found:
            is_parted = all(
                [await split_late_messages(engine, caller, each, rules, beat) for each in joined]
            )
            if is_parted and await _wait(engine, caller, held, said, rules):
                return
            continue
        frontier, begin = held.frontier, 0
        for cut in found:
            part = said[begin : begin + cut.length]
            if not await _close(engine, caller, thread_id, frontier, part, cut):
                break
            frontier, begin = part[-1].sort_position, begin + cut.length
            await beat()


def _silence(
    engine: Engine, held: LockedThread, said: Sequence[Message], rules: SegmentRules
) -> list[SegmentEnd]:
    if not said or held.heard_at is None:
        return []
    silence = engine.now() - held.heard_at
    if silence <= rules.max_pause:
        return []
    last = said[-1]
    heard = SegmenterMessage(last.content, speaker_of(last), last.created_at)
    return [idle(heard, len(said), silence)]


async def _wait(
    engine: Engine, caller: Caller, held: LockedThread, said: Sequence[Message], rules: SegmentRules
) -> bool:
    """Come back when the silence is long enough; False when something was said meanwhile."""
    async with engine.writing(caller) as db:
        now = await messages.lock_thread(db, caller, Ref(id=held.id), engine.now())
        if now != held:
            return now is None
        due_at = None
        if said and held.heard_at:
            due_at = held.heard_at + rules.max_pause + timedelta(milliseconds=1)
        await segments.schedule(db, caller.workspace_id, held.id, due_at)
        return True


async def _close(
    engine: Engine,
    caller: Caller,
    thread_id: ThreadId,
    frontier: MessagePosition | None,
    said: Sequence[Message],
    cut: SegmentEnd,
) -> bool:
    """Make a memory of a stretch; False when the thread is no longer as it was read."""
    summary = await summarise(engine, caller.workspace_id, said)
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        held = await messages.lock_thread(db, caller, Ref(id=thread_id), engine.now())
        if held is None or held.frontier != frontier:
            return False
        still = await messages.marks(
            db, caller.workspace_id, thread_id, beyond=frontier, limit=len(said)
        )
        if still != marks_of(said):
            return False
        async with pipeline(db):
            await segments.close_until(db, caller.workspace_id, thread_id, said[-1].sort_position)
            await store_segment(
                engine, db, caller, held, said, cut.reason, summary, embedded, is_cut=True
            )
        return True


async def _refresh(engine: Engine, caller: Caller, beat: Heartbeat, ends: float) -> bool:
    """Summarise anew what changed; False when the time is up before all of it is."""
    while True:
        async with engine.reading(caller) as db:
            found = await segments.stale_segments(
                db, caller.workspace_id, engine.now(), limit=_THREADS_AT_ONCE
            )
        for each in found:
            acting = replace(caller, user_id=each.owner or caller.user_id)
            try:
                await _write_anew(engine, acting, Ref(id=each.memory_id), is_asked=False)
            except NotFound:  # hidden, or gone by now: there is nothing to mend
                async with engine.writing(caller) as db:
                    held = await messages.lock_thread(
                        db, acting, Ref(id=each.thread_id), engine.now()
                    )
                    await _mark_fresh(engine, db, caller, held, each.memory_id)
            await beat()
            if monotonic() > ends:
                return False
        if len(found) < _THREADS_AT_ONCE:
            return True


# Shared.


async def _write_anew(engine: Engine, caller: Caller, ref: Ref, *, is_asked: bool) -> SegmentMemory:
    """What `regenerate` does. Unasked, what a person has put in their own words is left to them."""
    for _ in range(_TRIES):
        async with engine.reading(caller) as db:
            before = await _existing(engine, db, caller, ref)
            said = await messages.of_memory(db, caller, before.id)
            is_ours = await _is_ours(db, before)
        summary = (
            await summarise(engine, caller.workspace_id, said)
            if said and (is_ours or is_asked)
            else None
        )
        text = summary.text if summary else before.content
        moved = await generations.embed_changed_text(engine, caller.workspace_id, text)
        async with engine.writing(caller) as db:
            held = None
            if before.thread_id:
                held = await messages.lock_thread(
                    db, caller, Ref(id=before.thread_id), engine.now()
                )
            memory = await _unchanged(engine, db, caller, before, said)
            if memory is None:
                continue
            if summary and (is_asked or summary.text != memory.content):
                # What we had written ourselves may tell what somebody has deleted since.
                if not is_ours:
                    await past_texts.insert(db, memory, engine.now())
                memory = await _rewrite(engine, db, caller, memory, summary)
            await _embed_again(engine, db, memory, moved)
            await _mark_fresh(engine, db, caller, held, memory.id)
            return await _made(db, caller, memory)
    raise Conflict("The messages keep changing. Try again.", is_temporary=True)


async def _unchanged(
    engine: Engine, db: Db, caller: Caller, before: Memory, said: Sequence[Message]
) -> Memory | None:
    """The memory, held; None if it or its messages are not as they were read."""
    inside = replace(caller, thread_id=before.thread_id)
    await memories.lock(db, inside, Ref(id=before.id))
    memory = await _existing(engine, db, caller, Ref(id=before.id))
    still = await messages.of_memory(db, caller, memory.id)
    is_same = memory.version == before.version and marks_of(still) == marks_of(said)
    return memory if is_same else None


async def _mark_fresh(
    engine: Engine, db: Db, caller: Caller, held: LockedThread | None, memory_id: MemoryId
) -> None:
    """Note that a memory says what its messages say.

    Not while some may have joined it that are not of it: the segmenter parts those from it first.
    """
    if held is None or not held.is_due(engine.now()):
        await segments.mark_fresh(db, caller.workspace_id, memory_id)


async def _is_ours(db: Db, memory: Memory) -> bool:
    """Whether we have summarised it, and nobody has put it in other words since."""
    by = await segments.summarised_by(db, memory.workspace_id, memory.id)
    if by in {None, GIVEN} or memory.summary is not None:
        return False
    return not await past_texts.texts_of(db, memory.workspace_id, memory.id)


async def _rewrite(
    engine: Engine, db: Db, caller: Caller, memory: Memory, summary: Summary
) -> Memory:
    after = replace(
        memory,
        content=summary.text,
        summary=None,
        version=memory.version + 1,
        updated_at=engine.now(),
    )
    await memories.update(db, after, content_digest(after.content))
    if indexed_text(after) != indexed_text(memory):
        await postings.remove(db, caller.workspace_id, [after.id])
        await postings.insert(db, caller.workspace_id, after.id, terms(indexed_text(after)))
    await segments.rewritten(db, caller.workspace_id, after.id, summary.by, summary.fallback_reason)
    await record_segment_event(engine, db, caller, "memory.updated", after)
    return after


async def _embed_again(
    engine: Engine, db: Db, memory: Memory, moved: generations.ReplacedText | None
) -> None:
    if moved is None:
        await job_queue.enqueue(db, memory.workspace_id, [generations.EMBED_JOB], engine.now())
    else:
        await generations.store_changed_vector(engine, db, memory.workspace_id, memory.id, moved)


async def _made(db: Db, caller: Caller, memory: Memory) -> SegmentMemory:
    said = await messages.of_memory(db, caller, memory.id)
    attached = await files.of_messages(db, caller.workspace_id, [each.id for each in said])
    embedding = await vectors.of_memory(db, caller.workspace_id, memory.id)
    return SegmentMemory(memory, said, attached, embedding)


async def _counted(
    db: Db, workspace_id: WorkspaceId, found: Sequence[Memory]
) -> list[SegmentWithCount]:
    counts = await segments.message_counts(db, workspace_id, [each.id for each in found])
    return [SegmentWithCount(each, counts.get(each.id, 0)) for each in found]


async def _named(db: Db, caller: Caller, thread_id: ThreadId, refs: Sequence[Ref]) -> list[Message]:
    """The named messages, each once, in chat order; all of them must be of this thread."""
    found = await messages.find_all(db, caller, thread_id, refs)
    ids: set[UUID] = {each.id for each in found}
    codes = {each.code[:12]: each.code for each in found}
    if not refs or not all(
        ref.id in ids or (ref.code and codes.get(ref.code[:12], "").startswith(ref.code))
        for ref in refs
    ):
        raise Invalid(
            "`messageIds` contains a message that is not in this chat.", field="messageIds"
        )
    return found


async def _existing(engine: Engine, db: Db, caller: Caller, ref: Ref) -> Memory:
    inside = replace(caller, thread_id=await segments.thread_of(db, caller, ref))
    memory = await memories.find(db, inside, ref, engine.now())
    if memory is None:
        raise NotFound("memory")
    return memory
