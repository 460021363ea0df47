"""What comes late in a conversation, and whether it is of the stretch that it has joined.

It is linked at once to the closed stretch next to it, so that no message is ever of none. Whether
it is of that stretch is seen here, before the stretch is summarised anew.
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
    engine: Engine, caller: Caller, stretch: MessageRange, rules: SegmentRules, beat: Heartbeat
) -> bool:
    """Make stretches of their own of what has joined a closed one and is not of it.

    False when that is no longer as it was read.
    """
    async with engine.reading(caller) as db:
        origin = await segments.first_heard(db, caller.workspace_id, stretch.memory_id)
        if origin is None:
            return True
        reach = 2 * rules.max_messages
        around = await segments.around(
            db, caller.workspace_id, stretch.thread_id, origin, reach=reach
        )
    own = _unbroken(around, stretch, origin)
    if not own:
        return False
    first, last = core(own, origin, rules)
    return await _cut_between(
        engine, caller, stretch, rules, beat, before=first
    ) and await _cut_between(engine, caller, stretch, rules, beat, beyond=last)


def _unbroken(
    around: Sequence[LinkedSegment], stretch: MessageRange, origin: MessagePosition
) -> list[MessagePosition]:
    """Where those of a stretch stand between which and the origin no other stretch lies."""
    ours = {None, stretch.memory_id}
    for _, group in groupby(around, lambda each: each.memory_id in ours):
        places = [each.place for each in group if each.memory_id == stretch.memory_id]
        if origin in places:
            return places
    return []


async def _cut_between(
    engine: Engine,
    caller: Caller,
    stretch: MessageRange,
    rules: SegmentRules,
    beat: Heartbeat,
    *,
    beyond: MessagePosition | None = None,
    before: MessagePosition | None = None,
) -> bool:
    while True:
        async with engine.reading(caller) as db:
            said = await messages.messages_in_range(
                db, caller, stretch, beyond=beyond, before=before, limit=messages_to_read(rules)
            )
            said = await _until_others(db, caller, stretch, said)
        if not said:
            return True
        is_all = len(said) < messages_to_read(rules)
        for cut in await segment_ends_of(engine, caller.workspace_id, said, rules):
            strays, said = said[: cut.length], said[cut.length :]
            if not await _cut_off(engine, caller, stretch, strays, cut):
                return False
            beyond = strays[-1].sort_position
            await beat()
        # Of a full page the rest is looked at again, with what comes after it.
        if is_all and said:
            if not await _cut_off_rest(engine, caller, stretch, said, rules):
                return False
            beyond = said[-1].sort_position


async def _until_others(
    db: Db, caller: Caller, stretch: MessageRange, said: Sequence[Message]
) -> Sequence[Message]:
    """Those before the first message of another stretch, which may have been cut from this one."""
    if not said:
        return said
    first, last = said[0].sort_position, said[-1].sort_position
    other = await segments.others_within(db, caller.workspace_id, stretch, first, last)
    if other is None:
        return said
    wall = other.at, other.position
    return [each for each in said if (each.created_at, each.position) < wall]


async def _cut_off_rest(
    engine: Engine,
    caller: Caller,
    stretch: MessageRange,
    said: Sequence[Message],
    rules: SegmentRules,
) -> bool:
    """What no rule has ended is of the stretch behind it if that has room, else one of its own."""
    last, ids = said[-1], [each.id for each in said]
    async with engine.writing(caller) as db:
        if await _held_as_read(engine, db, caller, stretch, said) is None:
            return False
        behind = await segments.late_messages(
            db, caller.workspace_id, stretch.thread_id, last.sort_position
        )
        silence = (behind.at if behind else engine.now()) - last.created_at
        if (
            behind
            and behind.memory_id != stretch.memory_id
            and behind.messages + len(said) <= rules.max_messages
            and silence <= rules.max_pause
        ):
            await segments.unlink(db, caller.workspace_id, stretch.memory_id, ids)
            await segments.join(db, caller.workspace_id, dict.fromkeys(ids, behind.memory_id))
            return True
    heard = SegmenterMessage(last.content, speaker_of(last), last.created_at)
    cut = end_after_pause(heard, len(said), silence, rules)
    return await _cut_off(engine, caller, stretch, said, cut)


async def _cut_off(
    engine: Engine, caller: Caller, stretch: MessageRange, said: Sequence[Message], cut: SegmentEnd
) -> bool:
    """Make a memory of what has joined a stretch; False when that is no longer as it was read."""
    summary = await summarise(engine, caller.workspace_id, said)
    embedded = await generations.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        held = await _held_as_read(engine, db, caller, stretch, said)
        if held is None:
            return False
        async with pipeline(db):
            await segments.unlink(
                db, caller.workspace_id, stretch.memory_id, [each.id for each in said]
            )
            await store_segment(
                engine, db, caller, held, said, cut.reason, summary, embedded, is_cut=True
            )
        return True


async def _held_as_read(
    engine: Engine, db: Db, caller: Caller, stretch: MessageRange, said: Sequence[Message]
) -> LockedThread | None:
    """The thread, held; None if the stretch has not just these, unedited, from first to last."""
    held = await messages.lock_thread(db, caller, Ref(id=stretch.thread_id), engine.now())
    first, last = said[0].sort_position, said[-1].sort_position
    still = await segments.marks_within(
        db, caller.workspace_id, stretch, first, last, limit=len(said) + 1
    )
    return held if still == marks_of(said) else None
