"""Evidence for each candidate, and the order that results from it."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.domain import MemoryId, ThreadId
from recollect.search.evidence import (
    CONTEXT_WEIGHT,
    MIN_COSINE,
    Evidence,
    Traits,
    in_order,
    is_named,
    newer_first,
    weigh_evidence,
    words_naming_speakers,
)
from recollect.search.query_dates.dates import DateRange, QueryDates

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KITCHEN, GARDEN = ThreadId(UUID(int=1)), ThreadId(UUID(int=2))


def memory(number: int) -> MemoryId:
    return MemoryId(UUID(int=number))


def evidence(
    number: int,
    *,
    importance: float = 0.5,
    is_own_thread: bool = False,
    day: int = 0,
    cosine: float | None = 0.5,
    **found: Any,
) -> Evidence:
    traits = Traits(importance, is_own_thread, NOW + timedelta(days=day))
    return Evidence(memory(number), traits, cosine=cosine, **found)


def order(*candidates: Evidence, question: str = "tea", typical: float = 0.0) -> list[int]:
    weights = weigh_evidence(candidates, typical, question)
    return [each.memory_id.int for each in in_order(candidates, weights)]


def test_words_and_meaning_have_equal_weight() -> None:
    by_words = evidence(1, cosine=0.0, words=10.0)
    by_meaning = evidence(2, cosine=0.8, words=0.0)
    by_both = evidence(3, cosine=0.6, words=7.0)

    weights = weigh_evidence([by_words, by_meaning, by_both], 0.0, "tea")

    assert weights[memory(1)] == pytest.approx(weights[memory(2)])
    assert weights[memory(3)] > weights[memory(1)]


def test_a_memory_without_a_vector_is_ranked_by_its_words() -> None:
    assert order(evidence(1, cosine=None, words=10.0), evidence(2, cosine=0.5, words=5.0)) == [1, 2]


def test_among_similar_cosines_the_named_speaker_decides() -> None:
    ana = evidence(1, speaker="Ana", cosine=0.60)
    ben = evidence(2, speaker="Ben", cosine=0.63)

    assert order(ana, ben, question="What does Ana drink?", typical=0.615) == [1, 2]


def test_one_strong_match_raises_its_conversation() -> None:
    strong = evidence(1, thread_id=KITCHEN, cosine=0.9, words=9.0)
    beside = evidence(2, thread_id=KITCHEN, cosine=0.40, words=4.0)
    elsewhere = evidence(3, thread_id=GARDEN, cosine=0.45, words=4.0)

    assert order(strong, elsewhere, beside) == [1, 2, 3]


def test_the_speaker_that_the_question_names_ranks_first() -> None:
    ana = evidence(1, speaker="Ana", cosine=0.5)
    ben = evidence(2, speaker="Ben", cosine=0.55)

    assert order(ana, ben, question="What does Ana drink?") == [1, 2]
    assert order(ana, ben, question="Who drinks tea?") == [2, 1]


def test_recency_affects_conversations_but_not_notes() -> None:
    old, new = evidence(1, thread_id=KITCHEN, newer=99), evidence(2, thread_id=GARDEN, newer=0)
    assert order(old, new) == [2, 1]

    old, new = evidence(1, importance=0.9, newer=99), evidence(2, newer=0)
    assert order(old, new) == [1, 2]


def test_a_question_about_a_day_ranks_that_day_above_the_latest() -> None:
    then = evidence(1, thread_id=KITCHEN, day=-1, newer=1)
    latest = evidence(2, thread_id=GARDEN, day=0, newer=0)
    meant = QueryDates([DateRange(NOW.date() - timedelta(days=1), NOW.date() - timedelta(days=1))])

    weights = weigh_evidence([latest, then], 0.0, "tea yesterday", meant)
    first = in_order([latest, then], weights)

    assert weights[memory(1)] - weights[memory(2)] == pytest.approx(CONTEXT_WEIGHT / 2)
    assert first == [then, latest]
    # Within the named week all days are equally near, so the newer one comes first.
    close = dict.fromkeys(weights, 1.0)
    week = QueryDates([DateRange(NOW.date() - timedelta(days=6), NOW.date())])
    assert newer_first(first, close, lambda _one, _other: True, meant) == [then, latest]
    assert newer_first(first, close, lambda _one, _other: True, week) == [latest, then]


def test_a_memory_with_the_quoted_phrase_ranks_first() -> None:
    without = evidence(1, cosine=0.9, words=9.0, has_phrases=False)
    assert order(without, evidence(2, cosine=0.2, words=1.0)) == [2, 1]


def swapped(earlier: Evidence, later: Evidence, *, alike: bool = True) -> bool:
    candidates = [earlier, later]
    weights = weigh_evidence(candidates, 0.0, "tea")
    return newer_first(candidates, weights, lambda _one, _other: alike) == [later, earlier]


def test_of_two_similar_messages_the_later_ranks_first() -> None:
    earlier = evidence(1, thread_id=KITCHEN, speaker="Ana", cosine=0.50)
    later = evidence(2, thread_id=GARDEN, speaker="Ana", cosine=0.45, day=1)

    assert swapped(earlier, later)
    assert not swapped(earlier, later, alike=False)


@pytest.mark.parametrize(
    "later",
    [
        evidence(2, thread_id=KITCHEN, speaker="Ana", cosine=0.45, day=1, stated=0.5),
        evidence(2, thread_id=GARDEN, speaker="Ben", cosine=0.45, day=1, stated=0.5),
        evidence(2, thread_id=GARDEN, speaker="Ana", cosine=0.45, day=-1, stated=0.5),
        evidence(2, thread_id=GARDEN, speaker="Ana", cosine=0.10, day=1, stated=0.5),
        evidence(2, thread_id=GARDEN, speaker="Ana", cosine=0.45, day=1, stated=0.4),
    ],
    ids=["same thread", "another speaker", "older", "much worse", "less important"],
)
def test_without_a_reason_to_swap_the_better_match_stays_first(later: Evidence) -> None:
    earlier = evidence(1, thread_id=KITCHEN, speaker="Ana", cosine=0.50, stated=0.5)
    assert not swapped(earlier, later)


def test_of_two_similar_notes_the_later_ranks_first() -> None:
    earlier, later = evidence(1, cosine=0.5), evidence(2, cosine=0.49, day=1)

    assert swapped(earlier, later)
    assert not swapped(earlier, later, alike=False)


def test_frequent_recall_does_not_rank_a_note_above_a_later_one() -> None:
    earlier = evidence(1, cosine=0.5, importance=0.9, stated=0.5)
    later = evidence(2, cosine=0.49, day=1, importance=0.5, stated=0.5)

    assert swapped(earlier, later)


@pytest.mark.parametrize(
    ("question", "speaker", "named"),
    [
        ("What did Ana's brother say?", "Ana", True),
        ("Where do I live?", "user", True),
        ("Where do I live?", "assistant", False),
        ("What did you recommend?", "assistant", True),
        ("I moved house. Which bus goes there?", "user", False),
        ("Where does Ana live?", None, False),
        ("WHERE DOES ana LIVE", "Ana Maria", True),
        ("What is the wifi password?", "The deadline", False),
        ("When is the deadline?", "The deadline", True),
    ],
)
def test_a_question_names_speakers_by_name_or_pronoun(
    question: str, speaker: str | None, *, named: bool
) -> None:
    assert is_named(speaker, words_naming_speakers(question)) is named


candidates = st.lists(
    st.builds(
        evidence,
        st.integers(1, 30),
        cosine=st.none() | st.floats(-1, 1),
        words=st.floats(0, 50),
        thread_id=st.sampled_from([None, KITCHEN, GARDEN]),
        speaker=st.sampled_from([None, "Ana", "user"]),
        newer=st.none() | st.integers(0, 300),
        day=st.integers(-9, 9),
    ),
    unique_by=lambda each: each.memory_id,
)


@given(candidates, st.floats(-1, 1), st.text())
def test_ordering_keeps_each_memory_exactly_once(
    found: list[Evidence], typical: float, question: str
) -> None:
    weights = weigh_evidence(found, typical, question)
    first = in_order(found, weights)
    then = newer_first(first, weights, lambda _one, _other: True)

    assert sorted(map(str, (each.memory_id for each in then))) == sorted(
        map(str, (each.memory_id for each in found))
    )


# Realistic numbers only: products of the smallest floats are inexact, and below `MIN_COSINE` the
# cosines do not count.
realistic_candidates = candidates.filter(
    lambda found: (
        all(each.words == 0 or each.words > 1e-6 for each in found)
        and any((each.cosine or 0.0) >= 2 * MIN_COSINE for each in found)
    )
)


@given(realistic_candidates, st.floats(0.5, 2), st.floats(0.1, 10))
def test_the_scale_of_a_model_or_of_bm25_makes_no_difference(
    found: list[Evidence], cosine_scale: float, word_scale: float
) -> None:
    def scaled(each: Evidence) -> Evidence:
        cosine = None if each.cosine is None else each.cosine * cosine_scale
        return evidence(each.memory_id.int, cosine=cosine, words=each.words * word_scale)

    plain = [evidence(each.memory_id.int, cosine=each.cosine, words=each.words) for each in found]
    before = weigh_evidence(plain, 0.0, "")
    after = weigh_evidence([scaled(each) for each in found], 0.0, "")

    assert after == pytest.approx(before, abs=1e-6)
