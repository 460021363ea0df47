"""Ranking: the fused score of the requirements, and properties that hold for any lists."""

from datetime import UTC, datetime, timedelta
from math import fsum
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.core.domain import MemoryId, Relation
from recollect.memories.decay import decayed_importance
from recollect.memories.queries.links import LinkStep
from recollect.search.evidence import Traits
from recollect.search.ranking import Fused, LinkedNode, RankedList, follow_links, fuse, sort_hits

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def memory(number: int) -> MemoryId:
    return MemoryId(UUID(int=number))


def listed(*numbers: int) -> list[LinkedNode]:
    return [
        LinkedNode(memory(number), 1.0 / place) for place, number in enumerate(numbers, start=1)
    ]


def scores(fused: list[Fused]) -> dict[MemoryId, float]:
    return {each.memory_id: each.score for each in fused}


def test_R268_the_fused_score_is_the_sum_of_one_over_sixty_plus_rank() -> None:
    lists = {
        RankedList.VECTOR: listed(1, 2, 3),
        RankedList.WORDS: listed(1, 3),
        RankedList.LINKS: listed(1),
    }

    assert scores(fuse(lists)) == pytest.approx(
        {memory(1): 3 / 61, memory(2): 1 / 62, memory(3): 1 / 63 + 1 / 62}
    )


unique_lists = st.dictionaries(
    st.sampled_from(list(RankedList)), st.lists(st.integers(1, 30), unique=True, max_size=20)
)


@given(unique_lists)
def test_fusion_keeps_the_set_and_ignores_the_order_of_its_lists(
    numbers: dict[RankedList, list[int]],
) -> None:
    lists = {source: listed(*found) for source, found in numbers.items()}
    backwards = dict(reversed(lists.items()))

    assert scores(fuse(lists)) == scores(fuse(backwards))
    assert set(scores(fuse(lists))) == {memory(n) for found in numbers.values() for n in found}


@given(unique_lists.filter(lambda lists: any(lists.values())))
def test_the_first_of_every_list_is_first_in_the_result(
    numbers: dict[RankedList, list[int]],
) -> None:
    leading = {source: [99, *found] for source, found in numbers.items()}
    fused = fuse({source: listed(*found) for source, found in leading.items()})
    traits = {each.memory_id: Traits(0.5, False, NOW) for each in fused}

    assert sort_hits(fused, traits)[0].memory_id == memory(99)


def test_R234_equal_scores_are_ordered_by_importance_own_thread_and_recency() -> None:
    fused = [Fused(memory(number), 1 / 61, ()) for number in (1, 2, 3, 4)]
    traits = {
        memory(1): Traits(0.5, False, NOW),
        memory(2): Traits(0.5, False, NOW + timedelta(days=1)),
        memory(3): Traits(0.5, True, NOW),
        memory(4): Traits(0.9, False, NOW),
    }

    assert [each.memory_id for each in sort_hits(fused, traits)] == [
        memory(4),
        memory(3),
        memory(2),
        memory(1),
    ]


def test_a_link_score_is_importance_times_weight_times_relation_factor() -> None:
    steps = [
        LinkStep(1, memory(1), memory(2), Relation.UPDATES, 0.8, 0.5),
        LinkStep(1, memory(1), memory(3), Relation.CONTRADICTS, 0.8, 0.5),
        LinkStep(2, memory(2), memory(4), Relation.PART_OF, 0.5, 1.0),
    ]

    reached = follow_links(steps, [memory(1)])

    assert [(each.memory_id, each.score) for each in reached] == [
        (memory(2), pytest.approx(0.5 * 0.8 * 1.5)),
        (memory(4), pytest.approx(1.0 * (0.8 * 1.5) * (0.5 * 0.8))),
        (memory(3), pytest.approx(0.5 * 0.8 * 0.5)),
    ]
    assert reached[1].path == (
        str(memory(1)),
        "updates",
        str(memory(2)),
        "part_of",
        str(memory(4)),
    )


def test_a_memory_reached_twice_is_listed_once_by_its_best_path() -> None:
    steps = [
        LinkStep(1, memory(1), memory(2), Relation.RELATED_TO, 0.2, 0.5),
        LinkStep(1, memory(1), memory(2), Relation.CAUSED_BY, 0.9, 0.5),
    ]

    [reached] = follow_links(steps, [memory(1)])

    assert reached.score == pytest.approx(0.5 * 0.9 * 1.3)
    assert reached.path == (str(memory(1)), "caused_by", str(memory(2)))


@given(
    base=st.floats(0, 1),
    idle_days=st.floats(0, 1000),
    accesses=st.integers(0, 10_000),
    was_accessed=st.booleans(),
)
def test_importance_stays_between_0_and_1(
    base: float, idle_days: float, accesses: int, *, was_accessed: bool
) -> None:
    then = NOW - timedelta(days=idle_days)

    today = decayed_importance(
        base,
        touched_at=then,
        last_accessed_at=then if was_accessed else None,
        accesses=accesses,
        now=NOW,
    )

    assert 0 <= today <= 1


def test_importance_falls_by_5_percent_a_day_to_half_and_grows_with_access() -> None:
    def after(days: int, accesses: int = 0) -> float:
        then = NOW - timedelta(days=days)
        accessed = then if accesses else None
        return decayed_importance(
            0.8, touched_at=then, last_accessed_at=accessed, accesses=accesses, now=NOW
        )

    assert after(0) == pytest.approx(0.8)
    assert after(4) == pytest.approx(0.8 * 0.8)
    assert after(20) == pytest.approx(0.8 * 0.5)
    assert after(400) == pytest.approx(0.8 * 0.5 * 0.9)
    assert after(0, accesses=3) == pytest.approx(0.8 * 1.1 + 0.04)
    assert fsum([after(1)]) == after(1)


def test_changing_or_restoring_a_memory_ends_its_idle_time_without_an_access() -> None:
    recalled = NOW - timedelta(days=100)

    def after(touched_days: int) -> float:
        touched_at = NOW - timedelta(days=touched_days)
        return decayed_importance(
            0.8, touched_at=touched_at, last_accessed_at=recalled, accesses=1, now=NOW
        )

    assert after(200) == after(100) == pytest.approx(0.8 * 0.5 * 0.9 + 0.02)
    assert after(20) == pytest.approx(0.8 * 0.5 + 0.02)
    assert after(0) == pytest.approx(0.8 + 0.02)
