"""Memories made of messages, by the segmenter and on request."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recollect.conversations.messages import (
    EditMessage,
    ListMessages,
    NewMessage,
    append,
    clear_messages,
    delete_message,
    edit_message,
    list_messages,
)
from recollect.conversations.queries import messages
from recollect.conversations.segments import (
    MakeSegment,
    SegmentMemory,
    delete_segment,
    get_segment,
    list_segments,
    make_segment,
    plan_segments,
    regenerate_segment,
    resegment,
    search_segments,
    segment_threads,
)
from recollect.core.domain import (
    Caller,
    Memory,
    Message,
    Origin,
    Ref,
    Right,
    Scope,
    SegmentReason,
    SegmentRules,
    Thread,
    View,
)
from recollect.core.errors import Denied, NotFound, Unavailable
from recollect.engine import Engine
from recollect.memories.edit import EditMemory, edit
from recollect.memories.forget import forget
from recollect.memories.queries import memories
from recollect.memories.queries import past_texts as past
from recollect.memories.save import Save, save
from recollect.models.chat_model import ChatRoute
from recollect.models.chat_registry import ChatModels
from recollect.models.embedder import Purpose, Vector
from recollect.models.embedder_registry import Embedders
from tests.support.clock import Clock
from tests.support.conversations import ScriptedChat, add_messages, alternating_messages, new_chat
from tests.support.embedder import StubEmbedder, at_cosine
from tests.support.instance import new_caller
from tests.support.tools import fetch_rows

pytestmark = pytest.mark.anyio

RULES = SegmentRules(max_messages=6)


@pytest.fixture
def engine(engine: Engine) -> Engine:
    return replace(engine, segment_rules=RULES)


@pytest.fixture
async def chat(engine: Engine, caller: Caller) -> Thread:
    return await new_chat(engine, caller)


@pytest.fixture
def embedder() -> StubEmbedder:
    """Texts about cats are on one topic, and all others on another."""
    return OneTopic()


class OneTopic(StubEmbedder):
    def _vector(self, text: str) -> Any:
        return at_cosine(0.0 if "cats" in text else 1.0)


async def no_heartbeat() -> None:
    pass


async def work(engine: Engine, caller: Caller) -> None:
    await segment_threads(engine, caller.workspace_id, no_heartbeat)


async def segments_of(engine: Engine, caller: Caller, chat: Thread) -> list[SegmentMemory]:
    _, found, _ = await list_segments(engine, caller, Ref(id=chat.id), start=0, limit=None)
    return [await get_segment(engine, caller, Ref(id=each.memory.id)) for each in found]


def reasons_and_texts(found: list[SegmentMemory]) -> list[tuple[str | None, list[str]]]:
    """Return reason and texts of each segment, in chat order (the clock of the tests stands still)."""
    in_order = sorted(found, key=lambda each: each.messages[0].position)
    return [(each.memory.reason, [said.content for said in each.messages]) for each in in_order]


def statements(count: int, about: str = "the quarterly numbers") -> list[str]:
    return [f"Point {number} is about {about} of the company" for number in range(count)]


async def test_R135_the_sixth_message_makes_a_memory_of_six(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    texts = statements(6)
    await add_messages(engine, caller, chat, *texts[:5])
    await work(engine, caller)
    assert await segments_of(engine, caller, chat) == []

    await add_messages(engine, caller, chat, texts[5])
    await work(engine, caller)

    [found] = await segments_of(engine, caller, chat)
    assert (found.memory.reason, len(found.messages)) == (SegmentReason.LENGTH, 6)
    assert found.memory.scope is Scope.THREAD


async def test_a_long_segmentation_job_ends_and_another_continues(
    engine: Engine, caller: Caller, chat: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.conversations.segments._MAX_SECONDS", 0.0)
    other = await new_chat(engine, caller)
    for each in (chat, other):
        await add_messages(engine, caller, each, *statements(6))

    await work(engine, caller)

    done = [len(await segments_of(engine, caller, each)) for each in (chat, other)]
    assert sorted(done) == [0, 1]
    waiting = await fetch_rows(
        engine,
        "SELECT run_after FROM job WHERE workspace_id = %s AND kind = 'segment_threads'"
        " AND dedupe_key = 'later'",
        caller.workspace_id,
    )
    assert [tuple(each) for each in waiting] == [(engine.now(),)]

    await work(engine, caller)
    assert [len(await segments_of(engine, caller, each)) for each in (chat, other)] == [1, 1]


async def test_a_segment_has_the_time_of_its_last_message(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    then = clock() - timedelta(days=400)
    said = await add_messages(engine, caller, chat, *statements(6), at=then)
    [named] = await add_messages(
        engine, caller, chat, "A clock that goes wrong", at=clock() + timedelta(1)
    )

    await work(engine, caller)
    by_hand = await make_segment(
        engine, caller, Ref(id=chat.id), MakeSegment([Ref(id=said[0].id)], "The first point")
    )
    of_tomorrow = await make_segment(
        engine, caller, Ref(id=chat.id), MakeSegment([Ref(id=named.id)], "What is said tomorrow")
    )

    last = said[-1].created_at
    found = [each.memory for each in await segments_of(engine, caller, chat)]
    cut = next(each for each in found if each.origin is Origin.AUTO)
    assert (cut.created_at, cut.valid_from, cut.updated_at) == (last, last, clock())
    # A segment made on request has the time of the request.
    assert (by_hand.memory.created_at, by_hand.memory.valid_from) == (clock(), then)
    # A segment of a message dated tomorrow is visible today.
    assert of_tomorrow.memory.valid_from == clock()
    async with engine.reading(caller) as db:
        inside = replace(caller, thread_id=chat.id)
        ids = [cut.id]
        before = View(as_of=last - timedelta(seconds=1))
        assert not await memories.find_all(db, inside, ids, clock(), before)
        assert await memories.find_all(db, inside, ids, clock(), View(as_of=last))


async def test_R134_a_change_of_topic_makes_a_memory_of_the_messages_before_it(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    texts = statements(3)
    await add_messages(
        engine, caller, chat, *texts, "Some cats are grey and some are black or white"
    )

    await work(engine, caller)

    assert reasons_and_texts(await segments_of(engine, caller, chat)) == [
        (SegmentReason.TOPIC, texts)
    ]


async def test_R133_a_closing_exchange_makes_a_memory(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    texts = [*statements(2), "Thanks, that is all!", "You're welcome!"]
    await add_messages(engine, caller, chat, *texts)

    await work(engine, caller)

    assert reasons_and_texts(await segments_of(engine, caller, chat)) == [
        (SegmentReason.COMPLETED, texts)
    ]


async def test_history_is_cut_the_same_one_by_one_or_at_once(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    year_ago = clock.at - timedelta(days=365)
    new = alternating_messages([*statements(4), *statements(8, "our cats")], year_ago)
    other = await new_chat(engine, caller)

    for each in new:
        await append(engine, caller, Ref(id=chat.id), [each])
        await work(engine, caller)
    await append(engine, caller, Ref(id=other.id), new)
    await work(engine, caller)

    assert reasons_and_texts(await segments_of(engine, caller, chat)) == reasons_and_texts(
        await segments_of(engine, caller, other)
    )


async def test_concurrent_workers_put_every_message_in_one_segment(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    texts = statements(20)
    await add_messages(engine, caller, chat, *texts)

    await asyncio.gather(*(work(engine, caller) for _ in range(4)))

    found = await segments_of(engine, caller, chat)
    assert [content for _, said in reasons_and_texts(found) for content in said] == texts[:18]


async def test_a_late_message_joins_the_closed_segment_of_its_time(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(8)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await work(engine, caller)
    before = await segments_of(engine, caller, chat)

    late = "Late remark 77 is about the quarterly numbers of Lisbon"
    await add_messages(engine, caller, chat, late, at=clock.at + timedelta(seconds=45))
    await work(engine, caller)

    [found] = await segments_of(engine, caller, chat)
    assert [each.content for each in found.messages] == [texts[0], texts[1], late, *texts[2:6]]
    assert found.memory.id == before[0].memory.id
    assert late in found.memory.content


async def closed_segments(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> list[list[str]]:
    """Close all segments by a long pause, and return the texts of each, in chat order."""
    await work(engine, caller)
    clock.advance(timedelta(minutes=40))
    await work(engine, caller)
    found = [each.messages for each in await segments_of(engine, caller, chat)]
    return [
        [message.content for message in said]
        for said in sorted(found, key=lambda said: (said[0].created_at, said[0].position))
    ]


async def test_late_messages_just_before_a_segment_all_join_it(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(3)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    assert await closed_segments(engine, caller, chat, clock) == [texts]
    [before] = await segments_of(engine, caller, chat)
    early = clock.at - timedelta(minutes=60)
    late = alternating_messages(
        ["Late 0 of the numbers", "Late 1 of the numbers", "Late 2 of the numbers"], early
    )

    await append(engine, caller, Ref(id=chat.id), [late[1], late[0], late[2]])

    found = await closed_segments(engine, caller, chat, clock)
    assert found == [[*(each.content for each in late), *texts]]
    [after] = await segments_of(engine, caller, chat)
    assert after.memory.id == before.memory.id
    assert "Late 0" in after.memory.content


async def test_late_history_of_a_year_ago_is_cut_and_closed_segments_stay(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(3)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await closed_segments(engine, caller, chat, clock)
    [before] = await segments_of(engine, caller, chat)
    year_ago = clock.at - timedelta(days=365)
    history = [
        *alternating_messages(statements(8, "the harbour"), year_ago),
        *alternating_messages(statements(4, "our cats"), year_ago + timedelta(minutes=5)),
        *alternating_messages(statements(2, "the bridge"), year_ago + timedelta(days=1)),
    ]

    await append(engine, caller, Ref(id=chat.id), history)

    old = [each.content for each in history]
    expected = [old[:6], old[6:8], old[8:12], old[12:], texts]
    assert await closed_segments(engine, caller, chat, clock) == expected
    assert before.memory in [each.memory for each in await segments_of(engine, caller, chat)]


async def test_late_messages_before_a_full_segment_get_their_own_segment(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(6)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await work(engine, caller)
    [before] = await segments_of(engine, caller, chat)

    await add_messages(
        engine, caller, chat, "Early 0", "Early 1", at=clock.at - timedelta(minutes=1)
    )

    assert await closed_segments(engine, caller, chat, clock) == [["Early 0", "Early 1"], texts]
    reasons = {each.memory.reason for each in await segments_of(engine, caller, chat)}
    assert reasons == {SegmentReason.LENGTH}
    assert before.memory in [each.memory for each in await segments_of(engine, caller, chat)]


async def test_a_late_message_joins_the_nearer_segment(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    early, later = statements(3), statements(3, "the harbour")
    await add_messages(engine, caller, chat, *early, at=clock.at - timedelta(hours=5))
    await add_messages(engine, caller, chat, *later, at=clock.at)
    assert await closed_segments(engine, caller, chat, clock) == [early, later]

    await add_messages(engine, caller, chat, "And before", at=clock.at - timedelta(minutes=41))

    assert await closed_segments(engine, caller, chat, clock) == [early, ["And before", *later]]
    [found] = [each for each in await segments_of(engine, caller, chat) if len(each.messages) == 4]
    assert "And before" in found.memory.content


async def test_messages_after_one_dated_2099_are_not_late(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    far = clock.at.replace(year=2099)
    [odd] = await add_messages(engine, caller, chat, "A clock that goes wrong", at=far)
    assert await closed_segments(engine, caller, chat, clock) == [["A clock that goes wrong"]]

    texts = statements(8)
    for text in texts:
        clock.advance(timedelta(minutes=1))
        await add_messages(engine, caller, chat, text)
        await work(engine, caller)

    assert odd.created_at <= clock.at
    found = await closed_segments(engine, caller, chat, clock)
    assert found == [["A clock that goes wrong"], texts[:6], texts[6:]]


async def test_messages_after_a_stored_date_in_the_future_are_still_cut(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    await add_messages(engine, caller, chat, "A clock that goes wrong")
    async with engine.writing(caller) as db:
        await db.execute(
            "UPDATE message SET created_at = '2099-01-01' WHERE workspace_id = %s",
            [caller.workspace_id],
        )
    await closed_segments(engine, caller, chat, clock)

    texts = statements(20)
    for text in texts:
        clock.advance(timedelta(minutes=1))
        [said] = await add_messages(engine, caller, chat, text)
        assert said.created_at == clock.at
        await work(engine, caller)

    found = await closed_segments(engine, caller, chat, clock)
    assert [text for said in found for text in said] == [*texts, "A clock that goes wrong"]
    assert max(len(said) for said in found) <= RULES.max_messages


async def test_a_segment_that_gets_many_late_messages_is_divided(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(6)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await work(engine, caller)
    between = [f"Between {number:02} of the numbers" for number in range(40)]

    await add_messages(
        engine,
        caller,
        chat,
        *between,
        at=clock.at + timedelta(seconds=1),
        every=timedelta(milliseconds=1),
    )

    found = await closed_segments(engine, caller, chat, clock)
    assert [text for said in found for text in said] == [texts[0], *between, *texts[1:]]
    assert max(len(said) for said in found) < 2 * RULES.max_messages


class Interrupted(OneTopic):
    """Runs an action the first time it embeds a text."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: dict[str, Callable[[], Awaitable[object]]] = {}

    async def embed(
        self, texts: Sequence[str], purpose: Purpose, *, deadline: timedelta | None = None
    ) -> list[Vector]:
        for text in texts:
            if act := self.meanwhile.pop(text, None):
                await act()
        return await super().embed(texts, purpose, deadline=deadline)


async def test_messages_that_arrive_while_a_late_one_is_cut_do_not_enclose_it(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    embedder = Interrupted()
    engine = replace(engine, embedders=Embedders(embedder))
    texts = statements(6)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await work(engine, caller)
    start = clock.at

    async def meanwhile() -> None:
        for text, minutes in (("First", 25), ("Last", 10)):
            await add_messages(engine, caller, chat, text, at=start - timedelta(minutes=minutes))

    embedder.meanwhile["Middle"] = meanwhile
    await add_messages(engine, caller, chat, "Middle", at=start - timedelta(minutes=20))

    found = await closed_segments(engine, caller, chat, clock)
    assert found == [["First", "Middle"], ["Last"], texts]


async def test_concurrent_workers_and_senders_leave_each_late_message_in_one_segment(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(6)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await work(engine, caller)
    # A message every five minutes, sent by four clients in turn.
    day = clock.at - timedelta(days=2)
    history = alternating_messages(
        [f"Old {number:03}" for number in range(96)], day, timedelta(minutes=5)
    )

    async def send(number: int) -> None:
        for each in history[number::4]:
            await append(engine, caller, Ref(id=chat.id), [each])

    await asyncio.gather(
        *(send(number) for number in range(4)), *(work(engine, caller) for _ in range(4))
    )

    found = await closed_segments(engine, caller, chat, clock)
    assert [text for said in found for text in said] == [each.content for each in history] + texts
    assert max(len(said) for said in found) < 2 * RULES.max_messages


async def test_late_messages_near_a_deleted_segment_do_not_restore_it(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    gone, kept = statements(6), statements(6, "the harbour")
    await add_messages(engine, caller, chat, *gone, at=clock.at)
    await add_messages(engine, caller, chat, *kept, at=clock.at + timedelta(minutes=4))
    await work(engine, caller)
    found = await segments_of(engine, caller, chat)
    [first] = [each for each in found if each.messages[0].content == gone[0]]
    await delete_segment(engine, caller, Ref(id=first.memory.id))
    history = ["Once upon a time", "There was a house"]

    await add_messages(engine, caller, chat, *history, at=clock.at - timedelta(days=1))

    assert await closed_segments(engine, caller, chat, clock) == [history, kept]


async def test_a_late_message_near_a_forgotten_segment_gets_its_own_segment(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    await add_messages(engine, caller, chat, *statements(6), at=clock.at)
    await work(engine, caller)
    [cut] = await segments_of(engine, caller, chat)
    await forget(engine, replace(caller, thread_id=chat.id), Ref(id=cut.memory.id))

    await add_messages(engine, caller, chat, "Once upon a time", at=clock.at - timedelta(days=1))

    assert await closed_segments(engine, caller, chat, clock) == [["Once upon a time"]]


async def test_regenerating_before_the_segmenter_runs_does_not_block_it(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    texts = statements(3)
    await add_messages(engine, caller, chat, *texts, at=clock.at)
    await closed_segments(engine, caller, chat, clock)
    [cut] = await segments_of(engine, caller, chat)
    await add_messages(engine, caller, chat, "Once upon a time", at=clock.at - timedelta(days=1))

    await regenerate_segment(engine, caller, Ref(id=cut.memory.id))

    assert await closed_segments(engine, caller, chat, clock) == [["Once upon a time"], texts]
    again = await get_segment(engine, caller, Ref(id=cut.memory.id))
    assert "Once upon a time" not in again.memory.content


MINUTES = st.one_of(st.none(), st.integers(-400, 8))
SAID = st.lists(st.tuples(MINUTES, st.booleans()), min_size=1, max_size=15)


def timed_messages(
    said: list[tuple[int | None, bool]], start: datetime, begin: int = 0
) -> list[NewMessage]:
    """Return messages at these minutes, or without a time; about the numbers or about cats."""
    return [
        NewMessage(
            "user",
            f"Point {number} is about {'our cats' if of_cats else 'the numbers'} of the company",
            said_at=None if minute is None else start + timedelta(minutes=minute),
        )
        for number, (minute, of_cats) in enumerate(said, begin)
    ]


@given(st.lists(st.one_of(SAID, st.sampled_from(["work", "pause"])), min_size=2, max_size=8))
@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_segments_cover_the_chat_in_order_for_any_order_of_arrival(
    engine: Engine, clock: Clock, acts: list[list[tuple[int | None, bool]] | str]
) -> None:
    caller = await new_caller(engine)
    chat = await new_chat(engine, caller)
    start, count = clock.at, 0
    for act in acts:
        if isinstance(act, str):
            clock.advance(timedelta(minutes=35 if act == "pause" else 0))
            await work(engine, caller)
        else:
            await append(engine, caller, Ref(id=chat.id), timed_messages(act, start, count))
            count += len(act)

    found = await closed_segments(engine, caller, chat, clock)

    page = await list_messages(engine, caller, Ref(id=chat.id), ListMessages(limit=1_000))
    assert [text for said in found for text in said] == [each.content for each in page.messages]
    assert all(len(said) < 2 * RULES.max_messages for said in found)
    at = {each.content: each.created_at for each in page.messages}
    pauses = [at[later] - at[text] for said in found for text, later in pairwise(said)]
    assert max(pauses, default=timedelta()) <= RULES.max_pause


@given(SAID, SAID)
@settings(
    deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_late_messages_are_cut_the_same_one_by_one_or_at_once(
    engine: Engine,
    clock: Clock,
    first: list[tuple[int | None, bool]],
    late: list[tuple[int | None, bool]],
) -> None:
    caller = await new_caller(engine)
    chats = [await new_chat(engine, caller) for _ in range(2)]
    start = clock.at
    for chat in chats:
        await append(engine, caller, Ref(id=chat.id), timed_messages(first, start))
    clock.advance(timedelta(minutes=40))
    await work(engine, caller)
    new = timed_messages(late, start, len(first))

    await append(engine, caller, Ref(id=chats[0].id), new)
    for each in new:
        await append(engine, caller, Ref(id=chats[1].id), [each])

    at_once, one_by_one = [await closed_segments(engine, caller, chat, clock) for chat in chats]
    assert at_once == one_by_one


async def test_R157_after_an_edit_of_a_message_its_segment_is_summarised_again(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    said = await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    text = "The correction 4711 is about the quarterly numbers of Lisbon"

    await edit_message(engine, caller, Ref(id=said[0].id), EditMessage(content=text))
    await work(engine, caller)

    [found] = await segments_of(engine, caller, chat)
    assert text in found.memory.content


async def test_regenerating_a_memory_without_messages_only_embeds_it_again(
    engine: Engine, caller: Caller, chat: Thread, embedder: StubEmbedder
) -> None:
    ask = Save("The whole story of the harbour", Ref(id=chat.id), summary="The harbour")
    saved = await save(engine, caller, replace(ask, scope=Scope.THREAD))
    embedder.seen_texts.clear()

    found = await regenerate_segment(engine, caller, Ref(id=saved.memory.id))

    assert found.memory == saved.memory
    assert embedder.seen_texts[0] == "The whole story of the harbour"
    assert len(found.embedding) == embedder.dimension


async def edited_elsewhere(
    engine: Engine, caller: Caller, chat: Thread, ask: EditMemory
) -> list[Message]:
    """Edit the memory of a segment through another interface, and return its messages."""
    said = await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    [cut] = await segments_of(engine, caller, chat)
    await edit(engine, replace(caller, thread_id=chat.id), Ref(id=cut.memory.id), ask)
    return said


@pytest.mark.parametrize(
    "ask", [EditMemory(content="It was seven points, not six"), EditMemory(summary="Seven points")]
)
async def test_a_manually_edited_summary_is_only_replaced_on_request(
    engine: Engine, caller: Caller, chat: Thread, ask: EditMemory
) -> None:
    said = await edited_elsewhere(engine, caller, chat, ask)
    [before] = await segments_of(engine, caller, chat)
    text = "The correction 4711 is about the quarterly numbers of Lisbon"

    await edit_message(engine, caller, Ref(id=said[0].id), EditMessage(content=text))
    await work(engine, caller)
    [left] = await segments_of(engine, caller, chat)
    asked = await regenerate_segment(engine, caller, Ref(id=before.memory.id))

    assert left.memory == before.memory
    assert text in asked.memory.content
    assert asked.memory.summary is None
    async with engine.reading(caller) as db:
        kept = await past.texts_of(db, caller.workspace_id, before.memory.id)
    assert kept[-1].content == before.memory.content


async def test_a_deleted_message_is_in_no_history(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    secret = "The code of the safe is 4711, says Mr. Weber of Lisbon"
    said = await add_messages(engine, caller, chat, secret, *statements(5))
    await work(engine, caller)
    [before] = await segments_of(engine, caller, chat)

    await delete_message(engine, caller, Ref(id=said[0].id))
    await work(engine, caller)
    await regenerate_segment(engine, caller, Ref(id=before.memory.id))

    async with engine.reading(caller) as db:
        assert await past.texts_of(db, caller.workspace_id, before.memory.id) == []


async def test_a_deleted_message_is_in_no_summary(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    secret = "The code of the safe is 4711, says Mr. Weber of Lisbon"
    said = await add_messages(engine, caller, chat, secret, *statements(5))
    await work(engine, caller)
    [before] = await segments_of(engine, caller, chat)
    assert "4711" in before.memory.content

    await delete_message(engine, caller, Ref(id=said[0].id))
    await work(engine, caller)

    [after] = await segments_of(engine, caller, chat)
    assert "4711" not in after.memory.content
    assert len(after.messages) == 5


async def test_a_segment_is_deleted_with_its_last_message_but_a_manual_one_stays(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock
) -> None:
    said = await add_messages(
        engine, caller, chat, "The code of the safe is 4711", "It is behind the clock"
    )
    await work(engine, caller)
    clock.advance(timedelta(minutes=31))
    await work(engine, caller)
    [cut] = await segments_of(engine, caller, chat)
    by_hand = await make_segment(
        engine, caller, Ref(id=chat.id), MakeSegment([Ref(id=said[0].id)], "There is a safe")
    )

    await delete_message(engine, caller, Ref(id=said[0].id))
    left = await segments_of(engine, caller, chat)
    await delete_message(engine, caller, Ref(id=said[1].id))

    # Deleted at once, without a run of the segmenter.
    assert {each.memory.id for each in left} == {cut.memory.id, by_hand.memory.id}
    assert [each.memory for each in await segments_of(engine, caller, chat)] == [by_hand.memory]
    deletions = await fetch_rows(
        engine,
        "SELECT details ->> 'memory' FROM event WHERE workspace_id = %s AND action = %s",
        caller.workspace_id,
        "memory.deleted",
    )
    assert deletions == [(cut.memory.code,)]
    found = await search_segments(engine, caller, Ref(id=chat.id), "the code of the safe", 5)
    assert [hit.memory for hit, _ in found] == [by_hand.memory]


def counting(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[int]:
    """Record how many messages each call of these queries reads."""
    read: list[int] = []

    def counted(reader: Callable[..., Awaitable[list[Message]]]) -> Any:
        async def run(*args: Any, **options: Any) -> list[Message]:
            found = await reader(*args, **options)
            read.append(len(found))
            return found

        return run

    for name in names:
        monkeypatch.setattr(messages, name, counted(getattr(messages, name)))
    return read


async def lengths(engine: Engine, caller: Caller) -> list[int]:
    found = await fetch_rows(
        engine,
        "SELECT count(*) FROM memory_message WHERE workspace_id = %s GROUP BY memory_id",
        caller.workspace_id,
    )
    return [row[0] for row in found]


async def test_a_long_chat_is_segmented_without_being_loaded_whole(
    engine: Engine, caller: Caller, chat: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read is one page, and all reads together are at most four times the chat."""
    count = 1_200
    for start in range(0, count, 400):
        new = alternating_messages(
            [f"Point {start + number} was settled." for number in range(400)]
        )
        await append(engine, caller, Ref(id=chat.id), new)
    read = counting(monkeypatch, "page")

    await work(engine, caller)

    found = await lengths(engine, caller)
    assert len(found) >= count // RULES.max_messages
    assert max(found) <= RULES.max_messages
    assert max(read) <= 64
    assert sum(read) <= 4 * count


async def test_a_long_late_history_is_segmented_without_being_loaded_whole(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    count, year_ago = 1_200, clock.at - timedelta(days=365)
    for start in range(0, count, 400):
        old = [f"Point {start + number} was settled." for number in range(400)]
        new = alternating_messages(old, year_ago + start * timedelta(seconds=30))
        await append(engine, caller, Ref(id=chat.id), new)
    read = counting(monkeypatch, "page", "messages_in_range", "of_memory")

    await work(engine, caller)

    found = await lengths(engine, caller)
    assert sum(found) == count + 6
    assert max(found) <= RULES.max_messages
    assert max(read) <= 64
    assert sum(read) <= 4 * count


async def test_the_messages_of_a_memory_are_limited(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    [found] = await segments_of(engine, caller, chat)

    async with engine.reading(caller) as db:
        few = await messages.of_memory(db, caller, found.memory.id, limit=4)

    assert few == found.messages[:4]


async def test_N29_clearing_leaves_memories_without_messages(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    [before] = await segments_of(engine, caller, chat)

    await clear_messages(engine, caller, Ref(id=chat.id))
    await work(engine, caller)

    [after] = await segments_of(engine, caller, chat)
    assert (after.memory, after.messages) == (before.memory, [])


async def test_R163_deleting_a_memory_leaves_its_messages_unlinked(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    [found] = await segments_of(engine, caller, chat)

    await delete_segment(engine, caller, Ref(id=found.memory.id))
    await work(engine, caller)

    page = await list_messages(engine, caller, Ref(id=chat.id), ListMessages(limit=10))
    assert [each.memory_code for each in page.messages] == [None] * 6
    assert await segments_of(engine, caller, chat) == []


async def test_segmentation_continues_after_an_embedder_outage(
    engine: Engine, caller: Caller, chat: Thread, embedder: StubEmbedder
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    embedder.is_down = True
    with pytest.raises(Unavailable):
        await work(engine, caller)

    embedder.is_down = False
    await work(engine, caller)

    assert len(await segments_of(engine, caller, chat)) == 1


async def test_a_message_that_the_embedder_refuses_does_not_change_the_topic(
    engine: Engine, caller: Caller, chat: Thread, embedder: StubEmbedder
) -> None:
    texts = [*statements(3), "\u200b\u200b", *statements(2)]
    embedder.refused = {texts[3]}
    other = await new_chat(engine, caller)
    await add_messages(engine, caller, chat, *texts)
    await add_messages(engine, caller, other, *statements(6))

    await work(engine, caller)

    assert reasons_and_texts(await segments_of(engine, caller, chat)) == [
        (SegmentReason.LENGTH, texts)
    ]
    assert reasons_and_texts(await segments_of(engine, caller, other)) == [
        (SegmentReason.LENGTH, statements(6))
    ]


async def test_a_chat_that_cannot_be_embedded_does_not_delay_others_or_changed_segments(
    engine: Engine, caller: Caller, chat: Thread, clock: Clock, embedder: StubEmbedder
) -> None:
    changed, other = await new_chat(engine, caller), await new_chat(engine, caller)
    said = await add_messages(engine, caller, changed, *statements(6))
    await add_messages(engine, caller, other, *statements(5, "the harbour"))
    await work(engine, caller)
    correction = "The correction 4711 is about the quarterly numbers of Lisbon"
    await edit_message(engine, caller, Ref(id=said[0].id), EditMessage(content=correction))
    await add_messages(engine, caller, chat, *statements(6, "a thing not heard of before"))
    clock.advance(timedelta(seconds=1))
    await add_messages(engine, caller, other, statements(1)[0])
    embedder.is_down = True  # recent vectors are cached, so `other` can be cut

    with pytest.raises(Unavailable):
        await work(engine, caller)

    assert await segments_of(engine, caller, chat) == []
    [[_, cut]] = reasons_and_texts(await segments_of(engine, caller, other))
    assert len(cut) == 6
    [found] = await segments_of(engine, caller, changed)
    assert correction in found.memory.content


async def test_an_embedder_that_is_down_is_not_asked_for_every_chat(
    engine: Engine, caller: Caller, embedder: StubEmbedder
) -> None:
    for number in range(30):
        await add_messages(engine, caller, await new_chat(engine, caller), f"Chat {number}")
    embedder.is_down = True
    embedder.seen_texts.clear()

    with pytest.raises(Unavailable):
        await work(engine, caller)

    assert len(embedder.seen_texts) <= 6
    embedder.is_down = False
    await work(engine, caller)
    assert {f"Chat {number}" for number in range(30)} <= set(embedder.seen_texts)


async def test_segmentation_can_be_switched_off(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    whole = replace(engine, segment_rules=None)
    await add_messages(whole, caller, chat, *statements(30))

    await work(whole, caller)

    assert await segments_of(whole, caller, chat) == []


async def test_a_plan_shows_each_segment_and_its_reason_and_changes_nothing(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *statements(8))

    planned = await plan_segments(engine, caller, Ref(id=chat.id), RULES)

    assert [(each.length, each.reason) for each in planned] == [
        (6, SegmentReason.LENGTH),
        (2, None),
    ]
    assert await segments_of(engine, caller, chat) == []


async def test_a_segment_may_be_longer_than_one_page(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    long = replace(engine, segment_rules=SegmentRules(max_messages=100))
    texts = [*statements(80), *statements(101, "our cats")]
    await add_messages(long, caller, chat, *texts)

    planned = await plan_segments(long, caller, Ref(id=chat.id), SegmentRules(max_messages=100))
    await work(long, caller)

    assert [(each.length, each.reason) for each in planned] == [
        (80, SegmentReason.TOPIC),
        (100, SegmentReason.LENGTH),
        (1, None),
    ]
    found = [
        (each.memory.reason, len(each.messages)) for each in await segments_of(long, caller, chat)
    ]
    assert sorted(found) == [(SegmentReason.LENGTH, 100), (SegmentReason.TOPIC, 80)]


async def test_new_segment_rules_cut_the_chat_again_but_keep_manual_segments(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    said = await add_messages(engine, caller, chat, *statements(8))
    await work(engine, caller)
    by_hand = await make_segment(
        engine, caller, Ref(id=chat.id), MakeSegment([Ref(id=said[0].id)], "By hand")
    )
    finer = replace(engine, segment_rules=SegmentRules(max_messages=4))

    assert await resegment(finer, caller, Ref(id=chat.id)) == 1
    await work(finer, caller)

    found = await segments_of(finer, caller, chat)
    assert sorted(len(each.messages) for each in found) == [1, 4, 4]
    assert by_hand.memory.id in {each.memory.id for each in found}


class CountedCode(str):
    """A code that counts how often it is used."""

    __slots__ = ()
    times = 0

    def __len__(self) -> int:
        CountedCode.times += 1
        return super().__len__()


async def test_a_memory_of_many_messages_takes_linear_time(
    engine: Engine, caller: Caller, chat: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = await add_messages(engine, caller, chat, *statements(300))
    ask = MakeSegment([Ref(code=CountedCode(each.code)) for each in said], "All of it")
    monkeypatch.setattr(CountedCode, "times", 0)

    found = await make_segment(engine, caller, Ref(id=chat.id), ask)

    assert len(found.messages) == 300
    assert CountedCode.times < 10 * len(said)


async def test_S41_a_segment_of_another_org_is_not_found(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    await add_messages(engine, caller, chat, *statements(6))
    await work(engine, caller)
    [found] = await segments_of(engine, caller, chat)
    outsider = await new_caller(engine)

    for act in (get_segment, regenerate_segment, delete_segment):
        with pytest.raises(NotFound):
            await act(engine, outsider, Ref(id=found.memory.id))


# With a chat model.


def with_model(engine: Engine, chat: ScriptedChat) -> Engine:
    return replace(engine, chat_models=ChatModels(ChatRoute(chat, "writer")))


async def summarised(
    engine: Engine, caller: Caller, chat: Thread
) -> tuple[Memory, str, str | None]:
    said = await add_messages(engine, caller, chat, *statements(3))
    made = await make_segment(
        engine, caller, Ref(id=chat.id), MakeSegment([Ref(id=each.id) for each in said])
    )
    [[by, reason]] = await fetch_rows(
        engine,
        "SELECT summarised_by, fallback_reason FROM segment WHERE workspace_id = %s",
        caller.workspace_id,
    )
    return made.memory, by, reason


@pytest.mark.parametrize(
    "text",
    [
        '{"summary": "They spoke of three points."}',
        '```json\n{"summary": "They spoke of three points."}\n```',
    ],
)
async def test_R141_R146_the_models_summary_is_kept_and_it_saw_every_message_in_order(
    engine: Engine, caller: Caller, chat: Thread, text: str
) -> None:
    model = ScriptedChat(text)

    memory, by, reason = await summarised(with_model(engine, model), caller, chat)

    assert (memory.content, by, reason) == ("They spoke of three points.", "model:writer", None)
    prompt = model.requests[0].decode()
    places = [prompt.index(each) for each in statements(3)]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (
            ScriptedChat("I'm sorry, I can't help with that."),
            "NoSummary: The answer is not valid.",
        ),
        (ScriptedChat('{"summary": 7}'), "NoSummary: The answer is not valid."),
        (
            ScriptedChat('{"summary": "They spo', finish="length"),
            "NoSummary: The answer was cut off.",
        ),
        (ScriptedChat("", status=500), "Failed: The chat model failed with status 500."),
    ],
)
async def test_if_the_model_fails_the_local_summary_is_used_and_the_reason_stored(
    engine: Engine, caller: Caller, chat: Thread, model: ScriptedChat, reason: str
) -> None:
    memory, by, kept = await summarised(with_model(engine, model), caller, chat)

    assert (by, kept) == ("local", reason)
    assert memory.content.startswith("User says: Point")


@pytest.mark.parametrize(
    ("model", "daily_tokens", "calls", "by"),
    [
        (ScriptedChat('{"summary": "They spoke of it."}'), 0, ["done"], "model:writer"),
        (ScriptedChat("", status=500), 0, ["failed"], "local"),
        (ScriptedChat('{"summary": "They spoke of it."}'), 100, [], "local"),
    ],
)
async def test_S54_summaries_are_in_the_ledger_and_stay_within_the_budget(
    engine: Engine,
    caller: Caller,
    chat: Thread,
    model: ScriptedChat,
    daily_tokens: int,
    calls: list[str],
    by: str,
) -> None:
    limited = replace(with_model(engine, model), daily_tokens=daily_tokens)

    _, written_by, reason = await summarised(limited, caller, chat)

    found = await fetch_rows(
        engine,
        "SELECT purpose, state FROM model_call WHERE workspace_id = %s",
        caller.workspace_id,
    )
    assert [tuple(each) for each in found] == [("summary", state) for state in calls]
    assert written_by == by
    assert (reason is None) == (by != "local")


async def test_R147_the_configured_summarisation_model_is_asked(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    one = ScriptedChat('{"summary": "Summary by the first."}')
    other = ScriptedChat('{"summary": "Summary by the other."}')
    chats = ChatModels(ChatRoute(one, "writer"), {"second": ChatRoute(other, "m")})

    memory, by, _ = await summarised(
        replace(engine, chat_models=chats, summary_model="second/fine"), caller, chat
    )

    assert (memory.content, by) == ("Summary by the other.", "model:fine")
    assert one.requests == []


async def test_S23_making_a_memory_needs_the_right_to_write(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    said: list[Message] = await add_messages(engine, caller, chat, "hello")
    reader = replace(caller, rights=frozenset({Right.READ}))

    with pytest.raises(Exception, match="lacks the `write` right"):
        await make_segment(
            engine, reader, Ref(id=chat.id), MakeSegment([Ref(id=said[0].id)], "A summary")
        )


async def test_S23_without_the_read_right_no_summary_is_generated(
    engine: Engine, caller: Caller, chat: Thread
) -> None:
    said = await add_messages(engine, caller, chat, "The code of the safe is 4711")
    writer = replace(caller, rights=frozenset({Right.WRITE}))
    named = [Ref(id=said[0].id)]

    with pytest.raises(Denied, match="lacks the `read` right"):
        await make_segment(engine, writer, Ref(id=chat.id), MakeSegment(named))

    assert await segments_of(engine, caller, chat) == []
    given = await make_segment(engine, writer, Ref(id=chat.id), MakeSegment(named, "A number"))
    assert given.memory.content == "A number"
