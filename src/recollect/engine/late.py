"""What comes late in a conversation, and whether it is of the stretch that it has joined.

It is linked at once to the closed stretch next to it, so that no message is ever of none. Whether
it is of that stretch is seen here, before the stretch is summarised anew.
"""

from collections.abc import Sequence
from itertools import groupby

from recollect.domain import Caller, Message, Place, Ref
from recollect.engine import spaces
from recollect.engine.core import Engine
from recollect.engine.cutting import ahead, cuts_of
from recollect.engine.segmentation import Cut, Heard, Rules, core, parted
from recollect.engine.spaces import Heartbeat
from recollect.engine.stretches import keep, marks_of
from recollect.engine.summaries import speaker_of, summarise
from recollect.store import messages, segments
from recollect.store.messages import Held
from recollect.store.pool import Db, together
from recollect.store.segments import Linked, Stretch


async def part_late(
    engine: Engine, caller: Caller, stretch: Stretch, rules: Rules, beat: Heartbeat
) -> bool:
    """Make stretches of their own of what has joined a closed one and is not of it.

    False when that is no longer as it was read.
    """
    async with engine.reading(caller) as db:
        origin = await segments.first_heard(db, caller.workspace_id, stretch.memory_id)
        if origin is None:
            return True
        reach = 2 * rules.most_messages
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


def _unbroken(around: Sequence[Linked], stretch: Stretch, origin: Place) -> list[Place]:
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
    stretch: Stretch,
    rules: Rules,
    beat: Heartbeat,
    *,
    beyond: Place | None = None,
    before: Place | None = None,
) -> bool:
    while True:
        async with engine.reading(caller) as db:
            said = await messages.of_stretch(
                db, caller, stretch, beyond=beyond, before=before, limit=ahead(rules)
            )
            said = await _until_others(db, caller, stretch, said)
        if not said:
            return True
        is_all = len(said) < ahead(rules)
        for cut in await cuts_of(engine, caller.workspace_id, said, rules):
            strays, said = said[: cut.length], said[cut.length :]
            if not await _cut_off(engine, caller, stretch, strays, cut):
                return False
            beyond = strays[-1].place
            await beat()
        # Of a full page the rest is looked at again, with what comes after it.
        if is_all and said:
            if not await _cut_off_rest(engine, caller, stretch, said, rules):
                return False
            beyond = said[-1].place


async def _until_others(
    db: Db, caller: Caller, stretch: Stretch, said: Sequence[Message]
) -> Sequence[Message]:
    """Those before the first message of another stretch, which may have been cut from this one."""
    if not said:
        return said
    first, last = said[0].place, said[-1].place
    other = await segments.others_within(db, caller.workspace_id, stretch, first, last)
    if other is None:
        return said
    wall = other.at, other.position
    return [each for each in said if (each.created_at, each.position) < wall]


async def _cut_off_rest(
    engine: Engine, caller: Caller, stretch: Stretch, said: Sequence[Message], rules: Rules
) -> bool:
    """What no rule has ended is of the stretch behind it if that has room, else one of its own."""
    last, ids = said[-1], [each.id for each in said]
    async with engine.writing(caller) as db:
        if await _held_as_read(engine, db, caller, stretch, said) is None:
            return False
        behind = await segments.behind(db, caller.workspace_id, stretch.thread_id, last.place)
        silence = (behind.at if behind else engine.now()) - last.created_at
        if (
            behind
            and behind.memory_id != stretch.memory_id
            and behind.messages + len(said) <= rules.most_messages
            and silence <= rules.longest_pause
        ):
            await segments.unlink(db, caller.workspace_id, stretch.memory_id, ids)
            await segments.join(db, caller.workspace_id, dict.fromkeys(ids, behind.memory_id))
            return True
    heard = Heard(last.content, speaker_of(last), last.created_at)
    cut = parted(heard, len(said), silence, rules)
    return await _cut_off(engine, caller, stretch, said, cut)


async def _cut_off(
    engine: Engine, caller: Caller, stretch: Stretch, said: Sequence[Message], cut: Cut
) -> bool:
    """Make a memory of what has joined a stretch; False when that is no longer as it was read."""
    summary = await summarise(engine, caller.workspace_id, said)
    embedded = await spaces.embed_passage(engine, caller.workspace_id, summary.text)
    async with engine.writing(caller) as db:
        held = await _held_as_read(engine, db, caller, stretch, said)
        if held is None:
            return False
        async with together(db):
            await segments.unlink(
                db, caller.workspace_id, stretch.memory_id, [each.id for each in said]
            )
            await keep(engine, db, caller, held, said, cut.reason, summary, embedded, is_cut=True)
        return True


async def _held_as_read(
    engine: Engine, db: Db, caller: Caller, stretch: Stretch, said: Sequence[Message]
) -> Held | None:
    """The thread, held; None if the stretch has not just these, unedited, from first to last."""
    held = await messages.hold(db, caller, Ref(id=stretch.thread_id), engine.now())
    first, last = said[0].place, said[-1].place
    still = await segments.marks_within(
        db, caller.workspace_id, stretch, first, last, limit=len(said) + 1
    )
    return held if still == marks_of(said) else None
