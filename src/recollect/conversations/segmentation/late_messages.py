"""Messages that arrive late: decide whether they belong to the segment they were added to.

A late message is linked at once to the nearest closed segment, so that every message has one. This
module checks the link before the segment is summarised again.
"""

from collections.abc import Sequence
from itertools import groupby

from recollect.conversations.queries import messages, segments
from recollect.conversations.queries.messages import LockedThread
from recollect.conversations.queries.segments import LinkedSegment, MessageRange
from recollect.conversations.segmentation.boundaries import (
    SegmentEnd,
    SegmenterMessage,
    core,
    end_after_pause,
)
from recollect.conversations.segmentation.message_vectors import messages_to_read, segment_ends_of
from recollect.conversations.segmentation.segment_memories import marks_of, store_segment
from recollect.conversations.summaries import speaker_of, summarise
from recollect.core.domain import Caller, Message, MessagePosition, Ref, SegmentRules
from recollect.db.pool import Db, pipeline
from recollect.embeddings import generations
from recollect.embeddings.generations import Heartbeat
from recollect.engine import Engine


async def split_late_messages(
    engine: Engine, caller: Caller, segment: MessageRange, rules: SegmentRules, beat: Heartbeat
) -> bool:
    """Move late messages that do not belong to a segment into segments of their own.

    Returns False if the segment has changed since it was read.
    """
    async with engine.reading(caller) as db:
        origin = await segments.first_received(db, caller.workspace_id, segment.memory_id)
        if origin is None:
            return True
        reach = 2 * rules.max_messages
        around = await segments.around(
            db, caller.workspace_id, segment.thread_id, origin, reach=reach
        )
    own = _uninterrupted(around, segment, origin)
    if not own:
        return False
    first, last = core(own, origin, rules)
    return await _cut_between(
        engine, caller, segment, rules, beat, before=first
    ) and await _cut_between(engine, caller, segment, rules, beat, beyond=last)


def _uninterrupted(
    around: Sequence[LinkedSegment], segment: MessageRange, origin: MessagePosition
) -> list[MessagePosition]:
    """Return the segment's messages around the origin that no other segment interrupts."""
    own_ids = {None, segment.memory_id}
    for _, group in groupby(around, lambda each: each.memory_id in own_ids):
        positions = [each.thread_position for each in group if each.memory_id == segment.memory_id]
        if origin in positions:
            return positions
    return []


async def _cut_between(
    engine: Engine,
    caller: Caller,
    segment: MessageRange,
    rules: SegmentRules,
    beat: Heartbeat,
    *,
    beyond: MessagePosition | None = None,
    before: MessagePosition | None = None,
) -> bool:
    while True:
        async with engine.reading(caller) as db:
            batch = await messages.messages_in_range(
                db, caller, segment, beyond=beyond, before=before, limit=messages_to_read(rules)
            )
            batch = await _before_other_segment(db, caller, segment, batch)
        if not batch:
            return True
        is_all = len(batch) < messages_to_read(rules)
        for cut in await segment_ends_of(engine, caller.workspace_id, batch, rules):
            separate, batch = batch[: cut.length], batch[cut.length :]
            if not await _store_separately(engine, caller, segment, separate, cut):
                return False
            beyond = separate[-1].sort_position
            await beat()
        # The rest of a full page is read again, together with the messages after it.
        if is_all and batch:
            if not await _move_rest(engine, caller, segment, batch, rules):
                return False
            beyond = batch[-1].sort_position


async def _before_other_segment(
    db: Db, caller: Caller, segment: MessageRange, batch: Sequence[Message]
) -> Sequence[Message]:
    """Return the messages before the first one of another segment, which may split this one."""
    if not batch:
        return batch
    first, last = batch[0].sort_position, batch[-1].sort_position
    other = await segments.others_within(db, caller.workspace_id, segment, first, last)
    if other is None:
        return batch
    end = other.at, other.position
    return [each for each in batch if (each.created_at, each.position) < end]


async def _move_rest(
    engine: Engine,
    caller: Caller,
    segment: MessageRange,
    batch: Sequence[Message],
    rules: SegmentRules,
) -> bool:
    """Move the remaining messages to the next segment if they fit, else into one of their own."""
    last, ids = batch[-1], [each.id for each in batch]
    async with engine.writing(caller) as db:
        if await _lock_if_unchanged(engine, db, caller, segment, batch) is None:
            return False
        next_segment = await segments.late_messages(
            db, caller.workspace_id, segment.thread_id, last.sort_position
        )
        silence = (next_segment.at if next_segment else engine.now()) - last.created_at
        if (
            next_segment
            and next_segment.memory_id != segment.memory_id
            and next_segment.messages + len(batch) <= rules.max_messages
            and silence <= rules.max_pause
        ):
            await segments.unlink(db, caller.workspace_id, segment.memory_id, ids)
            await segments.join(db, caller.workspace_id, dict.fromkeys(ids, next_segment.memory_id))
            return True
    last_message = SegmenterMessage(last.content, speaker_of(last), last.created_at)
    cut = end_after_pause(last_message, len(batch), silence, rules)
    return await _store_separately(engine, caller, segment, batch, cut)


async def _store_separately(
    engine: Engine, caller: Caller, segment: MessageRange, batch: Sequence[Message], cut: SegmentEnd
) -> bool:
    """Store late messages as a memory; return False if they have changed since they were read."""
    summary = await summarise(engine, caller.workspace_id, batch)
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        locked = await _lock_if_unchanged(engine, db, caller, segment, batch)
        if locked is None:
            return False
        async with pipeline(db):
            await segments.unlink(
                db, caller.workspace_id, segment.memory_id, [each.id for each in batch]
            )
            await store_segment(
                engine, db, caller, locked, batch, cut.reason, summary, embedded, is_cut=True
            )
        return True


async def _lock_if_unchanged(
    engine: Engine, db: Db, caller: Caller, segment: MessageRange, batch: Sequence[Message]
) -> LockedThread | None:
    """Lock the thread; return None if the segment's messages in this range have changed."""
    locked = await messages.lock_thread(db, caller, Ref(id=segment.thread_id), engine.now())
    first, last = batch[0].sort_position, batch[-1].sort_position
    current = await segments.marks_within(
        db, caller.workspace_id, segment, first, last, limit=len(batch) + 1
    )
    return locked if current == marks_of(batch) else None
