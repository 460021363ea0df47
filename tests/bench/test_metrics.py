"""The benchmark's measures against values worked out by hand."""

import math

import pytest

from bench.metrics import (
    Interval,
    Quality,
    auroc,
    by_best_member,
    difference,
    interval,
    ndcg,
    newest_leads,
    places_of,
    quality,
    recall,
    reciprocal_rank,
)

RANKING = list("abcdefghijklmnop")


def test_all_measures_of_a_ranking_worked_out_by_hand() -> None:
    found = quality(RANKING, {"b", "g", "l", "z"})  # places 2, 7, 12, and never

    gain = 1 / math.log2(3) + 1 / math.log2(8)
    ideal = 1 + 1 / math.log2(3) + 1 / math.log2(4) + 1 / math.log2(5)
    assert found == Quality(
        recall_5=1 / 4,
        recall_10=2 / 4,
        hit_10=1.0,
        all_10=0.0,
        reciprocal_rank=1 / 2,
        ndcg_10=gain / ideal,
    )


def test_a_perfect_ranking_has_one_everywhere() -> None:
    assert quality(RANKING, {"a", "b"}) == Quality(1, 1, 1, 1, 1, 1)


def test_nothing_found_is_zero_everywhere() -> None:
    assert quality(RANKING, {"y", "z"}) == Quality(0, 0, 0, 0, 0, 0)


def test_an_empty_ranking_is_zero_everywhere() -> None:
    assert quality([], {"a"}) == Quality(0, 0, 0, 0, 0, 0)


def test_an_id_that_occurs_twice_counts_once_and_takes_two_places() -> None:
    assert places_of(["x", "a", "a", "b"], {"a", "b"}) == [2, 4]


def test_the_depth_is_included() -> None:
    assert recall([5, 6], 2, 5) == 1 / 2


def test_the_reciprocal_rank_knows_no_depth() -> None:
    assert reciprocal_rank([50, 20]) == 1 / 20


def test_more_gold_than_the_depth_can_still_be_perfect() -> None:
    assert ndcg(range(1, 13), 12, 10) == pytest.approx(1)


def test_a_session_ranks_where_its_best_turn_does() -> None:
    sessions = by_best_member(["2#1", "1#4", "2#0", "3#1"], lambda unit: unit.partition("#")[0])

    assert sessions == ["2", "1", "3"]


@pytest.mark.parametrize(
    ("ranking", "leads"),
    [
        (["new", "old", "older"], True),
        (["old", "new", "older"], False),
        (["x", "new"], True),
        (["x", "old"], False),
        (["x"], False),
    ],
)
def test_the_newest_evidence_leads_only_above_every_older_one(
    ranking: list[str], *, leads: bool
) -> None:
    assert newest_leads(ranking, {"new"}, {"old", "older"}) is leads


def test_auroc_counts_pairs_and_halves_ties() -> None:
    # Of six pairs: 0.9 above both, 0.5 above one and level with one, 0.2 below both.
    assert auroc([0.9, 0.5, 0.2], [0.5, 0.3]) == (2 + 1.5) / 6


def test_an_interval_holds_its_mean_and_repeats_exactly() -> None:
    values = [0.0, 1.0] * 50

    found = interval(values)

    # The standard error is 0.05: the bounds lie about two of them away.
    assert found.mean == 0.5
    assert found.low == pytest.approx(0.40, abs=0.02)
    assert found.high == pytest.approx(0.60, abs=0.02)
    assert interval(values) == found


def test_values_that_never_differ_have_no_width() -> None:
    assert difference([0.5, 0.75, 1.0], [0.25, 0.5, 0.75]) == Interval(0.25, 0.25, 0.25)
