"""Where a conversation is cut: contiguous segments, decided message by message, with a reason."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recollect.conversations.segmentation.boundaries import (
    SegmentEnd,
    SegmenterMessage,
    core,
    end_after_pause,
    segment_ends,
)
from recollect.core.domain import MessagePosition, SegmentReason, SegmentRules
from recollect.core.errors import Invalid
from recollect.core.settings import read_settings
from tests.support.embedder import at_cosine

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
RULES = SegmentRules(max_messages=6, max_pause=timedelta(minutes=30), min_similarity=0.2)


def same(cosine: float) -> float:
    return max(cosine, 0.0)


def found(
    messages: Sequence[SegmenterMessage], rules: SegmentRules = RULES
) -> list[tuple[int, SegmentReason]]:
    return [(cut.length, cut.reason) for cut in segment_ends(messages, rules, same)]


def talk(*texts: str, topic: float = 1.0, start: datetime = NOON) -> list[SegmenterMessage]:
    """Alternate two people, with a message every half minute, all on one topic."""
    return [
        SegmenterMessage(
            text, "ab"[number % 2], start + number * timedelta(seconds=30), at_cosine(topic)
        )
        for number, text in enumerate(texts)
    ]


PLAIN = "We should look at the numbers of the last quarter again"


def test_R135_the_message_that_reaches_the_threshold_closes_the_segment() -> None:
    assert found(talk(*[PLAIN] * 6)) == [(6, SegmentReason.LENGTH)]
    assert found(talk(*[PLAIN] * 5)) == []


def test_R136_a_long_pause_ends_the_segment_before_it() -> None:
    late = talk(PLAIN, PLAIN, start=NOON + timedelta(minutes=32))

    assert found([*talk(PLAIN, PLAIN), *late]) == [(2, SegmentReason.TIME)]


def test_R136_a_pause_of_exactly_the_threshold_does_not_end_a_segment() -> None:
    first, second = talk(PLAIN, PLAIN)
    later = SegmenterMessage(second.text, "b", first.at + RULES.max_pause, second.vector)

    assert found([first, later]) == []


def test_R134_a_jump_of_the_vectors_ends_the_segment_before_it() -> None:
    other = talk(PLAIN, PLAIN, topic=0.0, start=NOON + timedelta(minutes=2))

    assert found([*talk(PLAIN, PLAIN, PLAIN), *other]) == [(3, SegmentReason.TOPIC)]


def test_an_answer_stays_with_its_question_even_with_a_distant_vector() -> None:
    question, _ = talk("When does the train to Lisbon leave in the morning?", PLAIN)
    answer = SegmenterMessage("Ten past seven, from platform four", "b", NOON, at_cosine(0.15))

    assert found([question, answer]) == []


def test_one_or_two_words_do_not_change_the_topic() -> None:
    messages = [*talk(PLAIN, PLAIN), SegmenterMessage("Wow, nice!", "a", NOON, at_cosine(0.15))]

    assert found(messages) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Thanks, that is all I needed!", "You're welcome!"),
        ("Great, see you tomorrow!", "Bye!"),
        ("Vielen Dank!", "Gern geschehen, bis bald"),
        ("Merci beaucoup", "De rien, au revoir"),
    ],
)
def test_R133_a_closing_exchange_completes_the_discussion(first: str, second: str) -> None:
    assert found(talk(PLAIN, PLAIN, first, second, PLAIN)) == [(4, SegmentReason.COMPLETED)]


def test_thanks_in_the_middle_do_not_end_a_segment() -> None:
    assert found(talk(PLAIN, "Thanks, that helps a lot", "And what about the budget?", PLAIN)) == []


def test_one_farewell_before_a_new_topic_completes_the_discussion() -> None:
    assert found(talk(PLAIN, "OK, bye", PLAIN)) == [(2, SegmentReason.COMPLETED)]


def test_pleasantries_alone_are_not_a_discussion() -> None:
    assert found(talk("Hello", "Hi there", "Thanks!", "You're welcome", PLAIN)) == []


def test_a_message_without_a_vector_does_not_change_the_topic() -> None:
    silent = SegmenterMessage('{"rows": 3}', "tool", NOON, None)

    assert found([*talk(PLAIN), silent, *talk(PLAIN)]) == []


@pytest.mark.parametrize("messages", [-1, 1_001])
def test_a_segment_length_setting_out_of_range_is_rejected(messages: int) -> None:
    with pytest.raises(Invalid, match="segment_messages"):
        read_settings({"RECOLLECT_SEGMENT_MESSAGES": str(messages)})

    assert read_settings({"RECOLLECT_SEGMENT_MESSAGES": "1000"}).segment_messages == 1_000


def positions_at(*minutes: int) -> list[MessagePosition]:
    """Return positions in order of arrival, at these minutes."""
    return [
        MessagePosition(NOON + timedelta(minutes=minute), position)
        for position, minute in enumerate(minutes, 1)
    ]


def in_order(arrived: Sequence[MessagePosition]) -> list[MessagePosition]:
    return sorted(arrived, key=lambda each: (each.at, each.position))


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        ([0, 1, 2], (0, 2)),
        ([0, 1, 2, 20, 50, -30], (-30, 50)),
        ([0, 1, 2, 33, -31], (0, 2)),
        # A segment has at most six messages, and the first to arrive belong to it.
        ([0, 1, 2, 3, 4, 5, -1, 6], (0, 5)),
        ([0, 1, 2, 3, 4, 6, -1], (0, 6)),
        # Messages far away do not count towards the maximum.
        ([0, 1, 2, -500, -499, -498, 3, 4], (0, 4)),
        # Messages between its first and last belong to it, up to twice the maximum.
        ([0, 10, 20, 30, 40, 50, 1, 2, 3, 4, 5], (0, 50)),
        ([0, 10, 20, 30, 40, 50, 1, 2, 3, 4, 5, 6], (0, 5)),
    ],
)
def test_the_core_of_a_segment_contains_its_first_messages_without_long_pauses(
    minutes: list[int], expected: tuple[int, int]
) -> None:
    arrived = positions_at(*minutes)

    first, last = core(in_order(arrived), arrived[0], RULES)

    assert (first.at, last.at) == tuple(NOON + timedelta(minutes=each) for each in expected)


@given(
    st.lists(st.integers(-100, 100), min_size=1, max_size=40),
    st.integers(1, 8).map(lambda most: SegmentRules(max_messages=most)),
)
def test_the_core_of_a_segment_is_contiguous_and_bounded(
    minutes: list[int], rules: SegmentRules
) -> None:
    arrived = positions_at(*minutes)
    order = in_order(arrived)

    first, last = core(order, arrived[0], rules)

    inside = order[order.index(first) : order.index(last) + 1]
    assert 0 < len(inside) < max(2, 2 * rules.max_messages)
    assert arrived[0] in inside or len(inside) == rules.max_messages
    assert all(later.at - each.at <= rules.max_pause for each, later in pairwise(inside))


@pytest.mark.parametrize(
    ("text", "minutes", "reason"),
    [
        (PLAIN, 31, SegmentReason.TIME),
        ("Bye!", 31, SegmentReason.COMPLETED),
        (PLAIN, 30, SegmentReason.LENGTH),
    ],
)
def test_a_segment_that_ends_before_a_closed_one_has_the_right_reason(
    text: str, minutes: int, reason: SegmentReason
) -> None:
    last = SegmenterMessage(text, "a", NOON)

    cut = end_after_pause(last, 3, timedelta(minutes=minutes), RULES)

    assert (cut.length, cut.reason) == (3, reason)


TEXTS = st.sampled_from(
    [
        PLAIN,
        "Thanks!",
        "You're welcome",
        "Bye!",
        "Hello",
        "What is that?",
        "Hm",
        "今天天气怎么样？",
        "",
    ]
)


@st.composite
def conversations(draw: st.DrawFn) -> list[SegmenterMessage]:
    at = NOON
    messages: list[SegmenterMessage] = []
    for _ in range(draw(st.integers(0, 60))):
        at += timedelta(minutes=draw(st.sampled_from([0, 1, 29, 30, 31, 600])))
        cosine = draw(st.sampled_from([1.0, 0.9, 0.3, 0.1, 0.0, -0.5, None]))
        vector = None if cosine is None else at_cosine(cosine, axis=draw(st.integers(0, 3)))
        messages.append(SegmenterMessage(draw(TEXTS), draw(st.sampled_from("ab")), at, vector))
    return messages


RULE_SETS = st.builds(
    SegmentRules,
    max_messages=st.integers(1, 25),
    max_pause=st.sampled_from([timedelta(minutes=5), timedelta(minutes=30)]),
    min_similarity=st.sampled_from([0.0, 0.2, 0.9]),
)


@given(conversations(), RULE_SETS)
@settings(deadline=None)
def test_segments_partition_the_chat_in_order_and_none_is_too_long(
    messages: list[SegmenterMessage], rules: SegmentRules
) -> None:
    lengths = [cut.length for cut in segment_ends(messages, rules, same)]

    assert all(0 < length <= rules.max_messages for length in lengths)
    assert sum(lengths) <= len(messages)
    assert len(messages) - sum(lengths) < rules.max_messages


@given(conversations(), RULE_SETS)
@settings(deadline=None)
def test_messages_are_cut_the_same_one_by_one_or_at_once(
    messages: list[SegmenterMessage], rules: SegmentRules
) -> None:
    """Like the engine, look only at the messages since the last cut, after each new message."""
    one_by_one: list[SegmentEnd] = []
    frontier = 0
    for number in range(len(messages)):
        for cut in segment_ends(messages[frontier : number + 1], rules, same):
            one_by_one.append(cut)
            frontier += cut.length

    assert one_by_one == list(segment_ends(messages, rules, same))


@given(conversations(), RULE_SETS, st.data())
@settings(deadline=None)
def test_no_decision_waits_for_a_later_message(
    messages: list[SegmenterMessage], rules: SegmentRules, data: st.DataObject
) -> None:
    until = data.draw(st.integers(0, len(messages)))

    early = list(segment_ends(messages[:until], rules, same))

    assert list(segment_ends(messages, rules, same))[: len(early)] == early
