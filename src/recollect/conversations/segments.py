"""Memories made of messages: segments cut automatically, or made by hand.

The frontier of a thread is the end of its last closed segment; messages after it are open. A
segment is closed in one transaction that locks the thread and stores the memory, its links and the
new frontier, and only if the messages have not changed since they were read. So two servers cannot
summarise the same messages twice.
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
# After this many failures in a row the embedder is down; the threads are not the cause.
_MAX_FAILURES_IN_A_ROW = 3
# A job stops after this time, to let jobs of other workspaces run.
_MAX_SECONDS = 30.0
# Edits during summarising cause another try; more than a few are unlikely.
_TRIES = 5


@dataclass(frozen=True, slots=True)
class MakeSegment:
    """The messages to make a memory of, and its summary, if given."""

    messages: Sequence[Ref]
    summary: str | None = None
    reason: SegmentReason = SegmentReason.USER


@dataclass(frozen=True, slots=True)
class SegmentMemory:
    """A memory with its messages, their files and its vector."""

    memory: Memory
    messages: list[Message]
    files: list[File]
    embedding: list[float]


@dataclass(frozen=True, slots=True)
class SegmentWithCount:
    """A memory and the number of its messages."""

    memory: Memory
    messages: int


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A segment that the segmenter would cut, and why."""

    length: int
    reason: SegmentReason | None
    note: str


# Segments made and changed by request.


async def make_segment(
    engine: Engine, caller: Caller, thread: Ref, ask: MakeSegment
) -> SegmentMemory:
    """Make a memory of some messages of a thread; summarise them unless a summary is given.

    A generated summary shows the messages' content, so without the right to read, one must be
    given.
    """
    caller.require(Right.WRITE)
    if ask.summary is None:
        caller.require(Right.READ)
    else:
        check_content(ask.summary)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        batch = await _find_named(db, caller, located.id, ask.messages)
    summary = (
        await summarise(engine, caller.workspace_id, batch)
        if ask.summary is None
        else Summary(ask.summary, GIVEN)
    )
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        locked = await lock_thread(engine, db, caller, Ref(id=located.id))
        batch = await _find_named(db, caller, locked.id, ask.messages)
        async with pipeline(db):
            memory = await store_segment(
                engine, db, caller, locked, batch, ask.reason, summary, embedded, is_cut=False
            )
        return await _with_messages(db, caller, memory)


async def get_segment(engine: Engine, caller: Caller, ref: Ref) -> SegmentMemory:
    """Return one memory with its messages and their files."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        memory = await _existing(engine, db, caller, ref)
        return await _with_messages(db, caller, memory)


async def list_segments(
    engine: Engine, caller: Caller, thread: Ref, *, start: int, limit: int | None
) -> tuple[str, list[SegmentWithCount], int]:
    """Return the thread's code, a page of its memories, oldest first, and their total number."""
    caller.require(Right.READ)
    async with engine.reading(caller) as db:
        located = await find_thread_of(engine, db, caller, thread)
        caller = replace(caller, thread_id=located.id)
        wanted = Filter(thread_id=located.id)
        found = await segments.listed(
            db, caller, located.id, offset=start, limit=limit, now=engine.now()
        )
        total = await memories.count(db, caller, wanted, engine.now())
        counted = await _with_counts(db, caller.workspace_id, found)
    return located.code, counted, total


async def search_segments(
    engine: Engine, caller: Caller, thread: Ref, query: str, limit: int
) -> list[tuple[Hit, int]]:
    """Return the thread's memories closest to a query, each with its number of messages."""
    caller.require(Right.READ)
    check_query(query)
    # The thread is looked up while the query is embedded; embedding itself holds no connection.
    embedded, located = await run_both(
        generations.embed_query(engine, caller.workspace_id, query),
        _locate(engine, caller, thread),
    )
    # Without `is_filtered`: every search in a thread has the same plan.
    async with engine.searching(caller) as db:
        ask = Recall(query=query, limit=limit, wanted=Filter(thread_id=located.id))
        recalled = await recall_within(engine, db, caller, ask, embedded)
        counts = await segments.message_counts(
            db, caller.workspace_id, [hit.memory.id for hit in recalled.hits]
        )
    return [(hit, counts.get(hit.memory.id, 0)) for hit in recalled.hits]


async def _locate(engine: Engine, caller: Caller, thread: Ref) -> LocatedThread:
    async with engine.reading(caller) as db:
        return await find_thread_of(engine, db, caller, thread)


async def regenerate_segment(engine: Engine, caller: Caller, ref: Ref) -> SegmentMemory:
    """Summarise a memory's messages again and embed the summary with the current model.

    A text written by a person stays in the history. A memory without messages, or whose messages
    were deleted, keeps its text and is only embedded again.
    """
    caller.require(Right.READ)
    caller.require(Right.WRITE)
    return await _regenerate(engine, caller, ref, is_requested=True)


async def delete_segment(engine: Engine, caller: Caller, ref: Ref) -> None:
    """Delete a memory, its words and its vectors permanently; its messages stay."""
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        inside = replace(caller, thread_id=await segments.thread_of(db, caller, ref))
        await supersession.lock_supersession(db, caller.workspace_id)
        memory_id = await memories.lock(db, inside, ref)
        if memory_id is None:
            raise NotFound("memory")
        await remove_rows(engine, db, caller, [memory_id])


# Automatic segmentation.


async def segment_threads(engine: Engine, workspace_id: WorkspaceId, beat: Heartbeat) -> None:
    """Close the finished segments of a workspace and update the summaries of changed ones.

    Work beyond the time limit goes to another job, behind those of other workspaces. Raises
    `Unavailable` while the embedder is down; the next run continues.
    """
    caller = await system_caller(engine, workspace_id, ACTOR)
    ends = monotonic() + _MAX_SECONDS
    failure: Unavailable | None = None
    failed = 0
    async for due in _due_threads(engine, caller):
        # Act as the thread's owner, who can see it even if others cannot.
        acting = replace(caller, user_id=due.owner or caller.user_id)
        try:
            await _segment(engine, acting, due.thread_id, beat)
            failed = 0
        except Unavailable as error:
            failure, failed = error, failed + 1
        if failed == _MAX_FAILURES_IN_A_ROW or monotonic() > ends:
            break
        await beat()
    is_fresh = await _refresh_stale(engine, caller, beat, ends)
    if failure:
        raise failure
    async with engine.writing(caller) as db:
        now = engine.now()
        due_at = await segments.next_due(db, workspace_id) if is_fresh else now
        if due_at:
            later = NewJob(SEGMENT_JOB, dedupe_key="later", run_after=max(due_at, now))
            await job_queue.enqueue(db, workspace_id, [later], now)


async def _due_threads(engine: Engine, caller: Caller) -> AsyncGenerator[DueThread]:
    """Yield the due threads, each once; one that fails is retried in a later run."""
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
    """Return how a thread would be segmented from its beginning; the last segment may be open."""
    caller.require(Right.READ)
    planned: list[PlannedSegment] = []
    beyond: MessagePosition | None = None
    located = await _locate(engine, caller, thread)
    while True:
        async with engine.reading(caller) as db:
            batch = await messages.page(
                db, caller, located.id, beyond=beyond, limit=messages_to_read(rules)
            )
        found = await segment_ends_of(engine, caller.workspace_id, batch, rules)
        begin = 0
        for cut in found:
            planned.append(PlannedSegment(cut.length, cut.reason, cut.note))
            begin += cut.length
        if len(batch) < messages_to_read(rules):
            if begin < len(batch):
                planned.append(PlannedSegment(len(batch) - begin, None, "not closed yet"))
            return planned
        beyond = batch[begin - 1].sort_position


async def resegment(engine: Engine, caller: Caller, thread: Ref) -> int:
    """Delete the automatic segments of a thread and segment it again by the current rules.

    Memories made by hand stay. Returns the number of deleted segments.
    """
    caller.require(Right.WRITE)
    caller.require(Right.DELETE)
    async with engine.writing(caller) as db:
        locked = await lock_thread(engine, db, caller, thread)
        await supersession.lock_supersession(db, caller.workspace_id)
        ids = await segments.cut_memories(db, caller.workspace_id, locked.id)
        await remove_rows(engine, db, caller, ids)
        await segments.close_until(db, caller.workspace_id, locked.id, None)
        await segments.schedule(db, caller.workspace_id, locked.id, engine.now())
        await job_queue.enqueue(db, caller.workspace_id, [NewJob(SEGMENT_JOB)], engine.now())
    return len(ids)


async def _segment(engine: Engine, caller: Caller, thread_id: ThreadId, beat: Heartbeat) -> None:
    rules = engine.segment_rules
    while True:
        async with engine.writing(caller) as db:
            locked = await messages.lock_thread(db, caller, Ref(id=thread_id), engine.now())
            if locked is None or rules is None:
                await segments.schedule(db, caller.workspace_id, thread_id, None)
                return
            joined = await segments.stale_in(db, caller.workspace_id, thread_id)
            batch = await messages.page(
                db, caller, thread_id, beyond=locked.frontier, limit=messages_to_read(rules)
            )
        found = await segment_ends_of(engine, caller.workspace_id, batch, rules)
        if not found:
            found = _end_by_silence(engine, locked, batch, rules)
        if not found:
            is_split = all(
                [await split_late_messages(engine, caller, each, rules, beat) for each in joined]
            )
            if is_split and await _schedule_next(engine, caller, locked, batch, rules):
                return
            continue
        frontier, begin = locked.frontier, 0
        for cut in found:
            part = batch[begin : begin + cut.length]
            if not await _store_if_unchanged(engine, caller, thread_id, frontier, part, cut):
                break
            frontier, begin = part[-1].sort_position, begin + cut.length
            await beat()


def _end_by_silence(
    engine: Engine, locked: LockedThread, batch: Sequence[Message], rules: SegmentRules
) -> list[SegmentEnd]:
    if not batch or locked.heard_at is None:
        return []
    silence = engine.now() - locked.heard_at
    if silence <= rules.max_pause:
        return []
    last = batch[-1]
    message = SegmenterMessage(last.content, speaker_of(last), last.created_at)
    return [idle(message, len(batch), silence)]


async def _schedule_next(
    engine: Engine,
    caller: Caller,
    locked: LockedThread,
    batch: Sequence[Message],
    rules: SegmentRules,
) -> bool:
    """Schedule the thread for the end of the pause; return False if a message arrived meanwhile."""
    async with engine.writing(caller) as db:
        now = await messages.lock_thread(db, caller, Ref(id=locked.id), engine.now())
        if now != locked:
            return now is None
        due_at = None
        if batch and locked.heard_at:
            due_at = locked.heard_at + rules.max_pause + timedelta(milliseconds=1)
        await segments.schedule(db, caller.workspace_id, locked.id, due_at)
        return True


async def _store_if_unchanged(
    engine: Engine,
    caller: Caller,
    thread_id: ThreadId,
    frontier: MessagePosition | None,
    batch: Sequence[Message],
    cut: SegmentEnd,
) -> bool:
    """Store a segment as a memory; return False if the thread has changed since it was read."""
    summary = await summarise(engine, caller.workspace_id, batch)
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        locked = await messages.lock_thread(db, caller, Ref(id=thread_id), engine.now())
        if locked is None or locked.frontier != frontier:
            return False
        current = await messages.marks(
            db, caller.workspace_id, thread_id, beyond=frontier, limit=len(batch)
        )
        if current != marks_of(batch):
            return False
        async with pipeline(db):
            await segments.close_until(db, caller.workspace_id, thread_id, batch[-1].sort_position)
            await store_segment(
                engine, db, caller, locked, batch, cut.reason, summary, embedded, is_cut=True
            )
        return True


async def _refresh_stale(engine: Engine, caller: Caller, beat: Heartbeat, ends: float) -> bool:
    """Update changed summaries; return False if the time limit ends before all are done."""
    while True:
        async with engine.reading(caller) as db:
            found = await segments.stale_segments(
                db, caller.workspace_id, engine.now(), limit=_THREADS_AT_ONCE
            )
        for each in found:
            acting = replace(caller, user_id=each.owner or caller.user_id)
            try:
                await _regenerate(engine, acting, Ref(id=each.memory_id), is_requested=False)
            except NotFound:  # hidden or deleted: there is no summary to update
                async with engine.writing(caller) as db:
                    locked = await messages.lock_thread(
                        db, acting, Ref(id=each.thread_id), engine.now()
                    )
                    await _mark_fresh(engine, db, caller, locked, each.memory_id)
            await beat()
            if monotonic() > ends:
                return False
        if len(found) < _THREADS_AT_ONCE:
            return True


# Shared by both.


async def _regenerate(
    engine: Engine, caller: Caller, ref: Ref, *, is_requested: bool
) -> SegmentMemory:
    """Summarise and embed again; unless requested, keep a text that a person wrote."""
    for _ in range(_TRIES):
        async with engine.reading(caller) as db:
            before = await _existing(engine, db, caller, ref)
            batch = await messages.of_memory(db, caller, before.id)
            is_generated = await _is_generated(db, before)
        summary = (
            await summarise(engine, caller.workspace_id, batch)
            if batch and (is_generated or is_requested)
            else None
        )
        text = summary.text if summary else before.content
        embedded = await generations.embed_changed_text(engine, caller.workspace_id, text)
        async with engine.writing(caller) as db:
            locked = None
            if before.thread_id:
                locked = await messages.lock_thread(
                    db, caller, Ref(id=before.thread_id), engine.now()
                )
            memory = await _lock_unchanged(engine, db, caller, before, batch)
            if memory is None:
                continue
            if summary and (is_requested or summary.text != memory.content):
                # An old generated text is not kept: it may contain messages deleted since.
                if not is_generated:
                    await past_texts.insert(db, memory, engine.now())
                memory = await _rewrite(engine, db, caller, memory, summary)
            await _embed_again(engine, db, memory, embedded)
            await _mark_fresh(engine, db, caller, locked, memory.id)
            return await _with_messages(db, caller, memory)
    raise Conflict("The messages keep changing. Try again.", is_temporary=True)


async def _lock_unchanged(
    engine: Engine, db: Db, caller: Caller, before: Memory, batch: Sequence[Message]
) -> Memory | None:
    """Lock the memory and return it, or None if it or its messages have changed since."""
    inside = replace(caller, thread_id=before.thread_id)
    await memories.lock(db, inside, Ref(id=before.id))
    memory = await _existing(engine, db, caller, Ref(id=before.id))
    current = await messages.of_memory(db, caller, memory.id)
    is_same = memory.version == before.version and marks_of(current) == marks_of(batch)
    return memory if is_same else None


async def _mark_fresh(
    engine: Engine, db: Db, caller: Caller, locked: LockedThread | None, memory_id: MemoryId
) -> None:
    """Mark a memory as up to date.

    Not while the thread is due: late messages may have joined that belong to another segment, and
    the segmenter separates those first.
    """
    if locked is None or not locked.is_due(engine.now()):
        await segments.mark_fresh(db, caller.workspace_id, memory_id)


async def _is_generated(db: Db, memory: Memory) -> bool:
    """Whether its text was generated and never edited."""
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
    engine: Engine, db: Db, memory: Memory, embedded: generations.ReplacedText | None
) -> None:
    if embedded is None:
        await job_queue.enqueue(db, memory.workspace_id, [generations.EMBED_JOB], engine.now())
    else:
        await generations.store_changed_vector(engine, db, memory.workspace_id, memory.id, embedded)


async def _with_messages(db: Db, caller: Caller, memory: Memory) -> SegmentMemory:
    batch = await messages.of_memory(db, caller, memory.id)
    attached = await files.of_messages(db, caller.workspace_id, [each.id for each in batch])
    embedding = await vectors.of_memory(db, caller.workspace_id, memory.id)
    return SegmentMemory(memory, batch, attached, embedding)


async def _with_counts(
    db: Db, workspace_id: WorkspaceId, found: Sequence[Memory]
) -> list[SegmentWithCount]:
    counts = await segments.message_counts(db, workspace_id, [each.id for each in found])
    return [SegmentWithCount(each, counts.get(each.id, 0)) for each in found]


async def _find_named(
    db: Db, caller: Caller, thread_id: ThreadId, refs: Sequence[Ref]
) -> list[Message]:
    """Return the requested messages, each once, in order; all must be in this thread."""
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
